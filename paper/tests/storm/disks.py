"""Full disks: a run ends in one line that names the file, and goes on where there is room."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbsurf_paper.commands.main import main
from storm.results import RUNS, Result, command, forked, outcome, reference

LIMIT = 120.0
FULL = ("No space left on device: '", "File too large: '")


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A file system of so many bytes, if this user may mount one; else the folder itself."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    mounted = os.geteuid() == 0 and subprocess.run(words, capture_output=True).returncode == 0
    try:
        yield place
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)


def trial(draw: random.Random, place: Path) -> Result:
    name = draw.choice(list(RUNS))
    whole, _ = reference(name, place)
    used = sum(path.stat().st_size for path in whole.iterdir() if path.is_file())
    folder = Path(tempfile.mkdtemp(dir=place, prefix="trial-"))
    disk, log = folder / "disk", folder / "log"
    disk.mkdir()
    size = draw.randrange(4096, 2 * used)
    with small_disk(disk, size) as small:
        full = small.stat().st_dev == folder.stat().st_dev  # no mount: files are limited instead

        def work() -> int:
            if full:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4, size // 4))
            return main(command(name, place, small / "run", "--resume"))

        _, status = os.waitpid(forked(work, log), 0)
        status, told = os.waitstatus_to_exitcode(status), log.read_text()
        out = folder / "run"
        if (small / "run").exists():
            shutil.copytree(small / "run", out)
    if status not in (0, 2) or "Traceback" in told:
        return Result("failed", f"{name} on {size} bytes: status {status}\n{told[-2000:]}")
    if status == 2 and not any(words in told for words in FULL):
        return Result("no file named", f"{name} on {size} bytes: {told[-500:]}")
    _, last = os.waitpid(forked(lambda: main(command(name, place, out, "--resume")), log), 0)
    if last or outcome(out) != outcome(whole):
        return Result("changed", f"{name} on {size} bytes, then: {log.read_text()[-1000:]}")
    shutil.rmtree(folder, ignore_errors=True)
    ended = "there was room" if status == 0 else "one line that names the file"
    return Result(f"{name}: {ended}, same numbers in the end")
