"""Checkpoints: written whole or not at all, the one before kept, read without running code."""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dbsurf.runs.folder import write_atomically

NEWEST, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"


def save_checkpoint(folder: Path, config: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Save ``state``, made of tensors, numbers, strings, lists and dictionaries.

    The new file is complete on the disk before the old one is touched; the old one stays as
    ``checkpoint.previous.pt``. A full disk or a kill at any moment leaves one that is whole.
    """
    buffer = io.BytesIO()
    torch.save({"config": dict(config), "state": dict(state)}, buffer)
    fresh = folder / f"{NEWEST}.new"
    write_atomically(fresh, buffer.getvalue())
    newest = folder / NEWEST
    if newest.exists():
        newest.replace(folder / PREVIOUS)
    fresh.replace(newest)


def load_checkpoint(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The newest checkpoint that is whole, or None if there has never been one.

    Args:
        folder: the run folder.
        config: what the checkpoint must have been made with.

    Raises:
        ValueError: if it was made with another configuration, or none can be read.
    """
    candidates = [folder / f"{NEWEST}.new", folder / NEWEST, folder / PREVIOUS]
    damaged = []
    for path in [path for path in candidates if path.exists()]:
        try:
            content = read_checkpoint(path)
        except ValueError as error:
            damaged.append(path.name)
            print(f"dbsurf: {error}; trying the one before it", file=sys.stderr)
            continue
        refuse_other_config(content["config"], config, path)
        state: dict[str, Any] = content["state"]
        return state
    if damaged:
        raise ValueError(f"no checkpoint in {folder} can be read: {', '.join(damaged)} damaged")
    return None


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Configuration and state in one file, its checksums verified."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()  # torch.load itself does not look at the checksums
        if broken is not None:
            raise zipfile.BadZipFile(f"wrong checksum of {broken}")
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (zipfile.BadZipFile, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} is damaged ({reason})") from error
    if not isinstance(content, dict) or not {"config", "state"} <= content.keys():
        raise ValueError(f"{path} is no checkpoint of a run")
    return content


def refuse_other_config(
    found: Mapping[str, Any], wanted: Mapping[str, Any], place: Path | str
) -> None:
    """Stop if two configurations differ, naming every field in which they do."""
    differing = [
        f"{name} ({found.get(name)!r} there, {wanted.get(name)!r} here)"
        for name in sorted({*found, *wanted})
        if found.get(name) != wanted.get(name)
    ]
    if differing:
        raise ValueError(f"{place} is of another configuration: {', '.join(differing)}")
