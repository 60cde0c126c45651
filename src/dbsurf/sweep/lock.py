"""The right to work on a run: held by one process, given back by the kernel when it dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, holder: str) -> Iterator[bool]:
    """Hold the lock of ``path`` if nobody does; says whether it is held.

    While it is, the file says by whom. A file is never removed: two processes could then hold
    locks of the same name.

    Args:
        path: the file, made if need be.
        holder: what the file shall say.
    """
    import fcntl  # not on every system, and the other commands need not miss it

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
        try:
            yield True
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder(path: Path) -> str:
    """Who holds the lock, or held it when he was killed; nothing if it was given back."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
