"""Cells as integers, strings and indices; and which of them are the same function."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from dbsurf_paper.experiments.nas import space

DATA = Path(os.environ.get("DBSURF_DATA", "-"))
TABLE, SOURCE = DATA / "nasbench201.npz", DATA / "nasbench201-sources" / "nats_bench.csv"
needs_table = pytest.mark.skipif(not TABLE.is_file(), reason="nasbench201.npz is not here")
needs_source = pytest.mark.skipif(not SOURCE.is_file(), reason="nats_bench.csv is not here")

# Known from the benchmark: its first cell, the best of CIFAR-10 and the best of CIFAR-100.
KNOWN = {
    0: "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+"
    "|nor_conv_1x1~0|skip_connect~1|skip_connect~2|",
    6111: "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+"
    "|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|",
    9930: "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+"
    "|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|",
}


def test_all_cells_are_there_once():
    cells = space.cells()
    assert cells.shape == (15_625, 6)
    assert len(np.unique(cells, axis=0)) == space.SIZE
    assert len({space.to_string(cell) for cell in cells}) == space.SIZE


def test_every_cell_survives_every_conversion():
    for index, cell in enumerate(map(tuple, space.cells().tolist())):
        assert space.from_index(index) == cell
        assert space.to_index(cell) == index


def test_known_cells():
    for index, text in KNOWN.items():
        assert space.to_string(space.from_index(index)) == text


@needs_table
def test_the_benchmarks_own_order_and_strings():
    with np.load(TABLE) as table:
        np.testing.assert_array_equal(space.cells(), table["ops"])
        strings = [space.to_string(cell) for cell in space.cells()]
        assert strings == [text.decode() for text in table["arch"]]
        assert tuple(table["op_names"]) == space.OPERATIONS


def test_bad_cells_and_indices_are_refused():
    for cell in ((0,) * 5, (0,) * 7, (0, 0, 0, 0, 0, 5), (-1, 0, 0, 0, 0, 0)):
        with pytest.raises(ValueError, match="six|6 integers from 0 to 4"):
            space.to_index(cell)
        with pytest.raises(ValueError, match="6 integers from 0 to 4"):
            space.to_string(cell)
    for index in (-1, space.SIZE):
        with pytest.raises(ValueError, match="between 0 and 15624"):
            space.from_index(index)


# --- the same function ----------------------------------------------------------------------------


def test_there_are_6466_classes_by_the_benchmarks_names_and_4930_when_sums_are_opened():
    named, opened = space.classes(), space.classes(space.simplified)
    assert len(np.unique(named)) == 6_466
    assert len(np.unique(opened)) == 4_930
    # Opening sums only ever joins classes: cells of one name are in one class of the other.
    np.testing.assert_array_equal(opened, opened[named])
    # A class is called by its lowest index.
    assert (named <= np.arange(space.SIZE)).all()
    np.testing.assert_array_equal(named[named], named)


@needs_source
def test_names_are_the_benchmarks_own():
    with SOURCE.open(newline="") as file:
        published = [row["UniqueString"] for row in csv.DictReader(file)]
    assert published == [space.benchmark_name(cell) for cell in space.cells()]


def test_what_cannot_reach_the_output_does_not_matter():
    # Nodes 1 and 2 lead nowhere: whatever feeds them, the cell is a skip from input to output.
    bare = space.simplified((0, 0, 0, 1, 0, 0))
    assert bare == space.simplified((3, 2, 4, 1, 0, 0))
    assert bare != space.simplified((3, 2, 4, 2, 0, 0))


def test_exchanging_the_inner_nodes_changes_nothing():
    # Without an edge between nodes 1 and 2 their parts can be exchanged.
    for first, second in ((2, 3), (4, 3), (1, 2)):
        one = (first, second, 0, 0, 4, 2)
        other = (second, first, 0, 0, 2, 4)
        assert space.simplified(one) == space.simplified(other)


def test_a_cell_without_a_path_computes_nothing():
    assert space.simplified((3, 3, 3, 0, 0, 0)) == ()
    assert space.simplified((0, 0, 3, 0, 3, 3)) == ()
