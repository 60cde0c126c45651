"""Format number and checksum of every file that is read back later.

JSON files begin with both, tables have them in a first line that is a comment, and checkpoints hold
them beside the state. A file that was edited, cut or written by another version is noticed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dbsurf_paper.files import read_json, write_atomically

FORMAT = 2  # of run folders; 1 had checksums in summary.json only


class OtherFormat(ValueError):
    """A sound file of another version, or of something else."""


def sha256(data: bytes) -> str:
    """The checksum of a file's content."""
    return hashlib.sha256(data).hexdigest()


def write_sealed(path: Path, content: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """Write a JSON object with its format number and checksum, atomically."""
    sealed = {"format": FORMAT, "sha256": _json_sha256(content), **content}
    write_atomically(path, json.dumps(sealed, indent=indent) + "\n")


def read_sealed(path: Path) -> dict[str, Any]:
    """The object that `write_sealed` wrote, without format number and checksum.

    Raises:
        OtherFormat: if the file has another format number, or none.
        ValueError: naming the file, if it was changed or damaged.
    """
    content = read_json(path)
    check_format(content.pop("format", None), path)
    if content.pop("sha256", None) != _json_sha256(content):
        raise ValueError(f"{path} is damaged: it does not match its checksum")
    return content


def check_format(found: Any, path: Path) -> None:
    """Raise unless this is the format number of this version."""
    if found != FORMAT:
        told = "without a format number" if found is None else f"of format {found!r}"
        raise OtherFormat(f"{path} is {told}, this version reads format {FORMAT}")


def _json_sha256(content: Mapping[str, Any]) -> str:
    """Checksum of a JSON object, whatever its layout in the file."""
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def write_sealed_text(path: Path, text: str) -> None:
    """Write a table below a comment with its format number and checksum, atomically."""
    write_atomically(path, f"# format {FORMAT}, sha256 {sha256(text.encode())}\n{text}")


def read_sealed_text(path: Path) -> str:
    """The table that `write_sealed_text` wrote; errors as of `read_sealed`."""
    head, _, text = path.read_bytes().partition(b"\n")
    if head != f"# format {FORMAT}, sha256 {sha256(text)}".encode():
        if head.startswith(b"# format ") and not head.startswith(b"# format %d," % FORMAT):
            check_format(head[9:].partition(b",")[0].decode(errors="replace"), path)
        raise ValueError(f"{path} is damaged: it does not match its checksum")
    return text.decode()


def state_sha256(state: Any) -> str:
    """Checksum of nested dictionaries and lists of tensors, numbers and strings."""
    found = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, Tensor):
            found.update(f"tensor {value.dtype} {tuple(value.shape)}".encode())
            flat = value.detach().cpu().contiguous().flatten()
            found.update(flat.view(torch.uint8).numpy().tobytes())
        elif isinstance(value, Mapping):
            found.update(f"entries {len(value)}".encode())
            for key, entry in value.items():
                add(key)
                add(entry)
        elif isinstance(value, (list, tuple)):
            found.update(f"list {len(value)}".encode())
            for entry in value:
                add(entry)
        else:
            found.update(f"{type(value).__name__} {value!r}".encode())

    add(state)
    return found.hexdigest()
