"""Run folders: a lock for one process at a time, checksums, and what is needed to run again."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout

import dbsurf
from dbsurf_paper.runs.sealed import read_sealed, sha256, write_sealed

LOCK = ".lock"  # in a run folder, while a process works there


class FolderInUse(ValueError):
    """Another process works in the folder."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a run folder; it is made if it does not exist.

    Raises:
        FolderInUse: if another process holds it. The message says which.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / LOCK, remove=True) as mine:
        if not mine:
            raise in_use(folder, folder / LOCK)
        yield


def in_use(folder: Path, lock: Path) -> FolderInUse:
    """The error for a folder that another process has locked."""
    who = holder(lock) or "another process"
    return FolderInUse(f"{folder} is in use by {who}: wait until it has ended, or choose another")


@contextmanager
def exclusive(path: Path, name: str = "", *, remove: bool = False) -> Iterator[bool]:
    """Try to lock the file ``path``; the value is True if that worked.

    While it is locked, the file contains the name of the holder.

    Args:
        path: the lock file; it is made if it does not exist.
        name: name of the holder; by default the process, its machine and the time.
        remove: remove the file afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():  # its target is no lock, and must not be written to
        raise ValueError(f"{path} must be a file, got a symbolic link: remove it")
    held = -1

    def sign(descriptor: int) -> None:
        nonlocal held
        held = descriptor
        os.ftruncate(held, 0)
        os.write(held, (name or _this_process()).encode())

    # Not at the first attempt only: a holder may remove its file after it was opened here.
    lock = FileLock(path, timeout=0.05, poll_interval=0.01, on_acquired=sign)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        if remove:
            path.unlink(missing_ok=True)
        else:
            os.ftruncate(held, 0)
        lock.release()


def holder(path: Path) -> str:
    """Who holds the lock, or held it when it was killed; empty if it was released."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # no file, or something that is not one
        return ""


def _this_process() -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} on {platform.node()} since {since}"


CONFIG, ENVIRONMENT, SUMMARY = "config.json", "environment.json", "summary.json"
ROWS = "rows.json"  # finished parts


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Mark a run as finished: write ``summary.json`` with the checksums of its tables and rows.

    Raises:
        ValueError: if a result is not finite. Such a run has failed, and nothing is written.
    """
    bad = next(_not_finite(summary), None)
    if bad is not None:
        raise ValueError(f"the results of {folder} are not finite: {bad}")
    tables = sorted([*folder.glob("*.csv"), *folder.glob(ROWS)])
    files = {path.name: sha256(path.read_bytes()) for path in tables}
    write_sealed(folder / SUMMARY, {**summary, "files": files})


def read_summary(folder: Path) -> dict[str, Any] | None:
    """The results of a finished run; None if the run is not finished.

    Raises:
        ValueError: naming the file, if the summary or a table of the run was changed or damaged.
    """
    path = folder / SUMMARY
    if not path.exists():
        return None
    summary = read_sealed(path)
    for name, wanted in summary.pop("files", {}).items():
        table = folder / name
        if not table.is_file() or sha256(table.read_bytes()) != wanted:
            raise ValueError(f"{table} is damaged: it is not the file that the run wrote")
    if not isinstance(summary.get("configuration"), dict):
        raise ValueError(f"{path} is damaged: it has no configuration")
    return summary


def _not_finite(content: Any, name: str = "") -> Iterator[str]:
    """Every number in nested lists and dictionaries that is NaN or infinite, as NAME is VALUE."""
    if isinstance(content, float) and not math.isfinite(content):
        yield f"{name} is {content}"
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from _not_finite(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, (list, tuple)):
        for place, value in enumerate(content):
            yield from _not_finite(value, f"{name}[{place}]")


def environment() -> dict[str, Any]:
    """Versions, hardware and git revision, on which results depend."""
    return {
        "dbsurf": dbsurf.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "revision": _revision(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def _processor() -> str:
    """The name of the processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _revision() -> str | None:
    """The git revision of the code, if it runs from a checkout."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
