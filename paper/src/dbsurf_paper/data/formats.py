"""Reads arrays from idx, npz, mat, PNG and CSV files and archives; the content tells the format.

No code from a file is ever run: npz files are read without pickles, and pickles (CIFAR batches,
pandas tables, NATS-Bench records) by readers that build nothing but arrays and containers
(`dbsurf_paper.data.unpickling`).
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from dbsurf_paper.data import nasbench, unpickling
from dbsurf_paper.data.unpickling import Room

Arrays = dict[str, npt.NDArray[np.generic]]

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
CIFAR_RECORD = 1 + 3 * 32 * 32
CIFAR_100_RECORD = 1 + CIFAR_RECORD


def read(path: Path) -> Arrays:
    """All arrays of a file, or of all files of a folder, by name.

    Raises:
        ValueError: if the file is damaged or its format is not known.
    """
    if path.is_dir():
        official = nasbench.find_folder(path)
        if official is not None:
            return nasbench.read_folder(official)
        found: Arrays = {}
        for file in sorted(path.iterdir()):
            if file.is_file():
                found |= read(file)
        return found
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    data = path.read_bytes()
    try:
        return parse(path.name, data)
    except MemoryError as error:
        raise ValueError(f"{path} cannot be read: it does not fit into memory") from error
    except Exception as error:  # a damaged file can make any of these readers raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} cannot be read: {reason}") from error


def parse(name: str, data: bytes) -> Arrays:
    """The arrays in the content of a file; an array without a name of its own gets ``name``."""
    found = parse_known(name, data, Room.of(len(data)))
    if found is None:
        raise ValueError(
            f"{name} must be idx, npz, mat, png, csv, a CIFAR batch, a pandas table or an archive "
            "of these, got another format"
        )
    return found


def parse_known(name: str, data: bytes, room: Room) -> Arrays | None:
    """As `parse`, but None if the format is not known.

    Args:
        name: name of the file, or of a member of an archive.
        data: its content.
        room: how many bytes may still be unpacked.
    """
    for recognised, reader in READERS:
        if recognised(name, data):
            return reader(name, data, room)
    return None


def _gzip(name: str, data: bytes, room: Room) -> Arrays | None:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return parse_known(name.removesuffix(".gz"), room.read(file), room)


def _npz(name: str, data: bytes, room: Room) -> Arrays:
    found: Arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                found[member.filename.removesuffix(".npy")] = _npy(member.filename, file, room)
    return found


def _npy(name: str, file: IO[bytes], room: Room) -> npt.NDArray[np.generic]:
    """One array. (`numpy.load` would allocate memory for any shape that the header claims.)"""
    version = np.lib.format.read_magic(file)
    headers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in headers:
        raise ValueError(f"{name} must be of version 1.0 or 2.0 of the npy format, got {version}")
    shape, columns_first, dtype = headers[version](file)
    if dtype.hasobject:
        raise ValueError(f"{name} must hold numbers or text, got Python objects")
    content = bytearray(room.read(file))
    if len(content) != math.prod(shape) * dtype.itemsize:
        claimed = f"{'x'.join(map(str, shape))} values of {dtype}"
        raise ValueError(f"{name} must hold {claimed}, got {len(content)} bytes")
    values: npt.NDArray[np.generic] = np.frombuffer(content, dtype)
    return values.reshape(shape, order="F" if columns_first else "C")


def _idx(name: str, data: bytes, room: Room) -> Arrays:
    kind, dimensions = data[2], data[3]
    if kind not in IDX_TYPES:
        raise ValueError(f"{name} has the unknown idx type {kind:#x}")
    shape = np.frombuffer(data, ">u4", dimensions, offset=4)
    values = np.frombuffer(data, IDX_TYPES[kind], offset=4 + 4 * dimensions)
    if values.size != math.prod(map(int, shape)):
        raise ValueError(f"{name} must hold {'x'.join(map(str, shape))} values, got {values.size}")
    return {name: values.reshape(shape)}


def _mat(name: str, data: bytes, room: Room) -> Arrays:
    from scipy.io import loadmat

    found = loadmat(io.BytesIO(data))
    return {key: value for key, value in found.items() if isinstance(value, np.ndarray)}


def _png(name: str, data: bytes, room: Room) -> Arrays:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as picture:
        return {name: np.asarray(picture)}


def _csv(name: str, data: bytes, room: Room) -> Arrays:
    """One array if there are only numbers; with a header one for each column, ``name/column``."""
    first, _, _ = data.partition(b"\n")
    if not re.search(rb"[A-Za-z]{2}", first):
        return {name: np.loadtxt(io.BytesIO(data), delimiter=",", ndmin=2)}
    titles, *rows = csv.reader(io.StringIO(data.decode()))
    if any(len(row) != len(titles) for row in rows):
        raise ValueError(f"every line of {name} must have {len(titles)} cells")
    columns = zip(*rows, strict=True) if rows else ((),) * len(titles)
    return {
        f"{name}/{title}": _column(column) for title, column in zip(titles, columns, strict=True)
    }


def _column(cells: tuple[str, ...]) -> npt.NDArray[np.generic]:
    """An array of numbers if all cells are numbers, otherwise of text."""
    try:
        return np.array(cells, np.float64)
    except ValueError:
        return np.char.encode(np.array(cells))


def _frame(name: str, data: bytes, room: Room) -> Arrays:
    return {f"{name}/{title}": column for title, column in unpickling.read_frame(data).items()}


def _labels(name: str, data: bytes, room: Room) -> Arrays:
    return {name: np.asarray(json.loads(data))}


def _cifar(name: str, data: bytes, room: Room) -> Arrays:
    return {name: np.frombuffer(data, np.uint8).reshape(-1, CIFAR_RECORD)}


def _cifar_100(name: str, data: bytes, room: Room) -> Arrays:
    return {name: np.frombuffer(data, np.uint8).reshape(-1, CIFAR_100_RECORD)}


def _batch(name: str, data: bytes, room: Room) -> Arrays | None:
    """A dictionary of arrays and lists of numbers; each becomes ``FILE/KEY``."""
    content = unpickling.loads(data)
    if not isinstance(content, dict):
        return None
    found: Arrays = {}
    for key, value in content.items():
        array = np.asarray(value) if isinstance(value, list | np.ndarray) else np.empty(0, object)
        if array.dtype.kind in "iuf":
            text = key.decode("latin1") if isinstance(key, bytes) else str(key)
            found[f"{name}/{text}"] = array
    return found


def _is_cifar_100(name: str, data: bytes) -> bool:
    return name.endswith(("train.bin", "test.bin")) and len(data) % CIFAR_100_RECORD == 0


def _tar(name: str, data: bytes, room: Room) -> Arrays:
    found: Arrays = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                # Archives also hold read-me files and code, which are skipped.
                found |= parse_known(member.name, room.read(content), room) or {}
    return found


def _is_tar(name: str, data: bytes) -> bool:
    return data[257:262] == b"ustar"


Recognised = Callable[[str, bytes], bool]
READERS: list[tuple[Recognised, Callable[[str, bytes, Room], Arrays | None]]] = [
    (lambda name, data: data[:2] == b"\x1f\x8b", _gzip),
    (lambda name, data: data[:4] == b"PK\x03\x04", _npz),
    (_is_tar, _tar),
    (lambda name, data: data[:8] == b"\x89PNG\r\n\x1a\n", _png),
    (lambda name, data: data[:6] == b"MATLAB", _mat),
    (lambda name, data: data[:2] == b"\0\0" and name.endswith(("ubyte", "idx")), _idx),
    (lambda name, data: name.endswith(".pd") and data[:1] == b"\x80", _frame),
    (lambda name, data: data[:1] == b"\x80" and data[1:2] in b"\2\3\4\5", _batch),
    (_is_cifar_100, _cifar_100),
    (lambda name, data: name.endswith(".bin") and len(data) % CIFAR_RECORD == 0, _cifar),
    (lambda name, data: name.endswith("_lables.json"), _labels),
    (lambda name, data: name.endswith(".csv"), _csv),
]
