"""Names, colours and dashes of estimators, as each class declares them, and names of data sets.

A *label* is an estimator's name and its options as one string, ``dbsurf debias=true``: runs,
tables and figures are joined by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import dbsurf
from dbsurf.estimators import read_call
from dbsurf_paper.runs.options import named_values

# Okabe and Ito's palette, which colour-blind readers can tell apart.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"
SPARE = ("#A50026", "#4D9221", "#5E4FA2", "#C51B7D", "#35978F", "#8C510A", "#3288BD", "#525252")
SEQUENCE = (BLACK, BLUE, SKY, GREEN, ORANGE, VERMILION)
DASHES = ("-", "--", "-.", ":")
FEW = 2  # variants outside the table that are told from their estimator by dashes
IN_FILES = str.maketrans(" =:", "---")  # what a label has and a file's name should not


def label(estimator: str, options: Iterable[str] | Mapping[str, Any] = ()) -> str:
    """The label of an estimator with its options, given as texts or as values.

    >>> label("dbsurf", ["alpha=preserve", "debias=true"])
    'dbsurf alpha=preserve debias=true'
    >>> label("dbsurf", {"alpha": "preserve", "debias": True})
    'dbsurf alpha=preserve debias=true'
    """
    if isinstance(options, Mapping):
        options = option_words(options)
    return " ".join([estimator, *options])


def option_words(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Options of an estimator as NAME=VALUE.

    >>> option_words({"alpha": "preserve", "debias": True})
    ('alpha=preserve', 'debias=true')
    """
    return tuple(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in options.items()
    )


def call_label(call: str) -> str:
    """The label of an estimator that is written as a call; n is not part of a label.

    >>> call_label('DBsurf(4, alpha="preserve", debias=True)')
    'dbsurf alpha=preserve debias=true'
    >>> call_label('QuadraticCV(3, uses="values")')
    'quadraticcv uses=values'
    """
    name, _, options = read_call(call)
    return label(name if ":" in name else name.lower(), options)


def file_name(estimator: str, options: Iterable[str]) -> str:
    """The label as a part of a file's name: ``dbsurf-debias-true``."""
    return label(estimator, options).translate(IN_FILES)


@dataclass(frozen=True)
class Variant:
    """An estimator with its options, as experiments use it and as readers know it.

    Attributes:
        estimator: its name in `dbsurf.get`.
        options: as NAME=VALUE.
        name: as the paper writes it.
        colour: of its line; no other variant has the same.
        dash: of its line, as matplotlib writes it.
    """

    estimator: str
    options: tuple[str, ...]
    name: str
    colour: str
    dash: str

    @property
    def label(self) -> str:
        return label(self.estimator, self.options)

    def build(self, n: int, **extras: Any) -> dbsurf.Estimator:
        """The estimator."""
        return dbsurf.get(self.estimator, n, **named_values(self.options), **extras)


def _declared() -> Iterator[Variant]:
    """The variants that the library's estimators declare."""
    for name in dbsurf.available():
        for one in dbsurf.estimators.estimator_class(name).variants:
            yield Variant(name, option_words(one.options), one.name, one.colour, one.dash)


VARIANTS = {variant.label: variant for variant in _declared()}


def add_variants(*variants: Variant) -> None:
    """Names and colours of what is compared with estimators and is none."""
    VARIANTS.update({variant.label: variant for variant in variants})


#: The columns of the paper's table 1, in its order.
PAPER_ORDER = ("dbsurf", "doublecv", "arms", "disarm", "loorf")

_DATASETS = {
    "fashion-mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "omniglot": "Omniglot",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "imagenet16-120": "ImageNet-16-120",
}


def variants(*labels: str) -> tuple[Variant, ...]:
    """Rows of the table by their labels."""
    return tuple(VARIANTS[one] for one in labels)


def estimator_name(found: str) -> str:
    """A label as a reader knows it; options that are not in the table are appended.

    An estimator from outside has the name of its class, so that a report does not need its module.

    >>> estimator_name("dbsurf debias=true"), estimator_name("dbsurf alpha=2")
    ('DBsurf debiased', 'DBsurf alpha=2')
    >>> estimator_name("package.module:MedianBaseline")
    'MedianBaseline'
    """
    if found in VARIANTS:
        return VARIANTS[found].name
    first, *options = found.split(" ")
    name = VARIANTS[first].name if first in VARIANTS else first.rpartition(":")[2]
    return " ".join([name, *options])


def dataset_name(name: str) -> str:
    """A data set's name as the paper writes it; an unknown one unchanged."""
    return _DATASETS.get(name, name)


def column_order(labels: set[str]) -> list[str]:
    """The paper's columns first and in its order, then the others by name."""
    return [name for name in PAPER_ORDER if name in labels] + sorted(labels - set(PAPER_ORDER))


def looks(series: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and dash of every label, as the table has them.

    One that is not in the table has its estimator's colour, with the estimator's own dash or the
    next one that is free; where an estimator has many of them, colours tell more than dashes, and
    they get spare ones.

    >>> looks(["loorf", "loorf n=5"])["loorf n=5"]
    ('#000000', '-')
    """
    found = {one: (VARIANTS[one].colour, VARIANTS[one].dash) for one in series if one in VARIANTS}
    others = [one for one in dict.fromkeys(series) if one not in VARIANTS]
    families = Counter(one.split(" ")[0] for one in others)
    spare = cycle((colour, dash) for dash in DASHES for colour in SPARE)
    for one in others:
        name = one.split(" ")[0]
        if name in VARIANTS and families[name] <= FEW:
            known = VARIANTS[name]
            own = ((known.colour, dash) for dash in (known.dash, *DASHES))
            found[one] = next(look for look in own if look not in found.values())
        else:
            found[one] = next(spare)
    return {one: found[one] for one in series}
