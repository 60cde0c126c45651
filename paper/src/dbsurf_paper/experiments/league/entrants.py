"""Who takes part: every estimator of the library, and with how many samples.

The list is made from the library's own registry, so that a new estimator takes part without a
word here. What does not take part has a reason, which is a property of the estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

import dbsurf
from dbsurf_paper.experiments.league.problems import Place
from dbsurf_paper.report.labels import label as label_of
from dbsurf_paper.runs.options import named_values

#: Options that are measured beside an estimator's defaults.
FORMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "reinforce": ((), ("baseline=running-mean",)),
    "dbsurf": ((), ("debias=true",), ("alpha=preserve", "debias=true")),
    "arms": ((), ("copula=gaussian",)),
    "quadraticcv": ((), ("uses=gradient",), ("uses=values",)),
    "gumbelsoftmax": ((), ("hard=true",)),
}
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

    def with_evaluations(self, evaluations: int) -> dbsurf.Estimator | None:
        """The estimator that evaluates f exactly so often; None if it cannot."""
        for n in range(1, evaluations + 1):
            try:
                found = self.build(n)
            except ValueError:  # too few, or an odd number
                continue
            if found.evaluations == evaluations:
                return found
        return None

    def with_at_most(self, evaluations: int) -> dbsurf.Estimator:
        """The one with the most evaluations up to a number; else the one with the fewest."""
        for count in range(evaluations, 0, -1):
            found = self.with_evaluations(count)
            if found is not None:
                return found
        return self.smallest()


def every() -> tuple[list[Entrant], dict[str, str]]:
    """All that take part, and for the others the reason why not, by label."""
    found, outside = [], {}
    for name in dbsurf.available():
        for options in FORMS.get(name, ((),)):
            entrant = Entrant(name, options)
            estimator = entrant.smallest()
            if estimator.objective != "mean":
                outside[entrant.label] = f"its objective is {estimator.objective}, not the mean"
            elif estimator.n is None:
                outside[entrant.label] = "it has no variance"
            else:
                found.append(entrant)
    return found, outside


def chosen(labels: Sequence[str]) -> list[Entrant]:
    """The entrants of these labels, and LOORF; all if there are none."""
    known = {entrant.label: entrant for entrant in every()[0]}
    for label in labels:
        if label not in known:
            raise ValueError(f"estimators must be among {', '.join(known)}, got {label!r}")
    return [one for label, one in known.items() if not labels or label in (*labels, BASELINE)]


def why_not(entrant: Entrant, place: Place) -> str | None:
    """Why an estimator cannot take part in a problem; None if it can."""
    estimator = entrant.smallest()
    uses_gradient = estimator.needs_grad_f or estimator.grad_f_for != "nothing"
    if uses_gradient and not place.differentiable:
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
    count = 0

    def counting(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def counted(x: Tensor) -> Tensor:
            nonlocal count
            count += x.shape[0]
            return f(x)

        return counted

    estimator.eval().estimate(
        counting(place.f), place.law, context=place.context, generator=place.generator
    )
    return count
