"""One seed of a supernet search: what is measured, what is found, what is reported."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dbsurf.data import store
from dbsurf.experiments.nas import space
from dbsurf.experiments.nas.landscape import DATASETS, REPORTED, Table, load_table
from dbsurf.experiments.nas.options import SupernetOptions
from dbsurf.experiments.nas.space import OPERATIONS, Cell
from dbsurf.experiments.nas.supernet.architecture import loss
from dbsurf.experiments.nas.supernet.building import UNIFORM, build
from dbsurf.experiments.nas.supernet.drawing import draw_cell
from dbsurf.experiments.nas.supernet.network import synchronise
from dbsurf.experiments.nas.supernet.training import Trainer
from dbsurf.experiments.nas.supernet.workers import Workers
from dbsurf.files import write_atomically
from dbsurf.report.numbers import Mean
from dbsurf.runs import job
from dbsurf.runs.records import KEPT, Row, add_picture

SELECTION_SEED = 2_000_001
SELECTION_IMAGES = 1_024


@torch.no_grad()
def candidates(trainer: Trainer, count: int, seed: int) -> list[tuple[Cell, float]]:
    """Cells drawn uniformly, and their training losses, the lowest first.

    Uniform sampling has no most probable cell. It takes the first of these, selected by training
    loss with shared weights alone. The loss is that of the first training images, without
    augmentation, the same for all cells.
    """
    edges = len(trainer.architecture.logits)
    generator = torch.Generator().manual_seed(SELECTION_SEED + seed)
    drawn = torch.randint(len(OPERATIONS), (count, edges), generator=generator).tolist()
    cells = list(dict.fromkeys(tuple(cell) for cell in drawn))
    images = trainer.batches.images[:SELECTION_IMAGES]
    labels = trainer.batches.labels[:SELECTION_IMAGES]
    found = []
    for cell in cells:
        losses = [
            float(loss(logits, wanted)) * len(wanted)
            for logits, wanted in _answers(trainer, cell, images, labels)
        ]
        found.append((cell, sum(losses) / len(labels)))
    return sorted(found, key=lambda pair: pair[1])


@torch.no_grad()
def accuracy(trainer: Trainer, cell: Cell, images: Tensor, labels: Tensor) -> float:
    """Accuracy in percent of a cell with the shared weights.

    Batch normalisation takes its statistics from the images of a batch, here as in training.
    """
    right = sum(
        int((logits.argmax(-1) == wanted).sum())
        for logits, wanted in _answers(trainer, cell, images, labels)
    )
    return 100 * right / len(labels)


def _answers(
    trainer: Trainer, cell: Cell, images: Tensor, labels: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    size = trainer.batches.size
    synchronise(trainer.network, False)  # the other processes do not take part
    for block, wanted in zip(images.split(size), labels.split(size), strict=True):
        inputs = trainer.standard(block).contiguous(memory_format=torch.channels_last)
        yield trainer.network(inputs, cell), wanted
    synchronise(trainer.network, trainer.workers.count > 1)


TABLES = ("nasbench201", "nats-bench")
WHOLE = {"cifar10-subset": "cifar10"}  # sets that are part of one of the table's


def table_of(options: SupernetOptions) -> tuple[Table | None, str]:
    """The benchmark's table, or None if it has no values for the data set; the set's name in it."""
    dataset = WHOLE.get(options.dataset, options.dataset)
    here = any(store.locate(name, options.data_dir) is not None for name in TABLES)
    known = here and dataset in DATASETS
    return (load_table(dataset, options.data_dir) if known else None), dataset


def found_cell(options: SupernetOptions, cell: space.Cell) -> dict[str, Any]:
    """A found cell with its accuracies; None where the table is not available."""
    index = space.to_index(cell)
    table, dataset = table_of(options)
    return {
        "seed": options.seed,
        "index": index,
        "architecture": space.to_string(cell),
        **(dict.fromkeys(REPORTED) if table is None else table.record(index, dataset)),
    }


def summary(options: SupernetOptions, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Found cells, and means over their seeds."""
    known = [cell["test_200"] for cell in found if cell["test_200"] is not None]
    return {
        "landscape": "NAS-Bench-201" if known else None,
        "found": list(found),
        "test_200": Mean.of(known).value if known else None,
        "test_200_error": Mean.of(known).error if len(known) > 1 else None,
        "distinct_queries": statistics.fmean(cell["distinct_queries"] for cell in found),
        "queries": statistics.fmean(cell["queries"] for cell in found),
    }


PICTURE, CANDIDATES = "cell.png", "candidates.csv"


@dataclass(frozen=True)
class Lengths:
    """The options of one seed for the training loop: all lengths in steps."""

    options: SupernetOptions
    steps: int
    evaluate_every: int
    checkpoint_every: int
    resume: bool
    tensorboard: bool

    def config(self) -> dict[str, Any]:
        return self.options.config()

    def folder(self) -> Path:
        return self.options.folder()


def lengths(options: SupernetOptions, trainer: Trainer) -> Lengths:
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

    def __init__(self, options: SupernetOptions, workers: Workers) -> None:
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
        title = f"Cell {space.to_index(cell)}: {self.title()}, probability of each operation"
        draw_cell(cell, self.folder / PICTURE, title, drawn)
        if options.tensorboard:
            add_picture(self.folder, "cell", self.folder / PICTURE, trainer.steps)
        found = {
            **found_cell(options, cell),
            "distinct_queries": int(trainer.sampled.sum()),
            "queries": trainer.evaluations,
            "supernet_accuracy": accuracy(trainer, cell, self.test_images, self.test_labels),
        }
        return summary(options, [found])

    def choose(self) -> space.Cell:
        """The cell that uniform sampling selects by training loss; writes all candidates."""
        found = candidates(self.trainer, self.options.candidates, self.options.seed)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["index", "architecture", "loss"])
        writer.writerows(
            [space.to_index(cell), space.to_string(cell), loss] for cell, loss in found
        )
        write_atomically(self.folder / CANDIDATES, text.getvalue())
        return found[0][0]
