"""Images with their classes, from the files in which the sets come."""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from dbsurf_paper import data
from dbsurf_paper.data import assemble, formats, store
from dbsurf_paper.data.catalog import Content
from dbsurf_paper.data.importing import import_files

RANDOM = np.random.default_rng(5)


def small(monkeypatch: pytest.MonkeyPatch, name: str, train: int, test: int, side: int) -> None:
    """Let a set of the catalog be smaller than it is."""
    arrays = {
        "x_train": Content((train, side, side, 3), None),
        "y_train": Content((train,), None),
        "x_test": Content((test, side, side, 3), None),
        "y_test": Content((test,), None),
    }
    entry = dataclasses.replace(data.CATALOG[name], arrays=arrays)
    monkeypatch.setitem(data.CATALOG, name, entry)


def rows(count: int, side: int) -> np.ndarray:
    return RANDOM.integers(0, 256, (count, 3 * side * side), dtype=np.uint8)


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


def images_of(planes: np.ndarray, side: int) -> np.ndarray:
    return planes.reshape(-1, 3, side, side).transpose(0, 2, 3, 1)


def test_cifar_100_from_its_binary_version(tmp_path, monkeypatch):
    small(monkeypatch, "cifar100", 100, 20, 32)
    train, test = rows(100, 32), rows(20, 32)
    fine = {"train": np.arange(100, dtype=np.uint8), "test": np.arange(20, dtype=np.uint8)}
    packed = archive(
        tmp_path / "cifar-100-binary.tar.gz",
        {
            f"cifar-100-binary/{part}.bin": np.column_stack(
                [fine[part] // 5, fine[part], pixels]
            ).tobytes()
            for part, pixels in (("train", train), ("test", test))
        },
    )
    assert [name for name, _ in import_files([packed], tmp_path / "data")] == ["cifar100"]
    found = data.load_labelled("cifar100", tmp_path / "data")
    np.testing.assert_array_equal(found.train, images_of(train, 32))
    np.testing.assert_array_equal(found.test, images_of(test, 32))
    np.testing.assert_array_equal(found.train_labels, np.arange(100))
    assert found.train_labels.dtype == np.int64
    assert found.classes == 100


@pytest.mark.parametrize("protocol", [2, 4])
def test_python_versions_are_read_without_running_them(tmp_path, monkeypatch, protocol):
    small(monkeypatch, "cifar100", 100, 20, 32)
    train, test = rows(100, 32), rows(20, 32)
    contents = {
        "train": {b"data": train, b"fine_labels": list(range(100)), b"filenames": [b"a"] * 100},
        "test": {b"data": test, b"fine_labels": list(range(20)), b"coarse_labels": [0] * 20},
        "meta": {b"fine_label_names": [b"apple"]},
    }
    files = {f"py/{name}": pickle.dumps(value, protocol) for name, value in contents.items()}
    packed = archive(tmp_path / "cifar-100-python.tar.gz", files)
    import_files([packed], tmp_path / "data", "cifar100")
    found = data.load_labelled("cifar100", tmp_path / "data")
    np.testing.assert_array_equal(found.train, images_of(train, 32))
    np.testing.assert_array_equal(found.test_labels, np.arange(20))


def test_cifar_10_from_its_python_version():
    batches = [rows(2, 32) for _ in range(6)]
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    pieces: dict[str, np.ndarray] = {}
    for name, pixels in zip(names, batches, strict=True):
        content = {"data": pixels, "labels": [3, 9]}
        pieces |= formats.parse(f"cifar-10-batches-py/{name}", pickle.dumps(content))
    found = assemble.cifar_batches(pieces)
    np.testing.assert_array_equal(found["x_train"], images_of(np.concatenate(batches[:5]), 32))
    assert found["y_train"].tolist() == [3, 9] * 5
    assert found["y_test"].dtype == np.uint8
    assert assemble.cifar_100(pieces) is None


def test_imagenet_keeps_its_first_120_classes(tmp_path, monkeypatch):
    small(monkeypatch, "imagenet16-120", 20, 3, 16)
    folder = tmp_path / "ImageNet16"
    folder.mkdir()
    kept = []
    for i in range(1, 11):
        pixels = rows(3, 16)
        labels = [i, 500, 120]
        kept.append(pixels[[0, 2]])
        (folder / f"train_data_batch_{i}").write_bytes(
            pickle.dumps({"data": pixels, "labels": labels, "mean": pixels.mean(0)}, 2)
        )
    pixels = rows(4, 16)
    val = {"data": pixels, "labels": np.array([1, 121, 120, 7])}
    (folder / "val_data").write_bytes(pickle.dumps(val))
    import_files([folder], tmp_path / "data", "imagenet16-120")
    found = data.load_labelled("imagenet16-120", tmp_path / "data")
    np.testing.assert_array_equal(found.train, images_of(np.concatenate(kept), 16))
    assert found.train_labels.tolist() == [x for i in range(10) for x in (i, 119)]
    assert found.test_labels.tolist() == [0, 119, 6]
    assert found.classes == 120


def test_a_batch_that_runs_something_is_refused(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.system, ("exit 1",)

    (tmp_path / "val_data").write_bytes(pickle.dumps({"data": Trap()}))
    with pytest.raises(ValueError, match=r"val_data cannot be read: .* got \w+.system"):
        formats.read(tmp_path / "val_data")
    (tmp_path / "list").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(ValueError, match="must be idx, npz"):
        formats.read(tmp_path / "list")


def test_a_set_with_the_same_shapes_is_not_taken_for_another():
    arrays = {"x_train": np.zeros((9, 4, 4, 3)), "y_train": np.arange(9), "x_test": np.zeros(1)}
    arrays["y_test"] = np.zeros(1)
    assert assemble.cifar_100(arrays) is None
    assert assemble.imagenet16_120(arrays) is None
    assert assemble.imagenet16_120({}) is None
    assert assemble.cifar_100({}) is None


def test_digits_have_labels_in_the_order_of_their_images():
    found = data.load_labelled("digits")
    assert found.train_labels[:12].tolist() == [*range(10), 0, 1]
    assert np.bincount(found.test_labels).tolist() == [100] * 10
    # Ones are the digits with the least ink, in the mean.
    ink = [found.train[found.train_labels == digit].mean() for digit in range(10)]
    assert int(np.argmin(ink)) == 1


def test_real_cifar_has_its_published_labels():
    if os.environ.get(store.VARIABLE) is None or store.locate("cifar10-subset") is None:
        pytest.skip("cifar10-subset is not on this machine: DBSURF_DATA names no folder with it")
    found = data.load_labelled("cifar10-subset")
    assert found.train_labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert found.test_labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([0, 1, 10], r"train labels of digits must lie in 0 to 9 \(10 classes\), got 0 to 10"),
        ([0, 1], r"train labels of digits must be 3, one an image, got \(2,\)"),
    ],
)
def test_classes_that_do_not_fit_are_named(monkeypatch, labels, reason):
    entry = dataclasses.replace(
        data.CATALOG["digits"],
        split=lambda arrays: (arrays["images"][:3], arrays["images"][:3]),
        labels=lambda arrays: (np.array(labels), np.array(labels)),
    )
    monkeypatch.setitem(data.CATALOG, "digits", entry)
    with pytest.raises(ValueError, match=reason):
        data.load_labelled("digits")


def test_sets_without_labels_say_so(tmp_path):
    with pytest.raises(ValueError, match="dataset must be a set with labels, got omniglot"):
        data.load_labelled("omniglot", tmp_path)
    with pytest.raises(ValueError, match="dataset must be one of cifar10.* got 'mnits'"):
        data.load_labelled("mnits", tmp_path)
    own = RANDOM.integers(0, 256, (3, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "given.npz", x_train=own, x_test=own)
    import_files([tmp_path / "given.npz"], tmp_path / "data", "own")
    with pytest.raises(ValueError, match="of the catalog that has labels, got 'own'"):
        data.load_labelled("own", tmp_path / "data")
