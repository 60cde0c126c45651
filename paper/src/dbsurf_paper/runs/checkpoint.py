"""Checkpoints: written atomically, the previous one kept, read without running code."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dbsurf_paper.files import write_atomically
from dbsurf_paper.runs.sealed import FORMAT, OtherFormat, check_format, state_sha256

NEWEST, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"


def save_checkpoint(folder: Path, config: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Save ``state``, made of tensors, numbers, strings, lists and dictionaries.

    The new file is complete on the disk before the old one is touched; the old one stays as
    ``checkpoint.previous.pt``. After a full disk or a kill at any moment one of them is complete.
    """
    content = {"format": FORMAT, "config": dict(config), "state": dict(state)}
    buffer = io.BytesIO()
    torch.save({**content, "sha256": state_sha256(content)}, buffer)
    fresh = folder / f"{NEWEST}.new"
    write_atomically(fresh, buffer.getvalue())
    _rename(fresh, folder)


def load_checkpoint(
    folder: Path,
    config: Mapping[str, Any],
    accept: Callable[[dict[str, Any]], None] = lambda state: None,
) -> dict[str, Any] | None:
    """The newest checkpoint that can be used, or None if there is no checkpoint.

    Args:
        folder: the run folder.
        config: the configuration that the checkpoint must have.
        accept: loads the state, or raises if it cannot; then the previous checkpoint is tried. So
            it must not rely on what an earlier call has set.

    Raises:
        ValueError: if it was made with another configuration, or none can be used.
    """
    refused = []
    for path in [folder / f"{NEWEST}.new", folder / NEWEST, folder / PREVIOUS]:
        try:
            content = read_checkpoint(path)
            refuse_other_config(content["config"], config, path)
            state: dict[str, Any] = content["state"]
            _check_content(state, path, accept)
        except FileNotFoundError:
            continue
        except Unusable as error:
            refused.append(error)
            continue
        for reason in refused:
            print(f"dbsurf: {reason}; the previous checkpoint is used", file=sys.stderr)
        return state
    if refused:
        reasons = "; ".join(map(str, refused))
        raise ValueError(
            f"no checkpoint in {folder} can be used: {reasons}; without these files the run "
            "starts again"
        )
    return None


class OtherConfiguration(ValueError):
    """The folder holds another run."""


class Unusable(ValueError):
    """A checkpoint that is damaged, of another format, or that this version cannot load."""


def _check_content(
    state: dict[str, Any], path: Path, accept: Callable[[dict[str, Any]], None]
) -> None:
    """Call ``accept`` with ``state``; any error becomes one line."""
    try:
        accept(state)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        # A state of other code can raise anything: torch alone has five kinds.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise Unusable(f"{path} cannot be used: {kind}{reason}") from error


def tidy_checkpoints(folder: Path) -> None:
    """Rename a checkpoint that a killed run had written but not yet renamed."""
    fresh = folder / f"{NEWEST}.new"
    if not fresh.exists():
        return
    try:
        read_checkpoint(fresh)
    except Unusable:
        fresh.unlink()
        return
    _rename(fresh, folder)


def _rename(fresh: Path, folder: Path) -> None:
    newest = folder / NEWEST
    if newest.exists():
        newest.replace(folder / PREVIOUS)
    fresh.replace(newest)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Format number, configuration and state in one file, its checksums verified.

    Raises:
        Unusable: if the file is damaged, changed, of another format or not a checkpoint.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()  # torch.load itself does not look at these checksums
        if broken is not None:
            raise zipfile.BadZipFile(f"wrong checksum of {broken}")
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # damage makes these readers raise all kinds of errors
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unusable(f"{path} is damaged ({reason})") from error
    if not isinstance(content, dict) or not {"config", "state"} <= content.keys():
        raise Unusable(f"{path} is not a checkpoint of a run")
    try:
        check_format(content.get("format"), path)
    except OtherFormat as error:
        raise Unusable(str(error)) from None
    if content.pop("sha256", None) != state_sha256(content):
        raise Unusable(f"{path} cannot be used: it does not match its checksum")
    return content


def refuse_other_config(
    found: Mapping[str, Any], wanted: Mapping[str, Any], place: Path | str
) -> None:
    """Raise if two configurations differ; the error names all fields that differ."""
    differing = [
        f"{name} ({found.get(name)!r} there, {wanted.get(name)!r} here)"
        for name in sorted({*found, *wanted})
        if found.get(name) != wanted.get(name)
    ]
    if differing:
        raise OtherConfiguration(f"{place} is of another configuration: {', '.join(differing)}")


def check_optimiser(optimiser: torch.optim.Optimizer) -> None:
    """Raise unless the optimiser's moments have the shapes of its parameters.

    Torch does not check this, and its fused optimisers write beyond a tensor that is too small.
    """
    for parameter, entries in optimiser.state.items():
        for name, value in entries.items():
            moment = isinstance(value, Tensor) and value.dim() > 0
            if moment and value.shape != parameter.shape:
                shapes = f"{tuple(parameter.shape)}, got {tuple(value.shape)}"
                raise ValueError(f"{name} of an optimiser must have the shape {shapes}")
