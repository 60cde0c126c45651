"""Files of a run folder: written whole or not at all, with what is needed to run again."""

from __future__ import annotations

import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dbsurf

CONFIG, SUMMARY = "config.json", "summary.json"


@contextmanager
def fresh_folder(out: Path, command: str) -> Iterator[Path]:
    """A new folder that takes the name ``out`` only once everything in it is there.

    An earlier run of the same command is replaced; anything else of that name is left alone.
    """
    if out.exists() and not _replaceable(out, command):
        raise ValueError(f"--out {out} exists and is not a folder of an earlier {command} run")
    made = [parent for parent in out.parents if not parent.exists()]  # the deepest first
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        yield folder
        if out.exists():
            shutil.rmtree(out)
        folder.rename(out)
        out.chmod(0o755)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        for parent in made:
            parent.rmdir()
        raise


def _replaceable(out: Path, command: str) -> bool:
    """Whether ``out`` is an empty folder or an earlier run of the same command."""
    if not out.is_dir():
        return False
    config = out / CONFIG
    if not config.is_file():
        return not any(out.iterdir())
    return bool(json.loads(config.read_text()).get("command") == command)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace ``path`` by ``content`` in one step: a reader sees the old file or the new one.

    The content reaches the disk before the name does, so that a full disk or a killed process
    leaves the old file as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}"
    try:
        with temporary.open("xb") as file:  # as readable as any other new file of the user
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as indented JSON, atomically."""
    write_atomically(path, json.dumps(content, indent=2, sort_keys=False) + "\n")


def environment() -> dict[str, Any]:
    """Versions, hardware and revision that a result depends on."""
    return {
        "dbsurf": dbsurf.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "revision": _revision(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


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
