"""The league table: every estimator's variance over LOORF's at equal evaluations of f."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dbsurf_paper.experiments.league.options import PRESETS, Options, every
from dbsurf_paper.runs.experiment import Experiment, Scale, SummaryFormat

__all__ = ["EXPERIMENTS", "PRESETS", "Options", "run"]


def run(options: Options) -> None:
    """Do the study and write its folder."""
    from dbsurf_paper.experiments.league import study  # pandas takes a second to import

    study.run(options)


def whole_league(scale: Scale, data_dir: Path | None) -> list[Options]:
    """All problems."""
    return every(replace(PRESETS[scale], data_dir=data_dir))


EXPERIMENTS = (
    Experiment(
        command="league",
        title="League table",
        place=35,
        options=Options,
        presets=PRESETS,
        run=run,
        headline=None,
        summary=SummaryFormat(
            configuration={"problem": str, "dataset": str, "steps": int, "seed": int},
            numbers=("seconds",),
            rows="rows",
            row={
                "estimator": str,
                "evaluations": int,
                "learned": str,
                "unbiased": int,
                "ratio": float,
                "low": float,
                "high": float,
                "milliseconds": float,
                "loorf_milliseconds": float,
            },
            rows_required=True,
        ),
        tables=(),
        sweeps={"league": whole_league},
        demo=lambda data_dir: [],  # minutes even at its smallest: too long beside the others
        report="dbsurf_paper.experiments.league.report",
    ),
)
