"""One life of a run: what is kept, what is noticed, what is left; all experiments through it."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dbsurf_paper import files
from dbsurf_paper.commands.main import main
from dbsurf_paper.runs.folder import ROWS
from dbsurf_paper.runs.life import Life
from dbsurf_paper.runs.options import Execution
from dbsurf_paper.runs.records import METRICS, read_metrics
from storm.runs import EXPERIMENTS, command, forked, outcome, reference


@dataclass(frozen=True)
class Options(Execution):
    n: int = 3

    def place(self) -> Path:
        return Path("squares")


def squares(options: Options, asked: list[int] | None = None, stop: int = 99) -> dict[str, Any]:
    """A run of n parts and a state; it dies at part ``stop``."""
    life = Life("squares", options)
    if life.summary is not None:
        return life.summary
    with life.opened():
        found: dict[str, Any] = {"weights": torch.zeros(2)}
        if not life.restore(found.update):
            life.record({"step": 0, "loss": 0.1})
            life.save({"weights": torch.ones(2)})
            life.restore(found.update)

        def square(i: int) -> list[dict[str, float]]:
            if i == stop:
                raise InterruptedError
            (asked if asked is not None else []).append(i)
            return [{"i": i, "square": i * i / 3, "none": None}]

        rows = [row for i in range(options.n) for row in life.keep(f"{i}", lambda i=i: square(i))]
        return life.finish({"rows": rows, "weight": float(found["weights"][0])})


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(out=tmp_path / "deep" / "run")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_run_is_kept_resumed_finished_and_read_back(options):
    with pytest.raises(InterruptedError):
        squares(options, stop=2)
    with pytest.raises(ValueError, match="holds an unfinished run: --resume continues it"):
        squares(options)
    asked: list[int] = []
    found = squares(replace(options, resume=True), asked)
    assert asked == [2]
    assert [row["square"] for row in found["rows"]] == [0, 1 / 3, 4 / 3]
    assert found["weight"] == 1
    again = squares(options)
    assert again == found
    assert sorted(path.name for path in options.folder().iterdir()) == [
        "checkpoint.pt", "config.json", "environment.json", METRICS, ROWS, "summary.json",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"another configuration: n \(3 there, 4 here\)"):
        squares(replace(options, n=4))


def test_every_file_has_a_format_number_and_a_checksum(options):
    squares(options)
    for path in options.folder().iterdir():
        if path.suffix == ".json":
            assert list(json.loads(path.read_text()))[:2] == ["format", "sha256"]
        elif path.suffix == ".csv":
            assert re.match(r"# format 2, sha256 [0-9a-f]{64}\n", path.read_text())
        else:
            assert torch.load(path, weights_only=True).keys() >= {"format", "sha256"}


@pytest.mark.parametrize("finished", [False, True])
def test_an_edited_rows_json_is_noticed(options, finished):
    if finished:
        squares(options)
    else:
        with pytest.raises(InterruptedError):
            squares(options, stop=2)
    path = options.folder() / ROWS
    edit(path, '"square": 0.3333333333333333', '"square": 0.3333333333333334')
    with pytest.raises(ValueError, match="rows.json is damaged: it does not match its checksum"):
        squares(replace(options, resume=True))
    path.unlink()
    asked: list[int] = []
    found = squares(replace(options, resume=True), asked)
    assert asked == [0, 1, 2]
    assert found["rows"][1]["square"] == 1 / 3


@pytest.mark.parametrize("finished", [False, True])
def test_an_edited_metrics_file_is_noticed(options, finished, capsys):
    if finished:
        squares(options)
    else:
        with pytest.raises(InterruptedError):
            squares(options, stop=2)
    assert read_metrics(options.folder()) == [{"step": 0, "loss": 0.1}]
    edit(options.folder() / METRICS, "0,0.1\n", "0,0.2\n")
    with pytest.raises(ValueError, match="metrics.csv is damaged: it does not match its checksum"):
        read_metrics(options.folder())
    squares(replace(options, resume=True))
    assert ("metrics.csv is damaged" in capsys.readouterr().err) == finished


@pytest.mark.parametrize("name", ["config.json", METRICS, ROWS])
def test_another_format_is_refused_in_one_line(options, name):
    with pytest.raises(InterruptedError):
        squares(options, stop=2)
    path = options.folder() / name
    path.write_text(re.sub(r'(# |")format("?:?) 2', r"\1format\2 3", path.read_text(), count=1))
    read = read_metrics if name == METRICS else lambda _: squares(replace(options, resume=True))
    with pytest.raises(ValueError, match=f"{name} is of format '?3'?, this version reads format 2"):
        read(options.folder())


def test_a_life_without_anything_kept_leaves_nothing(options, tmp_path):
    with pytest.raises(InterruptedError), Life("squares", options).opened():
        raise InterruptedError
    assert not list(tmp_path.iterdir())


def test_files_of_something_else_are_not_touched(options):
    options.folder().mkdir(parents=True)
    (options.folder() / "precious").write_text("")
    with pytest.raises(ValueError, match="exists and is not a folder of an earlier squares run"):
        squares(options)
    assert [path.name for path in options.folder().iterdir()] == ["precious"]


def test_threads_are_set_inside_only(options):
    before = torch.get_num_threads()
    life = Life("squares", replace(options, threads=3))
    with life.opened():
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before


# --- kill -9 --------------------------------------------------------------------------------------

#: The write to disk at which each life is killed; of the first ones every life has the first.
PLACES = {
    "vae": (1, 2, 5, 4, 30),
    "table search": (1, 3, 2, 2, 3),
    "supernet, sampled": (1, 2, 5, 4, 9),
    "sequences": (1, 3, 4, 4, 5),
    "league": (1, 3, 4, 6, 12),
    "toy": (1, 3, 4, 4, 9),
}


def kill_at(count: int) -> None:
    """Kill this process by SIGKILL before its so-manieth file is complete on the disk."""
    fsync, calls = os.fsync, []

    def fatal(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    files.os.fsync = fatal  # type: ignore[assignment]


def sketch(figure: Any, target: Any, **more: Any) -> None:
    """Save a figure without drawing it: most of a tiny run's time are its figures."""
    if hasattr(target, "write"):
        target.write(b"figure")
    else:
        Path(target).write_bytes(b"figure")


def test_every_experiment_is_killed():
    assert len(PLACES) == len(EXPERIMENTS)
    assert all(set(runs) & set(PLACES) for runs in EXPERIMENTS.values())


@pytest.mark.parametrize("name", PLACES)
def test_killed_at_several_places_gives_the_same_numbers(name, tmp_path_factory, monkeypatch):
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", sketch)
    place = tmp_path_factory.getbasetemp() / "kills"
    place.mkdir(exist_ok=True)
    whole, _ = reference(name, place)
    out, log = place / f"killed {name}", place / f"log {name}"
    words = command(name, place, out, "--resume")
    killed = 0
    for count in PLACES[name]:

        def life(count: int = count) -> int:
            kill_at(count)
            return main(words)

        _, status = os.waitpid(forked(life, log), 0)
        killed += os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert killed >= 4, log.read_text()
    _, status = os.waitpid(forked(lambda: main(words), log), 0)
    assert status == 0, log.read_text()
    assert outcome(out) == outcome(whole)
    left = {path.name for path in out.iterdir()} ^ {path.name for path in whole.iterdir()}
    assert left <= {"checkpoint.previous.pt"}  # absent if the last checkpoint was the first
