"""Estimators and data sets as the paper writes them."""

from __future__ import annotations

_ESTIMATORS = {
    "dbsurf": "DBsurf",
    "doublecv": "DoubleCV",
    "arms": "ARMS-D",
    "disarm": "DisARM",
    "loorf": "LOORF",
    "mdsurf": "MDsurf",
    "reinforce": "REINFORCE",
    "dbsurf debias=true": "DBsurf debiased",
    "dbsurf alpha=preserve debias=true": "DBsurf preserving",
}
_DATASETS = {
    "fashion-mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "omniglot": "Omniglot",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "imagenet16-120": "ImageNet-16-120",
}

#: The columns of the paper's table 1, in its order.
PAPER_ORDER = ("dbsurf", "doublecv", "arms", "disarm", "loorf")


def estimator_name(label: str) -> str:
    """``dbsurf debias=true`` as *DBsurf debiased*; an unknown one as it is.

    >>> estimator_name("dbsurf alpha=2")
    'DBsurf alpha=2'
    """
    first, *options = label.split(" ")
    return _ESTIMATORS.get(label) or " ".join([_ESTIMATORS.get(first, first), *options])


def dataset_name(name: str) -> str:
    """The data set's name as the paper writes it; an unknown one as it is."""
    return _DATASETS.get(name, name)


def column_order(labels: set[str]) -> list[str]:
    """The paper's columns first and in its order, then the others by name."""
    return [name for name in PAPER_ORDER if name in labels] + sorted(labels - set(PAPER_ORDER))
