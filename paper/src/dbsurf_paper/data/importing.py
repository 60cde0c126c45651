"""Imports files of the user. Data sets are recognised by their content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dbsurf_paper.data import assemble, formats, pictures, store
from dbsurf_paper.data.catalog import CATALOG, Arrays, sha256

FEW = 5  # names in an error message


def import_files(
    files: Sequence[Path],
    folder: Path,
    name: str | None = None,
    *,
    size: int | None = None,
    test: float | None = None,
) -> list[tuple[str, Path]]:
    """Recognise sets in files, check them, and write them into the data folder.

    Args:
        files: idx, idx.gz, npz, mat, csv or PNG files, folders or tar archives of such; an
            official NATS-Bench folder.
        folder: the data folder.
        name: the set that the files must hold. A name that is not in the catalog imports them
            as a set of your own: arrays x_train and x_test (or train and test, data and
            testdata) of square images, or pictures.
        size: pixels of a side, for pictures; see `pictures.read_pictures`.
        test: share of the pictures that are test images.

    Returns:
        Name and file of every set that was found.
    """
    if name is not None:
        store.check_name(name)
    shown = ", ".join(str(file) for file in files)
    for file in files:
        if not file.exists():
            raise ValueError(f"{file} does not exist")
    if name is not None and name not in CATALOG and pictures.all_pictures(files):
        arrays = store.as_images(pictures.read_pictures(files, size, test), Path(shown))
        return [(name, store.save(name, arrays, folder))]
    if size is not None or test is not None:
        raise ValueError(
            f"--size and --test must go with --name and PNG or JPEG files only, got {shown}"
        )
    pieces: Arrays = {}
    for file in files:
        pieces |= formats.read(file)
    pieces.pop(store.RECORDED, None)
    if name is not None and name not in CATALOG:
        return [(name, store.save(name, _own(pieces, shown), folder))]
    if name is not None:
        return [(name, store.save(name, _certain(name, pieces, shown), folder))]
    found = recognise(pieces)
    if not found:
        raise ValueError(
            f"no known data set was recognised in {shown}; "
            "--name NAME imports other images under a name of your own"
        )
    return [(found_name, store.save(found_name, arrays, folder)) for found_name, arrays in found]


def recognise(pieces: Arrays) -> list[tuple[str, Arrays]]:
    """Sets of which all arrays are there with the right hash (if it is not known: shape)."""
    found = []
    for name, entry in CATALOG.items():
        arrays = entry.assemble(pieces)
        if arrays is not None and all(
            arrays[key].shape == content.shape and content.sha256 in (None, sha256(arrays[key]))
            for key, content in entry.expected(arrays).items()
        ):
            found.append((name, arrays))
    whole = {name for name, _ in found}
    return [pair for pair in found if not (pair[0] == "cifar10-subset" and "cifar10" in whole)]


def _certain(name: str, pieces: Arrays, shown: str) -> Arrays:
    entry = CATALOG[name]
    arrays = entry.assemble(pieces)
    if arrays is None:
        raise ValueError(f"{shown} does not hold all of {name}: got {listed(pieces)}")
    return store.checked(arrays, entry.expected(arrays), Path(shown))


def listed(names: Iterable[str]) -> str:
    """A few names, and how many more there are.

    >>> listed(["a", "b"]), listed([])
    ('a, b', 'nothing')
    >>> listed(f"{i}.png" for i in range(1_200))
    '0.png, 1.png, 2.png, 3.png, 4.png and 1,195 others'
    """
    every = list(names)
    few = ", ".join(every[:FEW]) or "nothing"
    return few if len(every) <= FEW else f"{few} and {len(every) - FEW:,} others"


def _own(pieces: Arrays, shown: str) -> Arrays:
    arrays = assemble.chardata(pieces)
    if arrays is None:
        raise ValueError(
            f"{shown} must hold arrays x_train and x_test, or pictures, got {listed(pieces)}"
        )
    return store.as_images(arrays, Path(shown))
