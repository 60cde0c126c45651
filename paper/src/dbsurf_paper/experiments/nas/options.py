"""The options of the search by table, and what is common with those of the supernet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch.distributions import Categorical

import dbsurf
from dbsurf_paper.labels import Variant, add_variants, file_name
from dbsurf_paper.runs.options import Execution, check_counts, check_memory, check_rates

add_variants(
    Variant("evolution", (), "evolution", "#44AA99", "-"),
    Variant("random", (), "random search", "#8A8A00", ":"),
    # Searches in a supernet that are no estimators of expectations over cells.
    Variant("uniform", (), "uniform sampling", "#616161", "--"),
    Variant("darts", (), "DARTS", "#1F4E9C", "-"),
    Variant("pc-darts", (), "PC-DARTS", "#2E86C1", "--"),
    Variant("snas", (), "SNAS", "#B7410E", "-"),
    Variant("drnas", (), "DrNAS", "#7D3C98", ":"),
    Variant("gdas", (), "GDAS", "#1E8449", "-"),
    Variant("dsnas", (), "DSNAS", "#D4AC0D", "-."),
    Variant("few-shot", (), "Few-Shot", "#C2185B", "--"),
    Variant("few-shot-gm", (), "Few-Shot-GM", "#5C2CD4", "-."),
)

TableDataset = Literal["cifar10", "cifar100", "imagenet16-120", "synthetic"]
#: Searches by table that share a stream of random numbers. They are always run together, whether
#: all of them were asked for or one: so the result of a seed does not depend on the others.
BLOCK = 100


@dataclass(frozen=True)
class TableOptions(Execution):
    """Search for a cell of NAS-Bench-201 by looking accuracies up in its table."""

    usual_threads = 1  # the tensors are small
    help_examples = (
        "dbsurf nas table --dataset synthetic                # seconds, no download",
        "dbsurf nas table --estimator evolution --seeds 20",
    )

    dataset: TableDataset = "cifar10"
    """Data set of the table; synthetic is a made-up table and needs no download."""
    estimator: str = "dbsurf"
    """Gradient estimator by name, or a baseline: random, evolution."""
    estimator_options: tuple[str, ...] = ()
    """Options of the estimator, as NAME=VALUE: alpha=preserve debias=true."""
    n: int = 5
    """Cells drawn in each step."""
    steps: int = 1_000
    """Steps of a search."""
    seeds: int = 100
    """Number of independent searches."""
    seed: int = 0
    """Seed of the first of them."""

    logits_rate: float = 0.05
    """Learning rate of Adam for the logits."""
    choice: Literal["mode", "best", "finalists"] = "finalists"
    """The cell that a search ends with. mode: the most probable one. best: of those looked up, the
    one with the highest 12-epoch validation accuracy. finalists: of the best few by that, the one
    with the highest 200-epoch validation accuracy. A search without a distribution has no mode and
    takes best."""
    finalists: int = 30
    """Number of cells that are trained for 200 epochs to choose among them."""
    population: int = 25
    """Cells in the population, for `--estimator evolution`."""
    tournament: int = 5
    """Candidates for a parent, for `--estimator evolution`."""

    def check(self) -> None:
        """Raise a ValueError for the first option that no search can be made with."""
        lowest = {"n": 1, "steps": 1, "seeds": 1, "seed": 0, "finalists": 1}
        check_counts(self, lowest | {"population": 1, "tournament": 1})
        check_rates(self, ["logits_rate"])
        check_memory(16 * BLOCK * self.n * self.steps, "the queries of a block of searches")

    def config(self) -> dict[str, Any]:
        return {"mode": "table", **super().config()}

    def label(self) -> str:
        """The estimator and its options as one word."""
        return file_name(self.estimator, self.estimator_options)

    def place(self) -> Path:
        return Path("nas") / f"table-{self.dataset}-{self.label()}-n{self.n}-seed{self.seed}"


def check_takes_categories(estimator: dbsurf.Estimator, name: str) -> None:
    """Raise a ValueError for an estimator that does not work for categorical variables."""
    try:
        estimator.check(Categorical(torch.ones(5)))
    except ValueError as reason:
        raise ValueError(
            f"estimator must work for categorical variables, got {name}: {reason}"
        ) from None


TABLE_PRESETS = dict.fromkeys(("paper", "laptop", "smoke"), TableOptions())
