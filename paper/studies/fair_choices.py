"""Tables of the rates of the fair study: which were chosen, and what others would have done."""

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


def choice_table(dataset: str, tried: Mapping[str, Found]) -> Table | None:
    """-ELBO on the images held out, by estimator and rate, as far as tried; the choice in bold."""
    rates = sorted({rate for own in tried.values() for rate in own})
    rows = []
    for series, own in tried.items():
        if any(own.values()):
            best = lowest(own)
            cells = [_choice(own.get(rate), best=rate == best) for rate in rates]
            rows.append(Row((Cell(estimator_name(series)), *cells)))
    if not rows:
        return None
    caption = (
        f"{dataset_name(dataset)}: -ELBO of 5,000 training images that were held out, after 10,000 "
        "steps of one seed, by learning rate; the rate that was chosen in bold."
    )
    return Table(caption, ("Estimator", *(f"{rate:g}" for rate in rates)), tuple(rows))


def _choice(summary: Mapping[str, Any] | None, *, best: bool) -> Cell:
    return Cell("–") if summary is None else Cell(f"{summary[BY]:.2f}", best=best)


def other_rates(tried: Mapping[str, Mapping[str, Found]]) -> Table | None:
    """Rates that were nearly chosen, or would be by another measure, and what they would change."""
    rows = []
    for dataset, by_series in tried.items():
        for series, own in by_series.items():
            best = lowest(own)
            if best is None:
                continue
            chosen = own[best] or {}
            for rate, summary in own.items():
                assert summary is not None
                gaps = {name: summary[name] - chosen[name] for name in SHOWN}
                if rate != best and (gaps[BY] < CLOSE or min(gaps.values()) < 0):
                    words = (
                        dataset_name(dataset),
                        estimator_name(series),
                        f"{best:g}",
                        f"{rate:g}",
                    )
                    shown = [Cell(f"{gap:+.2f}", best=gap < 0) for gap in gaps.values()]
                    rows.append(Row((*map(Cell, words), *shown)))
    if not rows:
        return None
    caption = (
        f"Choices that were close (less than {CLOSE:g} nats), or that another measure would have "
        "made otherwise: the results of the other rate minus those of the rate that was chosen, "
        "after 10,000 steps of the one seed that chose; the bound is of 500 images. In bold where "
        "the other rate is better."
    )
    return Table(
        caption, ("Data set", "Estimator", "chosen", "other", *SHOWN.values()), tuple(rows), words=2
    )
