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
from storm.results import Result
from storm.runs import chosen, command, forked, outcome, reference

LIMIT = 300.0
KILLS = 20  # of one run, at the most
GENTLE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def trouble(told: str) -> str:
    """The part of a log that tells what went wrong."""
    start = max(told.find("Traceback") - 300, 0) if "Traceback" in told else -2000
    return told[start:][:2000]


def trial(draw: random.Random, place: Path) -> Result:
    name = chosen(draw)
    whole, seconds = reference(name, place)
    out = Path(tempfile.mkdtemp(dir=place, prefix="trial-")) / "run"
    log = out.parent / "log"
    line = command(name, place, out, "--resume")
    kills = 0
    for _ in range(draw.randint(1, KILLS)):
        number = signal.SIGKILL if draw.random() < 0.8 else draw.choice(GENTLE)
        pid = forked(lambda: main(line), log)
        # Most work is in the beginning of what is left; a finished run cannot be killed.
        time.sleep(draw.uniform(0, 1.1 * seconds) * draw.random())
        os.kill(pid, number)  # it is not yet waited for: the process id is still its own
        _, status = os.waitpid(pid, 0)
        status = os.waitstatus_to_exitcode(status)
        told = log.read_text() if log.exists() else ""
        if status not in (0, 130, -number) or "Traceback" in told:
            return Result(
                name, "failed", f"status {status} after signal {number}\n{trouble(told)}", 0, kills
            )
        if status == 0:  # it was finished before the signal came
            break
        kills += 1
    _, status = os.waitpid(forked(lambda: main(line), log), 0)
    if os.waitstatus_to_exitcode(status) != 0:
        return Result(name, "lost", f"{kills} kills, then\n{log.read_text()[-2000:]}", 0, kills)
    if outcome(out) != outcome(whole):
        return Result(name, "changed", f"{kills} kills changed {out}", 0, kills)
    left = {path.name for path in out.iterdir()} ^ {path.name for path in whole.iterdir()}
    left -= {"checkpoint.previous.pt"}  # absent if the last checkpoint was the first
    if left:
        return Result(name, "litter", f"{kills} kills left {sorted(left)}", 0, kills)
    shutil.rmtree(out.parent)
    return Result(name, "same numbers, nothing left", "", 0, kills)
