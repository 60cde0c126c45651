"""List, fetch, import or check data sets."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from dbsurf_paper.data import store
from dbsurf_paper.data.catalog import CATALOG
from dbsurf_paper.data.importing import import_files


@dataclass(frozen=True)
class Options:
    """List, fetch, import or check data sets."""

    action: Annotated[
        Literal["list", "fetch", "import", "check"],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="{list,fetch,import,check}"),
    ]
    """list: show all sets. fetch: download. import: take files you have. check: verify hashes."""
    names: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")
    ] = ()
    """Data sets (fetch, check; check without names: all in the folder) or files and folders
    (import)."""
    name: str | None = None
    """import: the set that the files hold, or a new name of your own for other grey images."""
    size: int | None = None
    """import: pixels of a side to which pictures (PNG, JPEG) are scaled; 28 if not given."""
    test: float | None = None
    """import: share of the pictures that become test images; if not given, those in folders named
    test."""
    data_dir: Path | None = None
    """Data folder; by default the one that DBSURF_DATA names."""


PRESETS: dict[str, Options] = {}


def run(options: Options) -> None:
    """Do what ``options.action`` says."""
    folder = store.data_folder(options.data_dir)
    if options.action == "list":
        show(folder)
    elif options.action == "fetch":
        fetch_all(options.names, folder)
    elif options.action == "import":
        if not options.names:
            raise ValueError("names must give at least one file or folder to import, got none")
        files = [Path(text) for text in options.names]
        for name, place in import_files(
            files, folder, options.name, size=options.size, test=options.test
        ):
            missing = store.lacking(name, folder)
            note = f", without {', '.join(missing)}" if missing else ""
            print(f"{name}: {place}{note}")
    else:
        check_all(options.names, folder)


def show(folder: Path) -> None:
    """Print one line for each set: whether it is in the folder, its title and licence."""
    print(f"data folder: {folder}")
    names = [*CATALOG, *store.imported(folder)]
    width = max(map(len, names))
    for name in names:
        place = store.locate(name, folder)
        state = "here   " if place is not None else "missing"
        if place is not None and place.suffix == ".npz" and not zipfile.is_zipfile(place):
            state = "damaged"
        title, licence = "your own", "-"
        if name in CATALOG:
            title, licence = CATALOG[name].title, CATALOG[name].licence
        print(f"{name:<{width}}  {state}  {title}; licence: {licence}")


def fetch_all(names: tuple[str, ...], folder: Path) -> None:
    """Download sets by name, one after the other."""
    from dbsurf_paper.data.fetching import fetch

    if not names:
        raise ValueError("names must give at least one data set to fetch, got none")
    for name in names:
        if name not in CATALOG:
            raise store.missing(name, folder)
    for name in names:
        print(f"{name}: {fetch(name, folder)}")


def check_all(names: tuple[str, ...], folder: Path) -> None:
    """Verify the hashes of sets; without names, of all sets in the folder."""
    every = [*CATALOG, *store.imported(folder)]
    chosen = names or tuple(name for name in every if store.locate(name, folder) is not None)
    if not chosen:
        raise ValueError(f"no data set is in {folder}: `dbsurf data list` shows the known sets")
    bad = []
    for name in chosen:
        try:
            arrays = store.load_arrays(name, folder)
        except ValueError as error:  # the others are checked all the same
            bad.append(str(error))
            continue
        sizes = ", ".join(f"{key} {'x'.join(map(str, a.shape))}" for key, a in arrays.items())
        print(f"{name}: good ({sizes})")
    if bad:
        raise ValueError("; ".join(bad))
