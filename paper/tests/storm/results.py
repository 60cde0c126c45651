"""What a trial comes to."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

#: Answers of failed trials by the harm that they do; all others are tracebacks or unclear.
WRONG = ("wrong answer", "changed")
LOST = ("lost",)


@dataclass(frozen=True)
class Result:
    """How one trial was answered.

    Attributes:
        subject: what was tried, such as a setting or an experiment; a row of the table.
        answer: a few words, the same for all trials that were answered in the same way.
        failure: empty if that was right; else what happened and how to repeat it.
        inputs: calls and command lines.
        kills: processes that got a signal while they worked.
        faults: damaged files, full or read-only disks, clocks that jumped.
        compared: of the inputs, those whose answer was compared with an oracle's.
        evidence: moments of estimates minus truth by estimator and setting, see `storm.means`.
    """

    subject: str
    answer: str
    failure: str = ""
    inputs: int = 0
    kills: int = 0
    faults: int = 0
    compared: int = 0
    evidence: dict[str, list[float]] = field(default_factory=dict)

    @property
    def harm(self) -> str:
        """The column of a failure in the table."""
        return "wrong" if self.answer in WRONG else "lost" if self.answer in LOST else "unclear"


def random_numbers(seed: int, kind: str, number: int) -> random.Random:
    """The random numbers of one trial, the same on every machine."""
    return random.Random(f"{seed} {kind} {number}")
