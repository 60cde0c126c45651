"""Files of a run folder: written whole or not at all, with what is needed to run again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dbsurf


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace ``path`` by ``content`` in one step: a reader sees the old file or the new one.

    The content reaches the disk before the name does, so that a full disk or a killed process
    leaves the old file as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
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
