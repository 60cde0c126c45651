"""Accuracies are asked for by data set, split and epochs, all three."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dbsurf_paper.experiments.nas import searches as paper
from dbsurf_paper.experiments.nas import space
from dbsurf_paper.experiments.nas.landscape import (
    CHANCE,
    DATASETS,
    Table,
    load_table,
    synthetic_columns,
)

DATA = Path(os.environ.get("DBSURF_DATA", "-"))
needs_table = pytest.mark.skipif(
    not (DATA / "nasbench201.npz").is_file(), reason="nasbench201.npz is not here"
)


@needs_table
@pytest.mark.parametrize(
    ("dataset", "split", "best", "index"),
    [
        ("cifar10", "test", 94.37, 13714),
        ("cifar100", "test", 73.51, 9930),
        ("imagenet16-120", "test", 47.31, 857),
        ("cifar10", "val", 91.61, 6111),
        ("cifar100", "val", 73.49, 9930),
        ("imagenet16-120", "val", 46.73, 10676),
    ],
)
def test_published_optima(dataset, split, best, index):
    found = load_table(dataset, DATA).accuracies(dataset=dataset, split=split, epochs=200)
    assert round(found.max(), 2) == best
    assert found[index] == found.max()
    if split == "test":
        assert best == paper.OPTIMUM[dataset]


@needs_table
def test_the_papers_three_numbers_are_one_cell():
    table = load_table("cifar10", DATA)
    for dataset, accuracy in paper.DBSURF.items():
        found = table.accuracy(9930, dataset=dataset, split="test", epochs=200)
        assert round(found, 2) == accuracy


@needs_table
def test_twelve_epochs_are_not_two_hundred():
    table = load_table("cifar10", DATA)
    for dataset in DATASETS:
        short = table.accuracies(dataset=dataset, split="val", epochs=12)
        long = table.accuracies(dataset=dataset, split="val", epochs=200)
        assert short.max() < long.max() - 5
        assert table.record(5, dataset) == {
            "val_12": short[5],
            "val_200": long[5],
            "test_200": table.accuracy(5, dataset=dataset, split="test", epochs=200),
        }


def test_everything_must_be_named():
    table = load_table("synthetic")
    with pytest.raises(TypeError):
        table.accuracies(dataset="synthetic", split="val")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        table.accuracy(3, dataset="synthetic", epochs=12)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"dataset": "cifar10"}, "dataset must be one of synthetic, got 'cifar10'"),
        ({"split": "train"}, "split must be val or test, got 'train'"),
        ({"epochs": 90}, "epochs must be 12 or 200, got 90"),
    ],
)
def test_what_is_not_there_is_refused(words, reason):
    wanted = {"dataset": "synthetic", "split": "val", "epochs": 12} | words
    with pytest.raises(ValueError, match=reason):
        load_table("synthetic").accuracies(**wanted)


def test_a_table_without_twelve_epochs_says_so():
    column = np.zeros(space.SIZE)
    table = Table("NAS-Bench-201", {("cifar10", "test", 200): column})
    with pytest.raises(ValueError, match="no val accuracies of cifar10 after 12 epochs"):
        table.accuracies(dataset="cifar10", split="val", epochs=12)
    assert table.record(0, "cifar10") == {"val_12": None, "val_200": None, "test_200": 0.0}


def test_unknown_and_missing_tables(tmp_path):
    with pytest.raises(ValueError, match="one of cifar10, .*, synthetic, got 'mnist'"):
        load_table("mnist", tmp_path)
    with pytest.raises(ValueError, match="nasbench201 is not in .*--dataset synthetic needs none"):
        load_table("cifar10", tmp_path)


def test_records_of_nats_bench_serve_where_the_table_is_not_here(tmp_path):
    from dbsurf_paper.data import store
    from dbsurf_paper.data.nasbench import COLUMNS_OF_RECORDS

    arrays = {"nats_arch": np.array([space.to_string(cell) for cell in space.cells()], "S95")}
    for place, name in enumerate(COLUMNS_OF_RECORDS):
        arrays[f"nats_{name}"] = np.full(space.SIZE, place, np.float32)
    store.save("nats-bench", arrays, tmp_path)
    table = load_table("cifar100", tmp_path)
    found = table.accuracy(7, dataset="cifar100", split="test", epochs=12)
    assert found == COLUMNS_OF_RECORDS.index("cifar100_test_12")


def test_the_synthetic_landscape_is_the_same_every_time_and_has_structure():
    first, again = synthetic_columns(), synthetic_columns.__wrapped__()
    for key, column in first.items():
        np.testing.assert_array_equal(column, again[key])
        assert column.shape == (space.SIZE,)
        assert column.min() >= 0
        assert column.max() <= 100
    short, test = first["synthetic", "val", 12], first["synthetic", "test", 200]
    assert 0.7 < np.corrcoef(short, test)[0, 1] < 0.999  # short training tells much, not all
    dead = [not space.simplified(cell) for cell in space.cells()]
    assert (test[dead] == CHANCE).all()


def test_papers_table_is_whole():
    assert len(paper.TABLE_2) == 9
    assert paper.TABLE_2["discrete", "DSNAS"]["cifar100"] == (31.01, 16.38)
    assert paper.DBSURF == {"cifar10": 94.36, "cifar100": 73.51, "imagenet16-120": 46.34}
