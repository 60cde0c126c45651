"""Runs in bad surroundings: full and read-only disks, clocks that jump, nohup.

On a full or read-only disk a run ends in one line that names the file, and goes on where there is
room. A clock that jumps and a terminal that closes under nohup change nothing.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dbsurf_paper.commands.main import main
from storm.results import Result
from storm.runs import chosen, command, data, forked, outcome, reference

LIMIT = 120.0
FULL = ("No space left on device: '", "File too large: '")
READ_ONLY = ("Read-only file system: '", "Permission denied: '")
YEARS = 3e7  # seconds, about


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[bool]:
    """A file system of its own at ``place``; False if this user may not mount one."""
    words = ["mount", *options, str(place)]
    there = os.geteuid() == 0 and subprocess.run(words, capture_output=True).returncode == 0
    try:
        yield there
    finally:
        if there:
            subprocess.run(["umount", str(place)], check=True)


def trial(draw: random.Random, place: Path) -> Result:
    name = chosen(draw)
    whole, seconds = reference(name, place)
    folder = Path(tempfile.mkdtemp(dir=place, prefix="trial-"))
    kind = draw.choice([full_disk, full_disk, read_only, clock, nohup])
    subject = f"{kind.__name__.replace('_', ' ')}: {name.partition(',')[0]}"
    answer, failure, kills = kind(draw, name, place, folder, whole, seconds)
    if failure:
        return Result(subject, answer, f"{name}: {failure}", 0, kills, 1)
    shutil.rmtree(folder, ignore_errors=True)
    return Result(subject, answer, "", 0, kills, 1)


Answer = tuple[str, str, int]  # answer, failure, kills


def worked(work: Callable[[], int], log: Path) -> tuple[int, str]:
    """Status and words of a child."""
    _, status = os.waitpid(forked(work, log), 0)
    return os.waitstatus_to_exitcode(status), log.read_text()


def continued(name: str, place: Path, out: Path, whole: Path, log: Path) -> tuple[str, str]:
    """The same command where nothing is in its way: answer and failure."""
    status, told = worked(lambda: main(command(name, place, out, "--resume")), log)
    if status:
        return "lost", f"status {status} where nothing is in the way: {told[-1000:]}"
    if outcome(out) != outcome(whole):
        return "changed", f"other numbers in {out}"
    return "same numbers in the end", ""


# --- disks ----------------------------------------------------------------------------------------


def full_disk(
    draw: random.Random, name: str, place: Path, folder: Path, whole: Path, seconds: float
) -> Answer:
    used = sum(path.stat().st_size for path in whole.iterdir() if path.is_file())
    disk, log, out = folder / "disk", folder / "log", folder / "run"
    disk.mkdir()
    size = draw.randrange(4096, 2 * used)
    with mounted(disk, "-t", "tmpfs", "-o", f"size={size}", "tmpfs") as limited:

        def work() -> int:
            if not limited:  # files are limited instead
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4, size // 4))
            return main(command(name, place, disk / "run", "--resume"))

        status, told = worked(work, log)
        if (disk / "run").exists():
            shutil.copytree(disk / "run", out)
    if status not in (0, 2) or "Traceback" in told:
        return "failed", f"status {status} on {size} bytes\n{told[-2000:]}", 0
    if status == 2 and not any(words in told for words in FULL):
        return "no file named", f"{size} bytes: {told[-500:]}", 0
    return *continued(name, place, out, whole, log), 0


def read_only(
    draw: random.Random, name: str, place: Path, folder: Path, whole: Path, seconds: float
) -> Answer:
    """A run folder, new or half done, that cannot be written; and a data folder that cannot."""
    disk, log, out = folder / "disk", folder / "log", folder / "run"
    disk.mkdir()
    begun = draw.random() < 0.5
    if begun:
        shutil.copytree(whole, disk / "run")
        (disk / "run" / "summary.json").unlink()
    sealed, there = folder / "sealed", folder / "data"
    sealed.mkdir()
    shutil.copytree(data(place), there)
    with mounted(sealed, "--bind", "-o", "ro", str(disk)) as first:
        if not first:
            return "not tried: this user may not mount", "", 0
        subprocess.run(["mount", "-o", "remount,bind,ro", str(sealed)], check=True)
        status, told = worked(lambda: main(command(name, place, sealed / "run", "--resume")), log)
    if status != 2 or "Traceback" in told or not any(words in told for words in READ_ONLY):
        return "no file named", f"status {status} on a read-only disk: {told[-1000:]}", 0
    if begun:
        shutil.copytree(disk / "run", out)
    with mounted(there, "--bind", str(there)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(there)], check=True)
        words = command(name, place, out, "--resume")
        words[words.index("--data-dir") + 1] = str(there)
        status, told = worked(lambda: main(words), log)
    if status:
        return "lost", f"status {status} with a read-only data folder: {told[-1000:]}", 0
    if outcome(out) != outcome(whole):
        return "changed", f"other numbers in {out}", 0
    return "one line that names the file, same numbers in the end", "", 0


# --- clocks and terminals -------------------------------------------------------------------------


def clock(
    draw: random.Random, name: str, place: Path, folder: Path, whole: Path, seconds: float
) -> Answer:
    """The time of day jumps at every reading; files of a killed run come from other years."""
    out, log, real = folder / "run", folder / "log", time.time
    jumps = random.Random(draw.random())

    def work() -> int:
        time.time = lambda: max(0.0, real() + jumps.choice([0, 1, -1, YEARS, -YEARS]))
        time.strftime = lambda form, when=None: "1970-01-01 00:00:00"
        return main(command(name, place, out, "--resume"))

    pid = forked(work, log)
    time.sleep(draw.uniform(0, seconds))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    for path in sorted(out.rglob("*")):
        then = max(0.0, real() + jumps.uniform(-YEARS, YEARS))
        os.utime(path, (then, then))
    last, told = worked(work, log)
    if last or "Traceback" in told:
        return "lost", f"status {last} with a clock that jumps: {told[-1000:]}", int(status != 0)
    if outcome(out) != outcome(whole):
        return "changed", f"other numbers in {out}", int(status != 0)
    return "same numbers", "", int(status != 0)


def nohup(
    draw: random.Random, name: str, place: Path, folder: Path, whole: Path, seconds: float
) -> Answer:
    """SIGHUP and SIGINT are ignored, as nohup and a shell's & have it; then both come."""
    out, log, ignored = folder / "run", folder / "log", (signal.SIGHUP, signal.SIGINT)
    before = [signal.signal(number, signal.SIG_IGN) for number in ignored]
    try:  # ignored by the parent too, so that the child has it from its first moment
        pid = forked(lambda: main(command(name, place, out, "--resume")), log, ignored)
    finally:
        for number, handler in zip(ignored, before, strict=True):
            signal.signal(number, handler)
    for number in ignored:
        time.sleep(draw.uniform(0, 0.4 * seconds))
        os.kill(pid, number)
    _, status = os.waitpid(pid, 0)
    told = log.read_text()
    if status or "Traceback" in told:
        return "lost", f"status {status} under nohup: {told[-1000:]}", 2
    if outcome(out) != outcome(whole):
        return "changed", f"other numbers in {out}", 2
    return "same numbers", "", 2
