"""Single runs, killed at random moments and continued: no number may change, nothing be left."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

from dbsurf_paper.commands.main import main
from storm.results import RUNS, Result, command, forked, outcome, reference

LIMIT = 300.0
KILLS = 6  # of one run, at the most
GENTLE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def trial(draw: random.Random, place: Path) -> Result:
    name = draw.choice(list(RUNS))
    whole, seconds = reference(name, place)
    out = Path(tempfile.mkdtemp(dir=place, prefix="trial-")) / "run"
    log = out.parent / "log"
    line = command(name, place, out, "--resume")
    kills = draw.randint(1, KILLS)
    for _ in range(kills):
        number = signal.SIGKILL if draw.random() < 0.8 else draw.choice(GENTLE)
        pid = forked(lambda: main(line), log)
        time.sleep(draw.uniform(0, 1.1 * seconds))
        os.kill(pid, number)  # it is not yet waited for: the process id is still its own
        _, status = os.waitpid(pid, 0)
        status = os.waitstatus_to_exitcode(status)
        told = log.read_text() if log.exists() else ""
        if status not in (0, 130, -number) or "Traceback" in told:
            return Result(
                "failed", f"{name}: status {status} after signal {number}\n{told[-2000:]}"
            )
    _, status = os.waitpid(forked(lambda: main(line), log), 0)
    if os.waitstatus_to_exitcode(status) != 0:
        return Result("lost", f"{name}: {kills} kills, then\n{log.read_text()[-2000:]}", kills)
    if outcome(out) != outcome(whole):
        return Result("changed", f"{name}: {kills} kills changed {out}", kills)
    left = {path.name for path in out.iterdir()} ^ {path.name for path in whole.iterdir()}
    left -= {"checkpoint.previous.pt"}  # absent if the last checkpoint was the first
    if left:
        return Result("litter", f"{name}: {kills} kills left {sorted(left)}", kills)
    shutil.rmtree(out.parent)
    return Result(f"{name}: same numbers, nothing left", "", kills)
