"""The console script ``dbsurf``: Ctrl-C while torch is being imported ends in one line too.

It stands outside the package because importing anything inside imports torch first.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130


def stop(number: int, frame: FrameType | None) -> None:
    """End at once: there is nothing to save yet, and an import cannot be left in the middle."""
    os.write(2, b"dbsurf: interrupted\n")
    os._exit(INTERRUPTED)


def main() -> int:
    """Import the command, and run it; returns the exit status."""
    before = signal.signal(signal.SIGINT, stop)
    from dbsurf_paper.commands.main import main as command

    signal.signal(signal.SIGINT, before)
    return command()
