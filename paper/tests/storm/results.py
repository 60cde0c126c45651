"""What a trial comes to, and small runs for trials to attack."""

from __future__ import annotations

import csv
import functools
import importlib
import io
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blobs import blobs
from dbsurf_paper.commands.main import main
from dbsurf_paper.runs.folder import read_summary
from dbsurf_paper.runs.records import read_metrics
from supernet_runs import digits


@dataclass(frozen=True)
class Result:
    """How one trial was answered.

    Attributes:
        answer: a few words, the same for all trials that were answered in the same way.
        failure: empty if that was right; else what happened and how to repeat it.
        count: how many events (kills, damaged files) the trial had.
    """

    answer: str
    failure: str = ""
    count: int = 1


def random_numbers(seed: int, kind: str, number: int) -> random.Random:
    """The random numbers of one trial, the same on every machine."""
    return random.Random(f"{seed} {kind} {number}")


@functools.cache
def warm(place: Path) -> None:
    """Import what the runs import, so that children have it from their first moment."""
    for name in ("matplotlib.pyplot", "matplotlib.image", "dbsurf_paper.sweep.command"):
        importlib.import_module(name)
    for name in RUNS:
        with tempfile.TemporaryDirectory(dir=place) as folder:
            words = command(name, place, Path(folder) / "run")
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                assert main(words) == 0


# --- small runs -----------------------------------------------------------------------------------

VAE = (
    "vae --dataset tiny --steps 300 --batch 20 --learning-rate 0.003 --latents 8 --hidden 8 "
    "--evaluate-every 50 --evaluation-images 20 --evaluation-samples 2 --bound-samples 5 "
    "--variance-draws 3 --variance-images 10 --checkpoint-every 25 --no-tensorboard --device cpu "
    "--threads 1 --estimator doublecv"
)
TABLE = "nas table --dataset synthetic --steps 40 --seed 90 --seeds 130 --estimator dbsurf"
SUPERNET = (
    "nas supernet --dataset digits --n 3 --seeds 1 --device cpu --threads 1 --channels 2 "
    "--cells 1 --image-size 8 --images 64 --batch 16 --warmup-epochs 1 --epochs 5 "
    "--learning-rate 0.1 --architecture-rate 0.05 --no-tensorboard --checkpoint-every 3 "
    "--evaluate-every 4"
)
SEQUENCES = (
    "sequences --preset smoke --length 2 --sizes 2 --sharpness 1 5 --draws 30 --pretraining 2 "
    "--steps 2 --every 1 --batch 2 --pool 10 --replicates 2 --variance-draws 2"
)
LEAGUE = (
    "league --preset smoke --problem vae --steps 4 --converge 3 --images 3 --timings 1 "
    "--checkpoint-every 2 --estimators doublecv mdsurf reinmax"
)
TOY = "toy --preset smoke --points 9 --draws 100 --comparison-draws 10"
RUNS = {"vae": VAE, "table search": TABLE, "supernet": SUPERNET}
RUNS |= {"sequences": SEQUENCES, "league": LEAGUE, "toy": TOY}


def data(place: Path) -> Path:
    """A data folder with two small sets, made once."""
    folder = place / "data"
    if not (folder / "ready").exists():
        folder.mkdir(exist_ok=True)
        digits(blobs(folder))
        (folder / "ready").touch()
    return folder


def command(name: str, place: Path, out: Path, *more: str) -> list[str]:
    """The command line of a small run."""
    return [*RUNS[name].split(), "--data-dir", str(data(place)), "--out", str(out), *more]


def outcome(folder: Path) -> tuple[Any, ...]:
    """All numbers of a finished run but its times, to the last digit."""
    summary = read_summary(folder)
    assert summary is not None, "the run is not finished"
    if (folder / "metrics.csv").exists():
        read_metrics(folder)  # raises if it is not the file that the run wrote
    tables = {}
    for path in sorted(folder.glob("*.csv")):
        rows = [row for row in csv.reader(path.read_text().splitlines()) if row[0][:1] != "#"]
        timed = [place for place, name in enumerate(rows[0]) if name in TIMES]
        tables[path.name] = [[c for i, c in enumerate(row) if i not in timed] for row in rows]
    return _timeless(summary), tables


TIMES = ("seconds", "milliseconds", "loorf_milliseconds", "time_ratio")


def _timeless(content: Any) -> Any:
    if isinstance(content, dict):
        return {k: _timeless(value) for k, value in content.items() if k not in TIMES}
    return [_timeless(value) for value in content] if isinstance(content, list) else content


def reference(name: str, place: Path) -> tuple[Path, float]:
    """The same run without any disturbance, made once, and the seconds that it takes."""
    warm(place)
    out, took = place / "reference" / name.replace(" ", "-"), place / f"seconds-{name}"
    if not took.exists():
        begun = time.monotonic()
        pid = forked(lambda: main(command(name, place, out)), place / "reference.log")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, (place / "reference.log").read_text()
        took.write_text(str(time.monotonic() - begun))
    return out, float(took.read_text())


def forked(work: Callable[[], int], log: Path) -> int:
    """The process id of a child that does ``work``; what it prints is appended to ``log``.

    The child has all modules of this process: it begins to work at once.
    """
    pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(
                number,
                signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL,
            )
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        status = work()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)
