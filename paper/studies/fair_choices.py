"""Tables of the choices of the fair study: rates and temperatures, and what others would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.document import Cell, Row, Table

BY = "test_negative_elbo"  # of a choosing run, whose test images are those that are held out
CLOSE = 0.6  # nats between two rates, about twice what seeds differ by
SHOWN = {
    BY: "-ELBO, held out",
    "train_negative_elbo": "-ELBO, train",
    "test_bound": "bound, held out",
}

Found = Mapping[float, Mapping[str, Any] | None]  # summaries of choosing runs by what was tried


def lowest(found: Found, measure: str = BY) -> float | None:
    """The value with the lowest measure; None until all runs are there."""
    known = {value: summary[measure] for value, summary in found.items() if summary is not None}
    return min(known, key=lambda value: known[value]) if len(known) == len(found) else None


def rate_table(dataset: str, tried: Mapping[str, Found]) -> Table | None:
    """-ELBO on the images held out, by estimator and rate, as far as tried; the choice in bold."""
    caption = (
        f"{dataset_name(dataset)}: -ELBO of 5,000 training images that were held out, after 10,000 "
        "steps of one seed, by learning rate; the rate that was chosen in bold."
    )
    return _table(caption, "Estimator", {estimator_name(one): own for one, own in tried.items()})


def temperature_table(tried: Mapping[str, Found]) -> Table | None:
    """The same by data set and temperature of Gumbel-softmax."""
    caption = (
        "The same for the temperature of Gumbel-softmax, which is chosen first, at a rate of 0.001."
    )
    return _table(caption, "Data set", {dataset_name(one): own for one, own in tried.items()})


def _table(caption: str, title: str, tried: Mapping[str, Found]) -> Table | None:
    values = sorted({value for own in tried.values() for value in own})
    rows = []
    for name, own in tried.items():
        if any(own.values()):
            best = lowest(own)
            cells = [_choice(own.get(value), best=value == best) for value in values]
            rows.append(Row((Cell(name), *cells)))
    return Table(caption, (title, *(f"{x:g}" for x in values)), tuple(rows)) if rows else None


def _choice(summary: Mapping[str, Any] | None, *, best: bool) -> Cell:
    return Cell("–") if summary is None else Cell(f"{summary[BY]:.2f}", best=best)


def other_choices(tried: Mapping[str, Mapping[str, Found]]) -> Table | None:
    """Values that were nearly chosen, or would be by another measure, and what they would change.

    Args:
        tried: what was tried, by data set and by what is chosen, in words.
    """
    rows = []
    for dataset, by_words in tried.items():
        for what, own in by_words.items():
            best = lowest(own)
            if best is None:
                continue
            chosen = own[best] or {}
            for other, summary in own.items():
                assert summary is not None
                gaps = {name: summary[name] - chosen[name] for name in SHOWN}
                if other != best and (gaps[BY] < CLOSE or min(gaps.values()) < 0):
                    words = dataset_name(dataset), what, f"{best:g}", f"{other:g}"
                    shown = [Cell(f"{gap:+.2f}", best=gap < 0) for gap in gaps.values()]
                    rows.append(Row((*map(Cell, words), *shown)))
    if not rows:
        return None
    caption = (
        f"Choices that were close (less than {CLOSE:g} nats), or that another measure would have "
        "made otherwise: the results of the other value minus those of the one that was chosen, "
        "after 10,000 steps of the one seed that chose; the bound is of 500 images. In bold where "
        "the other value is better."
    )
    return Table(
        caption, ("Data set", "Choice", "chosen", "other", *SHOWN.values()), tuple(rows), words=2
    )
