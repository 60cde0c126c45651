"""Checkpoints: written atomically, the previous one kept, read without running code."""

from __future__ import annotations

import io
import math
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dbsurf_paper.files import write_atomically

NEWEST, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"


def save_checkpoint(folder: Path, config: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Save ``state``, made of tensors, numbers, strings, lists and dictionaries.

    The new file is complete on the disk before the old one is touched; the old one stays as
    ``checkpoint.previous.pt``. After a full disk or a kill at any moment one of them is complete.
    """
    buffer = io.BytesIO()
    torch.save({"config": dict(config), "state": dict(state)}, buffer)
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
        accept: loads the state, or raises if it is not a state of this run; then the previous
            checkpoint is tried. So it must not rely on what an earlier call has set.

    Raises:
        ValueError: if it was made with another configuration, or none can be used.
    """
    refused = []
    for path in [folder / f"{NEWEST}.new", folder / NEWEST, folder / PREVIOUS]:
        try:
            content = read_checkpoint(path)
            refuse_other_config(content["config"], config, path)
            state: dict[str, Any] = content["state"]
            check_content(state, path, accept)
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
    """A checkpoint that is damaged, or whose content is not what a run saves."""


def check_content(
    state: dict[str, Any], path: Path, accept: Callable[[dict[str, Any]], None]
) -> None:
    """Call ``accept`` with ``state``; any error becomes one line."""
    bad = next(_nan_tensors(state), None)
    if bad is not None:
        raise Unusable(f"{path} cannot be used: {bad} holds NaN")
    try:
        accept(state)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        # Loading a state of something else can raise anything: torch alone has five kinds.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise Unusable(f"{path} cannot be used: {kind}{reason}") from error


def _nan_tensors(content: Any, name: str = "") -> Iterator[str]:
    """Names of the tensors in nested dictionaries and lists that hold NaN."""
    if isinstance(content, Tensor):
        if content.is_floating_point() and bool(content.isnan().any()):
            yield name
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from _nan_tensors(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, (list, tuple)):
        for place, value in enumerate(content):
            yield from _nan_tensors(value, f"{name}[{place}]")


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
    """Configuration and state in one file, its checksums verified.

    Raises:
        Unusable: if the file is damaged or not a checkpoint.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()  # torch.load itself does not look at the checksums
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
    if not isinstance(content["config"], dict) or not isinstance(content["state"], dict):
        raise Unusable(f"{path} is not a checkpoint of a run")
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


# --- checks of a loaded state -----------------------------------------------------------------


def check_layout(found: Any, wanted: Any, name: str = "") -> None:
    """Raise unless ``found`` has the entries of ``wanted``, tensors of the same shape and type.

    Args:
        found: a state that was loaded.
        wanted: the state of a trainer before its first step; empty entries are not compared.
        name: the place inside the state, for error messages.
    """
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            raise ValueError(f"{name} must be a dictionary, got {type(found).__name__}")
        lacking = [str(key) for key in wanted if key not in found]
        if lacking:
            raise ValueError(f"{name or 'the state'} lacks {', '.join(lacking)}")
        for key, value in wanted.items():
            check_layout(found[key], value, f"{name}.{key}" if name else str(key))
    elif isinstance(wanted, Tensor):
        if not isinstance(found, Tensor) or (found.dtype != wanted.dtype):
            raise ValueError(f"{name} must be a tensor of {wanted.dtype}")
        if wanted.numel() and found.shape != wanted.shape:
            shapes = f"{tuple(wanted.shape)}, got {tuple(found.shape)}"
            raise ValueError(f"{name} must have the shape {shapes}")
    elif isinstance(wanted, int) and not isinstance(wanted, bool) and type(found) is not int:
        raise ValueError(f"{name} must be an integer, got {found!r}")


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


def check_rows(rows: Any, steps: int) -> None:
    """Raise unless ``rows`` can be the metrics of a run of ``steps`` steps."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("the rows of metrics must be a list of dictionaries")
    for row in rows:
        if row.keys() != rows[0].keys():
            raise ValueError("the rows of metrics must all have the same columns")
        for name, value in row.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (value is None or (number and math.isfinite(value))):
                raise ValueError(f"{name} in the metrics must be a finite number, got {value!r}")
    done = [row.get("step") for row in rows]
    if done[0] != 0 or done != sorted(set(done)) or done[-1] > steps:
        raise ValueError(f"the steps of the metrics must go from 0 to at most {steps}")
