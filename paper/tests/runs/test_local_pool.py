"""Searches side by side in processes: a signal to the parent makes all of them save."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dbsurf_paper.runs.checkpoint import NEWEST, read_checkpoint
from dbsurf_paper.runs.local_pool import all_results
from supernet_runs import digits

PATIENCE = 300.0


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


@pytest.mark.usefixtures("signals_heard")
def test_a_signal_saves_every_seed_and_leaves_no_process(tmp_path):
    out, data = tmp_path / "run", digits(tmp_path)
    line = f"nas supernet --dataset digits --n 3 --seeds 2 --jobs 2 --device cpu --out {out} "
    line += (
        "--channels 2 --cells 1 --image-size 8 --images 64 --batch 16 --threads 1 --epochs 9999 "
    )
    line += f"--warmup-epochs 0 --checkpoint-every 100000 --no-tensorboard --data-dir {data}"
    words = [sys.executable, "-m", "dbsurf_paper.commands.main", *line.split()]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    seeds = [out / f"seed-{seed}" for seed in (0, 5)]

    def trained(folder: Path) -> bool:
        metrics = folder / "metrics.csv"
        return metrics.exists() and len(metrics.read_text().splitlines()) > 2

    until(lambda: all(map(trained, seeds)))
    children = Path(f"/proc/{process.pid}/task/{process.pid}").parent.glob("*/children")
    pids = [int(pid) for file in children for pid in file.read_text().split()]
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in error
    told = error.splitlines()[-1]
    assert "every search has saved its last state; go on with: dbsurf nas" in told
    assert shlex.split(told)[-1] == "--resume"
    for folder in seeds:
        assert read_checkpoint(folder / NEWEST)["state"]["trainer"]["steps"] > 0
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_an_error_in_one_process_is_the_error(tmp_path):
    first, second = all_results(_pid, [0, 1], 1)
    assert first == second != os.getpid()
    with pytest.raises(ValueError, match="invalid literal"):
        all_results(int, ["1", "x"], 1)


def _pid(_: int) -> int:
    return os.getpid()
