"""The trials of one kind in child processes, and the tables of a storm."""

from __future__ import annotations

import json
import os
import platform
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from storm import chance
from storm.results import Result

SLICE = 150.0  # seconds that a child process works for, at the most
BEGINNING = 300.0  # seconds until its first trial, on a busy machine
ENDING = 30.0  # seconds from its last words to its end


class Tally:
    """The trials of one kind so far.

    Attributes:
        kind: name of the module.
        next: number of the next trial.
        seconds: time used so far.
        busy: whether a child is at work.
    """

    def __init__(self, kind: str) -> None:
        self.kind, self.next, self.seconds, self.busy = kind, 0, 0.0, False
        self.rows: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.answers: Counter[tuple[str, str]] = Counter()
        self.evidence: dict[str, list[float]] = {}
        self.failures: list[str] = []
        self.child: subprocess.Popen[bytes] | None = None
        self.over = False

    def add(self, found: Result, seed: int) -> None:
        row = self.rows[found.subject]
        row.update(trials=1, inputs=found.inputs, compared=found.compared)
        row.update(kills=found.kills, faults=found.faults)
        self.answers[found.subject, found.answer] += 1
        for cell, held in found.evidence.items():
            so_far = self.evidence.get(cell)
            self.evidence[cell] = chance.added(so_far, held) if so_far else held
        if found.failure:
            row.update([found.harm])
            again = f"python -m storm {self.kind} --seed {seed} --trial {self.next}"
            self.failures.append(
                f"--- {self.kind} {self.next}, {found.subject}: {found.answer} ({again})\n"
                f"{found.failure}"
            )
            print(self.failures[-1], flush=True)
        self.next += 1

    def slice(self, seed: int, end: float, place: Path, length: float = SLICE) -> None:
        """One child process; if it dies or hangs, so has the trial that it was at."""
        begun, stopped = time.monotonic(), ""
        words = [sys.executable, "-m", "storm", self.kind, "--seed", str(seed)]
        words += ["--work", str(self.next), str(min(end, time.time() + length)), str(place)]
        log = place / f"stderr-{self.kind}"
        with log.open("w") as errors:
            # Unbuffered: a line that waits in a buffer of Python is not seen by `select`. A session
            # of its own: what the child has started is stopped with it.
            child = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=errors, bufsize=0, start_new_session=True
            )
        self.child = child
        if self.over:
            self.stop()
        assert child.stdout is not None
        waiting, limit = False, BEGINNING
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while True:
                if not ready.select(limit):
                    stopped = f"no answer within {limit:.0f} seconds"
                    break
                line = child.stdout.readline()
                if not line:
                    break
                content = json.loads(line)
                waiting = "begin" in content
                limit = content["limit"] if waiting else BEGINNING
                if not waiting:
                    self.add(Result(**content), seed)
        if not stopped:  # its output is closed: it is about to end
            with suppress(subprocess.TimeoutExpired):
                child.wait(ENDING)
        end_all(child.pid)
        child.stdout.close()
        status = child.wait()
        if (waiting or stopped or status) and not self.over:
            told = log.read_text()[-2000:]
            reason = stopped or f"the process ended with status {status}"
            self.add(Result("runner", "process died", f"{reason}\n{told}"), seed)
        self.seconds += time.monotonic() - begun

    def stop(self) -> None:
        """End the child, with its trial, which is not counted."""
        self.over = True
        if self.child is not None and self.child.poll() is None:
            end_all(self.child.pid)

    def biases(self, seed: int) -> None:
        """Test the estimates of all trials together."""
        for cell, held in sorted(self.evidence.items()):
            if chance.score(held) > 1:
                count, total, *_ = held
                self.rows["all trials together"].update(["wrong"])
                self.failures.append(
                    f"--- {self.kind}, all trials of {cell} (seed {seed}): {int(count)} estimates, "
                    f"{total / count:+.3g} of the range of f along the gradient, "
                    f"{chance.score(held):.2f} times what chance allows for"
                )
                print(self.failures[-1], flush=True)


def end_all(leader: int) -> None:
    """Kill the processes of a session that this process has started."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


COLUMNS = ("trials", "inputs", "compared", "kills", "faults", "wrong", "lost", "unclear")


def summary(tallies: list[Tally], minutes: float, seed: int) -> dict[str, Any]:
    """All numbers of a storm, as JSON."""
    rows: list[dict[str, Any]] = []
    for tally in tallies:
        tally.biases(seed)
        for subject, counts in sorted(tally.rows.items()):
            numbers = {name: counts[name] for name in COLUMNS}
            rows.append({"kind": tally.kind, "subject": subject, **numbers})
    answers = [
        {"kind": tally.kind, "subject": subject, "answer": answer, "trials": count}
        for tally in tallies
        for (subject, answer), count in sorted(tally.answers.items())
    ]
    cells = [(held, cell) for tally in tallies for cell, held in tally.evidence.items()]
    scores = [(chance.score(held), cell) for held, cell in cells]
    return {
        "minutes": round(minutes, 1),
        "seed": seed,
        "python": platform.python_version(),
        "torch": version("torch"),
        "failure rate": chance.STORM_FAILURE_RATE,
        "estimates": int(sum(held[0] for held, _ in cells)),
        "cells": len(cells),
        "closest": dict(zip(("score", "cell"), max(scores), strict=True)) if scores else {},
        "rows": rows,
        "answers": answers,
        "failures": [failure for tally in tallies for failure in tally.failures],
    }


def table(found: dict[str, Any]) -> str:
    """The table in Markdown: a row for what was tried, and the sums."""
    heads = ("against an oracle", "silently wrong", "lost", "traceback or unclear")
    lines = [f"{found['minutes']:g} minutes, seed {found['seed']}, torch {found['torch']}.", ""]
    lines.append(f"| kind | what | trials | inputs | {heads[0]} | kills | faults | ")
    lines[-1] += f"{heads[1]} | {heads[2]} | {heads[3]} |"
    lines.append("|---|---|" + "--:|" * len(COLUMNS))
    sums: Counter[str] = Counter()
    for row in found["rows"]:
        numbers = {name: row[name] for name in COLUMNS}
        sums.update(numbers)
        told = " | ".join(f"{numbers[name]:,}" for name in COLUMNS)
        lines.append(f"| `{row['kind']}` | {row['subject']} | {told} |")
    told = " | ".join(f"**{sums[name]:,}**" for name in COLUMNS)
    lines.append(f"| **all** | | {told} |")
    if found["cells"]:
        lines += ["", f"{found['estimates']:,} estimates were tested together in {found['cells']} "]
        lines[-1] += "pairs of an estimator and a setting: the mean error along the gradient is at "
        lines[-1] += f"most {found['closest']['score']:.2f} times what chance allows for "
        lines[-1] += f"({found['closest']['cell']})."
    return "\n".join(lines)
