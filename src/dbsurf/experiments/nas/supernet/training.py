"""One step of the search, and everything that has to be saved to continue it (appendix C.2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import dbsurf
from dbsurf.experiments.nas.supernet.architecture import Architecture
from dbsurf.experiments.nas.supernet.cell import Path
from dbsurf.experiments.nas.supernet.images import Batches, Standard
from dbsurf.experiments.nas.supernet.network import Supernet
from dbsurf.experiments.nas.supernet.normalisation import synchronise
from dbsurf.experiments.nas.supernet.paths import Batching, PathLosses, loss
from dbsurf.experiments.nas.supernet.schedule import Schedule
from dbsurf.experiments.nas.supernet.workers import Workers
from dbsurf.runs.losses import RecentLosses

MOMENTUM, WEIGHT_DECAY = 0.9, 4e-5
BETAS = (0.5, 0.999)


class Trainer:
    """Network, architecture, estimator and data, advanced one step at a time.

    A step draws a batch and n paths, and updates weights and architecture from the same losses.
    The architecture stays uniform during the warm-up. An operation that was not sampled has no
    gradient, and its weights and their momentum rest until it is.

    Args:
        network: on the device.
        architecture: on the device.
        estimator: draws the paths and makes their losses a gradient.
        batches: where images come from; their generator also draws the paths.
        standard: scales pixels.
        schedule: learning rate of the weights; its warm-up is the search's.
        architecture_rate: of Adam for the logits; None: the architecture is never updated.
        batching: how many paths are in memory.
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
        """Draw a batch and paths, estimate, update, prune."""
        self.workers.tell(1)
        images, labels = self.batches.next()
        losses = self.path_losses(self.workers.part(images), self.workers.part(labels))
        self.weight_optimiser.zero_grad()
        self.architecture_optimiser.zero_grad()
        value = self.expected(losses)
        if value.requires_grad:  # one by one, during the warm-up, all is done already
            self.workers.backward(value)
        self.workers.share_gradients(self.weights)
        for group in self.weight_optimiser.param_groups:
            group["lr"] = self.schedule.rate(self.steps)
        # A loss that is not finite says nothing of the architecture; the run's next look sees it.
        if self.architecture.logits.grad is None or not bool(torch.isfinite(value)):
            self.workers.step(self.weight_optimiser)
        else:
            self.workers.step(self.weight_optimiser, self.architecture_optimiser)
            self.architecture.prune()
        self.losses.add(self.steps, value)
        self.steps += 1

    def expected(self, losses: PathLosses) -> Tensor:
        """The mean loss over n paths, the estimator's gradient behind it if there is a search.

        Once all edges are fixed one path is left, and nothing to estimate.
        """

        def f(samples: Tensor) -> Tensor:
            paths = self.architecture.paths(samples)
            self.evaluations += len(paths)
            self.sampled[(paths * self._places).sum(-1)] = True
            return losses(paths)

        if not len(self.architecture.open_edges()):
            return f(self.architecture.fixed.new_empty(1, 0)).squeeze(0)
        law = self.architecture.distribution(learn=self.searching)
        return self.estimator(f, law, generator=self.batches.generator)  # type: ignore[no-any-return]

    @property
    def searching(self) -> bool:
        """Whether the architecture is updated, now that the warm-up is over or not."""
        return self._searches and self.steps >= self.schedule.warmup

    def path_losses(self, images: Tensor, labels: Tensor) -> PathLosses:
        """Losses of a batch of bytes along paths, means over all processes."""
        inputs = self.standard(images).contiguous(memory_format=torch.channels_last)

        def evaluate(path: Path) -> Tensor:
            with self.workers.precision():
                return self.workers.mean(loss(self.network(inputs, path), labels))

        return PathLosses(evaluate, self.network.edges, self.batching, self.workers.backward)

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
