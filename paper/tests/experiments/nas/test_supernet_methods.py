"""The gradient of every search method on a supernet of three edges, exactly where that can be.

`by_hand` is the network computed from its parts with none of the methods' code: every edge the sum
of all its operations, times weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from dbsurf_paper.experiments.nas.space import NONE, OPERATIONS
from dbsurf_paper.experiments.nas.supernet.architecture import loss
from dbsurf_paper.experiments.nas.supernet.edges import Mixture
from dbsurf_paper.experiments.nas.supernet.evaluation import Batch, Evaluator
from dbsurf_paper.experiments.nas.supernet.images import Standard
from dbsurf_paper.experiments.nas.supernet.methods import mixtures
from dbsurf_paper.experiments.nas.supernet.methods.base import Member, Method, Temperature
from dbsurf_paper.experiments.nas.supernet.methods.few_shot import (
    best_division,
    divisions,
    similarities,
)
from dbsurf_paper.experiments.nas.supernet.methods.mixtures import Darts, PcDarts
from dbsurf_paper.experiments.nas.supernet.methods.paths import Dsnas
from dbsurf_paper.experiments.nas.supernet.methods.relaxed import ANCHOR, DrNas, Gdas, Snas
from dbsurf_paper.experiments.nas.supernet.network import Supernet
from dbsurf_paper.experiments.nas.supernet.workers import Workers

f64 = torch.float64
TOY = ((0, 1), (0, 2), (1, 2))  # three nodes, three edges
LOGITS = torch.tensor(
    [[0.3, -0.2, 1.0, 0.0, -1.5], [0.0, 0.7, 0.1, -0.4, 0.2], [2.0, -1.0, 0.5, 0.3, 0.1]], dtype=f64
)
CELLS = list(itertools.product(range(5), repeat=3))
#: Largest of 15 standard normal numbers by chance in one of about 10,000 runs.
Z = 4.5


def batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return Batch(torch.randn(6, 1, 6, 6, dtype=f64, generator=generator), torch.arange(6) % 4)


TRAIN, VALID = batch(1), batch(2)


def toy(method: Method) -> tuple[Member, Evaluator]:
    """A supernet with fixed weights and logits, for one method."""
    torch.manual_seed(11)
    network = Supernet(4, channels=4, cells=1, inputs=1, edges=TOY, share=method.share).double()
    network.take_parts(method.parts)
    architecture = method.architecture(1.0, TOY).double()
    with torch.no_grad():
        architecture.logits.copy_(LOGITS)
    standard = Standard(torch.zeros(1, 1, 1, 1, dtype=torch.uint8))
    generator = torch.Generator().manual_seed(5)
    return Member(network, architecture, 0.1), Evaluator(
        Workers(torch.device("cpu")), standard, generator, len(TOY)
    )


def by_hand(
    network: Supernet, images: Tensor, weights: Tensor, edge: Callable | None = None
) -> Tensor:
    """Logits with every edge a weighted sum of all its operations."""

    def whole(number: int, operations: nn.ModuleDict, x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for place, name in enumerate(OPERATIONS):
            if place != NONE:
                total = total + weights[number, place] * operations[name](x)
        return total

    x = network.stem(images)
    for stage, shared in enumerate(network.shared_cells()):
        x = network.reductions[stage - 1](x) if stage else x
        nodes = [x, torch.zeros_like(x), torch.zeros_like(x)]
        for number, (source, target) in enumerate(TOY):
            make = edge or whole
            nodes[target] = nodes[target] + make(number, shared.edges[number], nodes[source])
        x = nodes[2]
    return network.head(x)


def loss_by_hand(network: Supernet, weights: Tensor, data: Batch = VALID) -> Tensor:
    return loss(by_hand(network, data.inputs, weights), data.labels)


def one_hot(cell: tuple[int, ...]) -> Tensor:
    return nn.functional.one_hot(torch.tensor(cell), 5).double()


@pytest.fixture(scope="module")
def costs() -> Tensor:
    """The derivative of the training loss by each edge's weight, at every cell, ``(125, 3)``."""
    member, _ = toy(Dsnas())
    found = []
    for cell in CELLS:
        weights = one_hot(cell).requires_grad_()
        value = loss_by_hand(member.network, weights, TRAIN)
        (gradient,) = torch.autograd.grad(value, weights)
        found.append(gradient.gather(1, torch.tensor(cell).unsqueeze(1)).squeeze(1))
    return torch.stack(found)


# --- deterministic mixtures -----------------------------------------------------------------------


def test_darts_is_autograd_through_the_softmax_mixture():
    method = Darts()
    member, evaluator = toy(method)
    value = method.architecture_backward(member, TRAIN, VALID, evaluator)
    logits = LOGITS.clone().requires_grad_()
    expected = loss_by_hand(member.network, torch.softmax(logits, -1))
    torch.testing.assert_close(value, expected.detach())
    (gradient,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(member.architecture.logits.grad, gradient, rtol=1e-9, atol=1e-12)
    assert all(weight.grad is None for weight in member.weights)
    member.clear()
    method.backward(member, TRAIN, evaluator, learn=False)
    assert member.architecture.logits.grad is None
    train = loss_by_hand(member.network, torch.softmax(LOGITS, -1), TRAIN)
    for weight, gradient in zip(
        member.weights, torch.autograd.grad(train, member.weights), strict=True
    ):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-9, atol=1e-12)
    assert evaluator.evaluations == 2


def test_second_order_is_autograd_through_a_step_of_the_weights(monkeypatch):
    """With weights moved by 1e-5 in place of 0.01, beyond which this toy's ReLUs switch."""
    monkeypatch.setattr(mixtures, "NUDGE", 1e-5)
    method = Darts(order=2)
    member, evaluator = toy(method)
    rate = 0.05
    member.weight_optimiser.param_groups[0]["lr"] = rate
    before = [weight.detach().clone() for weight in member.weights]
    method.architecture_backward(member, TRAIN, VALID, evaluator)
    assert all(torch.equal(a, b) for a, b in zip(before, member.weights, strict=True))
    assert evaluator.evaluations == 4

    names = [name for name, _ in member.network.named_parameters()]
    logits = LOGITS.clone().requires_grad_()
    weights = [weight.detach().clone().requires_grad_() for weight in member.weights]

    def value(given: list[Tensor], data: Batch) -> Tensor:
        choice = Mixture(torch.softmax(logits, -1), [list(range(5))] * 3)
        answers = torch.func.functional_call(
            member.network, dict(zip(names, given, strict=True)), (data.inputs, choice)
        )
        return loss(answers, data.labels)

    downhill = torch.autograd.grad(value(weights, TRAIN), weights, create_graph=True)
    ahead = [w - rate * g for w, g in zip(weights, downhill, strict=True)]
    (exact,) = torch.autograd.grad(value(ahead, VALID), logits)
    constant = [one.detach() for one in ahead]
    (first,) = torch.autograd.grad(value(constant, VALID), logits)
    found = member.architecture.logits.grad
    second, wanted = found - first, exact - first  # what the derivative through the step adds
    assert wanted.norm() > 1e-3 * first.norm()
    assert (second - wanted).norm() < 1e-4 * wanted.norm()


def test_pc_darts_works_on_part_of_the_channels_and_weights_the_edges():
    method = PcDarts(2, 4)
    member, evaluator = toy(method)
    with torch.no_grad():
        member.architecture.edge_logits.copy_(torch.tensor([0.4, -0.3, 0.9], dtype=f64))
    method.architecture_backward(member, TRAIN, VALID, evaluator)
    logits = LOGITS.clone().requires_grad_()
    edges = torch.tensor([0.4, -0.3, 0.9], dtype=f64, requires_grad=True)
    shares = torch.softmax(logits, -1)
    # The first edge is the only one into its node; the others share one.
    scales = torch.cat([torch.ones(1, dtype=f64), torch.softmax(edges[1:], 0)])

    def part(number: int, operations: nn.ModuleDict, x: Tensor) -> Tensor:
        half = x.shape[1] // 2
        total = torch.zeros_like(x[:, :half])
        for place, name in enumerate(OPERATIONS):
            if place != NONE:
                total = total + shares[number, place] * operations[name](x[:, :half])
        mixed = torch.stack([total, x[:, half:]], 2)  # one of each in turns
        return scales[number] * mixed.flatten(1, 2)

    value = loss(by_hand(member.network, VALID.inputs, shares, part), VALID.labels)
    for found, wanted in zip(
        (member.architecture.logits.grad, member.architecture.edge_logits.grad),
        torch.autograd.grad(value, (logits, edges)),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


# --- random weights: means over draws against the definition ----------------------------------


def mean_and_error(values: Tensor) -> tuple[Tensor, Tensor]:
    return values.mean(0), values.std(0) / len(values) ** 0.5


def assert_same_mean(found: Tensor, wanted: Tensor, wanted_error: Tensor | float = 0.0) -> None:
    """Rows of two independent samples, or a sample and a known mean."""
    mean, error = mean_and_error(found)
    spread = (error**2 + wanted_error**2) ** 0.5
    assert (spread > 0).any()
    assert ((mean - wanted).abs() <= Z * spread + 1e-12).all()
    assert (mean.abs() > Z * spread).any()  # the test could have seen another gradient


def draws(method: Method, count: int, progress: float) -> Tensor:
    """Architecture gradients of so many steps, ``(count, 3, 5)``."""
    member, evaluator = toy(method)
    evaluator.progress = progress
    found = []
    for _ in range(count):
        member.clear()
        if method.validation:
            method.architecture_backward(member, VALID, TRAIN, evaluator)
        else:
            method.backward(member, TRAIN, evaluator, learn=True)
        gradient = member.architecture.logits.grad
        found.append(torch.zeros_like(LOGITS) if gradient is None else gradient.clone())
    return torch.stack(found)


@pytest.mark.parametrize("progress", [0.5, 1.0])
def test_gdas_has_the_mean_of_its_definition(costs, progress):
    """A cell by the largest of noisy logits; the cost of each edge times the softmax's slope."""
    start, end = 4.0, 0.5
    temperature = start + (end - start) * progress
    noise = np.random.default_rng(3).gumbel(size=(400_000, 3, 5))
    scores = torch.log_softmax(LOGITS, -1) + torch.from_numpy(noise)
    soft = torch.softmax(scores / temperature, -1)
    best = soft.argmax(-1)  # (draws, 3)
    cost = costs[(best * torch.tensor([25, 5, 1])).sum(-1)]  # (draws, 3)
    of_best = soft.gather(-1, best.unsqueeze(-1))
    slope = of_best * (nn.functional.one_hot(best, 5) - soft) / temperature
    wanted = cost.unsqueeze(-1) * slope
    # The slope is by the log-probabilities; the logits are behind a log-softmax.
    wanted = wanted - wanted.sum(-1, keepdim=True) * torch.softmax(LOGITS, -1)
    found = draws(Gdas(Temperature(start, end)), 500, progress)
    assert_same_mean(found, *mean_and_error(wanted))


def test_snas_has_the_mean_of_its_definition():
    start, end, progress = 2.0, 0.5, 0.5
    member, _ = toy(Snas(Temperature(start, end)))
    random = np.random.default_rng(4)
    wanted = []
    for _ in range(400):
        logits = LOGITS.clone().requires_grad_()
        noisy = torch.log_softmax(logits, -1) + torch.from_numpy(random.gumbel(size=(3, 5)))
        value = loss_by_hand(member.network, torch.softmax(noisy / 1.0, -1), TRAIN)
        wanted.append(torch.autograd.grad(value, logits)[0])
    found = draws(Snas(Temperature(start, end, geometric=True)), 400, progress)
    assert_same_mean(found, *mean_and_error(torch.stack(wanted)))


def test_drnas_agrees_with_differences_of_the_expectation():
    """Two operations an edge: the expectation is an integral over three beta variables."""
    method = DrNas()
    logits = torch.tensor([[1.2, 2.0], [0.8, 1.5], [2.2, 1.0]], dtype=f64)
    allowed = [1, 4]  # skip and pool
    member, evaluator = toy(method)
    architecture = member.architecture
    for edge in range(3):
        architecture.restrict(edge, allowed)
    with torch.no_grad():
        architecture.logits[:, allowed] = logits
    # Gauss-Legendre in t, u = 3 t^2 - 2 t^3: the densities are smooth at both ends then.
    count = 9
    points, weights = np.polynomial.legendre.leggauss(count)
    points = (points + 1) / 2
    nodes, weights = points**2 * (3 - 2 * points), weights * 3 * points * (1 - points)
    table = np.empty((count, count, count))
    with torch.no_grad():
        for place in np.ndindex(*table.shape):
            mixture = torch.zeros(3, 5, dtype=f64)
            mixture[:, 1] = torch.from_numpy(nodes[list(place)])
            mixture[:, 4] = 1 - mixture[:, 1]
            table[place] = float(loss_by_hand(member.network, mixture))

    def expectation(at: np.ndarray) -> float:
        density = [stats.beta.pdf(nodes, *(row + 1)) * weights for row in at]  # elu(x) + 1 = x + 1
        assert all(abs(one.sum() - 1) < 1e-3 for one in density)
        density = [one / one.sum() for one in density]
        return float(np.einsum("a,b,c,abc->", *density, table))

    step, wanted = 1e-4, np.empty((3, 2))
    for place in np.ndindex(3, 2):
        shift = np.zeros((3, 2))
        shift[place] = step
        up, down = expectation(logits.numpy() + shift), expectation(logits.numpy() - shift)
        # With 0.001 times the squared distance of the concentrations from 1.
        wanted[place] = (up - down) / (2 * step) + 2 * ANCHOR * float(logits[place])
    found = []
    for _ in range(600):
        member.clear()
        method.architecture_backward(member, TRAIN, VALID, evaluator)
        found.append(architecture.logits.grad.clone())
    gradients = torch.stack(found)
    assert (gradients[:, :, [0, 2, 3]] == 0).all()
    assert_same_mean(gradients[:, :, allowed], torch.from_numpy(wanted), 1e-5)


def test_dsnas_has_the_mean_of_the_enumeration(costs):
    method = Dsnas()
    member, evaluator = toy(method)
    probs = torch.softmax(LOGITS, -1)
    mean = torch.zeros_like(LOGITS)
    for cell in CELLS:
        method.draw = lambda architecture, evaluator, cell=cell: torch.tensor(cell)
        member.clear()
        method.backward(member, TRAIN, evaluator, learn=True)
        chance = probs.gather(1, torch.tensor(cell).unsqueeze(1)).prod()
        if member.architecture.logits.grad is not None:  # None if no operation is reached
            mean += chance * member.architecture.logits.grad
    chances = torch.stack([(one_hot(cell) * probs).sum(1).prod() for cell in CELLS])
    cells = torch.stack([one_hot(cell) for cell in CELLS])  # (125, 3, 5)
    wanted = (chances.view(-1, 1, 1) * costs.unsqueeze(-1) * (cells - probs)).sum(0)
    torch.testing.assert_close(chances.sum(), torch.tensor(1.0, dtype=f64))
    torch.testing.assert_close(mean, wanted, rtol=1e-8, atol=1e-12)
    assert wanted.abs().max() > 1e-3


def test_dsnas_draws_from_its_distribution():
    """Chi-square over the operations of each edge; three edges at 1e-5 each."""
    method = Dsnas()
    member, evaluator = toy(method)
    drawn = torch.stack([method.draw(member.architecture, evaluator) for _ in range(4_000)])
    for edge, probs in enumerate(torch.softmax(LOGITS, -1)):
        counts = torch.bincount(drawn[:, edge], minlength=5)
        assert stats.chisquare(counts, 4_000 * probs).pvalue > 1e-5


# --- the split of few-shot search -----------------------------------------------------------------


def test_divisions_are_all_of_equal_size_and_none_comes_twice():
    assert [len(list(divisions(range(5), count))) for count in (2, 3, 4, 5)] == [10, 15, 10, 1]
    for division in divisions(range(5), 3):
        assert sorted(len(group) for group in division) == [1, 2, 2]
        assert sorted(itertools.chain(*division)) == list(range(5))


def test_the_split_with_the_least_similarity_between_groups_is_taken():
    alike = torch.ones(5, 5)
    torn = torch.full((5, 5), -0.5)
    for group in ((0, 3), (1, 2, 4)):
        for a, b in itertools.product(group, group):
            torn[a, b] = 1.0
    edge, groups = best_division([alike, torn, alike], 2)
    assert edge == 1
    assert sorted(map(sorted, groups)) == [[0, 3], [1, 2, 4]]


def test_similarities_are_cosines_of_the_gradients_of_shared_weights():
    base = Darts()
    member, evaluator = toy(base)
    found = similarities(base, member, 1, [TRAIN, VALID], evaluator)
    common = [
        weight for name, weight in member.network.named_parameters() if ".edges.1." not in name
    ]
    gradients = []
    for operation in range(5):
        shares = torch.softmax(LOGITS, -1)
        shares[1] = one_hot((operation,))[0]
        value = sum(loss_by_hand(member.network, shares, data) for data in (TRAIN, VALID))
        parts = torch.autograd.grad(value, common)
        gradients.append(torch.cat([part.flatten() for part in parts]))
    for a, b in itertools.product(range(5), range(5)):
        wanted = nn.functional.cosine_similarity(gradients[a], gradients[b], dim=0)
        assert float(found[a, b]) == pytest.approx(float(wanted), abs=1e-5)
