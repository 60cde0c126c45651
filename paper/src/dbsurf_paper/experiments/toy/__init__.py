"""The exact study of the samplers and the toy problem: sections 2 and 4.1 of the paper."""

from __future__ import annotations

from pathlib import Path

from dbsurf_paper.experiments.toy.options import PRESETS, Options
from dbsurf_paper.runs.experiment import Experiment, Scale, SummaryFormat

__all__ = ["EXPERIMENTS", "PRESETS", "Options", "run"]


def run(options: Options) -> None:
    """Do the study and write its folder."""
    from dbsurf_paper.experiments.toy import study  # matplotlib and pandas take a second to import

    study.run(options)


def whole_study(scale: Scale, data_dir: Path | None) -> list[Options]:
    """The study; the paper's size is small enough for a laptop."""
    return [PRESETS["smoke" if scale == "smoke" else "paper"]]


EXPERIMENTS = (
    Experiment(
        command="toy",
        title="Toy study",
        place=30,
        options=Options,
        presets=PRESETS,
        run=run,
        headline=None,
        summary=SummaryFormat(
            configuration={},
            numbers=(),
            rows="statements",
            row=dict.fromkeys(("where", "claim", "verdict", "measured"), str),
            rows_required=False,
        ),
        tables=(),
        sweeps={"toy": whole_study},
        demo=lambda data_dir: [PRESETS["smoke"]],
        report="dbsurf_paper.experiments.toy.report",
    ),
)
