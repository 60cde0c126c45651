"""Who takes part: every estimator of the library, and with how many samples.

The list is made from the library's own registry, so that a new estimator takes part without a
word here; one that is not registered is named as ``package.module:Class``. What does not take part
has a reason, which is a property of the estimator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.distributions import Bernoulli

import dbsurf
from dbsurf.estimators import estimator_class
from dbsurf_paper.experiments.league.problems import Place
from dbsurf_paper.labels import label as label_of
from dbsurf_paper.labels import option_words
from dbsurf_paper.runs.options import named_values

BASELINE = "loorf"  # every variance is over this one's
REFERENCE = "quadraticcv"  # its long-run mean stands for a gradient that cannot be enumerated


@dataclass(frozen=True)
class Entrant:
    """An estimator with its options.

    Attributes:
        name: its name in `dbsurf.get`.
        options: as NAME=VALUE.
    """

    name: str
    options: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return label_of(self.name, self.options)

    def build(self, n: int) -> dbsurf.Estimator:
        """The estimator with n samples, without checks of its inputs."""
        return dbsurf.get(self.name, n, validate=False, **named_values(self.options))

    def smallest(self) -> dbsurf.Estimator:
        """The estimator with the fewest samples that it works with."""
        for n in range(1, 17):
            try:
                return self.build(n)
            except ValueError as error:
                refused = error
        raise refused

    def with_at_most(self, evaluations: int) -> dbsurf.Estimator:
        """The one with the most evaluations up to a number; else the one with the fewest."""
        kind = estimator_class(self.name)
        try:
            return kind.with_evaluations(evaluations, validate=False, **named_values(self.options))
        except ValueError:
            return self.smallest()

    def with_evaluations(self, evaluations: int) -> dbsurf.Estimator | None:
        """The estimator that evaluates f exactly so often; None if it cannot."""
        found = self.with_at_most(evaluations)
        return found if found.evaluations == evaluations else None


def every() -> tuple[list[Entrant], dict[str, str]]:
    """All that take part, and for the others the reason why not, by label."""
    found, outside = [], {}
    for name in dbsurf.available():
        for variant in estimator_class(name).variants:
            if not variant.measured:
                continue
            entrant = Entrant(name, option_words(variant.options))
            estimator = entrant.smallest()
            if estimator.objective != "mean":
                outside[entrant.label] = f"its objective is {estimator.objective}, not the mean"
            elif estimator.n == 0:
                outside[entrant.label] = "it has no variance"
            elif not takes_bits(estimator):
                outside[entrant.label] = f"it is for laws {estimator.accepts.words}"
            else:
                found.append(entrant)
    return found, outside


def takes_bits(estimator: dbsurf.Estimator) -> bool:
    """Whether an estimator works for independent bits, as every problem of the paper has them."""
    try:
        estimator.check(Bernoulli(logits=torch.zeros(1)))
    except ValueError:
        return False
    return True


def chosen(labels: Sequence[str]) -> list[Entrant]:
    """The entrants of these labels, and LOORF; all if there are none.

    A label may have options that no variant declares, such as "spotcheck checks=3".
    """
    known = {entrant.label: entrant for entrant in every()[0]}
    for label in labels:
        name, *options = label.split(" ")
        if ":" in name:  # from outside
            known[label] = Entrant(name, tuple(options))
            known[label].smallest()  # raises if there is no such estimator
        elif label not in known and options and name in known:
            known[label] = Entrant(name, tuple(options))
            known[label].smallest()  # refuses options that the estimator does not have
        elif label not in known:
            raise ValueError(f"estimators must be among {', '.join(known)}, got {label!r}")
    return [one for label, one in known.items() if not labels or label in (*labels, BASELINE)]


def why_not(entrant: Entrant, place: Place) -> str | None:
    """Why an estimator cannot take part in a problem; None if it can."""
    estimator = entrant.smallest()
    if estimator.grad_f and not place.differentiable:
        return "f has no gradient"
    try:
        estimator.check(place.law)
    except ValueError as error:
        return str(error)
    return None


def evaluations_at(estimator: dbsurf.Estimator, place: Place) -> int:
    """How often an estimator evaluates f for one batch element, counted in one call."""
    if estimator.evaluations is not None:
        return estimator.evaluations
    return place.problem.evaluations(estimator)
