"""One step of the search, and everything that has to be saved to continue it (appendix C.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dbsurf_paper.experiments.nas.supernet.evaluation import Batch, Evaluator
from dbsurf_paper.experiments.nas.supernet.images import Batches, Standard
from dbsurf_paper.experiments.nas.supernet.methods.base import Member, Method
from dbsurf_paper.experiments.nas.supernet.network import synchronise
from dbsurf_paper.experiments.nas.supernet.workers import Workers
from dbsurf_paper.runs.records import RecentLosses


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
        total: steps of the whole run.
        epoch: steps of the search that see as many images as the training set has.
        first: factor on ``base`` at the first step of all.
    """

    base: float
    warmup: int
    cosine: int
    total: int = 0
    epoch: int = 1
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

    def progress(self, step: int) -> float:
        """How much of the search is done before a step: 0 at its first step, 1 at its last.

        Example:
            >>> Schedule(base=0.5, warmup=10, cosine=100, total=21).progress(15)
            0.5
        """
        last = self.total - 1 - self.warmup
        return min(1.0, max(0.0, (step - self.warmup) / last)) if last > 0 else 0.0


class Trainer:
    """A search method with its supernets and data, advanced one step at a time.

    A step draws a batch and updates weights and architecture as the method says: both from the same
    losses, or, if the method has validation images, the architecture from a batch of these and then
    the weights. The architecture stays as it is during the warm-up. An operation that was not
    computed has no gradient, and its weights and their momentum do not change.

    Args:
        method: the search method.
        members: as many supernets as the method has.
        batches: training images; their generator also draws what the method draws.
        validation: images for the architecture, for methods that have them.
        standard: scales pixels.
        schedule: learning rate of the weights; its warm-up is the search's.
        workers: the processes that share the run.
    """

    def __init__(
        self,
        method: Method,
        members: Sequence[Member],
        batches: Batches,
        validation: Batches | None,
        standard: Standard,
        schedule: Schedule,
        workers: Workers,
    ) -> None:
        for member in members:
            synchronise(member.network, workers.count > 1)
        self.method, self.members = method, list(members)
        self.batches, self.validation = batches, validation
        self.schedule, self.workers = schedule, workers
        edges = len(members[0].architecture.graph)
        self.evaluator = Evaluator(workers, standard, batches.generator, edges)
        self.steps = 0
        self.losses = RecentLosses(workers.device)

    @property
    def evaluations(self) -> int:
        """Passes of a batch through the network with one choice."""
        return self.evaluator.evaluations

    @property
    def count(self) -> int:
        """Training images, those of the validation part included."""
        return len(self.batches.images) + (
            0 if self.validation is None else len(self.validation.images)
        )

    @property
    def searching(self) -> bool:
        """Whether the architecture is updated: not in the warm-up, never in uniform sampling."""
        return self.method.searches and self.steps >= self.schedule.warmup

    def step(self) -> None:
        """Draw a batch, add gradients, update, prune."""
        self.workers.tell(1)
        self.evaluator.progress = self.schedule.progress(self.steps)
        self.method.prepare(self)
        member = self.members[self.method.turn(self)]
        for group in member.weight_optimiser.param_groups:
            group["lr"] = self.schedule.rate(self.steps)
        train = self.batch(self.batches)
        apart = self.searching and self.validation is not None
        if apart:
            self.search(member, train)
        member.clear()
        learn = self.searching and not apart
        value = self.method.backward(member, train, self.evaluator, learn=learn)
        self.workers.share_gradients([*member.weights, *member.parameters])
        # A loss that is not finite must not update the architecture; the next check stops the run.
        if self.has_gradient(member) and bool(torch.isfinite(value)):
            self.workers.step(member.weight_optimiser, member.architecture_optimiser)
            if self.method.prunes:
                member.architecture.prune()
        else:
            self.workers.step(member.weight_optimiser)
        self.losses.add(self.steps, value)
        self.steps += 1

    def search(self, member: Member, train: Batch) -> None:
        """Update the architecture on a batch of validation images."""
        assert self.validation is not None
        valid = self.batch(self.validation)
        member.clear()
        value = self.method.architecture_backward(member, train, valid, self.evaluator)
        self.workers.share_gradients(member.parameters)
        if self.has_gradient(member) and bool(torch.isfinite(value)):
            self.workers.step(member.architecture_optimiser)

    def has_gradient(self, member: Member) -> bool:
        """Whether the architecture has one: not in the warm-up, nor where no operation counts."""
        return any(parameter.grad is not None for parameter in member.parameters)

    def batch(self, batches: Batches) -> Batch:
        """The next batch, ready for the network."""
        return self.evaluator.batch(*batches.next())

    def selection(self, count: int) -> tuple[Tensor, Tensor]:
        """The first images by which cells are compared: of validation, where there is one."""
        chosen = self.batches if self.validation is None else self.validation
        return chosen.images[:count], chosen.labels[:count]

    @property
    def blocks(self) -> tuple[int, Standard]:
        """How images are evaluated without training: block size and scaling."""
        return self.batches.size, self.evaluator.standard

    def first_bad_step(self) -> int | None:
        """The first of the last steps at which training was not finite; waits for the device."""
        watched = [
            value for member in self.members for value in (*member.weights, *member.parameters)
        ]
        return self.losses.first_bad_step(self.steps, watched)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next steps depend on."""
        return {
            "steps": self.steps,
            "evaluations": self.evaluator.evaluations,
            "images": self.evaluator.images,
            "sampled": self.evaluator.sampled,
            "members": {
                str(number): member.state_dict() for number, member in enumerate(self.members)
            },
            "method": self.method.state_dict(),
            "scaler": self.workers.scaler.state_dict(),
            "batches": self.batches.state_dict(),
            "validation": {} if self.validation is None else self.validation.state_dict(),
            "generator": self.batches.generator.get_state(),
            "losses": self.losses.values,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        self.evaluator.evaluations = state["evaluations"]
        self.evaluator.images = state["images"]
        self.evaluator.sampled = state["sampled"].to(self.evaluator.sampled.device)
        for number, member in enumerate(self.members):
            member.load_state_dict(state["members"][str(number)])
        self.method.load_state_dict(state["method"])
        self.workers.scaler.load_state_dict(state["scaler"])
        self.batches.load_state_dict(state["batches"])
        if self.validation is not None:
            self.validation.load_state_dict(state["validation"])
        self.batches.generator.set_state(state["generator"].cpu())
        self.losses.values = state["losses"].to(self.losses.values.device)
