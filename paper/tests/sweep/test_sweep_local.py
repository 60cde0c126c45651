"""Sweeps on this machine whose workers and parent are killed with -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from blobs import blobs
from dbsurf_paper.commands.main import main
from dbsurf_paper.runs import local_pool
from dbsurf_paper.runs.local_pool import LocalPool
from dbsurf_paper.sweep import command
from sweep_runs import Inline, outcomes, words

GRID = ("steps=200", "estimator=dbsurf,doublecv,arms", "seed=0..1")
PATIENCE = 300.0  # seconds, for a crowded machine; a quiet one needs a few


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return blobs(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the runs give without any interruption, one after the other in this process."""
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "engine", lambda *_: Inline())
        assert main(words(data, out, *GRID)) == 0
    return outcomes(out)


def until(condition: Callable[[], object]) -> None:
    """Wait for it, but not for ever."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def started(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    """The sweep as a process of its own."""
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "dbsurf_paper.commands.main", *words], stdout=file, stderr=file
        )


def workers(parent: int) -> set[int]:
    """Processes that a sweep has spawned for its runs."""
    children = Path(f"/proc/{parent}/task/{parent}").parent
    found = {
        int(pid) for task in children.iterdir() for pid in (task / "children").read_text().split()
    }
    return {pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def at_work(out: Path) -> list[Path]:
    """Folders of runs that have a checkpoint but no end."""
    return [
        p.parent for p in out.glob("*/checkpoint.pt") if not (p.parent / "summary.json").exists()
    ]


def test_a_killed_worker_and_a_killed_sweep_lose_nothing_and_repeat_nothing(
    data, tmp_path, whole, monkeypatch, capsys
):
    out, log = tmp_path / "out", tmp_path / "log"
    line = [*words(data, out, *GRID), "--workers", "2"]
    first = started(line, log)
    until(lambda: at_work(out))
    victim, other = sorted(workers(first.pid))
    os.kill(victim, signal.SIGKILL)
    until(lambda: len(outcomes(out)) >= 2 and at_work(out))  # the sweep goes on without it
    assert first.poll() is None
    orphans = workers(first.pid)
    assert victim not in orphans
    assert other in orphans
    first.kill()
    first.wait(PATIENCE)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/summary.json")}
    assert 2 <= len(before) < 6
    monkeypatch.setattr(command, "engine", lambda *_: Inline())
    assert main(line) == 0  # begun at once, while the orphans may be saving
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans))
    assert outcomes(out) == whole
    for path, written in before.items():  # not done again
        assert path.stat().st_mtime_ns == written
    assert f"6 runs: 6 done ({len(before)} of them before)" in capsys.readouterr().out


@pytest.mark.usefixtures("signals_heard")
def test_ctrl_c_saves_and_the_same_command_goes_on(data, tmp_path, whole, monkeypatch):
    out, log = tmp_path / "out", tmp_path / "log"
    line = [*words(data, out, "steps=200", "estimator=dbsurf", "seed=0..1"), "--workers", "1"]
    first = started(line, log)
    until(lambda: at_work(out))
    first.send_signal(signal.SIGINT)
    assert first.wait(PATIENCE) == 130
    text = log.read_text()
    assert "runs are done; go on with: dbsurf sweep vae --grid" in text
    assert text.endswith("dbsurf: interrupted\n")
    assert "Traceback" not in text
    monkeypatch.setattr(command, "engine", lambda *_: Inline())
    assert main(line) == 0
    found = outcomes(out)
    assert len(found) == 2
    assert found == {name: whole[name] for name in found}


def test_the_pool_itself(monkeypatch):
    monkeypatch.setattr(local_pool, "ATTEMPTS", 1)
    pool = LocalPool(1)
    parent, group = os.getpid(), os.getpgid(0)
    assert pool.submit(os.getppid).result(PATIENCE) == parent
    assert pool.submit(os.getpgid, 0).result(PATIENCE) != group
    with pytest.raises(ValueError, match="invalid literal"):
        pool.submit(int, "x").result(PATIENCE)
    long, queued = pool.submit(time.sleep, PATIENCE), pool.submit(int, "1")
    until(long.running)
    pool.shutdown(cancel_futures=True)
    assert queued.cancelled()
    with pytest.raises((CancelledError, RuntimeError)):
        long.result(PATIENCE)
