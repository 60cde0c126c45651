"""Pickles are read without running anything in them."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from dbsurf_paper.data import unpickling


class Trap:
    """Unpickled in the ordinary way, it calls what it was made of."""

    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self):
        function, *arguments = self.call
        return function, tuple(arguments)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_containers_come_back(protocol):
    content = {
        "data": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "labels": [1, 2, (3, None, True)],
        "scalar": np.float32(2.5),
        "bytes": b"\x00\xff",
        "ordered": OrderedDict(a=1, b={4.5, 6}),
        "objects": np.array([1, "x", None], dtype=object),
    }
    found = unpickling.loads(pickle.dumps(content, protocol))
    assert found.keys() == content.keys()
    for name, value in content.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype
        else:
            assert found[name] == value


def test_python_2_text_comes_back_as_bytes():
    assert unpickling.loads(b"\x80\x02}U\x04dataU\x03abcs.") == {b"data": b"abc"}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "call",
    [(os.system, "exit 1"), (eval, "1/0"), (getattr, "x", "y"), (open, "/etc/hosts")],
    ids=str,
)
def test_a_malicious_pickle_is_refused_before_it_runs(call, protocol, monkeypatch):
    poison = pickle.dumps({"data": np.zeros(2), "labels": [Trap(*call)]}, protocol)
    with pytest.raises(ValueError, match=f"plain containers only, got .*{call[0].__name__}"):
        unpickling.loads(poison)


def test_a_malicious_array_element_is_refused():
    poison = pickle.dumps(np.array([Trap(os.system, "exit 1")], dtype=object))
    with pytest.raises(ValueError, match="plain containers only, got .*system"):
        unpickling.loads(poison)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "damaged"),
        (pickle.dumps({"data": np.zeros(9)})[:-20], "damaged"),
        (b"hello", "damaged"),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00xX\x05\x00\x00\x00utf-8\x86R.", "latin1"),
        (b"\x80\x02X\x01\x00\x00\x00xQ.", "outside itself"),
    ],
)
def test_damaged_pickles_are_value_errors(data, reason):
    with pytest.raises(ValueError, match=reason):
        unpickling.loads(data)
