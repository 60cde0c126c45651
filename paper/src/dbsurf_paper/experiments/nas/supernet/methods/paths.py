"""Methods that evaluate sampled paths: any estimator of the library, uniform sampling, DSNAS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import dbsurf
from dbsurf_paper.experiments.nas.options import check_takes_categories
from dbsurf_paper.experiments.nas.space import OPERATIONS, Cell
from dbsurf_paper.experiments.nas.supernet.architecture import Architecture, Batching, CellLosses
from dbsurf_paper.experiments.nas.supernet.edges import Path
from dbsurf_paper.experiments.nas.supernet.evaluation import (
    SELECTION_IMAGES,
    Batch,
    Evaluator,
    mean_loss,
)
from dbsurf_paper.experiments.nas.supernet.methods.base import Candidate, Member, Method
from dbsurf_paper.runs.options import named_values

if TYPE_CHECKING:
    from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
    from dbsurf_paper.experiments.nas.supernet.training import Trainer


class Sampled(Method):
    """n sampled paths and a gradient estimator, weights and architecture on the same batch.

    The search of the paper (section 4.3, appendix C.2) if the estimator is DBsurf. The gradient of
    the expected loss E f(x) over cells x is estimated from the n losses; the weights get the mean
    of the n gradients. An edge that is decided is fixed (``prune``).

    Bias: the estimator's own; DBsurf at alpha = 1 is biased, LOORF and REINFORCE are not. Memory:
    the operations of n paths, or of one path if they are evaluated one by one. Evaluations: n a
    step.

    Args:
        estimator: draws the cells and turns their losses into a gradient.
        batching: how many paths are in memory.

    Reference:
        Section 4.3 and appendix C.2 of the DBsurf paper.
    """

    name = "sampled"
    kind = "discrete"
    computes = "one operation of each of n paths"
    holds = "n, or 1 with `--path-batching one-by-one`"
    costs = "n"
    reads = {"estimator": None, "estimator_options": None, "n": None, "prune": None}
    prunes = True
    samples = True

    def __init__(self, estimator: dbsurf.Estimator, batching: Batching = "together") -> None:
        self.estimator, self.batching = estimator, batching

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        if options.estimator == Uniform.name:
            raise ValueError("estimator must be an estimator: uniform sampling is --method uniform")
        if ":" not in options.estimator and options.estimator not in dbsurf.available():
            known = ", ".join(dbsurf.available())
            raise ValueError(f"estimator must be one of {known}, got {options.estimator!r}")
        extras: dict[str, Any] = named_values(options.estimator_options)
        estimator = dbsurf.get(options.estimator, options.n, validate=False, **extras)
        check_takes_categories(estimator, options.estimator)
        return cls(estimator, options.path_batching)

    def backward(
        self, member: Member, batch: Batch, evaluator: Evaluator, *, learn: bool
    ) -> Tensor:
        architecture, network = member.architecture, member.network
        losses = CellLosses(
            lambda cell: evaluator.evaluate(network, batch, cell),
            network.edges,
            self.batching,
            evaluator.backward,
        )

        def f(samples: Tensor) -> Tensor:
            cells = architecture.whole_cells(samples)
            evaluator.evaluations += len(cells)
            evaluator.record(cells)
            return losses(cells)

        if not len(architecture.open_edges()):  # one cell is left: there is nothing to estimate
            value = f(architecture.fixed.new_empty(1, 0)).squeeze(0)
        else:
            law = architecture.distribution(learn=learn)
            value = self.estimator(f, law, generator=evaluator.generator)
        if value.requires_grad:  # false during the warm-up, one by one: all is done
            evaluator.backward(value)
        return value.detach()

    def to(self, device: torch.device) -> Method:
        self.estimator.to(device)
        return self

    def state_dict(self) -> dict[str, Any]:
        return {"estimator": self.estimator.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.estimator.load_state_dict(state["estimator"])


SELECTION_SEED = 2_000_001


class Uniform(Sampled):
    """Uniform sampling, and selection by training loss: the baseline of every search.

    n independent cells of a uniform architecture that is never updated train the weights. At the
    end cells are drawn, and the one with the lowest loss on the first training images, without
    augmentation, is taken: with shared weights alone.

    Bias: there is no gradient of an architecture. Memory: as for sampled paths. Evaluations: n a
    step, and once one of every candidate.

    Args:
        n: cells drawn in each step.
        candidates: cells drawn at the end.
        seed: of their drawing.
        batching: how many paths are in memory.

    Reference:
        Li and Talwalkar, Random search and reproducibility for neural architecture search, UAI
        2019; Guo et al., Single path one-shot neural architecture search with uniform sampling,
        ECCV 2020.
    """

    name = "uniform"
    kind = "discrete"
    costs = "n; at the end one for each candidate"
    reads = {"n": None, "candidates": None}
    searches = False
    prunes = False

    def __init__(self, n: int, candidates: int, seed: int, batching: Batching = "together") -> None:
        super().__init__(dbsurf.Reinforce(n, validate=False), batching)
        self.candidates, self.seed = candidates, seed

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        return cls(options.n, options.candidates, options.seed, options.path_batching)

    def choose(self, trainer: Trainer) -> list[Candidate]:
        network = trainer.members[0].network
        generator = torch.Generator().manual_seed(SELECTION_SEED + self.seed)
        shape = (self.candidates, len(network.edges))
        drawn = torch.randint(len(OPERATIONS), shape, generator=generator).tolist()
        images, labels = trainer.selection(SELECTION_IMAGES)
        found = [
            Candidate(cell, 0, mean_loss(network, cell, images, labels, *trainer.blocks))
            for cell in dict.fromkeys(tuple(cell) for cell in drawn)
        ]
        return sorted(found, key=lambda one: one.loss or 0.0)

    def present(self, trainer: Trainer) -> Cell | None:
        return None


class Dsnas(Method):
    """DSNAS: one sampled path, weights and architecture on the same batch.

    A cell z is drawn from the categoricals, and each edge's result is multiplied by a weight w = 1.
    One backward gives the weights their gradient and every edge its cost c = dL/dw, the part of the
    loss that a linearisation ascribes to it. The architecture's gradient is the sum over edges of
    c times the gradient of log p(z). An edge with "none" has no cost. The paper's pruning of edges
    whose best operation leads by a threshold is not in this form.

    Bias: unbiased for the sum of the edges' expected linearised costs, which is not the gradient of
    the expected loss. Memory: one operation. Evaluations: 1 a step.

    Reference:
        Hu, Xie, Zheng, Liu, Shi, Liu and Lin, DSNAS: direct neural architecture search without
        parameter retraining, CVPR 2020.
    """

    name = "dsnas"
    kind = "discrete"
    computes = "the operation that was sampled"
    holds = "1"
    costs = "1"
    samples = True

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        return cls()

    def draw(self, architecture: Architecture, evaluator: Evaluator) -> Tensor:
        """A cell, ``(edges,)``."""
        probs = architecture.shares(learn=False)
        return torch.multinomial(probs, 1, generator=evaluator.generator).squeeze(-1)

    def backward(
        self, member: Member, batch: Batch, evaluator: Evaluator, *, learn: bool
    ) -> Tensor:
        architecture, network = member.architecture, member.network
        cell = self.draw(architecture, evaluator)
        evaluator.record(cell.unsqueeze(0))
        ones = torch.ones_like(architecture.logits[:, 0], requires_grad=learn)  # (edges,)
        path = Path(tuple(cell.tolist()), network.edges, ones if learn else None)
        value = evaluator.loss(network, batch, path)
        evaluator.backward(value)
        if learn and ones.grad is not None:
            log_probs = torch.log_softmax(architecture.masked_logits(), -1)
            chosen = log_probs.gather(-1, cell.unsqueeze(-1)).squeeze(-1)  # (edges,)
            (ones.grad * chosen).sum().backward()  # the costs are scaled where losses are
        return value.detach()
