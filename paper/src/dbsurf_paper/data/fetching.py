"""Downloading data sets."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pooch
from requests import RequestException

from dbsurf_paper.data import formats, store
from dbsurf_paper.data.catalog import CATALOG, Arrays


def fetch(name: str, folder: Path) -> Path:
    """Download a set of the catalog into the data folder; returns its file.

    Each file is downloaded under a temporary name and renamed when it is complete; an interrupted
    fetch continues with the files that are missing. Then the hashes of the unpacked arrays are
    checked, and the downloaded files are removed, whether the check succeeds or fails: the next
    attempt downloads them again.
    """
    entry = CATALOG[name]
    if store.locate(name, folder) is not None:
        store.load_arrays(name, folder)  # already there: check it
        place = store.locate(name, folder)
        assert place is not None
        return place
    if not entry.urls:
        raise store.missing(name, folder)
    downloads = folder / "downloads" / name
    downloads.mkdir(parents=True, exist_ok=True)
    pieces: Arrays = {}
    files = [download(url, downloads) for url in entry.urls]
    try:
        for file in files:
            check_file(file, entry.sources.get(file.name))
            pieces |= formats.read(file)
        arrays = entry.assemble(pieces)
        if arrays is None:
            raise ValueError(f"{', '.join(entry.urls)} did not give all of {name}")
        good = store.checked(arrays, entry.expected(arrays), Path(entry.urls[0]))
        place = store.save(name, good, folder)
    finally:
        for file in files:
            file.unlink()
        downloads.rmdir()
    return place


def check_file(file: Path, wanted: str | None) -> None:
    """Raise if a downloaded file does not have its known hash."""
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if wanted not in (None, found):
        raise ValueError(f"{file.name} is corrupt: its sha256 must be {wanted}, got {found}")


def download(url: str, folder: Path) -> Path:
    """Download one file, with a progress bar on terminals; skipped if it is already there."""
    pooch.get_logger().setLevel("WARNING")
    address = urlsplit(url)
    target = Path(address.path).name
    get = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30)
    try:
        found = pooch.retrieve(url, known_hash=None, fname=target, path=folder, downloader=get)
    except RequestException as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{url} could not be downloaded: {reason}") from error
    return Path(found)
