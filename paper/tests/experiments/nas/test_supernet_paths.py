"""Losses along paths: their gradients, exactly, and how much of them is held in memory."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent

import dbsurf
from dbsurf.estimators import Drawn
from dbsurf_paper.experiments.nas.space import EDGES
from dbsurf_paper.experiments.nas.supernet.architecture import Architecture, CellLosses, loss
from dbsurf_paper.experiments.nas.supernet.network import Supernet

f64 = torch.float64
TOY = ((0, 1), (0, 2), (1, 2))  # three nodes, three edges


def batch(edges=EDGES, size: int = 6) -> tuple[Supernet, Tensor, Tensor]:
    network = Supernet(4, channels=3, cells=1, inputs=1, edges=edges).double()
    return network, torch.randn(size, 1, 6, 6, dtype=f64), torch.arange(size) % 4


def gradients(estimator: str, batching: str) -> list[Tensor]:
    """Of the weights and the logits, after one step's backward."""
    torch.manual_seed(3)
    network, images, labels = batch()
    architecture = Architecture().double()
    with torch.no_grad():
        architecture.logits.copy_(torch.randn(6, 5, dtype=f64))
        architecture.fixed[2] = 3
    f = CellLosses(lambda path: loss(network(images, path), labels), EDGES, batching)
    value = dbsurf.get(estimator, 5)(
        lambda samples: f(architecture.whole_cells(samples)),
        architecture.distribution(),
        generator=torch.Generator().manual_seed(7),
    )
    value.backward()
    assert (architecture.logits.grad[2] == 0).all()
    return [architecture.logits.grad, *(weight.grad for weight in network.parameters())]


@pytest.mark.parametrize("estimator", ["dbsurf", "loorf", "reinforce"])
def test_one_by_one_gives_the_gradients_of_together(estimator):
    together, one_by_one = gradients(estimator, "together"), gradients(estimator, "one-by-one")
    assert sum(gradient is not None for gradient in together) > 10
    for left, right in zip(together, one_by_one, strict=True):
        assert (left is None) == (right is None)
        if left is not None:
            torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("batching", ["together", "one-by-one"])
def test_weights_get_the_mean_over_paths_and_equal_functions_are_evaluated_once(batching):
    network, images, labels = batch(TOY)
    evaluated: list[tuple[int, ...]] = []

    def evaluate(path: tuple[int, ...]) -> Tensor:
        evaluated.append(path)
        return loss(network(images, path), labels)

    paths = torch.tensor([[3, 1, 2], [3, 1, 2], [0, 3, 4], [1, 3, 0]])  # the last two do the same
    values = CellLosses(evaluate, TOY, batching)(paths)
    assert len(evaluated) == 2
    assert values.requires_grad == (batching == "together")
    if values.requires_grad:
        values.mean().backward()
    found = [weight.grad for weight in network.parameters()]
    network.zero_grad()
    separate = torch.stack([loss(network(images, tuple(path)), labels) for path in paths.tolist()])
    separate.mean().backward()
    torch.testing.assert_close(values.detach(), separate.detach())
    for gradient, weight in zip(found, network.parameters(), strict=True):
        if weight.grad is not None:
            torch.testing.assert_close(gradient, weight.grad)


class Held:
    """A tensor that is kept for backward, and the path that keeps it."""

    def __init__(self, tensor: Tensor, path: int) -> None:
        self.tensor, self.path = tensor, path


@pytest.mark.parametrize(("batching", "most"), [("together", 5), ("one-by-one", 1)])
def test_how_many_paths_are_held_at_once(batching, most):
    network, images, labels = batch(TOY)
    held: weakref.WeakSet[Held] = weakref.WeakSet()
    peaks: list[int] = []

    def pack(tensor: Tensor) -> Held:
        kept = Held(tensor, len(peaks))
        held.add(kept)
        return kept

    def evaluate(path: tuple[int, ...]) -> Tensor:
        value = loss(network(images, path), labels)
        peaks.append(len({kept.path for kept in held}))
        return value

    paths = torch.tensor([[3, 1, 2], [3, 1, 3], [1, 1, 4], [1, 3, 4], [2, 2, 2]])
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
        values = CellLosses(evaluate, TOY, batching)(paths)
    assert values.shape == (5,)
    assert max(peaks) == most


# --- exactness: every tuple of paths with its probability ----------------------------------------


def toy_losses() -> Tensor:
    """The loss of every path of a three-edge supernet with fixed weights, ``(5, 5, 5)``."""
    torch.manual_seed(11)
    network, images, labels = batch(TOY)
    f = CellLosses(lambda path: loss(network(images, path), labels), TOY)
    every = torch.cartesian_prod(*[torch.arange(5)] * 3)
    return f(every).detach().view(5, 5, 5)


LOGITS = torch.tensor(
    [[0.3, -0.2, 1.0, 0.0, -1.5], [0.0, 0.7, 0.1, -0.4, 0.2], [2.0, -1.0, 0.5, 0.3, 0.1]], dtype=f64
)


def exact_gradient(table: Tensor) -> Tensor:
    """By differentiating the sum over all 125 paths, with none of the library's code."""
    logits = LOGITS.clone().requires_grad_()
    p = torch.softmax(logits, -1)
    expected = torch.einsum("a,b,c,abc->", p[0], p[1], p[2], table)
    return torch.autograd.grad(expected, logits)[0]


@pytest.mark.parametrize(
    ("name", "n", "options"),
    [
        ("loorf", 2, {}),
        ("reinforce", 1, {}),
        ("reinforce", 2, {}),
        ("reinforce", 2, {"baseline": "running-mean"}),
    ],
)
def test_the_expected_architecture_gradient_is_the_exact_one(name, n, options):
    """All 125 or 15,625 tuples of paths at once, as a batch."""
    table = toy_losses()
    every = torch.cartesian_prod(*[torch.arange(5)] * 3)  # (125, 3)
    probability = torch.softmax(LOGITS, -1).gather(1, every.T).prod(0)
    index = torch.cartesian_prod(*[torch.arange(125)] * n).view(-1, n).T  # (n, tuples)
    samples, weight = every[index], probability[index].prod(0)
    estimator = dbsurf.get(name, n, **options)
    assert estimator.unbiased
    law = Independent(Categorical(logits=LOGITS.expand(index.shape[1], 3, 5)), 1)

    def f(paths: Tensor) -> Tensor:
        return table[paths[..., 0], paths[..., 1], paths[..., 2]]

    estimator.estimate(f, law, generator=torch.Generator().manual_seed(1))  # fills a baseline
    gradient = estimator.estimate(f, law, samples=samples).grad
    expected = (weight.view(-1, 1, 1) * gradient).sum(0)
    torch.testing.assert_close(weight.sum(), torch.tensor(1.0, dtype=f64))
    assert (expected - exact_gradient(table)).abs().max() < 1e-8


def test_a_step_of_the_supernet_is_one_term_of_that_sum():
    """The same tuples through the network, the architecture and autograd."""
    table = toy_losses()
    torch.manual_seed(11)
    network, images, labels = batch(TOY)
    architecture = Architecture(TOY).double()
    with torch.no_grad():
        architecture.logits.copy_(LOGITS)
    losses = CellLosses(lambda path: loss(network(images, path), labels), TOY, "one-by-one")
    for samples in torch.randint(5, (20, 2, 3)):
        estimator = dbsurf.LOORF(2)
        estimator.draw_samples = lambda law, generator, x=samples: Drawn(x)
        architecture.zero_grad()
        estimator(
            lambda drawn: losses(architecture.whole_cells(drawn)), architecture.distribution()
        ).backward()
        first, second = (table[tuple(path)] for path in samples)
        onehot = torch.nn.functional.one_hot(samples, 5).double()
        by_hand = (first - second) * (onehot[0] - onehot[1]) / 2
        torch.testing.assert_close(architecture.logits.grad, by_hand, rtol=1e-10, atol=1e-12)


def test_dbsurf_is_biased_here_and_says_so():
    """Categorical DBSample at alpha = 1 shifts the marginals; the estimate is longer, too."""
    assert not dbsurf.DBsurf(2).unbiased
