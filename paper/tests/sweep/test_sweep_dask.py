"""Sweeps on Dask: a scheduler and two workers as processes, and a cluster of the sweep's own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blobs import blobs
from dbsurf_paper.commands.main import main
from dbsurf_paper.runs.checkpoint import NEWEST, read_checkpoint, tidy_checkpoints
from dbsurf_paper.sweep import command
from dbsurf_paper.sweep.cluster import DaskPool
from dbsurf_paper.sweep.plan import plan
from dbsurf_paper.sweep.run import work
from sweep_runs import TINY, Inline, outcomes, words

pytest.importorskip("distributed", reason="the extra cluster is not installed")

GRID = ("steps=200", "estimator=dbsurf,doublecv", "seed=0..1")
PATIENCE = 300.0  # seconds, for a crowded machine; a quiet one needs a few


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return blobs(tmp_path_factory.mktemp("data"))


def with_checkpoint(out: Path) -> set[Path]:
    """Folders with a checkpoint under any name: a run renames its own while one looks."""
    return {path.parent for path in out.glob("*/checkpoint*.pt")}


def until(condition: Callable[[], object]) -> None:
    """Wait for it, but not for ever."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes of Dask, which are gone after the test."""
    processes = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "dask.log").open("ab") as log:
            line = [sys.executable, "-m", "dask", *words]
            processes.append(subprocess.Popen(line, stdout=log, stderr=log, cwd=tmp_path))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait(PATIENCE)


def test_a_run_on_a_worker_that_is_killed_goes_on_on_the_other(data, tmp_path, started, capsys):
    file = tmp_path / "scheduler.json"
    place = ["--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1"]
    started("scheduler", *place, "--port", "0")
    until(lambda: file.exists() and file.read_text())
    workers = [started("worker", *place, "--nthreads", "1", "--no-nanny") for _ in range(2)]
    address = json.loads(file.read_text())["address"]
    out = tmp_path / "out"
    begun: set[Path] = set()

    def kill() -> None:
        """One of the workers, once both are in the middle of a run."""
        until(lambda: len(with_checkpoint(out)) >= 2)
        begun.update(with_checkpoint(out))
        workers[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    line = words(data, out, *GRID)
    assert main([*line, "--engine", "dask", "--scheduler", address]) == 0
    killer.join(PATIENCE)
    assert workers[0].poll() is not None
    assert workers[1].poll() is None
    shown = capsys.readouterr()
    assert "4 runs: 4 done (0 of them before)" in shown.out
    assert len(begun) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "engine", lambda *_: Inline())
        assert main([str(tmp_path / "whole") if w == str(out) else w for w in line]) == 0
    assert outcomes(out) == outcomes(tmp_path / "whole")


def test_the_schedulers_death_ends_in_one_line_with_the_command(data, tmp_path, started, capsys):
    import dask

    file = tmp_path / "scheduler.json"
    place = ["--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1"]
    scheduler = started("scheduler", *place, "--port", "0")
    until(lambda: file.exists() and file.read_text())
    worker = started("worker", *place, "--nthreads", "1", "--no-nanny")
    address = json.loads(file.read_text())["address"]
    out = tmp_path / "out"

    def kill() -> None:
        until(lambda: with_checkpoint(out))
        scheduler.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    line = [*words(data, out, "steps=100000"), "--engine", "dask", "--scheduler", address]
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        assert main(line) == 2
    killer.join(PATIENCE)
    error = capsys.readouterr().err
    assert "Traceback" not in error
    told, command = error.splitlines()[-1].split("; go on with: ")
    gone = f"dbsurf: error: the Dask scheduler at {address} is gone"
    assert told == f"{gone}; 0 of 1 runs are done"
    assert shlex.split(command)[:3] == ["dbsurf", "sweep", "vae"]
    worker.kill()
    worker.wait(PATIENCE)
    (run,) = with_checkpoint(out)
    tidy_checkpoints(run)
    assert read_checkpoint(run / NEWEST)["state"]["trainer"]["steps"] > 0


@pytest.mark.usefixtures("signals_heard")
def test_a_cluster_of_its_own_is_left_with_everything_saved(data, tmp_path):
    grid = [word for word in TINY if not word.startswith("checkpoint_every")]
    grid += ["steps=100000", "checkpoint_every=100000"]
    (run,) = plan("vae", "smoke", grid, tmp_path, data_dir=data, threads=1)
    pool = DaskPool(None, 1, lambda: bool(run.lock.read_text()))
    future = pool.submit(work, run, "mark")
    metrics = run.folder / "metrics.csv"
    until(lambda: metrics.exists() and "\n50," in metrics.read_text())
    for process in pool._client.run(os.getpid).values():  # as a terminal does
        os.kill(process, signal.SIGINT)
    pool.shutdown(cancel_futures=True)
    assert future.cancelled()
    assert run.lock.read_text() == ""
    assert read_checkpoint(run.folder / NEWEST)["state"]["trainer"]["steps"] >= 50


def test_without_dask_the_extra_is_named(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main([*words(data, tmp_path, "steps=50"), "--engine", "dask"]) == 2
    assert "--engine dask needs the extra cluster" in capsys.readouterr().err
