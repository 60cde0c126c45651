"""The runner: ``python -m storm --minutes 10``, or ``python -m storm KIND --seed S --trial N``.

Trials run in child processes, many in each and two children at a time, so that one that dies takes
nothing with it. Every failure is printed as soon as it is found, with what repeats it; the tables
come at the end, also if the storm is stopped by SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from storm.results import random_numbers
from storm.tally import SLICE, Tally, summary, table

#: Kinds of trials, and their share of the time.
KINDS = {
    "api": 0.05,
    "oracle": 0.4,
    "sequences": 0.08,
    "processes": 0.07,
    "commands": 0.04,
    "kills": 0.18,
    "sweeps": 0.06,
    "corruption": 0.06,
    "surroundings": 0.06,
}
GRACE = 180.0  # seconds after the end in which the last trials may finish


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m storm", description=__doc__)
    parser.add_argument("kind", nargs="?", choices=KINDS, help="only this kind")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="kinds that are tried at one time")
    parser.add_argument("--out", type=Path, help="also write the table there, as JSON")
    parser.add_argument("--trial", type=int, help="repeat one trial")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)  # first trial, end, folder
    options = parser.parse_args()
    if options.work is not None:
        first, end, place = options.work
        return work(options.kind, options.seed, int(first), float(end), Path(place))
    with tempfile.TemporaryDirectory(prefix="storm-", ignore_cleanup_errors=True) as place:
        if options.trial is not None:
            return run(options.kind, options.seed, [options.trial], Path(place))
        kinds = {options.kind: 1.0} if options.kind else KINDS
        storm = Storm(kinds, options.minutes, options.seed, Path(place))
        return storm.blow(options.jobs, options.out)


def run(kind: str, seed: int, trials: Sequence[int], place: Path) -> int:
    """These trials in this process; prints what came out, and returns 1 if any failed."""
    module, failed = importlib.import_module(f"storm.{kind}"), False
    for number in trials:
        found = module.trial(random_numbers(seed, kind, number), place)
        told = f"{kind} {number}: {found.subject}: {found.answer}\n{found.failure}"
        print(told.rstrip(), flush=True)
        failed |= bool(found.failure)
    return int(failed)


def work(kind: str, seed: int, first: int, end: float, place: Path) -> int:
    """Trials from ``first`` on until ``end``; a line of JSON before and after each."""
    module = importlib.import_module(f"storm.{kind}")
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what trials print is not for the runner
    number = first
    while time.time() < end or number == first:
        print(json.dumps({"begin": number, "limit": module.LIMIT}), file=output)
        found = module.trial(random_numbers(seed, kind, number), place)
        print(json.dumps(asdict(found)), file=output)
        number += 1
    return 0


class Storm:
    """All kinds in turn, the one that is furthest behind its share first."""

    def __init__(self, kinds: dict[str, float], minutes: float, seed: int, place: Path) -> None:
        self.kinds, self.seed, self.place = kinds, seed, place
        self.tallies = {kind: Tally(kind) for kind in kinds}
        self.minutes, self.begun = minutes, time.time()
        self.end = self.begun + 60 * minutes
        self.stopped = threading.Event()
        self.choosing = threading.Lock()

    def blow(self, jobs: int, out: Path | None) -> int:
        """Work until the end, or until a signal; print the tables."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self.stopped.set())
        print(f"A storm of {self.minutes:g} minutes, seed {self.seed}.", flush=True)
        count = min(jobs, len(self.kinds))
        threads = [threading.Thread(target=self.works) for _ in range(count)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if self.stopped.wait(0.5) or time.time() > self.end + GRACE:
                break
        for tally in self.tallies.values():
            tally.stop()
        for thread in threads:
            thread.join()
        unmounted(self.place)
        found = summary(list(self.tallies.values()), (time.time() - self.begun) / 60, self.seed)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(found, indent=1) + "\n")
        print(table(found), flush=True)
        return int(any(row["wrong"] + row["lost"] + row["unclear"] for row in found["rows"]))

    def works(self) -> None:
        """One child after the other; two never try the same kind."""
        while time.time() < self.end and not self.stopped.is_set():
            with self.choosing:
                free = [tally for tally in self.tallies.values() if not tally.busy]
                late = min(free, key=lambda tally: tally.seconds / self.kinds[tally.kind])
                late.busy = True
            # A short storm has a turn for every kind, too.
            length = min(SLICE, 60 * self.minutes * self.kinds[late.kind])
            late.slice(self.seed, self.end, self.place, length)
            late.busy = False
            if not any(tally.busy for tally in self.tallies.values()):
                for old in self.place.glob("trial-*"):
                    shutil.rmtree(old, ignore_errors=True)


def unmounted(place: Path) -> None:
    """Disks of trials that were stopped in the middle."""
    with suppress(OSError):
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in [mount for mount in mounts if mount.startswith(str(place))]:
            subprocess.run(["umount", mount], check=False)


if __name__ == "__main__":
    sys.exit(main())
