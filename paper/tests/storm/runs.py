"""Small runs of every experiment for trials to attack."""

from __future__ import annotations

import csv
import functools
import importlib
import io
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from blobs import blobs
from dbsurf_paper.commands.main import main
from dbsurf_paper.experiments.nas.supernet.methods import METHODS
from dbsurf_paper.runs.folder import read_summary
from dbsurf_paper.runs.records import read_metrics
from supernet_runs import digits


def warm(name: str, place: Path) -> None:
    """Import what a run imports, so that children have it from their first moment."""
    _warm(next(first for runs in EXPERIMENTS.values() if name in runs for first in runs), place)


@functools.cache
def _warm(name: str, place: Path) -> None:
    for module in ("matplotlib.pyplot", "matplotlib.image", "dbsurf_paper.sweep.command"):
        importlib.import_module(module)
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
    "nas supernet --dataset digits --seeds 1 --device cpu --threads 1 --cells 1 --image-size 8 "
    "--images 64 --batch 16 --warmup-epochs 1 --learning-rate 0.1 --architecture-rate 0.05 "
    "--no-tensorboard --checkpoint-every 3 --evaluate-every 4"
)
SEQUENCES = "sequences --preset smoke --part exact --length 2 --sizes 2 --draws 10"
TRAINING = (
    "sequences --preset smoke --part training --pretraining 2 --steps 2 --every 1 --replicates 2 "
    "--variance-draws 2 --groups 2 --batch 1 --pool 2"
)
LEAGUE = (
    "league --preset smoke --problem {} --steps 4 --converge 3 --images 3 --timings 1 "
    "--checkpoint-every 2 --estimators {}"
)
TOY = "toy --preset smoke --points 3 --draws 10 --comparison-draws 10"


def supernet(method: str) -> str:
    """A search by one of the methods: two epochs, a supernet as small as the method allows."""
    own = {"sampled": "--n 3 --channels 2 --epochs 5", "uniform": "--channels 2 --candidates 4"}
    return f"{SUPERNET} --method {method} --channels 4 --epochs 2 {own.get(method, '')}"


#: Runs by experiment.
EXPERIMENTS: dict[str, dict[str, str]] = {
    "vae": {"vae": VAE},
    "table search": {"table search": TABLE},
    "supernet": {f"supernet, {method}": supernet(method) for method in METHODS},
    "sequences": {"sequences": SEQUENCES, "sequences, training": TRAINING},
    "league": {
        "league": LEAGUE.format("vae", "doublecv mdsurf reinmax"),
        "league, quadratic": LEAGUE.format("quadratic", "loorf rodeo"),
    },
    "toy": {"toy": TOY},
}
RUNS = {name: line for runs in EXPERIMENTS.values() for name, line in runs.items()}


#: How often an experiment is tried; those that draw figures take several times as long.
WEIGHTS = {"vae": 4, "table search": 4, "supernet": 8, "sequences": 1, "league": 4, "toy": 1}


def chosen(draw: random.Random) -> str:
    """The name of a run of an experiment."""
    (experiment,) = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))
    return draw.choice(list(EXPERIMENTS[experiment]))


def data(place: Path) -> Path:
    """A data folder with two small sets, made once, by whichever process needs it first."""
    folder = place / "data"
    if not folder.exists():
        made = Path(tempfile.mkdtemp(dir=place, prefix="made-"))
        digits(blobs(made))
        moved(made, folder)
    return folder


def moved(made: Path, place: Path) -> None:
    """Put a finished folder in its place; if another process was faster, remove it."""
    try:
        made.rename(place)
    except OSError:
        shutil.rmtree(made)


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
    warm(name, place)
    folder = place / "reference" / name.replace(" ", "-").replace(",", "")
    if not folder.exists():
        made = Path(tempfile.mkdtemp(dir=place, prefix="made-"))
        begun = time.monotonic()
        pid = forked(lambda: main(command(name, place, made / "run")), made / "log")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, (made / "log").read_text()
        (made / "seconds").write_text(str(time.monotonic() - begun))
        folder.parent.mkdir(exist_ok=True)
        moved(made, folder)
    return folder / "run", float((folder / "seconds").read_text())


def forked(work: Callable[[], int], log: Path, ignored: Sequence[signal.Signals] = ()) -> int:
    """The process id of a child that does ``work``; what it prints is appended to ``log``.

    The child has all modules of this process: it begins to work at once. It ignores the signals
    ``ignored``, as under nohup.
    """
    pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, signal.SIG_IGN if number in ignored else usual)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        status = work()
    except KeyboardInterrupt:  # before the work began, which catches it itself
        status = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)
