"""What the trained models make of images: the pictures that runs left behind."""

from __future__ import annotations

from collections.abc import Sequence

from dbsurf.experiments.vae.job import PICTURE
from dbsurf.report.collect import Run
from dbsurf.report.comparisons import comparisons, final_elbo
from dbsurf.report.document import Block, Gallery, Missing, Paragraph, Picture, Section
from dbsurf.report.names import dataset_name, estimator_name
from dbsurf.report.pictures import is_png

COMMAND = "dbsurf vae --preset smoke"


def section(runs: Sequence[Run]) -> Section:
    """For every data set the picture of the run with the lowest training -ELBO."""
    best: dict[str, Run] = {}
    for one in comparisons(runs):
        for run in one.runs:
            known = best.get(one.dataset)
            if is_png(run.folder / PICTURE) and (
                known is None or final_elbo(run) < final_elbo(known)
            ):
                best[one.dataset] = run
    blocks: list[Block]
    if best:
        blocks = [
            Paragraph(
                "Of every data set the run with the lowest training -ELBO. Two pairs of rows: test "
                "images, binarised, and below them their reconstructions. Then samples: the mean "
                "image at bits drawn from the prior."
            ),
            Gallery(tuple(_picture(dataset, run) for dataset, run in best.items())),
        ]
    else:
        blocks = [Missing("No finished VAE run with pictures.", COMMAND)]
    return Section("reconstructions", "Reconstructions and samples", tuple(blocks))


def _picture(dataset: str, run: Run) -> Picture:
    name = dataset_name(dataset)
    return Picture(
        f"reconstructions-{run.number}",
        (run.folder / PICTURE).read_bytes(),
        f"Grid of {name} images, their reconstructions, and samples of the model.",
        f"{name}: {estimator_name(run.label)}, n = {run.configuration['n']}, "
        f"seed {run.configuration['seed']}, {run.summary['steps']:,} steps, training -ELBO "
        f"{final_elbo(run):.2f} (run {run.number}).",
    )
