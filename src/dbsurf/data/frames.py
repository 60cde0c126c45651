"""Reading a pickled pandas table without pandas, and without running what is in the pickle.

The classes that such a pickle names are stood in for by ones that only keep what they are given.
Two layouts are known: that of pandas before 1.3 and that of pandas since.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt

from dbsurf.data.unpickling import Refused, RestrictedUnpickler


class Kept:
    """Stands in for an object: keeps the arguments and the state that the pickle has for it."""

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
        ValueError: if the pickle holds anything else, or is laid out in a way that is not known.
    """
    try:
        frame = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        return _columns(frame)
    except Refused:
        raise
    except Exception as error:  # what is in the file may make any of this fail in any way
        raise ValueError(f"no pickled table of a known layout: {error!r}") from error


def _columns(frame: Kept) -> dict[str, npt.NDArray[np.generic]]:
    """Blocks of rows, each row a column of the table, put under the columns' names."""
    manager = frame.state.get("_mgr", frame.state.get("_data"))
    if manager.state is None:  # since 1.3: blocks and axes are arguments
        blocks, axes = manager.arguments
        pairs = [block.arguments[:2] for block in blocks]
    else:  # before: everything is in the state, for the sake of files older still
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
    """An array as it is, or the one inside an array of pandas' own."""
    if isinstance(values, Kept):
        return next(part for part in values.state if isinstance(part, np.ndarray))
    return np.asarray(values)
