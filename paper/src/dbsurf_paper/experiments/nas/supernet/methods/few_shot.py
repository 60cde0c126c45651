"""Several supernets: few-shot search, its split by rule or by gradient matching."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from dbsurf_paper.experiments.nas.space import EDGES, OPERATIONS, Cell
from dbsurf_paper.experiments.nas.supernet.architecture import Architecture
from dbsurf_paper.experiments.nas.supernet.edges import Choice, Edges
from dbsurf_paper.experiments.nas.supernet.evaluation import (
    SELECTION_IMAGES,
    Batch,
    Evaluator,
    mean_loss,
)
from dbsurf_paper.experiments.nas.supernet.methods.base import ByChoice, Candidate, Member, Method

if TYPE_CHECKING:
    from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
    from dbsurf_paper.experiments.nas.supernet.training import Trainer

Groups = Sequence[Sequence[int]]


class FewShot(Method):
    """Few-shot NAS: one edge is split, and each part of its operations has a supernet of its own.

    The warm-up trains one supernet. Then it is copied, weights and momentum, once for every group
    of the edge's operations; a copy may only have its group on that edge. The copies are trained
    and searched in turns, one a step, each as if it were alone. At the end the best cell of each is
    evaluated on the same images, and the one with the lowest loss is taken.

    With as many groups as operations (the default) this is the exhaustive split of the paper, on
    one edge. The search inside a supernet is another method (``base``).

    Bias: that of ``base`` within a supernet; groups are compared by their losses, not by a
    gradient. Memory: that of ``base`` for backward, and one set of weights for every group.
    Evaluations: those of ``base``.

    Args:
        base: the search inside each supernet.
        edge: the edge that is split; None: drawn with the seed.
        groups: number of supernets.
        seed: of the run.

    Reference:
        Zhao, Wang, Tian, Fonseca and Guo, Few-shot neural architecture search, ICML 2021.
    """

    name = "few-shot"
    kind = "continuous"
    computes = "as `--base`, in one supernet of several"
    holds = "as `--base`; the weights of every supernet"
    costs = "as `--base`"
    reads = {"base": None, "split_edge": None, "split_groups": len(OPERATIONS)}

    def __init__(self, base: ByChoice, edge: int | None, groups: int, seed: int = 0) -> None:
        if edge is not None and not 0 <= edge < len(EDGES):
            raise ValueError(
                f"split_edge must be an edge, a number from 0 to {len(EDGES) - 1}, got {edge}"
            )
        if not 2 <= groups <= len(OPERATIONS):
            raise ValueError(f"split_groups must lie between 2 and {len(OPERATIONS)}, got {groups}")
        self.base, self.edge, self.members, self.seed = base, edge, groups, seed
        self.validation, self.samples = base.validation, base.samples
        self.share, self.parts = base.share, base.parts
        self.split_at = -1  # the step, once it is known

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        base = options.base_method()
        return cls(base, options.split_edge, options.own("split_groups"), options.seed)

    # --- the search inside a supernet -------------------------------------------------------------

    def architecture(self, threshold: float = 1.0, graph: Edges = EDGES) -> Architecture:
        return self.base.architecture(threshold, graph)

    def backward(
        self, member: Member, batch: Batch, evaluator: Evaluator, *, learn: bool
    ) -> Tensor:
        return self.base.backward(member, batch, evaluator, learn=learn)

    def architecture_backward(
        self, member: Member, train: Batch, valid: Batch, evaluator: Evaluator
    ) -> Tensor:
        return self.base.architecture_backward(member, train, valid, evaluator)

    def fixed(self, cell: Cell, architecture: Architecture) -> Choice:
        return self.base.fixed(cell, architecture)

    # --- the split --------------------------------------------------------------------------------

    def prepare(self, trainer: Trainer) -> None:
        if self.split_at < 0 and trainer.searching:
            edge, groups = self.division(trainer)
            split(trainer.members, edge, groups)
            self.split_at = trainer.steps
        self.base.prepare(trainer)

    def division(self, trainer: Trainer) -> tuple[int, Groups]:
        """The edge that is split, and the operations of each supernet on it."""
        edge = self.edge
        if edge is None:
            generator = torch.Generator().manual_seed(self.seed)
            edge = int(torch.randint(len(EDGES), (), generator=generator))
        return edge, next(divisions(range(len(OPERATIONS)), self.members))

    def turn(self, trainer: Trainer) -> int:
        return (trainer.steps - self.split_at) % self.members if self.split_at >= 0 else 0

    def choose(self, trainer: Trainer) -> list[Candidate]:
        if self.split_at < 0:
            return super().choose(trainer)
        images, labels = trainer.selection(SELECTION_IMAGES)
        found = []
        for number, member in enumerate(trainer.members):
            cell = member.architecture.likeliest()
            choice = self.fixed(cell, member.architecture)
            loss = mean_loss(member.network, choice, images, labels, *trainer.blocks)
            found.append(Candidate(cell, number, loss))
        return sorted(found, key=lambda one: one.loss or 0.0)

    def state_dict(self) -> dict[str, Any]:
        return {"split_at": self.split_at, "base": self.base.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.split_at = state["split_at"]
        self.base.load_state_dict(state["base"])


def split(members: Sequence[Member], edge: int, groups: Groups) -> None:
    """Copy the first supernet to the others; each may have one group of an edge's operations."""
    first = copy.deepcopy(members[0].state_dict())
    for member, group in zip(members, groups, strict=True):
        member.load_state_dict(copy.deepcopy(first))
        member.architecture.restrict(edge, group)


def divisions(items: Sequence[int], count: int) -> Iterator[list[list[int]]]:
    """All ways to divide items into so many groups, as equal in size as can be.

    Example:
        >>> next(divisions(range(5), 2)), len(list(divisions(range(5), 2)))
        ([[0, 1, 2], [3, 4]], 10)
    """
    small, larger = divmod(len(items), count)
    sizes = [small + 1] * larger + [small] * (count - larger)

    def fill(left: Sequence[int], sizes: Sequence[int]) -> Iterator[list[list[int]]]:
        if not sizes:
            yield []
            return
        for group in itertools.combinations(left, sizes[0]):
            for rest in fill([one for one in left if one not in group], sizes[1:]):
                # Groups of one size are not ordered: the one with the smallest item comes first.
                if rest and len(rest[0]) == sizes[0] and rest[0][0] < group[0]:
                    continue
                yield [list(group), *rest]

    return fill(list(items), sizes)


MATCHED = 4  # batches whose gradients are compared


class FewShotGM(FewShot):
    """Few-shot NAS whose split is chosen by gradient matching.

    After the warm-up each edge in turn is fixed to each of its operations, all else as ``base``
    computes it, and the gradient of the shared weights (all but that edge's own) is added up over
    four batches. Two operations that push the shared weights the same way, by the cosine of these
    gradients, should share them. Of all edges, and all divisions of the operations into groups of
    equal size, the one with the lowest sum of cosines between groups is taken (a minimal cut). The
    rest is as in few-shot search; sub-supernets start from copies of the weights.

    Bias: as in few-shot search. Memory: as there; while gradients are compared, also one gradient
    of all weights for each operation. Evaluations: those of ``base``, and 120 for the split.

    Args:
        base: the search inside each supernet.
        groups: number of supernets.
        seed: of the run.

    Reference:
        Hu, Wang, Hong, Li, Hsieh and Feng, Generalizing few-shot NAS with gradient matching, ICLR
        2022.
    """

    name = "few-shot-gm"
    costs = "as `--base`; for the split 120"
    reads = {"base": None, "split_groups": 2}

    def __init__(self, base: ByChoice, groups: int, seed: int = 0) -> None:
        super().__init__(base, None, groups, seed)

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        return cls(options.base_method(), options.own("split_groups"), options.seed)

    def division(self, trainer: Trainer) -> tuple[int, Groups]:
        batches = [trainer.batch(trainer.batches) for _ in range(MATCHED)]
        return best_division(
            [
                similarities(self.base, trainer.members[0], edge, batches, trainer.evaluator)
                for edge in range(len(EDGES))
            ],
            self.members,
        )


def similarities(
    base: ByChoice, member: Member, edge: int, batches: Sequence[Batch], evaluator: Evaluator
) -> Tensor:
    """Cosines of the shared weights' gradients under the operations of an edge."""
    own = {
        id(parameter)
        for shared in member.network.shared_cells()
        for parameter in shared.edges[edge].parameters()
    }
    common = [weight for weight in member.weights if id(weight) not in own]
    found = []
    for operation in range(len(OPERATIONS)):
        architecture = copy.deepcopy(member.architecture)
        architecture.restrict(edge, [operation])
        total = torch.zeros(sum(weight.numel() for weight in common), device=common[0].device)
        for batch in batches:
            choice = base.choice(architecture, evaluator, learn=False)
            value = evaluator.loss(member.network, batch, choice)
            parts = evaluator.gradients(value, common)
            total += torch.cat([part.reshape(-1) for part in parts])
        found.append(functional.normalize(total, dim=0))
    gradients = torch.stack(found)  # (operations, weights)
    return (gradients @ gradients.T).cpu()


def best_division(cosines: Sequence[Tensor], groups: int) -> tuple[int, Groups]:
    """The edge and the division of its operations with the least similarity between groups."""

    def cut(edge: int, division: Groups) -> float:
        similar = cosines[edge]
        pairs = itertools.combinations(division, 2)
        return sum(float(similar[a, b]) for one, two in pairs for a in one for b in two)

    every = itertools.product(range(len(cosines)), list(divisions(range(len(OPERATIONS)), groups)))
    return min(every, key=lambda pair: cut(*pair))
