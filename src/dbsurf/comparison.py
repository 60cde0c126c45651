"""The result of `dbsurf.compare`: a row per estimator, a recommendation, and how both are shown."""

from __future__ import annotations

import html
import math
import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.registry import get

WIDTH = 80  # columns of a terminal
RIGHT = ' style="text-align:right;padding-left:1em"'  # numbers, in a page


@dataclass(frozen=True)
class Row:
    """One estimator's part of a comparison.

    Attributes:
        estimator: the call that builds it, as `dbsurf.get` takes it; the label of an object that
            the caller gave.
        unbiased: whether it is unbiased by construction.
        needs_grad_f: whether f has to be differentiable in x for it.
        grad_f: whether it uses the gradient of f, to estimate or to learn: "yes" or "no".
        learns: whether it has a state; it is trained on this one problem before it is measured.
        evaluations: evaluations of f per estimate.
        variance: trace of the covariance of the estimate, summed over the batch.
        variance_low: lower end of its 95 % interval.
        variance_high: upper end.
        relative_variance: variance over LOORF's.
        relative_low: lower end of its 95 % interval.
        relative_high: upper end.
        bias: length of the difference between mean estimate and reference, noise removed;
            0 for estimators that are unbiased by construction.
        mean_squared_error: variance plus the square of the bias.
        milliseconds: time of one estimate, f included: the lower quartile, which changes little
            while other programs use the same processor.
    """

    estimator: str
    unbiased: bool
    needs_grad_f: bool
    grad_f: str
    learns: bool
    evaluations: int
    variance: float
    variance_low: float
    variance_high: float
    relative_variance: float
    relative_low: float
    relative_high: float
    bias: float
    mean_squared_error: float
    milliseconds: float


# Colour and mark of each kind of estimator in a figure.
MARKS = {
    "unbiased, f a black box": ("#0072B2", "o"),
    "unbiased, uses the gradient of f": ("#D55E00", "s"),
    "biased": ("#555555", "D"),
}
COLUMNS = ("estimator", "f calls", "grad f", "variance / LOORF's", "bias", "ms")


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `compare`: rows by mean squared error, a recommendation, and why.

    Attributes:
        rows: best first.
        recommended: the call that builds the recommended estimator; see `build`.
        reason: why, in one sentence.
        reference: what the bias was measured against.
        left_out: estimators that could not be tried, each with the reason.
    """

    rows: list[Row]
    recommended: str
    reason: str
    reference: str
    left_out: dict[str, str]

    def build(self) -> Estimator:
        """The recommended estimator, new."""
        return get(self.recommended)

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.rows])

    def plot(self, ax: Any = None) -> Any:
        """Variance over LOORF's with its 95 % interval, one mark per estimator, as a figure.

        The title says what is recommended; its name is bold. An estimator without any variance,
        such as `Exact`, has no place on a logarithmic axis and is left out.

        Args:
            ax: a matplotlib axis to draw into; None for a new figure.

        Returns:
            The axis.
        """
        import matplotlib.pyplot as plt
        from matplotlib.ticker import LogLocator

        rows = [row for row in reversed(self.rows) if row.relative_variance > 0]
        if ax is None:
            _, ax = plt.subplots(figsize=(7, 1.6 + 0.24 * len(rows)), layout="constrained")
        for place, row in enumerate(rows):
            colour, marker = MARKS[_kind(row)]
            ax.plot([row.relative_low, row.relative_high], [place, place], color=colour, lw=1.5)
            ax.plot(row.relative_variance, place, marker, color=colour, ms=6)
        ax.axvline(1, color="#777777", lw=1, ls="--")
        ax.set_yticks(range(len(rows)), [row.estimator for row in rows], fontsize=8)
        for label, row in zip(ax.get_yticklabels(), rows, strict=True):
            label.set_fontweight("bold" if row.estimator == self.recommended else "normal")
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.set_xlabel("variance over LOORF's at equal evaluations of f")
        ax.grid(axis="both", alpha=0.2)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_title(self._title(), loc="left", fontsize=10)
        for kind in (kind for kind in MARKS if kind in {_kind(row) for row in rows}):
            colour, marker = MARKS[kind]
            ax.plot([], [], marker, color=colour, label=kind)
        ax.legend(frameon=False, fontsize=8)
        return ax

    def _title(self) -> str:
        """The recommendation in one line."""
        found = [row for row in self.rows if row.estimator == self.recommended]
        if not found or math.isnan(found[0].relative_variance):
            return f"Use {self.recommended}"
        return f"Use {self.recommended}: {found[0].relative_variance:.2g} of LOORF's variance"

    def __repr__(self) -> str:
        """As printed: a prompt shows the table, not its parts."""
        return str(self)

    def __str__(self) -> str:
        lines = [list(COLUMNS), *map(_cells, self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
        # A call that leaves no room in a line of a terminal stands above its numbers.
        room = WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1)
        widths[0] = max(len(line[0]) for line in lines if len(line[0]) <= room)
        text = [*textwrap.wrap(f"Use {self.recommended}: {self.reason}.", WIDTH), ""]
        for label, *words in lines:
            padded = [word.rjust(width) for word, width in zip(words, widths[1:], strict=True)]
            if len(label) > room:
                text.append(label)
                label = ""
            text.append("  ".join([label.ljust(widths[0]), *padded]))
        for note in self._notes():
            text += textwrap.wrap(f"({note})", WIDTH)
        return "\n".join(text)

    def _notes(self) -> list[str]:
        """What the bias was measured against, and what was left out and why."""
        notes = [f"bias against {self.reference}"]
        for why in dict.fromkeys(self.left_out.values()):
            labels = [label for label, reason in self.left_out.items() if reason == why]
            notes.append(f"left out: {', '.join(labels)}; {why}")
        return notes

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        titles = [f'<th style="text-align:left">{COLUMNS[0]}</th>']
        titles += [f"<th{RIGHT}>{html.escape(title)}</th>" for title in COLUMNS[1:]]
        rows = []
        for row in self.rows:
            label, *cells = map(html.escape, _cells(row))
            label = f"<code>{label}</code>"
            if row.estimator == self.recommended:
                label = f"<b>{label}</b>"
            line = f'<td style="text-align:left">{label}</td>'
            rows.append(f"<tr>{line}{''.join(f'<td{RIGHT}>{cell}</td>' for cell in cells)}</tr>")
        verdict = f"<b>Use <code>{html.escape(self.recommended)}</code></b>: "
        verdict += f"{html.escape(self.reason)}."
        notes = "<br>".join(map(html.escape, self._notes()))
        return (
            f"<p>{verdict}</p><table><thead><tr>{''.join(titles)}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table><p><small>{notes}</small></p>"
        )


def _kind(row: Row) -> str:
    """Which of `MARKS` an estimator has."""
    black_box, with_gradient, biased = MARKS
    if not row.unbiased:
        return biased
    return black_box if row.grad_f == "no" else with_gradient


def _cells(row: Row) -> list[str]:
    ratio_text = "-"
    if not math.isnan(row.relative_variance):
        width = max(row.relative_high - row.relative_variance, 0.0)
        ratio_text = f"{row.relative_variance:.3g} ± {width:.1g}"
    return [
        row.estimator,
        str(row.evaluations),
        row.grad_f,
        ratio_text,
        "none" if row.unbiased else f"{row.bias:.2g}",
        f"{row.milliseconds:.2f}",
    ]
