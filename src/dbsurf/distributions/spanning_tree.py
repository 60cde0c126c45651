"""Spanning trees of a graph, directed or not, by eliminating one vertex after another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints

from dbsurf.distributions.structured import (
    LOWEST,
    StructuredDistribution,
    Uniforms,
    check_below_infinity,
    check_integer,
    check_logits,
    choose,
    finite,
    invert_at,
    log_add,
)

_Add = Callable[[Tensor, Tensor], Tensor]


class _Decide(NamedTuple):
    """How choices are made: at random, or the likelier one for the mode."""

    yes: Callable[[Tensor], Tensor]  # given the logit of yes
    which: Callable[[Tensor], Tensor]  # given logits along the last axis


class _Stage(NamedTuple):
    """One vertex's elimination, all logarithms; ``size`` vertices are left."""

    pivot: Tensor  # (*batch,): the total weight of the edges into the vertex
    into: Tensor  # (*batch, size): the weights of these edges
    kept: Tensor  # (*batch, size, size): the weights of the edges that do not touch it
    through: Tensor  # (*batch, size, size): the weights of the ways through it


class _Tree(constraints.Constraint):
    """Zeros and ones: the edges of a spanning tree."""

    is_discrete = True
    event_dim = 1

    def __init__(self, law: SpanningTree) -> None:
        self.law = law
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        binary = ((value == 0) | (value == 1)).all(-1)
        right = value.sum(-1) == self.law.vertices - 1
        return binary & right & self.law._spans(value == 1)


class SpanningTree(StructuredDistribution):
    r"""A spanning tree of a graph, $p(x) \propto \exp(\theta \cdot x)$, x the edges it uses.

    Undirected: every set of V - 1 edges without a cycle. Directed: every vertex but the root has
    exactly one parent, and the root is an ancestor of all (an arborescence; a dependency parse).

    The log-partition is the log-determinant of a Laplacian without the root's row and column
    (matrix-tree theorem). Vertices are eliminated one by one: eliminating v adds
    $w_{uv} w_{vx} / \sum_{u'} w_{u'v}$ to the weight of the edge from u to x. In this form nothing
    is subtracted, so it is done in the logarithm and is exact at logits of +-60 and in float32.
    The sampler puts the vertices back in the reverse order, for all samples at once: each edge of
    the smaller tree either is kept or led through v. Then v gets a parent that is not below it.

    Args:
        logits: $\theta$ for each edge, ``(*batch, edges)``; -inf for an edge that is never used.
        edges: the two vertices of each edge, ``(edges, 2)``, numbered from 0; in a directed graph
            from the parent to the child. See `complete_graph`.
        directed: whether edges have a direction.
        root: the root of directed trees.

    Examples:
        >>> import torch
        >>> from dbsurf.distributions import SpanningTree, complete_graph
        >>> law = SpanningTree(torch.zeros(3), complete_graph(3))
        >>> law.marginals
        tensor([0.6667, 0.6667, 0.6667])
        >>> law.sample((4,)).sum(-1)
        tensor([2., 2., 2., 2.])
        >>> law.log_partition.exp()
        tensor(3.)

    References:
        W. T. Tutte, Graph Theory (1984), for the theorem. W. K. Grassmann, M. I. Taksar and D. P.
        Heyman, Operations Research 33 (1985), for elimination without subtraction.
    """

    arg_constraints = {
        "logits": constraints.independent(constraints.real, 1),
        "edges": constraints.dependent,
        "directed": constraints.dependent,
        "root": constraints.dependent,
    }
    batched = {"logits": 1}
    has_enumerate_support = True

    edges: Tensor
    directed: bool

    def __init__(
        self,
        logits: Tensor,
        edges: Tensor,
        *,
        directed: bool = False,
        root: int = 0,
        validate_args: bool | None = None,
    ) -> None:
        check_logits(logits, "logits", axes=1)
        if not isinstance(directed, bool):
            raise ValueError(f"directed must be True or False, got {directed!r}")
        self.vertices = _check_edges(edges, logits, directed)
        self.root = check_integer(root, "root", 0, self.vertices - 1, "the number of a vertex")
        self.logits, self.edges = logits, edges.to(logits.device)
        self.directed = directed
        if self._start(logits.shape[:-1], logits.shape[-1:], validate_args):
            check_below_infinity(logits, "logits")
            if not self._spans(logits > -math.inf).all():
                raise ValueError(
                    "edges with a logit above -inf must connect every vertex "
                    f"{f'with root {root}' if directed else 'with every other'}, got a graph that "
                    "is not connected"
                )

    @property
    def support(self) -> constraints.Constraint:
        return _Tree(self)

    # --- the law --------------------------------------------------------------------------------

    def log_partition_at(self, logits: Tensor) -> Tensor:
        stages = self._eliminate(logits, log_add)
        return torch.stack([stage.pivot for stage in stages], -1).sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.mean_statistics

    @property
    def pair_marginals(self) -> Tensor:
        """P(both edges are in the tree), ``(*batch, edges, edges)``, by a backward pass each."""
        mean = self.mean_statistics.detach()
        return self.covariance + mean.unsqueeze(-1) * mean.unsqueeze(-2)

    @property
    def mode(self) -> Tensor:
        """A tree of the largest probability: the same elimination with max in place of sums."""
        with torch.no_grad():
            stages = self._eliminate(self.logits, torch.maximum)
            likeliest = _Decide(lambda logit: logit > 0, lambda logits: logits.argmax(-1))
            return self._rebuild(stages, 1, likeliest)[0]

    def parents(self, value: Tensor) -> Tensor:
        """The parent of every vertex of a directed tree, ``(..., *batch, V)``; the root's is -1."""
        if not self.directed:
            raise ValueError("dist must be directed for parents, got an undirected SpanningTree")
        origin, child = self.edges.unbind(-1)
        shape = (*value.shape[:-1], self.vertices)
        start = torch.full(shape, -1, device=value.device)
        source = torch.where(value == 1, origin + 1, 0)
        return start.scatter_add(-1, child.expand(source.shape), source)

    def support_size(self) -> float:
        with torch.no_grad():
            plain = torch.zeros(len(self.edges), dtype=torch.float64, device=self.device)
            return float(self.log_partition_at(plain).exp().round())

    def enumerate_support(self, expand: bool = True) -> Tensor:
        self._check_enumerable()
        free = self.vertices - 1
        if math.comb(len(self.edges), free) > 2**22:
            raise ValueError(
                "edges must have at most 2**22 subsets of the size of a tree to be enumerated, "
                f"got {math.comb(len(self.edges), free):,}"
            )
        chosen = torch.tensor(
            list(itertools.combinations(range(len(self.edges)), free)), device=self.device
        ).reshape(-1, free)
        states = torch.zeros(len(chosen), len(self.edges), dtype=torch.bool, device=self.device)
        states.scatter_(-1, chosen, True)
        return self._enumerated(states[self._spans(states)].to(self.logits.dtype), expand)

    # --- the graph ------------------------------------------------------------------------------

    def _spans(self, used: Tensor) -> Tensor:
        """Whether all vertices are reached from the root along the used edges, ``(...,)``."""
        size = self.vertices
        reach = torch.zeros(*used.shape[:-1], size, size, device=used.device)
        origin, child = self.edges.unbind(-1)
        reach[..., origin, child] = used.to(reach.dtype)
        if not self.directed:
            reach = torch.maximum(reach, reach.transpose(-1, -2))
        reach = torch.maximum(reach, torch.eye(size, device=used.device))
        for _ in range(max(1, size - 1).bit_length()):  # each product doubles the length of paths
            reach = (reach @ reach).clamp(max=1)
        return (reach[..., self.root, :] > 0).all(-1)

    def _order(self) -> Tensor:
        """Vertices with the root first; later ones are eliminated earlier."""
        others = [v for v in range(self.vertices) if v != self.root]
        return torch.tensor([self.root, *others], device=self.device)

    def _weights(self, logits: Tensor) -> Tensor:
        """Logits as a matrix from parent to child, ``(*batch, V, V)``, the root first."""
        theta, size = finite(logits), self.vertices
        place = self._order().argsort()
        origin, child = place[self.edges].unbind(-1)
        matrix = theta.new_full((*theta.shape[:-1], size * size), LOWEST)
        matrix = matrix.index_copy(-1, origin * size + child, theta)
        if not self.directed:
            matrix = matrix.index_copy(-1, child * size + origin, theta)
        return matrix.reshape(*theta.shape[:-1], size, size)

    # --- elimination and its reverse --------------------------------------------------------------

    def _eliminate(self, logits: Tensor, add: _Add) -> list[_Stage]:
        """Eliminate all vertices but the root; ``add`` is the sum or max of logarithms."""
        weights, stages = self._weights(logits), []
        for size in range(self.vertices - 1, 0, -1):
            into, out = weights[..., :size, size], weights[..., size, :size]  # (*batch, size)
            kept = weights[..., :size, :size]
            pivot = into.logsumexp(-1) if add is log_add else into.amax(-1)
            through = into.unsqueeze(-1) + out.unsqueeze(-2) - pivot[..., None, None]
            # A way from x over v back to x is no edge: it stays out of the next pivots.
            through = through.masked_fill(_diagonal(size, weights.device), LOWEST)
            weights = add(kept, through)
            stages.append(_Stage(pivot, into, kept, through))
        return stages

    def _rebuild(self, stages: list[_Stage], n: int, decide: _Decide) -> Tensor:
        """n trees ``(n, *batch, edges)``: put the vertices back, the last one eliminated first."""
        shape = (n, *self.batch_shape)
        parent = torch.zeros(*shape, 1, dtype=torch.long, device=self.device)  # the root's: itself
        for stage in reversed(stages):
            size = stage.into.shape[-1]
            # Does the edge to x from its parent lead through the new vertex?
            logit = (stage.through - stage.kept).expand(*shape, size, size)
            through = decide.yes(logit.gather(-2, parent.unsqueeze(-2))[..., 0, :])
            through[..., 0] = False  # the root has no parent
            below, above = through, parent  # is x below the new vertex? look 1, 2, 4, ... up
            for _ in range(size.bit_length()):
                below = below | below.gather(-1, above)
                above = above.gather(-1, above)
            # The parent of the new vertex: any that is not below it.
            into = torch.where(below, LOWEST, stage.into)
            mine = decide.which(into).unsqueeze(-1)  # (n, *batch, 1)
            parent = torch.cat([torch.where(through, size, parent), mine], -1)
        return self._edges_of(parent)

    def _edges_of(self, parent: Tensor) -> Tensor:
        """Zeros and ones for the edges of trees given by the parent of every vertex."""
        place = self._order().argsort()
        origin, child = place[self.edges].unbind(-1)
        used = parent[..., child] == origin  # (n, *batch, edges); the root's parent is itself
        if not self.directed:
            used = used | (parent[..., origin] == child)
        return used.to(self.logits.dtype)

    def _draw(self, n: int, generator: torch.Generator | None) -> Tensor:
        stages = self._eliminate(self.logits, log_add)

        def yes(logit: Tensor) -> Tensor:
            uniform = torch.rand(
                logit.shape, dtype=logit.dtype, device=logit.device, generator=generator
            )
            return uniform < logit.sigmoid()

        return self._rebuild(stages, n, _Decide(yes, lambda logits: choose(logits, generator)))

    def draw_group(self, n: int, uniforms: Uniforms) -> Tensor:
        stages = self._eliminate(self.logits, log_add)

        def which(logits: Tensor) -> Tensor:
            return invert_at(logits.softmax(-1), uniforms(logits[0, ..., 0]))

        return self._rebuild(
            stages, n, _Decide(lambda logit: uniforms(logit[0]) < logit.sigmoid(), which)
        )


def complete_graph(vertices: int, *, directed: bool = False) -> Tensor:
    """All edges between so many vertices, ``(edges, 2)``, in lexical order.

    Args:
        vertices: number of vertices, at least 2.
        directed: whether both directions of every pair are edges.

    Examples:
        >>> from dbsurf.distributions import complete_graph
        >>> complete_graph(3)
        tensor([[0, 1],
                [0, 2],
                [1, 2]])
    """
    check_integer(vertices, "vertices", 2, 10_000, "the number of vertices")
    pairs = itertools.permutations if directed else itertools.combinations
    return torch.tensor(list(pairs(range(vertices), 2)))


def _diagonal(size: int, device: torch.device) -> Tensor:
    return torch.eye(size, dtype=torch.bool, device=device)


def _check_edges(edges: object, logits: Tensor, directed: bool) -> int:
    """Check a list of edges; the number of vertices."""
    count = logits.shape[-1]
    if (
        not isinstance(edges, Tensor)
        or edges.shape != (count, 2)
        or edges.dtype != torch.long
        or edges.min() < 0
    ):
        got = tuple(edges.shape) if isinstance(edges, Tensor) else type(edges).__name__
        raise ValueError(
            f"edges must be vertex numbers >= 0, an int64 tensor of shape ({count}, 2) for "
            f"{count} logits, got {got}"
        )
    if (edges[:, 0] == edges[:, 1]).any():
        raise ValueError("edges must connect two different vertices, got an edge to itself")
    unique = edges if directed else edges.sort(-1).values
    if len(unique.unique(dim=0)) < count:
        raise ValueError("edges must be distinct, got one twice")
    return int(edges.max()) + 1
