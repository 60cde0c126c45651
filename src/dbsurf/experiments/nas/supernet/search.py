"""One search by supernet: what is measured, what is found."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dbsurf.experiments.nas import space
from dbsurf.experiments.nas.options import Options
from dbsurf.experiments.nas.supernet import selection
from dbsurf.experiments.nas.supernet.building import UNIFORM, build
from dbsurf.experiments.nas.supernet.drawing import draw_cell
from dbsurf.experiments.nas.supernet.summary import found_cell, summary
from dbsurf.experiments.nas.supernet.training import Trainer
from dbsurf.experiments.nas.supernet.workers import Workers
from dbsurf.runs import job
from dbsurf.runs.folder import write_atomically
from dbsurf.runs.losses import KEPT
from dbsurf.runs.metrics import Row

PICTURE, CANDIDATES = "cell.png", "candidates.csv"


@dataclass(frozen=True)
class Lengths:
    """The options of one seed as the loop wants them: everything in steps."""

    options: Options
    steps: int
    evaluate_every: int
    checkpoint_every: int
    resume: bool
    tensorboard: bool

    def config(self) -> dict[str, Any]:
        return self.options.config()

    def folder(self) -> Path:
        return self.options.folder()


def lengths(options: Options, trainer: Trainer) -> Lengths:
    epoch = trainer.batches.epoch
    return Lengths(
        options,
        steps=options.steps or (options.warmup_epochs + options.epochs) * epoch,
        evaluate_every=options.evaluate_every or epoch,
        checkpoint_every=options.checkpoint_every or epoch,
        resume=options.resume,
        tensorboard=options.tensorboard,
    )


class Search(job.Job):
    """One seed of a supernet search."""

    experiment = "nas"

    def __init__(self, options: Options, workers: Workers) -> None:
        if options.threads:
            torch.set_num_threads(options.threads)
        self.options = options
        self.trainer, self.test_images, self.test_labels = build(options, workers)
        super().__init__(lengths(options, self.trainer), self.trainer, workers.device)

    def title(self) -> str:
        options = self.options
        return f"{options.dataset} {options.label()} n={options.n} seed {options.seed}"

    def note(self) -> str:
        """Loss, entropy of each edge in its order, and the likeliest cell."""
        row, architecture = self.rows[-1], self.trainer.architecture
        loss = "" if row["loss"] is None else f"loss {row['loss']:.3f}  "
        entropy = " ".join(f"{value:.2f}" for value in architecture.entropy())
        return f"{loss}entropy {entropy}  {space.to_string(architecture.likeliest())}"

    def measure(self) -> Row:
        """Mean loss of the last steps, entropy of each edge in nats, the likeliest cell's index."""
        trainer = self.trainer
        recent = trainer.losses.values[: min(trainer.steps, KEPT)]
        entropy = trainer.architecture.entropy()
        return {
            "epoch": trainer.steps / trainer.batches.epoch,
            "loss": float(recent.mean()) if len(recent) else None,
            "learning_rate": trainer.schedule.rate(trainer.steps),
            **{
                f"entropy_{source}_{target}": value
                for (source, target), value in zip(space.EDGES, entropy, strict=True)
            },
            "open_edges": len(trainer.architecture.open_edges()),
            "cell": space.to_index(trainer.architecture.likeliest()),
        }

    def results(self) -> dict[str, Any]:
        """The found cell, looked up in the table where that is here, and its picture."""
        trainer, options = self.trainer, self.options
        cell = trainer.architecture.likeliest()
        if options.estimator == UNIFORM:
            cell = self.choose()
        shares = trainer.architecture.probabilities().cpu()
        drawn = [float(shares[edge, operation]) for edge, operation in enumerate(cell)]
        draw_cell(cell, self.folder / PICTURE, f"cell {space.to_index(cell)}", drawn)
        found = {
            **found_cell(options, cell),
            "distinct_queries": int(trainer.sampled.sum()),
            "queries": trainer.evaluations,
            "supernet_accuracy": selection.accuracy(
                trainer, cell, self.test_images, self.test_labels
            ),
        }
        return summary(options, [found])

    def choose(self) -> space.Cell:
        """The null's cell; all it chose from goes into a file."""
        found = selection.candidates(self.trainer, self.options.candidates, self.options.seed)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["index", "architecture", "loss"])
        writer.writerows(
            [space.to_index(cell), space.to_string(cell), loss] for cell, loss in found
        )
        write_atomically(self.folder / CANDIDATES, text.getvalue())
        return found[0][0]
