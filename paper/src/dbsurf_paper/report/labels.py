"""Names, colours and dashes of estimators, and names of data sets, in one table.

A *label* is an estimator's name and its options as one string, ``dbsurf debias=true``: runs,
tables and figures are joined by it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dbsurf
from dbsurf_paper.runs.options import named_values

# Okabe and Ito's palette, which colour-blind readers can tell apart ...
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"
# ... and, for variants, darker and lighter tones that are not in it.
WINE, OLIVE, INDIGO, TEAL, SAND, BROWN = (
    "#882255", "#8A8A00", "#332288", "#44AA99", "#B5A642", "#7B4B2A",
)  # fmt: skip
SPARE = ("#A50026", "#4D9221", "#5E4FA2", "#C51B7D", "#35978F", "#8C510A", "#3288BD", "#525252")
SEQUENCE = (BLACK, BLUE, SKY, GREEN, ORANGE, VERMILION)


def label(estimator: str, options: Iterable[str] | Mapping[str, Any] = ()) -> str:
    """The label of an estimator with its options, given as texts or as values.

    >>> label("dbsurf", ["alpha=preserve", "debias=true"])
    'dbsurf alpha=preserve debias=true'
    >>> label("dbsurf", {"alpha": "preserve", "debias": True})
    'dbsurf alpha=preserve debias=true'
    """
    if isinstance(options, Mapping):
        options = [
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in options.items()
        ]
    return " ".join([estimator, *options])


def call_label(call: str) -> str:
    """The label of an estimator that is written as a call; n is not part of a label.

    >>> call_label('DBsurf(4, alpha="preserve", debias=True)')
    'dbsurf alpha=preserve debias=true'
    >>> call_label('QuadraticCV(3, uses="values")')
    'quadraticcv uses=values'
    """
    tree = ast.parse(call, mode="eval").body
    assert isinstance(tree, ast.Call)
    assert isinstance(tree.func, ast.Name)
    name = tree.func.id.lower()
    names = list(inspect.signature(type(dbsurf.get(call))).parameters)
    given = dict(zip(names, map(ast.literal_eval, tree.args), strict=False))
    given |= {word.arg: ast.literal_eval(word.value) for word in tree.keywords if word.arg}
    given.pop("n", None)
    return label(name, given)


def file_name(estimator: str, options: Iterable[str]) -> str:
    """The label as a part of a file's name: ``dbsurf-debias-true``."""
    return label(estimator, options).replace(" ", "-").replace("=", "-")


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


VARIANTS = {
    variant.label: variant
    for variant in (
        Variant("dbsurf", (), "DBsurf", VERMILION, "-"),
        Variant("doublecv", (), "DoubleCV", PURPLE, "-."),
        Variant("crossfitted", (), "CrossFitted", "#E7298A", "-"),
        Variant("arms", (), "ARMS-D", BLUE, "-"),
        Variant("arms", ("copula=gaussian",), "ARMS-N", "#6BAED6", "--"),
        Variant("disarm", (), "DisARM", GREY, ":"),
        Variant("loorf", (), "LOORF", BLACK, "--"),
        Variant("mdsurf", (), "MDsurf", GREEN, "-"),
        Variant("dbsurf", ("debias=true",), "DBsurf debiased", ORANGE, "-"),
        Variant("dbsurf", ("alpha=preserve", "debias=true"), "DBsurf preserving", WINE, "--"),
        Variant("dbsurf", ("alpha=preserve",), "DBsurf alpha=preserve", BROWN, ":"),
        Variant("dbsurf", ("alpha=0.5",), "DBsurf alpha=0.5", SAND, "--"),
        Variant("quadraticcv", (), "QuadraticCV", "#004D40", "-"),
        Variant("quadraticcv", ("uses=gradient",), 'QuadraticCV "gradient"', "#26A69A", "--"),
        Variant("quadraticcv", ("uses=values",), 'QuadraticCV "values"', "#80CBC4", "-."),
        Variant("reinforce", (), "REINFORCE", SKY, "-"),
        Variant("reinforce", ("baseline=running-mean",), "REINFORCE running mean", INDIGO, "-"),
        Variant("rodeo", (), "RODEO", "#8C1D40", "-."),
        Variant("arm", (), "ARM", "#3E7CB1", "-."),
        Variant("muprop", (), "MuProp", "#A05195", "-"),
        Variant("rebar", (), "REBAR", "#B8860B", "-."),
        Variant("relax", (), "RELAX", "#DA70D6", "-"),
        Variant("unorderedset", (), "unordered set", "#5B8C5A", "--"),
        Variant("localexpectation", (), "local expectation", "#9E9D24", "-."),
        Variant("indecater", (), "IndeCateR", "#6D4C41", "-"),
        Variant("stickbreaking", (), "stick-breaking", "#00ACC1", "--"),
        Variant("vimco", (), "VIMCO", "#C62828", "--"),
        Variant("straightthrough", (), "straight-through", "#546E7A", "-."),
        Variant("gumbelsoftmax", (), "Gumbel-softmax", "#7E57C2", "--"),
        Variant("gumbelsoftmax", ("hard=true",), "Gumbel-softmax hard", "#B39DDB", "-."),
        Variant("reinmax", (), "ReinMax", "#F06292", "-."),
        Variant("exact", (), "exact", "#263238", ":"),
        Variant("evolution", (), "evolution", TEAL, "-"),
        Variant("random", (), "random search", OLIVE, ":"),
        # Searches in a supernet that are no estimators of expectations over cells.
        Variant("uniform", (), "uniform sampling", "#616161", "--"),
        Variant("darts", (), "DARTS", "#1F4E9C", "-"),
        Variant("pc-darts", (), "PC-DARTS", "#2E86C1", "--"),
        Variant("snas", (), "SNAS", "#B7410E", "-"),
        Variant("drnas", (), "DrNAS", "#7D3C98", "-"),
        Variant("gdas", (), "GDAS", "#1E8449", "-"),
        Variant("dsnas", (), "DSNAS", "#D4AC0D", "-."),
        Variant("few-shot", (), "Few-Shot", "#C2185B", "--"),
        Variant("few-shot-gm", (), "Few-Shot-GM", "#5C2CD4", "-."),
    )
}

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

    >>> estimator_name("dbsurf debias=true"), estimator_name("dbsurf alpha=2")
    ('DBsurf debiased', 'DBsurf alpha=2')
    """
    if found in VARIANTS:
        return VARIANTS[found].name
    first, *options = found.split(" ")
    name = VARIANTS[first].name if first in VARIANTS else first
    return " ".join([name, *options])


def dataset_name(name: str) -> str:
    """A data set's name as the paper writes it; an unknown one unchanged."""
    return _DATASETS.get(name, name)


def column_order(labels: set[str]) -> list[str]:
    """The paper's columns first and in its order, then the others by name."""
    return [name for name in PAPER_ORDER if name in labels] + sorted(labels - set(PAPER_ORDER))


def looks(series: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Colour and dash of every label: those of the table, otherwise the next spare ones.

    >>> looks(["loorf", "dbsurf alpha=2"])["dbsurf alpha=2"]
    ('#A50026', '-')
    """
    found: dict[str, tuple[str, str]] = {}
    others = 0
    for one in series:
        if one in VARIANTS:
            found[one] = VARIANTS[one].colour, VARIANTS[one].dash
        elif one not in found:
            dash = ("-", "--", "-.", ":")[others // len(SPARE) % 4]
            found[one] = SPARE[others % len(SPARE)], dash
            others += 1
    return found
