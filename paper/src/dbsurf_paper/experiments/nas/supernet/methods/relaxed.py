"""Random weights of operations, with a gradient along the sample: SNAS, GDAS, DrNAS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Dirichlet
from torch.nn import functional

from dbsurf_paper.experiments.nas.space import EDGES, Cell
from dbsurf_paper.experiments.nas.supernet.architecture import Architecture
from dbsurf_paper.experiments.nas.supernet.edges import Choice, Edges, Mixture, Path
from dbsurf_paper.experiments.nas.supernet.evaluation import Batch, Evaluator
from dbsurf_paper.experiments.nas.supernet.methods.base import (
    ByChoice,
    Member,
    Method,
    Temperature,
    gumbel,
)
from dbsurf_paper.experiments.nas.supernet.methods.mixtures import check_parts, one_hot
from dbsurf_paper.experiments.nas.supernet.network import Convolution, Supernet

if TYPE_CHECKING:
    from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
    from dbsurf_paper.experiments.nas.supernet.training import Trainer


def concrete(
    architecture: Architecture, evaluator: Evaluator, temperature: float, *, learn: bool
) -> Tensor:
    """One sample of the concrete distribution on each edge, ``(edges, operations)``."""
    log_probs = torch.log_softmax(architecture.masked_logits(learn=learn), -1)
    noise = gumbel(log_probs, evaluator.generator)
    return torch.softmax((log_probs + noise) / temperature, -1)


class Snas(ByChoice):
    """SNAS: a sample of the concrete distribution weights all operations of an edge.

    The weights are softmax((log p + g) / t) with Gumbel noise g and a temperature t that falls by
    equal factors from ``temperature`` to ``final_temperature``, so that the samples approach
    one-hot ones. Weights and architecture are trained by one backward on the same batch.

    Bias: unbiased for the relaxed expectation at the present temperature, biased for the expected
    loss of cells; less so, and with more variance, as t falls. Memory: all operations.
    Evaluations: 1 a step.

    Args:
        temperature: of the search.

    Reference:
        Xie, Zheng, Liu and Lin, SNAS: stochastic neural architecture search, ICLR 2019.
    """

    name = "snas"
    kind = "continuous"
    computes = "all operations, with weights of a concrete sample"
    holds = "all"
    costs = "1"
    reads = {"temperature": 1.0, "final_temperature": 0.1}

    def __init__(self, temperature: Temperature) -> None:
        self.temperature = temperature

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        start, end = options.own("temperature"), options.own("final_temperature")
        return cls(Temperature(start, end, geometric=True))

    def choice(self, architecture: Architecture, evaluator: Evaluator, *, learn: bool) -> Choice:
        now = self.temperature.at(evaluator.progress)
        weights = concrete(architecture, evaluator, now, learn=learn)
        return Mixture(weights, architecture.operations())


class Gdas(ByChoice):
    """GDAS: the operation of the largest weight alone is computed, as if its weight were 1.

    The weights are a concrete sample at a temperature that falls by equal differences from
    ``temperature`` to ``final_temperature``. Forward, the best operation of an edge has weight 1
    and the others are left out. Backward, it has the derivative of its weight in the sample
    (straight-through), and the others, which were not computed, have none. The logits follow the
    validation loss, the weights the training loss, in turns.

    Bias: biased, also for the relaxation. Memory: one operation. Evaluations: 2 a step of the
    search, 1 of the warm-up.

    Args:
        temperature: of the search.

    Reference:
        Dong and Yang, Searching for a robust neural architecture in four GPU hours, CVPR 2019.
    """

    name = "gdas"
    kind = "discrete"
    computes = "the operation that was sampled"
    holds = "1"
    costs = "2"
    reads = {"temperature": 10.0, "final_temperature": 0.1, "validation": None}
    validation = True
    samples = True

    def __init__(self, temperature: Temperature) -> None:
        self.temperature = temperature

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        return cls(Temperature(options.own("temperature"), options.own("final_temperature")))

    def choice(self, architecture: Architecture, evaluator: Evaluator, *, learn: bool) -> Choice:
        now = self.temperature.at(evaluator.progress)
        weights = concrete(architecture, evaluator, now, learn=learn)
        best = weights.argmax(-1, keepdim=True)  # (edges, 1)
        evaluator.record(best.T)
        of_best = weights.gather(-1, best).squeeze(-1)  # (edges,)
        straight = 1 + (of_best - of_best.detach()) if learn else None
        return Path(tuple(best.squeeze(-1).tolist()), architecture.graph, straight)


ANCHOR = 1e-3  # weight of the squared distance of the concentrations from 1
KEPT = 3  # operations of an edge that the progressive scheme keeps, of five


class Concentrations(Architecture):
    """Dirichlet distributions over the weights of the operations, with all concentrations 1 at
    first: elu(logit) + 1."""

    def concentrations(self, *, learn: bool = True) -> Tensor:
        """Of all operations, ``(edges, operations)``; those ruled out are not meant."""
        return functional.elu(self.logits if learn else self.logits.detach()) + 1

    def shares(self, *, learn: bool = True) -> Tensor:
        """The mean weights."""
        found = torch.where(self.allowed, self.concentrations(learn=learn), 0.0)
        return found / found.sum(-1, keepdim=True)


class DrNas(ByChoice):
    """DrNAS: a sample of a Dirichlet distribution weights all operations of an edge.

    The concentrations follow the validation loss by the pathwise derivative of the sample, plus
    0.001 times their squared distance from 1; the weights follow the training loss, in turns. The
    found cell has the largest concentration on each edge.

    The progressive scheme: in the first half of the search the operations work on one of ``parts``
    parts of the channels; in the second half each edge keeps its three best operations, on twice as
    many channels, whose weights start as copies.

    Bias: unbiased for the expected loss of mixtures, which is not that of cells. Memory: all
    operations; progressive: all on 1/parts of the channels, then three on 2/parts. Evaluations: 2
    a step of the search, 1 of the warm-up.

    Args:
        parts: parts of the channels in the first half; None: not progressive.
        channels: of the first stage.

    Reference:
        Chen, Wang, Cheng, Tang and Hsieh, DrNAS: Dirichlet neural architecture search, ICLR 2021.
    """

    name = "drnas"
    kind = "continuous"
    computes = "all operations, with weights of a Dirichlet sample"
    holds = "all (progressive: on part of the channels, then 3)"
    costs = "2"
    reads = {"progressive": None, "parts": None, "validation": None}
    validation = True

    def __init__(self, parts: int | None = None, channels: int = 1) -> None:
        self.progressive = parts is not None
        self.widened = 0
        if parts is not None:
            check_parts(parts, channels)
            if parts % 2:
                raise ValueError(f"parts must be even for the progressive scheme, got {parts}")
            self.parts, self.share = parts, parts // 2

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        return cls(options.parts, options.channels) if options.progressive else cls()

    def architecture(self, threshold: float = 1.0, graph: Edges = EDGES) -> Architecture:
        return Concentrations(graph, threshold=threshold)

    def choice(self, architecture: Architecture, evaluator: Evaluator, *, learn: bool) -> Choice:
        assert isinstance(architecture, Concentrations)
        found = architecture.concentrations(learn=learn)
        allowed = architecture.operations()
        # torch draws Dirichlet samples from its own stream: seed that one from the search's.
        seed = torch.randint(
            2**62, (), generator=evaluator.generator, device=evaluator.generator.device
        )
        weights = torch.zeros_like(found)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seed))
            for edge, operations in enumerate(allowed):
                sample = Dirichlet(found[edge, operations].cpu()).rsample()
                weights[edge, operations] = sample.to(weights)
        return Mixture(weights, allowed)

    def architecture_backward(
        self, member: Member, train: Batch, valid: Batch, evaluator: Evaluator
    ) -> Tensor:
        value = super().architecture_backward(member, train, valid, evaluator)
        architecture = member.architecture
        assert isinstance(architecture, Concentrations)
        distance = (architecture.concentrations() - 1)[architecture.allowed].square().sum()
        evaluator.backward(ANCHOR * distance)
        return value

    def prepare(self, trainer: Trainer) -> None:
        if self.progressive and not self.widened and trainer.evaluator.progress >= 0.5:
            for member in trainer.members:
                architecture = member.architecture
                for edge, best in enumerate(architecture.shares(learn=False).topk(KEPT).indices):
                    architecture.restrict(edge, best.tolist())
                widen(member.network, self.share)
            self.widened = 1

    def fixed(self, cell: Cell, architecture: Architecture) -> Choice:
        if not self.progressive:
            return cell
        return Mixture(one_hot(cell, architecture.logits), [[one] for one in cell])

    def state_dict(self) -> dict[str, Any]:
        return {"widened": self.widened}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.widened = state["widened"]


@torch.no_grad()
def widen(network: Supernet, parts: int) -> None:
    """Let operations work on one of ``parts`` parts of the channels, twice as many as before.

    The new weights are copies of the old ones; a sum over twice as many inputs is halved.
    """
    for shared in network.shared_cells():
        for module in shared.modules():
            if isinstance(module, Convolution):
                half = module.in_channels // 2
                old = module.weight[:half, :half].clone()
                module.weight.copy_(old.repeat(2, 2, 1, 1) / 2)
    network.take_parts(parts)
