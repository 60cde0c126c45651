"""One seed of a supernet search: what is measured, what is found, what is reported."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from dbsurf_paper.data import store
from dbsurf_paper.experiments.nas import space
from dbsurf_paper.experiments.nas.landscape import DATASETS, REPORTED, Table, load_table
from dbsurf_paper.experiments.nas.supernet.building import build
from dbsurf_paper.experiments.nas.supernet.drawing import draw_cell
from dbsurf_paper.experiments.nas.supernet.evaluation import accuracy
from dbsurf_paper.experiments.nas.supernet.methods.base import Candidate
from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
from dbsurf_paper.experiments.nas.supernet.workers import Workers
from dbsurf_paper.files import write_atomically
from dbsurf_paper.report.statistics import Mean
from dbsurf_paper.runs.life import Life
from dbsurf_paper.runs.records import KEPT, Row, add_picture
from dbsurf_paper.runs.steps import Steps

TABLES = ("nasbench201", "nats-bench")
WHOLE = {"cifar10-subset": "cifar10"}  # sets that are part of one of the table's


def table_of(options: SupernetOptions) -> tuple[Table | None, str]:
    """The benchmark's table, or None if it has no values for the data set; the set's name in it."""
    dataset = WHOLE.get(options.dataset, options.dataset)
    here = any(store.locate(name, options.data_dir) is not None for name in TABLES)
    known = here and dataset in DATASETS
    return (load_table(dataset, options.data_dir) if known else None), dataset


def looked_up(cell: space.Cell, table: Table | None, dataset: str) -> dict[str, Any]:
    """A cell with its accuracies; None where the table is not available."""
    index = space.to_index(cell)
    return {
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
        "distinct_queries": _mean(cell["distinct_queries"] for cell in found),
        "queries": _mean(cell["queries"] for cell in found),
    }


def _mean(values: Iterable[int | None]) -> float | None:
    """The mean, None if there is no number: a mixture of operations is not a cell."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


PICTURE, CANDIDATES = "cell.png", "candidates.csv"


class Search(Steps):
    """One seed of a supernet search."""

    def __init__(self, options: SupernetOptions, workers: Workers, life: Life) -> None:
        self.options = options
        self.table, self.dataset = table_of(options)
        self.trainer, self.test_images, self.test_labels = build(options, workers)
        schedule = self.trainer.schedule
        super().__init__(
            life,
            self.trainer,
            total=schedule.total,
            checkpoint_every=options.checkpoint_every or schedule.epoch,
            evaluate_every=options.evaluate_every or schedule.epoch,
            tensorboard=options.tensorboard,
        )

    def title(self) -> str:
        options = self.options
        return f"{options.dataset} {options.label()} seed {options.seed}"

    def entropy(self) -> list[float]:
        """Of each edge in nats, the mean over supernets where there are several."""
        found = [member.architecture.entropy() for member in self.trainer.members]
        return [statistics.fmean(values) for values in zip(*found, strict=True)]

    def note(self) -> str:
        """Loss, entropy of each edge in its order, and the present cell."""
        row = self.life.metrics[-1]
        loss = "" if row["loss"] is None else f"loss {row['loss']:.3f}  "
        entropy = " ".join(f"{value:.2f}" for value in self.entropy())
        index = row["cell"]
        cell = "" if index is None else space.to_string(space.from_index(int(index)))
        return f"{loss}entropy {entropy}  {cell}".rstrip()

    def measure(self) -> Row:
        """Mean loss of the last steps, entropy of each edge in nats, the present cell."""
        trainer = self.trainer
        recent = trainer.losses.values[: min(trainer.steps, KEPT)]
        cell = trainer.method.present(trainer)
        known = {} if cell is None else looked_up(cell, self.table, self.dataset)
        return {
            "epoch": trainer.evaluator.images / trainer.count,
            "images": trainer.evaluator.images,
            "loss": float(recent.mean()) if len(recent) else None,
            "learning_rate": trainer.schedule.rate(trainer.steps),
            **{
                f"entropy_{source}_{target}": value
                for (source, target), value in zip(space.EDGES, self.entropy(), strict=True)
            },
            "open_edges": len(trainer.members[0].architecture.open_edges()),
            "cell": known.get("index"),
            "test_200": known.get("test_200"),
        }

    def results(self) -> dict[str, Any]:
        """The found cell, looked up in the table where that is here, and its picture."""
        trainer, options, method = self.trainer, self.options, self.trainer.method
        candidates = method.choose(trainer)
        if len(candidates) > 1:
            self.write_candidates(candidates)
        cell, member = candidates[0].cell, trainer.members[candidates[0].member]
        shares = member.architecture.probabilities().cpu()
        drawn = [float(shares[edge, operation]) for edge, operation in enumerate(cell)]
        title = f"Cell {space.to_index(cell)}: {self.title()}, probability of each operation"
        picture = self.life.folder / PICTURE
        draw_cell(cell, picture, title, drawn)
        if options.tensorboard:
            add_picture(self.life.folder, "cell", picture, trainer.steps)
        choice = method.fixed(cell, member.architecture)
        test = self.test_images, self.test_labels, *trainer.blocks
        sampled = trainer.evaluator.sampled
        found = {
            "seed": options.seed,
            **looked_up(cell, self.table, self.dataset),
            "distinct_queries": int(sampled.sum()) if method.samples else None,
            "queries": trainer.evaluations if method.samples else None,
            "images": trainer.evaluator.images,
            "supernet_accuracy": accuracy(member.network, choice, *test),
        }
        return summary(options, [found])

    def write_candidates(self, found: Sequence[Candidate]) -> None:
        """All cells that the search chose from by their loss, and the supernet of each."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["index", "architecture", "loss", "supernet"])
        writer.writerows(
            [space.to_index(one.cell), space.to_string(one.cell), one.loss, one.member]
            for one in found
        )
        write_atomically(self.life.folder / CANDIDATES, text.getvalue())
