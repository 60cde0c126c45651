"""Bad input of laws with structure stops at the door, with one clear error each."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dbsurf.distributions import (
    KSubset,
    LogPartition,
    MarkovChain,
    PlackettLuce,
    SpanningTree,
    complete_graph,
)

INF = math.inf


def all_bits(logits: Tensor) -> Tensor:
    return torch.nn.functional.softplus(logits).sum(-1)


def draw_bits(logits: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
    return torch.bernoulli(logits.sigmoid().expand(n, *logits.shape), generator=generator)


ZERO = torch.zeros(4)
TRIANGLE = complete_graph(3)
NOT_FINITE = torch.tensor([0.0, math.nan, 1.0])
GAP = torch.tensor([True, False, True])

BAD = [
    (lambda: KSubset(ZERO, 5), "k must be an integer from 1 to 4, the number of items, got 5"),
    (lambda: KSubset(ZERO, 0), "k must be an integer from 1 to 4, the number of items, got 0"),
    (lambda: KSubset(ZERO, 1.5), "k must be an integer from 1 to 4, .* got 1.5"),
    (lambda: KSubset(ZERO, True), "k must be an integer .* got True"),
    (lambda: KSubset(ZERO, 2, at_most=1), "at_most must be True or False, got 1"),
    (lambda: KSubset(ZERO - INF, 2), "at least 2 entries above -inf .* got one with 0"),
    (lambda: KSubset(ZERO - INF, 2, at_most=True), "at least 1 entries above -inf"),
    (lambda: KSubset(ZERO + INF, 2), r"below \+inf .* got 4 of 4 that are NaN or \+inf"),
    (lambda: KSubset(NOT_FINITE, 2), "got 1 of 3 that are NaN"),
    (
        lambda: KSubset(torch.zeros(4, dtype=torch.long), 2),
        "floating-point tensor, got torch.int64",
    ),
    (lambda: KSubset([0.0], 1), "logits must be a floating-point tensor, got list"),
    (lambda: KSubset(torch.zeros(()), 1), r"1 non-empty axes after the batch, got shape \(\)"),
    (lambda: KSubset(torch.zeros(3, 0), 1), r"1 non-empty axes .* got shape \(3, 0\)"),
    (lambda: MarkovChain(torch.zeros(4), ZERO), "emission must have 2 non-empty axes"),
    (
        lambda: MarkovChain(torch.zeros(4, 3), torch.zeros(2, 2)),
        r"transition must broadcast to \(\*batch, 3, 3, 3\), got shape \(2, 2\)",
    ),
    (
        lambda: MarkovChain(torch.zeros(4, 3), torch.zeros(3, 3), torch.zeros(2)),
        r"initial must broadcast to \(\*batch, 3\), got shape \(2,\)",
    ),
    (
        lambda: MarkovChain(torch.zeros(5, 4, 3), torch.zeros(3, 3), torch.zeros(2, 3)),
        r"emission, transition, initial and mask must have batch axes that broadcast, got "
        r"\(5,\), \(\), \(2,\)",
    ),
    (lambda: MarkovChain(torch.zeros(3, 2), NOT_FINITE[1].expand(2, 2)), "transition must be numb"),
    (
        lambda: MarkovChain(torch.zeros(3, 2), torch.full((2, 2), -INF)),
        "must allow at least one sequence, got only sequences with a logit of -inf",
    ),
    (
        lambda: MarkovChain(torch.zeros(3, 2), torch.zeros(2, 2), mask=GAP),
        "mask must be True for the first steps",
    ),
    (
        lambda: MarkovChain(torch.zeros(3, 2), torch.zeros(2, 2), mask=~GAP),
        "mask must be True for the first steps of a sequence, at least one",
    ),
    (
        lambda: MarkovChain(torch.zeros(3, 2), torch.zeros(2, 2), mask=torch.ones(3)),
        "mask must be a tensor of True and False, got torch.float32",
    ),
    (
        lambda: MarkovChain(torch.zeros(3, 2), torch.zeros(2, 2), mask=torch.tensor([True] * 2)),
        r"mask must broadcast to \(\*batch, 3\), got shape \(2,\)",
    ),
    (
        lambda: MarkovChain(
            torch.zeros(3, 2), torch.zeros(2, 2), mask=torch.tensor([True, True, False])
        ).enumerate_support(),
        "mask must be True everywhere to enumerate the support, got lengths 2",
    ),
    (lambda: SpanningTree(ZERO, TRIANGLE), r"shape \(4, 2\) for 4 logits, got \(3, 2\)"),
    (lambda: SpanningTree(ZERO[:3], TRIANGLE.float()), "edges must be vertex numbers"),
    (lambda: SpanningTree(ZERO[:3], TRIANGLE - 1), "edges must be vertex numbers >= 0"),
    (lambda: SpanningTree(ZERO[:3], [(0, 1)]), "edges must be .* got list"),
    (lambda: SpanningTree(ZERO[:3], TRIANGLE, root=3), "root must be an integer from 0 to 2"),
    (lambda: SpanningTree(ZERO[:3], TRIANGLE, directed=0), "directed must be True or False, got 0"),
    (
        lambda: SpanningTree(ZERO[:2], torch.tensor([[0, 1], [1, 1]])),
        "two different vertices, got an edge to itself",
    ),
    (
        lambda: SpanningTree(ZERO[:2], torch.tensor([[0, 1], [1, 0]])),
        "edges must be distinct, got one twice",
    ),
    (
        lambda: SpanningTree(ZERO[:2], torch.tensor([[0, 1], [2, 3]])),
        "connect every vertex with every other, got a graph that is not connected",
    ),
    (
        lambda: SpanningTree(ZERO[:2], torch.tensor([[0, 1], [2, 1]]), directed=True),
        "connect every vertex with root 0, got a graph that is not connected",
    ),
    (
        lambda: SpanningTree(torch.tensor([0.0, -INF, -INF]), TRIANGLE),
        "got a graph that is not connected",
    ),
    (lambda: SpanningTree(NOT_FINITE, TRIANGLE), "logits must be numbers below"),
    (lambda: complete_graph(1), "vertices must be an integer from 2"),
    (lambda: PlackettLuce(ZERO, 5), "k must be an integer from 1 to 4"),
    (lambda: PlackettLuce(ZERO, 0), "k must be an integer from 1 to 4"),
    (lambda: PlackettLuce(ZERO - INF), "logits must be finite for all items .* got 4 of 4"),
    (lambda: PlackettLuce(ZERO[:3], mask=torch.ones(3)), "mask must be a tensor of True and False"),
    (
        lambda: PlackettLuce(ZERO, mask=GAP),
        r"mask must broadcast to \(4,\), the shape of logits, got shape \(3,\)",
    ),
    (
        lambda: PlackettLuce(torch.zeros(2, 3), mask=GAP.expand(4, 3)),
        r"mask must broadcast to \(2, 3\), the shape of logits, got shape \(4, 3\)",
    ),
    (
        lambda: PlackettLuce(ZERO[:3], mask=torch.tensor([False] * 3)),
        "mask must be True for at least one item of every batch element",
    ),
    (
        lambda: PlackettLuce(ZERO[:3], mask=GAP).enumerate_support(),
        "mask must be True everywhere to enumerate the support, got numbers of items 2",
    ),
    (lambda: LogPartition(ZERO, 3, draw_bits), "log_z must be a function, got 3"),
    (lambda: LogPartition(ZERO, all_bits, None), "sampler must be a function, got None"),
    (
        lambda: LogPartition(ZERO, lambda t: t, draw_bits),
        r"log_z must return shape \(\), got \(4,\)",
    ),
    (
        lambda: LogPartition(ZERO, all_bits, lambda t, n, g: t).sample((2,)),
        r"sampler must return shape \(2, 4\), got \(4,\)",
    ),
]


@pytest.mark.parametrize(("build", "message"), BAD)
def test_bad_input_is_refused_with_one_clear_error(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_checks_of_values_can_be_turned_off():
    KSubset(torch.full((3,), math.nan), 2, validate_args=False)
    MarkovChain(torch.zeros(3, 2), torch.full((2, 2), -INF), validate_args=False)
    SpanningTree(torch.zeros(2), torch.tensor([[0, 1], [2, 3]]), validate_args=False)
    PlackettLuce(torch.full((3,), math.nan), validate_args=False)


def test_laws_print_what_they_are():
    assert repr(KSubset(torch.zeros(2, 4), 2)) == "KSubset(logits: (2, 4), k: 2, at_most: False)"
