"""The runner: ``python -m storm --minutes 10``, or ``python -m storm KIND --seed S --trial N``.

Trials run in child processes, many in each, so that one that dies takes nothing with it. Every
failure is printed as soon as it is found, with what repeats it; the tables come at the end.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from storm.results import Result, random_numbers

#: Kinds of trials, and their share of the time.
KINDS = {
    "api": 0.1,
    "oracle": 0.1,
    "commands": 0.1,
    "kills": 0.3,
    "sweeps": 0.15,
    "corruption": 0.15,
    "disks": 0.1,
}
SLICE = 100.0  # seconds that a child process works for


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m storm", description=__doc__)
    parser.add_argument("kind", nargs="?", choices=KINDS, help="only this kind")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int, help="repeat one trial")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)  # first trial, end, folder
    options = parser.parse_args()
    if options.work is not None:
        first, end, place = options.work
        return work(options.kind, options.seed, int(first), float(end), Path(place))
    with tempfile.TemporaryDirectory(prefix="storm-") as place:
        if options.trial is not None:
            return run(options.kind, options.seed, [options.trial], Path(place))
        chosen = {options.kind: 1.0} if options.kind else KINDS
        return storm(chosen, options.minutes, options.seed, Path(place))


def run(kind: str, seed: int, trials: Sequence[int], place: Path) -> int:
    """These trials in this process; prints what came out, and returns 1 if any failed."""
    module, failed = importlib.import_module(f"storm.{kind}"), False
    for number in trials:
        found = module.trial(random_numbers(seed, kind, number), place)
        print(f"{kind} {number}: {found.answer}\n{found.failure}".rstrip(), flush=True)
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


class Tally:
    """The trials of one kind so far."""

    def __init__(self, kind: str) -> None:
        self.kind, self.next, self.seconds = kind, 0, 0.0
        self.answers: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.failures: list[str] = []

    def add(self, found: Result, seed: int) -> None:
        self.answers[found.answer] += 1
        self.events[found.answer] += found.count
        if found.failure:
            again = f"python -m storm {self.kind} --seed {seed} --trial {self.next}"
            self.failures.append(f"--- {self.kind} {self.next} ({again})\n{found.failure}")
            print(self.failures[-1], flush=True)
        self.next += 1

    def slice(self, seed: int, end: float, place: Path) -> None:
        """One child process; if it dies or hangs, so has the trial that it was at."""
        begun, stopped = time.monotonic(), ""
        words = [sys.executable, "-m", "storm", self.kind, "--seed", str(seed)]
        words += ["--work", str(self.next), str(min(end, time.time() + SLICE)), str(place)]
        with (place / "stderr").open("w") as errors:
            # Unbuffered: a line that waits in a buffer of Python is not seen by `select`.
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, bufsize=0)
        assert child.stdout is not None
        waiting, limit = False, 120.0
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while True:
                if not ready.select(limit):
                    stopped = f"no answer within {limit:.0f} seconds"
                    child.kill()
                    break
                line = child.stdout.readline()
                if not line:
                    break
                content = json.loads(line)
                waiting = "begin" in content
                if waiting:
                    limit = content["limit"]
                else:
                    limit = 120.0
                    self.add(Result(**content), seed)
        child.stdout.close()
        status = child.wait()
        if waiting or status:
            told = (place / "stderr").read_text()[-2000:]
            reason = stopped or f"the process ended with status {status}"
            self.add(Result("process died", f"{reason}\n{told}"), seed)
        self.seconds += time.monotonic() - begun


def storm(kinds: dict[str, float], minutes: float, seed: int, place: Path) -> int:
    """All kinds in turn, the one that is furthest behind its share first."""
    begun = time.time()
    end = begun + 60 * minutes
    tallies = {kind: Tally(kind) for kind in kinds}
    while time.time() < end:
        late = min(tallies.values(), key=lambda tally: tally.seconds / kinds[tally.kind])
        folder = place / late.kind
        folder.mkdir(exist_ok=True)
        late.slice(seed, end, folder)
        for old in [path for path in folder.glob("trial-*") if path.is_dir()]:
            shutil.rmtree(old, ignore_errors=True)
    print(report(list(tallies.values()), minutes, seed))
    return bool(sum(len(tally.failures) for tally in tallies.values()))


def report(tallies: list[Tally], minutes: float, seed: int) -> str:
    """Tables in Markdown."""
    lines = [f"{minutes:g} minutes, seed {seed}.", "", "| kind | trials | events | failures |"]
    lines.append("|---|--:|--:|--:|")
    for tally in tallies:
        counts = f"{tally.next:,} | {sum(tally.events.values()):,} | {len(tally.failures)}"
        lines.append(f"| {tally.kind} | {counts} |")
    lines += ["", "| kind | answer | trials | events |", "|---|---|--:|--:|"]
    for tally in tallies:
        for answer, count in tally.answers.most_common():
            lines.append(f"| {tally.kind} | {answer} | {count:,} | {tally.events[answer]:,} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
