"""Random command lines: every one ends with status 0 or 2, or is stopped when it takes long.

Options and their types are read from each command's own dataclass; values come from `HOSTILE`.
"""

from __future__ import annotations

import io
import os
import random
import resource
import shlex
import shutil
import signal
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any, get_args, get_type_hints

from dbsurf_paper.commands.main import main
from dbsurf_paper.commands.parsing import commands, names
from storm.results import Result
from storm.runs import RUNS, command, data

LIMIT = 120.0
SUBJECT = "command lines"
LONG = 8  # seconds after which a command is interrupted, as by Ctrl-C
MEMORY = 12 * 2**30  # bytes of addresses: more than that is refused, as by a small machine

NUMBERS = ["0", "1", "2", "3", "7", "-1", "2147483648", "9223372036854775808", "9" * 40, "1e3"]
REALS = ["0", "1", "-1", "nan", "inf", "-inf", "1e300", "1e-300", "0.5", "x"]
TEXTS = ["", "x", "a b", "../../x", "é", "-", "--", "x" * 3000, "a=b", "=", "n=3", "alpha=nan"]
TEXTS += ["validate=false", "[" * 2000, "{", "seed=0..99999999999", "n=2,4", "estimator=loorf,arms"]
PATHS = ["nowhere", "/dev/full", "/dev/null", "/proc/x", "file", "folder", "a/b/c", ""]
HOSTILE: dict[Any, list[str]] = {int: NUMBERS, float: REALS, str: TEXTS, Path: PATHS}
ODD = ["--help", "--version", "--nonsense", "--preset", "", "--out", "-", "\x00"]


def values(kind: Any, draw: random.Random) -> list[str]:
    """A value for an option of that type, or none for a flag."""
    if kind is bool:
        return []
    inner = [one for one in get_args(kind) if one not in (type(None), Ellipsis)]
    if kind in HOSTILE:
        return [draw.choice(HOSTILE[kind])]
    if inner and all(isinstance(one, str) for one in inner):  # a Literal
        return [draw.choice([*inner, "x", ""])]
    if inner:
        count = draw.randrange(3) if getattr(kind, "__origin__", None) is tuple else 1
        return [word for _ in range(count) for word in values(inner[0], draw)]
    return [draw.choice(TEXTS)]


def line(draw: random.Random, place: Path) -> list[str]:
    """A command line: a small one that works, or a bare command, with one to three changes."""
    name = draw.choice([*names(), *RUNS, *RUNS])
    if name == "demo":
        name = "estimators"
    if name in RUNS:
        words = command(name, place, Path("run"))
    else:
        words = [name]
        if name == "data":
            words.append(draw.choice(["list", "check", "import", "x"]))
        if name == "sweep":
            words += [draw.choice(["vae", "nas-table", "toy", "table1", "x"]), "--dry-run"]
            words += ["--grid", draw.choice(TEXTS), draw.choice(TEXTS)]
        if name == "toy":
            words += ["--preset", "smoke", "--points", "3", "--draws", "10"]
    options = next(
        (one.options for one in commands(words[0]) if list(one.words) == words[: len(one.words)]),
        None,
    )
    if options is None:
        return [*words, draw.choice(ODD)]
    hints = get_type_hints(options)
    for _ in range(draw.randint(1, 3)):
        if draw.random() < 0.1:
            words.append(draw.choice(ODD))
            continue
        chosen = draw.choice(fields(options)).name if fields(options) else "x"
        words += [f"--{chosen.replace('_', '-')}", *values(hints.get(chosen, str), draw)]
    return words


def trial(draw: random.Random, place: Path) -> Result:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ["DBSURF_DATA"] = str(data(place))
    folder = Path(tempfile.mkdtemp(dir=place, prefix="trial-"))
    (folder / "file").write_text("not ours")
    (folder / "folder").mkdir()
    quiet = redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO())
    with quiet[0], quiet[1]:
        words = line(draw, place)
    told, shown = io.StringIO(), shlex.join(["dbsurf", *words])
    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, LONG, 1)
    sys.unraisablehook = lost
    try:
        with chdir(folder), redirect_stdout(io.StringIO()), redirect_stderr(told):
            status = main(words)
    except SystemExit as stop:
        status = int(stop.code or 0)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        what = f"{shown}\n# {type(error).__name__}: {error}"[:2000]
        return Result(SUBJECT, "traceback", what, inputs=1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = sys.__unraisablehook__
        signal.signal(signal.SIGALRM, before)
    untouched = (folder / "file").read_text() == "not ours"
    shutil.rmtree(folder, ignore_errors=True)
    text = told.getvalue()
    if status not in (0, 2, 130) or "Traceback" in text or not untouched:
        return Result(SUBJECT, "unclear", f"{shown}\n# status {status}: {text[-500:]}", inputs=1)
    if status == 2 and not text.strip():
        return Result(SUBJECT, "silent", f"{shown}\n# status 2 without a word", inputs=1)
    ends = {0: "done", 2: "refused with a reason", 130: "stopped after a while"}
    return Result(SUBJECT, ends[status], inputs=1)


def too_long(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def lost(error: Any) -> None:
    """Python cannot raise everywhere: the alarm comes again, and what is no alarm is told."""
    if not issubclass(error.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(error)
