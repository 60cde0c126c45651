"""Groups of sequences: an exact study of their gradients, and a study of training with them."""

from __future__ import annotations

from pathlib import Path

from dbsurf_paper.experiments.sequences.options import PRESETS, Options
from dbsurf_paper.experiments.sequences.study import run
from dbsurf_paper.runs.experiment import Experiment, Scale, SummaryFormat

__all__ = ["EXPERIMENTS", "PRESETS", "Options", "run"]


def whole_study(scale: Scale, data_dir: Path | None) -> list[Options]:
    """Both studies; the paper has none of sequences, and the laptop's size is the largest."""
    return [PRESETS["smoke" if scale == "smoke" else "laptop"]]


EXPERIMENTS = (
    Experiment(
        command="sequences",
        title="Sequences",
        place=40,
        options=Options,
        presets=PRESETS,
        run=run,
        headline=None,
        summary=SummaryFormat(
            configuration={},
            numbers=(),
            rows="claims",
            row={"arm": str, "reward": str, "mean": float},  # one network has no interval
            rows_required=False,
        ),
        tables=(),
        sweeps={"sequences": whole_study},
        demo=lambda data_dir: [],  # a minute even at its smallest: too long beside the others
        report="dbsurf_paper.experiments.sequences.report",
    ),
)
