"""SpotCheck along a training, and what its noise is in the parameters: for docs/spotcheck.md.

Run with `python paper/studies/spotcheck_study.py`. A VAE on MNIST is trained by LOORF(4); SpotCheck
and QuadraticCV learn along from the first step. After a few numbers of steps the variance of the
logits' gradient is measured with four evaluations of f, over LOORF's. After 10,000 steps the
variance of the *parameters'* gradient is measured too, encoder and decoder apart, with the time of
a gradient. It goes on where it was stopped; `--report` only writes what is there.
"""

from __future__ import annotations

import argparse
import copy
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import dbsurf
from dbsurf.measure import Spread, ratio
from dbsurf_paper.experiments.league import measure
from dbsurf_paper.experiments.league.entrants import BASELINE
from dbsurf_paper.experiments.league.options import Options
from dbsurf_paper.experiments.league.study import Study
from dbsurf_paper.experiments.league.vaes import VAE, plain
from dbsurf_paper.experiments.vae.training import negative_elbo
from dbsurf_paper.labels import estimator_name
from dbsurf_paper.report.document import Cell, Chart, Line, Panel, Row, Table
from dbsurf_paper.report.markdown import block_text
from dbsurf_paper.runs.folder import ROWS
from dbsurf_paper.runs.life import Life
from dbsurf_paper.runs.sealed import read_sealed
from pages import insert, publish, restore, save_csv, save_figure

RUNS, RESULTS, PAGE = (
    Path("runs/spotcheck"),
    Path("docs/results/spotcheck"),
    Path("docs/spotcheck.md"),
)
MARKS = (200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000)  # steps
PARAMETERS_AT, DRAWS, TURNS = 10_000, 200, 12
EVALUATIONS = 4
OPTIONS = Options(
    problem="vae",
    dataset="mnist",
    steps=MARKS[-1],
    along=0,
    evaluations=(EVALUATIONS,),
    estimators=("spotcheck", "quadraticcv", "reinmax"),
    resume=True,
    out=RUNS / "along-mnist-seed0",
)
#: What the parameters' gradient is estimated with: a name, n, other options.
FORMS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "LOORF(4)": ("loorf", 4, {}),
    "LOORF(6)": ("loorf", 6, {}),
    "LOORF(8)": ("loorf", 8, {}),
    "SpotCheck, 2 + 2": ("spotcheck", 2, {}),
    "SpotCheck, 1 + 3": ("spotcheck", 1, {"checks": 3}),
    "SpotCheck, 2 + 4": ("spotcheck", 2, {"checks": 4}),
    "SpotCheck, 2 + 6": ("spotcheck", 2, {"checks": 6}),
    "SpotCheck, 4 + 4": ("spotcheck", 4, {}),
    "QuadraticCV(3)": ("quadraticcv", 3, {}),
    "ReinMax(4)": ("reinmax", 4, {}),
}


class Along(Study):
    """The league's training, measured on the way."""

    def work(self) -> dict[str, Any]:
        for mark in MARKS:
            self.train(mark)
            for entrant, built in self.counts().items():
                for count, estimator in built:
                    make = partial(self.measure_one, entrant, count, estimator, str(mark))
                    self.life.keep(f"{entrant.label} after {mark} steps", make)
            if mark == PARAMETERS_AT:
                self.life.keep("parameters", self.parameters)
        return {"title": self.problem.title, "left_out": self.left_out, "rows": []}

    def parameters(self) -> list[dict[str, Any]]:
        """Variance of the encoder's and of the decoder's gradient, and the time of a gradient."""
        assert isinstance(self.problem, VAE)
        trainer, images = self.problem.trainer, self.problem.measured
        built = {}
        for form, (name, n, options) in FORMS.items():
            estimator = dbsurf.get(name, n, validate=False, **options)
            if name in self.learners:
                estimator.load_state_dict(self.learners[name].estimator.state_dict())
            built[form] = estimator.eval()
        parts = {"encoder": trainer.model.encoders, "decoder": trainer.model.decoders}
        generator = measure.seeded(self.options.seed, "parameters")

        def gradient(estimator: dbsurf.Estimator) -> dict[str, Tensor]:
            trainer.optimiser.zero_grad()
            one = torch.nn.ModuleList([estimator])
            negative_elbo(trainer.model, one, images, generator).backward()
            return {
                part: torch.cat([p.grad.flatten() for p in own.parameters() if p.grad is not None])
                for part, own in parts.items()
            }

        rows = {
            form: dict[str, Any](form=form, n=one.n, evaluations=one.evaluations)
            for form, one in built.items()
        }
        for form, estimator in built.items():
            found = [gradient(estimator) for _ in range(DRAWS)]
            for part in parts:
                spread = Spread.of(torch.stack([one[part].double() for one in found]))
                rows[form] |= {f"{part}_variance": spread.variance, f"{part}_error": spread.error}
                rows[form] |= {"draws": spread.draws}
        timed = {form: copy.deepcopy(one).train() for form, one in built.items()}
        times: dict[str, list[float]] = {form: [] for form in timed}
        for turn in range(TURNS + 1):
            for form, estimator in timed.items():
                start = time.process_time()
                gradient(estimator)
                if turn:
                    times[form].append(1e3 * (time.process_time() - start))
        return [row | {"milliseconds": float(np.median(times[form]))} for form, row in rows.items()]


# --- tables and figures ---------------------------------------------------------------------------


def along_rows(parts: dict[str, Any]) -> pd.DataFrame:
    """Variance over LOORF's at the same model, with its interval."""
    rows = []
    for mark in MARKS:
        base = parts.get(f"{BASELINE} after {mark} steps")
        for label in (*OPTIONS.estimators,):
            own = parts.get(f"{label} after {mark} steps")
            if base and own:
                over = ratio(_spread(own), _spread(base))
                rows.append(
                    {
                        "estimator": label,
                        "steps": mark,
                        "ratio": over.value,
                        "low": over.low,
                        "high": over.high,
                    }
                )
    return pd.DataFrame(rows)


def _spread(row: dict[str, Any]) -> Spread:
    return Spread(row["draws"], row["variance"], row["variance_error"], torch.empty(0))


def chart(rows: pd.DataFrame) -> Chart:
    lines = [
        Line(
            str(label),
            *(tuple(map(float, own[name])) for name in ("steps", "ratio", "low", "high")),
        )
        for label, own in rows.groupby("estimator", sort=False)
    ]
    own = rows[rows.estimator == OPTIONS.estimators[0]].ratio
    name, ends = estimator_name(OPTIONS.estimators[0]), f"{own.min():.2g} to {own.max():.2g}"
    panel = Panel(
        "",
        "training steps",
        "variance over LOORF's",
        tuple(lines),
        markers=True,
        level=1.0,
        logarithmic=True,
        logarithmic_y=True,
        ticks=tuple(sorted(rows.steps.unique())),
    )
    caption = (
        "Variance of the logits' gradient over LOORF's along a training; all learn along from its "
        "first step. Bars are 95 % intervals. ReinMax is biased."
    )
    finding = f"{name} has {ends} of LOORF's variance along the training, without bias"
    return Chart("along", caption, (panel,), finding)


def along_table(rows: pd.DataFrame) -> Table:
    marks = sorted(rows.steps.unique())
    lines = []
    for label, own in rows.groupby("estimator", sort=False):
        found = dict(zip(own.steps, own.ratio, strict=True))
        cells = [Cell(f"{found[mark]:.4f}") if mark in found else Cell("–") for mark in marks]
        lines.append(Row((Cell(estimator_name(str(label))), *cells)))
    caption = (
        "MNIST, 200 bits, seed 0: variance of the logits' gradient over LOORF's at four "
        "evaluations of f, after so many steps of training."
    )
    return Table(caption, ("Estimator", *(f"{mark:,}" for mark in marks)), tuple(lines))


def parameter_table(rows: list[dict[str, Any]]) -> Table:
    base = next(row for row in rows if row["form"] == "LOORF(4)")
    lines = []
    for row in rows:
        cells = [Cell(row["form"]), Cell(f"{row['evaluations']}")]
        cells += [
            Cell(f"{row[f'{part}_variance'] / base[f'{part}_variance']:.3f}")
            for part in ("encoder", "decoder")
        ]
        cells.append(Cell(f"{row['milliseconds'] / base['milliseconds']:.2f}"))
        lines.append(Row(tuple(cells)))
    caption = (
        f"MNIST after {PARAMETERS_AT:,} steps, 100 images: variance of the gradient of the "
        f"parameters from {DRAWS} gradients, and the processor's time of one, all over LOORF(4)'s. "
        "ReinMax is biased for the encoder."
    )
    return Table(caption, ("Estimator", "evaluations", "encoder", "decoder", "time"), tuple(lines))


def report() -> None:
    assert OPTIONS.out is not None
    path = OPTIONS.out / ROWS
    if not path.exists():
        return
    parts = read_sealed(path)["parts"]
    rows = along_rows(parts)
    if len(rows):
        save_figure(chart(rows), RESULTS / "along.csv", RESULTS / "along.png")
        insert(PAGE, "along", block_text(along_table(rows)))
    if "parameters" in parts:
        save_csv(pd.DataFrame(parts["parameters"]), RESULTS / "parameters.csv")
        insert(PAGE, "parameters", block_text(parameter_table(parts["parameters"])))
    publish(RESULTS / "runs.zip", [OPTIONS.out])


def carry_out() -> None:
    life = Life("league", OPTIONS)
    if life.summary is None:
        with life.opened():
            study = Along(OPTIONS, plain(OPTIONS), life)
            study.restore()
            life.finish(study.work())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="run nothing")
    given = parser.parse_args()
    restore(RESULTS / "runs.zip", RUNS)
    if not given.report:
        carry_out()
    report()
