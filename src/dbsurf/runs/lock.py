"""The right to work in a folder: held by one process, given back by the kernel when it dies."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"  # in a run folder, while a process works there


class FolderInUse(ValueError):
    """Another process works in the folder."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold a run folder, made if need be.

    Raises:
        FolderInUse: if another process holds it. The message says which.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / LOCK, remove=True) as mine:
        if not mine:
            raise in_use(folder, folder / LOCK)
        yield


def in_use(folder: Path, lock: Path) -> FolderInUse:
    """The error of a folder that another process holds."""
    who = holder(lock) or "another process"
    return FolderInUse(f"{folder} is in use by {who}: wait until it has ended, or choose another")


@contextmanager
def exclusive(path: Path, name: str = "", *, remove: bool = False) -> Iterator[bool]:
    """Hold the lock of ``path`` if nobody does; the value says whether it is held.

    While it is held, the file says by whom.

    Args:
        path: the file, made if need be.
        name: what the file shall say; by default the process, its machine and the time.
        remove: remove the file afterwards.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks: one process at a time is up to the user
        yield True
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            yield False
            return
        if _is_at(descriptor, path):
            break
        os.close(descriptor)  # its last holder removed the file after it was opened here
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, (name or _this_process()).encode(), 0)
        yield True
    finally:
        if remove:
            path.unlink(missing_ok=True)
        else:
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


def holder(path: Path) -> str:
    """Who holds the lock, or held it when it was killed; empty if it was given back."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # no file, or something that is not one
        return ""


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _this_process() -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} on {platform.node()} since {since}"
