"""The table of estimators in docs/choose.md, made from what the estimators declare.

Run with `python tools/estimator_table.py`; a test compares the page with it.
"""

from __future__ import annotations

from pathlib import Path

import dbsurf
from dbsurf.estimators import Estimator, Variant, estimator_class

PAGE = Path(__file__).parents[1] / "docs" / "choose.md"
FIRST, LAST = "<!-- estimators -->\n", "<!-- end of estimators -->"
TITLES = ("estimator", "bias", "evaluations of f", "uses ∇f", "n", "distributions", "state")
MOST = 17  # larger than every smallest n


def smallest(kind: type[Estimator], variant: Variant) -> str:
    """The smallest n, and whether it has to be even."""
    allowed = []
    for n in range(1, MOST):
        try:
            kind(n, **variant.options)
        except ValueError:
            continue
        allowed.append(n)
    even = all(n % 2 == 0 for n in allowed)
    return f"≥ {allowed[0]}{', even' if even else ''}"


def row(kind: type[Estimator], variant: Variant) -> tuple[str, ...]:
    """One variant of an estimator; its cells are in the order of `TITLES`."""
    built = kind.with_evaluations(8, **variant.options)
    enumerates = built.n == 0
    bias = f"none{', ' + variant.bias if variant.bias else ''}"
    if not built.unbiased:
        bias = f"yes, {variant.bias}" if variant.bias else "yes"
    return (
        f"`{variant.call(kind.__name__, '' if enumerates else 'n')}`",
        bias,
        variant.cost.replace("**", "^").replace(" * ", " "),
        built.grad_f.words,
        "-" if enumerates else smallest(kind, variant),
        built.accepts.words,
        "yes" if built.learns else "-",
        variant.choose,
    )


def order(cells: tuple[str, ...]) -> tuple[bool, bool, str]:
    """Unbiased estimators first, then those without the gradient of f, then by name."""
    return cells[1].startswith("yes"), cells[3] == "yes", cells[0].lower()


def table() -> str:
    """All variants that say when to take them, as Markdown."""
    rows = [
        row(kind, variant)
        for kind in map(estimator_class, dbsurf.available())
        for variant in kind.variants
        if variant.choose
    ]
    lines = [(*TITLES, "choose it"), ("---",) * (len(TITLES) + 1), *sorted(rows, key=order)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text().partition(FIRST)
    PAGE.write_text(before + FIRST + table() + LAST + rest.partition(LAST)[2])


if __name__ == "__main__":
    main()
