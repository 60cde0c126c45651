"""One step of the search, and everything that has to be saved to continue it (appendix C.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import dbsurf
from dbsurf.experiments.nas.options import Batching
from dbsurf.experiments.nas.space import Cell
from dbsurf.experiments.nas.supernet.architecture import Architecture, CellLosses, loss
from dbsurf.experiments.nas.supernet.images import Batches, Standard
from dbsurf.experiments.nas.supernet.network import Supernet, synchronise
from dbsurf.experiments.nas.supernet.workers import Workers
from dbsurf.runs.records import RecentLosses


@dataclass(frozen=True)
class Schedule:
    """A linear warm-up, then the first part of a cosine that would take longer than the run.

    The paper prints the warm-up's rate as going from 2e-4 to 1.0, and the cosine as starting from
    0.5: both fit if the former is a factor on the latter. The cosine reaches 0 after 235 epochs, of
    which 45 are run.

    Args:
        base: rate at which the cosine starts.
        warmup: steps of warm-up.
        cosine: steps after which the cosine would reach 0.
        first: factor on ``base`` at the first step of all.
    """

    base: float
    warmup: int
    cosine: int
    first: float = 2e-4

    def rate(self, step: int) -> float:
        """The rate of step number ``step``, counted from 0.

        Example:
            >>> Schedule(base=0.5, warmup=10, cosine=100).rate(10)
            0.5
        """
        if step < self.warmup:
            return self.base * (self.first + (1 - self.first) * step / self.warmup)
        done = min(1.0, (step - self.warmup) / self.cosine)
        return self.base * (1 + math.cos(math.pi * done)) / 2


MOMENTUM, WEIGHT_DECAY = 0.9, 4e-5
BETAS = (0.5, 0.999)


class Trainer:
    """Network, architecture, estimator and data, advanced one step at a time.

    A step draws a batch and n cells, and updates weights and architecture from the same losses.
    The architecture stays uniform during the warm-up. An operation that was not sampled has no
    gradient, and its weights and their momentum do not change.

    Args:
        network: on the device.
        architecture: on the device.
        estimator: draws the cells and turns their losses into a gradient.
        batches: where images come from; their generator also draws the cells.
        standard: scales pixels.
        schedule: learning rate of the weights; its warm-up is the search's.
        architecture_rate: of Adam for the logits; None: the architecture is never updated.
        batching: how many cells are in memory.
        workers: the processes that share the run.
    """

    def __init__(
        self,
        network: Supernet,
        architecture: Architecture,
        estimator: dbsurf.Estimator,
        batches: Batches,
        standard: Standard,
        schedule: Schedule,
        architecture_rate: float | None,
        batching: Batching,
        workers: Workers,
    ) -> None:
        synchronise(network, workers.count > 1)
        self.network, self.architecture, self.estimator = network, architecture, estimator
        self.batches, self.standard, self.schedule = batches, standard, schedule
        self.batching, self.workers = batching, workers
        self._searches = architecture_rate is not None
        self.weights = list(network.parameters())
        self.weight_optimiser = torch.optim.SGD(
            self.weights, lr=schedule.rate(0), momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
        )
        self.architecture_optimiser = torch.optim.Adam(
            [architecture.logits], lr=architecture_rate or 0.0, betas=BETAS
        )
        self.steps, self.evaluations = 0, 0
        # Which cells were sampled, numbered by their operations as digits.
        edges, operations = architecture.logits.shape
        self.sampled = torch.zeros(operations**edges, dtype=torch.bool, device=workers.device)
        self._places = operations ** torch.arange(edges, device=workers.device)
        self.losses = RecentLosses(workers.device)

    def step(self) -> None:
        """Draw a batch and cells, estimate, update, prune."""
        self.workers.tell(1)
        images, labels = self.batches.next()
        losses = self.cell_losses(self.workers.part(images), self.workers.part(labels))
        self.weight_optimiser.zero_grad()
        self.architecture_optimiser.zero_grad()
        value = self.expected(losses)
        if value.requires_grad:  # false during the warm-up, one by one: all is done
            self.workers.backward(value)
        self.workers.share_gradients(self.weights)
        for group in self.weight_optimiser.param_groups:
            group["lr"] = self.schedule.rate(self.steps)
        # A loss that is not finite must not update the architecture; the next check stops the run.
        if self.architecture.logits.grad is None or not bool(torch.isfinite(value)):
            self.workers.step(self.weight_optimiser)
        else:
            self.workers.step(self.weight_optimiser, self.architecture_optimiser)
            self.architecture.prune()
        self.losses.add(self.steps, value)
        self.steps += 1

    def expected(self, losses: CellLosses) -> Tensor:
        """The mean loss over n cells, with the estimator's gradient if there is a search.

        Once all edges are fixed one cell is left, and there is nothing to estimate.
        """

        def f(samples: Tensor) -> Tensor:
            cells = self.architecture.whole_cells(samples)
            self.evaluations += len(cells)
            self.sampled[(cells * self._places).sum(-1)] = True
            return losses(cells)

        if not len(self.architecture.open_edges()):
            return f(self.architecture.fixed.new_empty(1, 0)).squeeze(0)
        law = self.architecture.distribution(learn=self.searching)
        return self.estimator(f, law, generator=self.batches.generator)  # type: ignore[no-any-return]

    @property
    def searching(self) -> bool:
        """Whether the architecture is updated: not in the warm-up, never in uniform sampling."""
        return self._searches and self.steps >= self.schedule.warmup

    def cell_losses(self, images: Tensor, labels: Tensor) -> CellLosses:
        """The losses of a batch as a function of cells, means over all processes."""
        inputs = self.standard(images).contiguous(memory_format=torch.channels_last)

        def evaluate(cell: Cell) -> Tensor:
            with self.workers.precision():
                return self.workers.mean(loss(self.network(inputs, cell), labels))

        return CellLosses(evaluate, self.network.edges, self.batching, self.workers.backward)

    def first_bad_step(self) -> int | None:
        """The first of the last steps at which training was not finite; waits for the device."""
        watched = [*self.weights, self.architecture.logits]
        return self.losses.first_bad_step(self.steps, watched)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next steps depend on."""
        return {
            "steps": self.steps,
            "evaluations": self.evaluations,
            "sampled": self.sampled,
            "network": self.network.state_dict(),
            "architecture": self.architecture.state_dict(),
            "estimator": self.estimator.state_dict(),
            "weight_optimiser": self.weight_optimiser.state_dict(),
            "architecture_optimiser": self.architecture_optimiser.state_dict(),
            "scaler": self.workers.scaler.state_dict(),
            "batches": self.batches.state_dict(),
            "generator": self.batches.generator.get_state(),
            "losses": self.losses.values,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.evaluations = state["steps"], state["evaluations"]
        self.sampled = state["sampled"].to(self.sampled.device)
        self.network.load_state_dict(state["network"])
        self.architecture.load_state_dict(state["architecture"])
        self.estimator.load_state_dict(state["estimator"])
        self.weight_optimiser.load_state_dict(state["weight_optimiser"])
        self.architecture_optimiser.load_state_dict(state["architecture_optimiser"])
        self.workers.scaler.load_state_dict(state["scaler"])
        self.batches.load_state_dict(state["batches"])
        self.batches.generator.set_state(state["generator"].cpu())
        self.losses.values = state["losses"].to(self.losses.values.device)
