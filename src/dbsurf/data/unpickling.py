"""Reading pickles without running what is in them.

Some public sets come as pickles, which are programs. This reader knows plain containers, numbers,
text and numpy arrays; a pickle that names anything else is refused before that is called.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict, defaultdict
from typing import Any, BinaryIO

import numpy as np


class Refused(ValueError):
    """The pickle is more than data."""


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes into a pickle that Python 2 could read: ``_codecs.encode``."""
    if encoding != "latin1":
        raise Refused(f"bytes in a pickle must be encoded as latin1, got {encoding!r}")
    return text.encode("latin1")


def _from_buffer(buffer: bytes, dtype: Any, shape: Any, order: Any) -> Any:
    """How numpy writes an array into a pickle of protocol 5: ``numeric._frombuffer``."""
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


_RECONSTRUCT = np.empty(0).__reduce__()[0]
_SCALAR = np.float64(0).__reduce__()[0]

# What a name in a pickle stands for; numpy has moved its modules, files keep the old names.
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
    """Builds only what `ALLOWED` names."""

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
        ValueError: if the pickle is damaged or names anything else; nothing of it has run then.

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
