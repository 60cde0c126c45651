"""Sweeps whose workers and parent are killed, on this machine and on Dask with its scheduler."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from dbsurf_paper.commands.main import main
from storm.results import Result
from storm.runs import data, forked, moved, outcome
from sweep_runs import TINY

LIMIT = 600.0
GRID = ["steps=300", "estimator=doublecv,dbsurf", "seed=0..2"]


def words(place: Path, out: Path) -> list[str]:
    where = ["--data-dir", str(data(place)), "--out", str(out), "--threads", "1"]
    return ["sweep", "vae", *where, "--workers", "2", "--grid", *TINY, *GRID]


def outcomes(out: Path) -> dict[str, object]:
    return {path.parent.name: outcome(path.parent) for path in out.glob("*/summary.json")}


def reference(place: Path) -> dict[str, object]:
    """The runs without any disturbance, made once."""
    out = place / "reference-sweep"
    if not out.exists():
        made, log = Path(tempfile.mkdtemp(dir=place, prefix="made-")), place / "reference-sweep.log"
        _, status = os.waitpid(forked(lambda: main(words(place, made)), log), 0)
        assert status == 0, log.read_text()
        moved(made, out)
    return outcomes(out)


def descendants(parent: int) -> list[int]:
    """All processes that come from ``parent``."""
    found: list[int] = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        found += [pid for child in children for pid in (child, *descendants(child))]
    return found


def trial(draw: random.Random, place: Path) -> Result:
    wanted = reference(place)
    folder = Path(tempfile.mkdtemp(dir=place, prefix="trial-"))
    if draw.random() < 0.3:
        return on_dask(draw, place, folder, wanted)
    out, kills = folder / "out", 0
    line = [sys.executable, "-m", "dbsurf_paper.commands.main", *words(place, out)]
    with (folder / "log").open("ab") as log:
        for _ in range(draw.randint(1, 2)):
            sweep = subprocess.Popen(line, stdout=log, stderr=log)
            time.sleep(draw.uniform(3, 12))
            for _ in range(draw.randint(0, 2)):  # workers first
                workers = [pid for pid in descendants(sweep.pid) if is_worker(pid)]
                if workers:
                    kill(draw.choice(workers), signal.SIGKILL)
                    kills += 1
                    time.sleep(draw.uniform(0, 3))
            kill(sweep.pid, draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
            kills += 1
            sweep.wait()
    return finish(place, folder, wanted, kills, "sweep on one machine")


def finish(place: Path, folder: Path, wanted: dict[str, object], kills: int, where: str) -> Result:
    """Let the sweep go to its end, and compare."""
    out, log = folder / "out", folder / "last"
    status = os.waitpid(forked(lambda: main(words(place, out)), log), 0)[1]
    told = log.read_text() + (folder / "log").read_text()
    if status:
        return Result(where, "lost", f"{kills} kills, then\n{told[-2000:]}", 0, kills)
    if "Traceback" in told:
        return Result(where, "failed", f"{kills} kills, then\n{told[-2000:]}", 0, kills)
    if outcomes(out) != wanted:
        return Result(where, "changed", f"{kills} kills changed {out}", 0, kills)
    shutil.rmtree(folder, ignore_errors=True)
    return Result(where, "same numbers", "", 0, kills)


def on_dask(draw: random.Random, place: Path, folder: Path, wanted: dict[str, object]) -> Result:
    """A scheduler and two workers as processes; one of the three, or the sweep, is killed."""
    file, out = folder / "scheduler.json", folder / "out"
    where = ["--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1"]
    settings = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}
    started: dict[str, subprocess.Popen[bytes]] = {}
    kills = 0
    with (folder / "log").open("ab") as log, (folder / "dask").open("ab") as dask:

        def start(name: str, *line: str) -> None:
            started[name] = subprocess.Popen(
                [sys.executable, "-m", *line],
                stdout=log if name == "sweep" else dask,
                stderr=log if name == "sweep" else dask,
                env=settings,
                cwd=folder,
            )

        try:
            start("scheduler", "dask", "scheduler", *where, "--port", "0")
            while not (file.exists() and file.read_text()):
                time.sleep(0.05)
            for number in (1, 2):
                start(f"worker {number}", "dask", "worker", *where, "--nthreads", "1", "--no-nanny")
            address = json.loads(file.read_text())["address"]
            engine = ["--engine", "dask", "--scheduler", address]
            start("sweep", "dbsurf_paper.commands.main", *words(place, out), *engine)
            time.sleep(draw.uniform(5, 15))
            victim = draw.choice(["scheduler", "worker 1", "sweep"])
            if started[victim].poll() is None:
                started[victim].kill()
                kills += 1
            started["sweep"].wait(120)
            status = started["sweep"].returncode
            allowed = {"scheduler": (0, 2), "worker 1": (0,), "sweep": (0, -9)}[victim]
            if status not in allowed:
                told = (folder / "log").read_text()[-2000:]
                what = f"{victim} killed, status {status}\n{told}"
                return Result("sweep on Dask", "failed", what, 0, kills)
        finally:
            for process in started.values():
                process.kill()
                process.wait()
    return finish(place, folder, wanted, kills, "sweep on Dask")


def is_worker(pid: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def kill(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
