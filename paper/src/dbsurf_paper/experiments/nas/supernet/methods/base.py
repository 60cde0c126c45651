"""What a search method is: the one place that says how a supernet is searched.

A method says how a batch becomes gradients of weights and architecture, what is computed on an
edge, and how the final cell is chosen. Batches, optimisers, schedules, checkpoints and processes
are the same for all (`training`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from dbsurf_paper.experiments.nas.space import EDGES, Cell
from dbsurf_paper.experiments.nas.supernet.architecture import Architecture
from dbsurf_paper.experiments.nas.supernet.edges import Choice, Edges
from dbsurf_paper.experiments.nas.supernet.evaluation import Batch, Evaluator
from dbsurf_paper.experiments.nas.supernet.network import Supernet
from dbsurf_paper.runs.checkpoint import check_optimiser

if TYPE_CHECKING:
    from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
    from dbsurf_paper.experiments.nas.supernet.training import Trainer

MOMENTUM, WEIGHT_DECAY = 0.9, 4e-5
BETAS = (0.5, 0.999)


class Member:
    """A supernet and its architecture, with their optimisers. Most searches have one of them.

    Args:
        network: on the device.
        architecture: on the device.
        rate: of Adam for the architecture.
    """

    def __init__(self, network: Supernet, architecture: Architecture, rate: float) -> None:
        self.network, self.architecture = network, architecture
        self.weights = list(network.parameters())
        self.weight_optimiser = torch.optim.SGD(
            self.weights, lr=0.0, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
        )
        self.parameters = list(architecture.parameters())
        self.architecture_optimiser = torch.optim.Adam(self.parameters, lr=rate, betas=BETAS)

    def clear(self) -> None:
        """Forget all gradients."""
        self.weight_optimiser.zero_grad()
        self.architecture_optimiser.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        return {
            "network": self.network.state_dict(),
            "parts": self.network.parts,
            "architecture": self.architecture.state_dict(),
            "weight_optimiser": self.weight_optimiser.state_dict(),
            "architecture_optimiser": self.architecture_optimiser.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.network.take_parts(state["parts"])
        self.architecture.load_state_dict(state["architecture"])
        self.weight_optimiser.load_state_dict(state["weight_optimiser"])
        self.architecture_optimiser.load_state_dict(state["architecture_optimiser"])
        check_optimiser(self.weight_optimiser)
        check_optimiser(self.architecture_optimiser)


@dataclass(frozen=True)
class Candidate:
    """A cell that a search could end with.

    Attributes:
        cell: the cell.
        member: the number of the supernet that it is from.
        loss: with shared weights, where cells are compared by it.
    """

    cell: Cell
    member: int = 0
    loss: float | None = None


class Method(ABC):
    """A way to search. A subclass is built from the options of a run, and refuses bad ones.

    Attributes:
        name: as on the command line.
        kind: what the architecture is while it is searched, in the words of the paper's table 2.
        computes: what is computed on an edge.
        holds: operations held at once on an edge, for backward.
        costs: passes through the network in a step, forward and backward.
        reads: the options that belong to this method, with its own defaults; the others must be
            left alone. A default of None is that of the options.
        validation: whether the architecture has images of its own. They are taken from the training
            images, and the weights never see them.
        searches: whether the architecture is ever updated.
        prunes: whether an edge that is decided is fixed.
        samples: whether cells are sampled, so that they can be counted.
        share: the operations have weights for one channel of so many.
        parts: at the start the operations work on one of so many parts of the channels.
        members: number of supernets.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    computes: ClassVar[str]
    holds: ClassVar[str]
    costs: ClassVar[str]
    reads: ClassVar[Mapping[str, Any]] = {}
    validation: bool = False
    searches: bool = True
    prunes: bool = False
    samples: bool = False
    share: int = 1
    parts: int = 1
    members: int = 1

    @classmethod
    @abstractmethod
    def build(cls, options: SupernetOptions) -> Method:
        """The method of a run; raises a ValueError for options that do not fit."""

    # --- the search -------------------------------------------------------------------------------

    @abstractmethod
    def backward(
        self, member: Member, batch: Batch, evaluator: Evaluator, *, learn: bool
    ) -> Tensor:
        """The loss of a batch, after its gradients were added.

        Args:
            member: the supernet and its architecture.
            batch: training images.
            evaluator: evaluates the network.
            learn: whether the architecture gets a gradient, too.
        """

    def architecture_backward(
        self, member: Member, train: Batch, valid: Batch, evaluator: Evaluator
    ) -> Tensor:
        """Add the architecture's gradient on validation images; returns their loss.

        Only methods with ``validation`` need it, before the weights are trained on ``train``.
        """
        raise NotImplementedError

    def architecture(self, threshold: float = 1.0, graph: Edges = EDGES) -> Architecture:
        """The architecture at the start."""
        return Architecture(graph, threshold=threshold)

    def prepare(self, trainer: Trainer) -> None:  # noqa: B027
        """Called at the start of every step: what happens once, at its time, happens here."""

    def turn(self, trainer: Trainer) -> int:
        """The number of the supernet that this step trains."""
        return 0

    # --- the result -------------------------------------------------------------------------------

    def choose(self, trainer: Trainer) -> list[Candidate]:
        """What the search would end with now, the best first."""
        return [Candidate(trainer.members[0].architecture.likeliest())]

    def present(self, trainer: Trainer) -> Cell | None:
        """The cell for the curves; None if only the end of a search has one."""
        return self.choose(trainer)[0].cell

    def fixed(self, cell: Cell, architecture: Architecture) -> Choice:
        """What the network computes with a found cell."""
        return cell

    # --- a run that is resumed --------------------------------------------------------------------

    def to(self, device: torch.device) -> Method:
        """Move what the method itself holds."""
        return self

    def state_dict(self) -> dict[str, Any]:
        """What the next steps depend on, beside the supernets."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Take over what `state_dict` gave."""


class ByChoice(Method):
    """A method that evaluates one choice a step, through which the gradient goes."""

    @abstractmethod
    def choice(self, architecture: Architecture, evaluator: Evaluator, *, learn: bool) -> Choice:
        """What is computed in this step; its weights carry the gradient of the architecture."""

    def backward(
        self, member: Member, batch: Batch, evaluator: Evaluator, *, learn: bool
    ) -> Tensor:
        choice = self.choice(member.architecture, evaluator, learn=learn)
        value = evaluator.loss(member.network, batch, choice)
        evaluator.backward(value)
        return value.detach()

    def architecture_backward(
        self, member: Member, train: Batch, valid: Batch, evaluator: Evaluator
    ) -> Tensor:
        choice = self.choice(member.architecture, evaluator, learn=True)
        value = evaluator.loss(member.network, valid, choice)
        evaluator.backward(value, member.parameters)  # none is added to the weights
        return value.detach()


# --- temperatures ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Temperature:
    """A temperature that falls during the search.

    Args:
        start: during the warm-up.
        end: at the last step.
        geometric: fall by equal factors; else by equal differences.
    """

    start: float
    end: float
    geometric: bool = False

    def __post_init__(self) -> None:
        for name, value in (("temperature", self.start), ("final_temperature", self.end)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be above 0 and finite, got {value}")
        if self.end > self.start:
            raise ValueError(
                f"final_temperature must be at most the temperature {self.start}, got {self.end}"
            )

    def at(self, progress: float) -> float:
        """The temperature when this share of the search is done.

        Example:
            >>> Temperature(10.0, 0.1).at(0.5), Temperature(10.0, 0.1, geometric=True).at(0.5)
            (5.05, 1.0)
        """
        if self.geometric:
            return float(self.start * (self.end / self.start) ** progress)
        return self.start + (self.end - self.start) * progress


def gumbel(like: Tensor, generator: torch.Generator) -> Tensor:
    """Independent standard Gumbel variables, in the shape of ``like``."""
    times = torch.empty_like(like).exponential_(generator=generator)
    return -times.clamp(min=torch.finfo(like.dtype).tiny).log()
