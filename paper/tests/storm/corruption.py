"""Damaged files of run and data folders: one line that names the file, or the same numbers."""

from __future__ import annotations

import io
import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch

from dbsurf_paper.commands.main import main
from storm.results import Result
from storm.runs import chosen, command, data, outcome, reference

LIMIT = 120.0

JSON = [
    b"",
    b"{",
    b"[1, 2]",
    b"null",
    b"5",
    b'{"experiment": "vae"}',
    b'{"experiment": "vae", "configuration": 5}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"experiment": "vae", "configuration": {}, "seconds": ' + b"9" * 400 + b"}",
    b'{"experiment": "vae", "configuration": {}, "seconds": NaN}',
    b'{"experiment": 3, "configuration": {"n": []}}',
]


def flip(draw: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 10])):
        if changed:
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


DAMAGES: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "flipped": flip,
    "cut": lambda draw, content: content[: draw.randrange(len(content) + 1)],
    "empty": lambda draw, content: b"",
    "random bytes": lambda draw, content: draw.randbytes(draw.randrange(2000)),
    "JSON of another kind": lambda draw, content: draw.choice(JSON),
    "longer": lambda draw, content: content + draw.randbytes(100),
}


def foreign(draw: random.Random, path: Path) -> None:
    """Change what is inside a checkpoint, so that its checksum is right and its content is not."""
    content = torch.load(path, weights_only=True)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            places.append((node, key))
            if isinstance(value, (dict, list)):
                walk(value)

    walk(content["state"])
    node, key = draw.choice(places)
    value = node[key]
    choice = draw.randrange(4)
    if choice == 0 and isinstance(node, dict):
        del node[key]
    elif isinstance(value, torch.Tensor) and value.is_floating_point() and choice == 1:
        node[key] = torch.full_like(value, torch.nan)
    elif isinstance(value, torch.Tensor):
        node[key] = torch.zeros(2, 2)
    else:
        node[key] = draw.choice([None, "x", -1, 999_999, float("nan"), [], {}])
    torch.save(content, path)


def answer(words: list[str]) -> tuple[int, str]:
    """Status and messages of a command."""
    told = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(told):
        status = main(words)
    return status, told.getvalue()


def trial(draw: random.Random, place: Path) -> Result:
    folder = Path(tempfile.mkdtemp(dir=place, prefix="trial-"))
    try:
        return on_data(draw, place, folder) if draw.random() < 0.25 else on_run(draw, place, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def on_run(draw: random.Random, place: Path, folder: Path) -> Result:
    name = chosen(draw)
    whole, _ = reference(name, place)
    run = Path(shutil.copytree(whole, folder / "run"))
    if draw.random() < 0.5:  # not yet finished: the results are still to be made
        (run / "summary.json").unlink()
    files = sorted(path for path in run.iterdir() if path.is_file())
    victim = draw.choice(files)
    if victim.suffix == ".pt" and draw.random() < 0.6:
        how = "foreign content"
        foreign(draw, victim)
        if draw.random() < 0.5:  # no other checkpoint to fall back to
            for other in run.glob("checkpoint*.pt"):
                if other != victim:
                    other.unlink()
    else:
        how = draw.choice(list(DAMAGES))
        victim.write_bytes(DAMAGES[how](draw, victim.read_bytes()))
    told_how = f"{name}, {victim.name}: {how}"
    try:
        answer(["report", str(run), "--out", str(folder / "report")])
        status, told = answer(command(name, place, run, "--resume"))
    except BaseException as error:
        return Result(name, "traceback", f"{told_how}: {type(error).__name__}: {error}", faults=1)
    if status == 0:
        if outcome(run) != outcome(whole):
            return Result(name, "changed", f"{told_how}: other numbers without a word", faults=1)
        return Result(name, "same numbers", faults=1)
    if status == 2 and str(run) in told and told.splitlines()[-1].startswith("dbsurf: error: "):
        return Result(name, "refused in one line that names the file", faults=1)
    return Result(name, "unclear", f"{told_how}: status {status}: {told[-1000:]}", faults=1)


#: Runs that read a file of the data folder.
READERS = ("vae", "supernet, sampled", "supernet, darts", "league")


def on_data(draw: random.Random, place: Path, folder: Path) -> Result:
    name, subject = draw.choice(READERS), "data folder"
    whole, _ = reference(name, place)
    there = Path(shutil.copytree(data(place), folder / "data"))
    victim = draw.choice(sorted(there.glob("*.npz")))
    how = draw.choice(list(DAMAGES))
    victim.write_bytes(DAMAGES[how](draw, victim.read_bytes()))
    told_how = f"{name}, {victim.name}: {how}"
    where = ["--data-dir", str(there)]
    try:
        for line in (["data", "list"], ["data", "check"], ["vae", "--dataset", "unknown"]):
            answer([*line, *where])
        words = command(name, place, folder / "run")
        words[words.index("--data-dir") + 1] = str(there)
        status, told = answer(words)
    except BaseException as error:
        what = f"{told_how}: {type(error).__name__}: {error}"
        return Result(subject, "traceback", what, faults=1)
    if status == 0 and outcome(folder / "run") != outcome(whole):
        return Result(subject, "changed", f"{told_how}: other numbers without a word", faults=1)
    if status == 0:
        return Result(subject, "same numbers", faults=1)
    if status == 2 and victim.name in told:
        return Result(subject, "refused in one line that names the file", faults=1)
    return Result(subject, "unclear", f"{told_how}: status {status}: {told[-1000:]}", faults=1)
