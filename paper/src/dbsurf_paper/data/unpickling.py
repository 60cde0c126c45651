"""Safe reading of compressed and pickled files.

The unpacked size of an archive is limited to a multiple of its size. A pickle can run any code when
it is loaded. The readers here only build plain containers, numbers, text, numpy arrays and the
tables of pandas (without pandas); a pickle that refers to anything else is refused before that is
called.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict, defaultdict
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

FREE, RATIO = 64 * 2**20, 100  # a file may unpack to FREE bytes plus RATIO times its size


class Readable(Protocol):
    """An open file, compressed or not."""

    def read(self, size: int, /) -> bytes: ...


class Room:
    """How many bytes may still be unpacked from one file, counted over nested archives.

    Args:
        left: number of bytes.
    """

    def __init__(self, left: int) -> None:
        self.left = self._whole = left

    @classmethod
    def of(cls, size: int) -> Room:
        """The limit for a file of ``size`` bytes: a hundred times that, plus 64 MiB."""
        return cls(FREE + RATIO * size)

    def read(self, file: Readable) -> bytes:
        """The whole content of ``file``.

        Raises:
            ValueError: as soon as the limit is exceeded; the rest is not read.
        """
        data = file.read(self.left + 1)
        self.left -= len(data)
        if self.left < 0:
            raise ValueError(f"it unpacks to more than {self._whole:,} bytes")
        return data


class Refused(ValueError):
    """The pickle refers to something that is not plain data."""


def _encode(text: str, encoding: str) -> bytes:
    """``_codecs.encode``: Python 3 stores bytes this way in pickles for Python 2."""
    if encoding != "latin1":
        raise Refused(f"bytes in a pickle must be encoded as latin1, got {encoding!r}")
    return text.encode("latin1")


def _from_buffer(buffer: bytes, dtype: Any, shape: Any, order: Any) -> Any:
    """``numeric._frombuffer``: numpy stores arrays this way in pickles of protocol 5."""
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


_RECONSTRUCT = np.empty(0).__reduce__()[0]
_SCALAR = np.float64(0).__reduce__()[0]

# Allowed names in a pickle. Old files have the names of numpy's modules before it moved them.
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    **{
        (f"numpy.{core}.multiarray", name): value
        for core in ("core", "_core")
        for name, value in (("_reconstruct", _RECONSTRUCT), ("scalar", _SCALAR))
    },
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "defaultdict"): defaultdict,
    ("_codecs", "encode"): _encode,
    **{
        (module, kind.__name__): kind
        for module in ("builtins", "__builtin__")
        for kind in (dict, list, tuple, set, frozenset, int, float, complex, bool, str, bytes)
    },
}


class RestrictedUnpickler(pickle.Unpickler):
    """An unpickler that builds only objects listed in `ALLOWED`."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise Refused(
                f"a pickle may hold numpy arrays and plain containers only, got {module}.{name}"
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        raise Refused(f"a pickle may not point outside itself, got {pid!r}")


def load(file: BinaryIO) -> Any:
    """The content of a pickle made of numpy arrays and plain containers.

    Text written by Python 2 comes back as bytes.

    Raises:
        ValueError: if the pickle is damaged or refers to anything else. No code of it is run.

    Example:
        >>> import io, pickle
        >>> load(io.BytesIO(pickle.dumps({"labels": [1, 2]})))
        {'labels': [1, 2]}
    """
    try:
        return RestrictedUnpickler(file, encoding="bytes").load()
    except Refused:
        raise
    except Exception as error:  # damage can make an unpickler raise anything
        raise ValueError(f"a pickle is damaged: {type(error).__name__}: {error}") from error


def loads(data: bytes) -> Any:
    """`load` from bytes."""
    return load(io.BytesIO(data))


class Kept:
    """A placeholder for an object: stores its arguments and its state as in the pickle."""

    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> Kept:
        kept = super().__new__(cls)
        kept.arguments, kept.state = arguments, None
        return kept

    def __setstate__(self, state: Any) -> None:
        self.state = state


_STAND_INS: dict[tuple[str, str], type] = {
    ("pandas", "DataFrame"): Kept,
    ("pandas", "Index"): Kept,
    ("pandas", "RangeIndex"): Kept,
    ("pandas", "StringDtype"): Kept,
    ("pandas.arrays", "StringArray"): Kept,
    ("pandas.core.frame", "DataFrame"): Kept,
    ("pandas.core.internals.managers", "BlockManager"): Kept,
    ("pandas.core.indexes.base", "Index"): Kept,
    ("pandas.core.indexes.base", "_new_Index"): Kept,
    ("pandas.core.indexes.range", "RangeIndex"): Kept,
    ("pandas.core.arrays.string_", "StringArray"): Kept,
    ("pandas.core.arrays.string_", "StringDtype"): Kept,
    ("pandas._libs.internals", "_unpickle_block"): Kept,
    ("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked"): Kept,
    ("builtins", "slice"): slice,
    ("__builtin__", "slice"): slice,
}


class _Unpickler(RestrictedUnpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _STAND_INS.get((module, name)) or super().find_class(module, name)


def read_frame(data: bytes) -> dict[str, npt.NDArray[np.generic]]:
    """The columns of a pickled table of numbers and text.

    Raises:
        ValueError: if the pickle holds anything else, or its layout is not known.
    """
    try:
        frame = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        return _columns(frame)
    except Refused:
        raise
    except Exception as error:  # a damaged file can make this code raise anything
        raise ValueError(f"the layout of the pickled table is not known: {error!r}") from error


def _columns(frame: Kept) -> dict[str, npt.NDArray[np.generic]]:
    """The columns by name, from pandas' blocks, in which every row is a column of the table."""
    manager = frame.state.get("_mgr", frame.state.get("_data"))
    if manager.state is None:  # pandas 1.3 and later: blocks and axes are arguments
        blocks, axes = manager.arguments
        pairs = [block.arguments[:2] for block in blocks]
    else:  # before 1.3: they are in the state
        content = manager.state[3]["0.14.1"]
        axes = content["axes"]
        pairs = [(block["values"], block["mgr_locs"]) for block in content["blocks"]]
    labels = axes[0].arguments[1]
    names = _array(labels["data"])
    found: dict[str, npt.NDArray[np.generic]] = {}
    for values, places in pairs:
        for name, column in zip(names[places], np.atleast_2d(_array(values)), strict=True):
            text = column.dtype == object
            found[str(name)] = np.char.encode(column.astype(str)) if text else column
    return found


def _array(values: Any) -> npt.NDArray[np.generic]:
    """A numpy array, or the one inside an array of pandas."""
    if isinstance(values, Kept):
        return next(part for part in values.state if isinstance(part, np.ndarray))
    return np.asarray(values)
