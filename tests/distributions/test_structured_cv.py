"""StructuredCV and MarginalGradient: expectations by enumeration, what is learned and kept."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
from structures import FAMILY, Case, chain_energy, chain_statistics, close, pick
from torch import Tensor
from torch.distributions import Bernoulli, Independent, OneHotCategorical

import dbsurf
from dbsurf.distributions import (
    KSubset,
    LogPartition,
    MarkovChain,
    PlackettLuce,
    SpanningTree,
    Structure,
    complete_graph,
)
from dbsurf.gradient.fitting import RunningLevel, RunningRegression

f64 = torch.float64
MOST_TUPLES = 20_000


def even_bits(logits: Tensor) -> LogPartition:
    """Bits of which an even number is 1."""

    def log_z(logits: Tensor) -> Tensor:
        w = logits.exp()
        return torch.log((1 + w).prod(-1) / 2 + (1 - w).prod(-1) / 2)

    def sampler(logits: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        return torch.zeros(n, *logits.shape, dtype=logits.dtype)

    return LogPartition(logits, log_z, sampler)


EVEN = [x for x in itertools.product((0, 1), repeat=4) if sum(x) % 2 == 0]
SHORT = list(itertools.product(range(3), repeat=2))
LAWS = [
    *FAMILY,
    Case("even bits", even_bits, [(4,)], EVEN, pick),
    Case(
        "short chain",
        lambda e, b: MarkovChain(e, b),
        [(2, 3), (1, 3, 3)],
        SHORT,
        chain_energy,
        chain_statistics(2, 3),
    ),
]
EACH = [
    pytest.param(case, n, id=f"{case.name}, n = {n}")
    for case in LAWS
    for n in (2, 3)
    if len(case.values) ** n <= MOST_TUPLES
]
both_forms = pytest.mark.parametrize("form", ["linear", "quadratic"])


def reward(x: Tensor) -> Tensor:
    number = x.double()
    return torch.sin(number @ torch.arange(1.0, 1 + x.shape[-1], dtype=f64)) + number[..., 0]


def arbitrary(estimator: dbsurf.StructuredCV, trust: float = 0.7) -> dbsurf.StructuredCV:
    """Coefficients that nothing has taught, a = 0.7, and a baseline of any mixture."""
    random = torch.Generator().manual_seed(5)
    found = estimator.regression.coefficients
    found.copy_(torch.randn(found.shape, generator=random, dtype=f64))
    estimator.trust.overlap.fill_(trust)
    estimator.trust.energy.fill_(1.0)
    estimator.level.sums.copy_(torch.tensor([0.8, 2.0]))
    estimator.level.errors.copy_(torch.tensor([0.3, 0.5]))
    if estimator.level.regression is not None:
        estimator.level.regression.coefficients.fill_(0.6)
    return estimator


def tuples(states: Tensor, mass: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """All n states, ``(n, tuples, *event)``, and their probabilities."""
    index = torch.cartesian_prod(*[torch.arange(len(states))] * n).mT
    return states[index], mass[index].prod(0)


def expectation(
    estimator: dbsurf.Estimator, law: Structure, states: Tensor, mass: Tensor, context=None
) -> Tensor:
    """The mean of all estimates, by enumeration."""
    samples, weight = tuples(states, mass, estimator.n)
    count = len(weight)
    if context is not None:
        context = context.expand(count, -1)
    grad = estimator.estimate(reward, law.expand((count,)), samples=samples, context=context).grad
    return weight @ grad


# --- no bias --------------------------------------------------------------------------------------


@both_forms
@pytest.mark.parametrize("features", [0, 2])
@pytest.mark.parametrize(("case", "n"), EACH)
def test_no_bias_with_arbitrary_coefficients(case, n, features, form):
    parameters = case.parameters()
    law, mass = case.build(*parameters), case.log_probs(parameters).exp()
    states = torch.tensor(case.values).to(
        torch.int64 if law.event_shape != law.logits.shape else f64
    )
    size = law.logits.shape[-1]
    estimator = dbsurf.StructuredCV(n, form=form, rank=4, size=size, context=features).double()
    arbitrary(estimator).eval()
    context = torch.randn(features, dtype=f64) if features else None
    found = expectation(estimator, law, states, mass, context)
    close(found, (mass * reward(states)) @ law.score(states))


@both_forms
def test_the_second_of_two_calls_has_no_bias_given_every_outcome_of_the_first(form):
    law = KSubset(torch.tensor([0.4, -1.0, 0.3, 0.9], dtype=f64), 2)
    states = law.enumerate_support()
    mass = law.log_prob(states).exp()
    exact = (mass * reward(states)) @ law.score(states)
    start = arbitrary(dbsurf.StructuredCV(2, form=form, size=4).double())
    for first in tuples(states, mass, 2)[0].unbind(1):
        estimator = copy.deepcopy(start)
        estimator.estimate(reward, law, samples=first)
        assert not estimator.regression.coefficients.equal(start.regression.coefficients)
        close(expectation(estimator.eval(), law, states, mass), exact)


@both_forms
def test_several_independent_laws_with_one_value(form):
    logits = torch.randn(2, 3, dtype=f64)
    law = KSubset(logits, 1)
    one = torch.eye(3, dtype=f64)
    states = torch.stack([torch.stack(pair) for pair in itertools.product(one, one)])  # (9, 2, 3)
    joint = Independent(law, 1)
    mass = joint.log_prob(states).exp()

    def f(x: Tensor) -> Tensor:
        return torch.sin(x.flatten(-2) @ torch.arange(1.0, 7, dtype=f64))

    estimator = arbitrary(dbsurf.StructuredCV(2, form=form, rank=6, size=6).double()).eval()
    samples, weight = tuples(states, mass, 2)
    many = Independent(law.expand((len(weight), 2)), 1)
    grad = estimator.estimate(f, many, samples=samples).grad
    found = torch.einsum("t,tsm->sm", weight, grad)
    close(found, torch.einsum("t,t,tsm->sm", mass, f(states), law.score(states)))


@both_forms
def test_perturbed_top_k_draws_with_this_law_fail_the_same_test(form):
    """A published combination: drawn by Gumbel top-k, weighted with the score of k-subsets."""
    law = KSubset(torch.tensor([1.5, 0.3, -0.7, -1.0, 0.0], dtype=f64), 2)
    orders = PlackettLuce(law.logits, 2).enumerate_support()
    states = torch.zeros(len(orders), 5, dtype=f64).scatter(-1, orders, 1.0)
    estimator = arbitrary(dbsurf.StructuredCV(2, form=form, size=5).double()).eval()
    right = law.enumerate_support()
    mass = law.log_prob(right).exp()
    exact = (mass * reward(right)) @ law.score(right)
    close(expectation(estimator, law, right, mass), exact)
    wrong = PlackettLuce(law.logits, 2).log_prob(orders).exp()
    gradient_of_drawn = torch.autograd.functional.jacobian(
        lambda t: (PlackettLuce(t, 2).log_prob(orders).exp() * reward(states)).sum(), law.logits
    )
    found = expectation(estimator, law, states, wrong)
    assert (found - exact).abs().max() > 0.01
    assert (found - gradient_of_drawn).abs().max() > 0.01  # nor is it the gradient of its own law


def test_backward_gives_what_estimate_says():
    logits = torch.randn(3, 6, dtype=f64, requires_grad=True)
    estimator = arbitrary(dbsurf.StructuredCV(4, form="quadratic", size=6).double()).eval()
    random = torch.Generator()
    found = estimator.estimate(reward, KSubset(logits, 2), generator=random.manual_seed(1)).grad
    estimator(reward, KSubset(logits, 2), generator=random.manual_seed(1)).sum().backward()
    close(logits.grad, found)


def test_items_that_are_never_chosen_have_no_gradient():
    logits = torch.tensor([0.5, -math.inf, 0.0, 60.0, -60.0])
    estimator = arbitrary(dbsurf.StructuredCV(4, form="quadratic", size=5))
    grad = estimator.estimate(lambda x: x.sum(-1) * 2, KSubset(logits, 2)).grad
    assert torch.isfinite(grad).all()
    assert grad[1] == 0


# --- what is learned ------------------------------------------------------------------------------


def network(seed: int, d: int = 10):
    random = torch.Generator().manual_seed(seed)
    first = torch.randn(d, 8, generator=random)
    second = torch.randn(8, generator=random)
    return lambda x: torch.tanh(x @ first) @ second


def variance(estimator: dbsurf.Estimator, f, law: Structure, context=None) -> float:
    many = law.expand((1000, *law.batch_shape))
    if context is not None:
        context = context.expand(1000, *context.shape)
    random = torch.Generator().manual_seed(9)
    return estimator.estimate(f, many, context=context, generator=random).grad.var(0).sum().item()


def test_the_variance_falls_and_products_help():
    torch.manual_seed(0)
    law, f = KSubset(torch.randn(10), 3), network(1)
    found = {}
    for form in ("linear", "quadratic"):
        estimator = dbsurf.StructuredCV(4, form=form)
        for _ in range(15):
            estimator.estimate(f, law.expand((20,)))
        found[form] = variance(estimator.eval(), f, law)
    base = variance(dbsurf.LOORF(4), f, law)
    assert found["linear"] < 0.3 * base
    assert found["quadratic"] < 0.6 * found["linear"]


def test_a_gradient_of_f_is_learned_from_sooner():
    torch.manual_seed(0)
    law, slope = KSubset(torch.randn(5, 8, dtype=f64), 3), torch.randn(8, dtype=f64)
    wanted, found = slope - slope.mean(), {}  # a constant in all slopes is a constant in f
    for uses in ("values", "gradient"):
        estimator = dbsurf.StructuredCV(4, uses=uses).double()
        estimator.estimate(lambda x: x @ slope, law, generator=torch.Generator().manual_seed(0))
        learned = estimator.regression.coefficients
        found[uses] = (learned - learned.mean() - wanted).norm()
    assert found["gradient"] < 0.75 * found["values"]


@both_forms
@pytest.mark.parametrize("features", [0, 3])
def test_slopes_are_the_derivatives_of_the_features(form, features):
    estimator = dbsurf.StructuredCV(2, form=form, uses="gradient")
    x = torch.randn(2, 3, 4, dtype=f64)
    context = torch.randn(3, features, dtype=f64) if features else None
    slopes = estimator._slopes(x, context)  # (2, 3, 4, size)
    for i, j in itertools.product(range(2), range(3)):
        wanted = torch.autograd.functional.jacobian(
            lambda one, j=j: estimator._features(
                one[None, None], None if context is None else context[j : j + 1]
            )[0, 0],
            x[i, j],
        )
        close(slopes[i, j], wanted.mT)


def test_a_gradient_is_used_where_there_is_one():
    estimator = dbsurf.StructuredCV(4, uses="gradient")
    logits = torch.zeros(3, 6, requires_grad=True)
    weight = torch.randn(6, requires_grad=True)
    estimator(lambda x: torch.tanh(x @ weight), KSubset(logits, 2)).sum().backward()
    assert weight.grad is not None
    gram = estimator.regression.gram.clone()
    estimator(lambda x: x.detach()[..., 0], KSubset(logits, 2)).sum().backward()  # values alone
    assert not torch.equal(estimator.regression.gram, gram)
    x = estimator.draw(KSubset(logits, 2))
    estimator.loss(x, torch.tanh(x @ weight), KSubset(logits, 2)).sum().backward()
    with pytest.raises(ValueError, match="law of zeros and ones .* got MarkovChain"):
        estimator(reward, MarkovChain(torch.zeros(4, 3), torch.zeros(3, 3)))


def test_a_context_tells_batch_elements_apart():
    torch.manual_seed(0)
    logits, context = torch.randn(20, 6), torch.randn(20, 3)
    value = torch.randn(3, 6)
    law = KSubset(logits, 2)

    def f(x: Tensor) -> Tensor:
        return (x * (context @ value)).sum(-1)

    found = []
    for given in (None, context):
        estimator = dbsurf.StructuredCV(4)
        for _ in range(40):
            estimator.estimate(f, law, context=given)
        found.append(variance(estimator.eval(), f, law, given))
    assert found[1] < 0.05 * found[0]


def test_noise_switches_it_off():
    torch.manual_seed(0)
    law = KSubset(torch.randn(12), 4)
    estimator = dbsurf.StructuredCV(4, form="quadratic")

    def noise(x: Tensor) -> Tensor:
        return torch.randn(x.shape[:-1])

    for _ in range(15):
        estimator.estimate(noise, law.expand((20,)))
    assert estimator.trust() < 0.2
    assert variance(estimator.eval(), noise, law) < 1.1 * variance(dbsurf.LOORF(4), noise, law)


def test_the_regression_is_a_ridge_regression():
    torch.manual_seed(0)
    regression = RunningRegression([(2, 1.5), (3, 4.0)], 0.9).double()
    gram, overlap, weight = torch.zeros(5, 5, dtype=f64), torch.zeros(5, dtype=f64), 0.0
    for _ in range(8):
        x, y = torch.randn(3, 4, 5, dtype=f64), torch.randn(3, 4, dtype=f64)
        regression.update(x, y)
        x, y = (x - x.mean(0)).flatten(0, 1), (y - y.mean(0)).flatten()
        gram, overlap, weight = 0.9 * gram + x.T @ x, 0.9 * overlap + x.T @ y, 0.9 * weight + 8
    mean = gram.diagonal() / weight
    ridge = torch.cat([1.5 * mean[:2].mean().expand(2), 4 * mean[2:].mean().expand(3)])
    close(regression.coefficients, torch.linalg.solve(gram + ridge.diag(), overlap))
    before = copy.deepcopy(regression.state_dict())
    regression.update(torch.full((3, 4, 5), math.inf, dtype=f64), torch.zeros(3, 4, dtype=f64))
    for name, value in regression.state_dict().items():
        assert torch.equal(value, before[name]), name
    for _ in range(100):
        regression.update(torch.zeros(3, 4, 5, dtype=f64), torch.zeros(3, 4, dtype=f64))
    assert torch.isfinite(regression.coefficients).all()


def test_the_level_is_a_mean_with_its_error():
    torch.manual_seed(0)
    level = RunningLevel(decay=0.9).double()
    assert [part.item() for part in level(4, None)] == [0.0, 1.0]  # nothing known: leave one out
    total = weight = wrong = noise = 0.0
    for call in range(6):
        values = 2 + torch.randn(4, 3, dtype=f64)
        known, _ = level(4, None)
        level.update(values, known, None)
        if call:
            gap = (values.mean(0) - total / weight).square().mean() - values.var(0).mean() / 4
            wrong, noise = 0.9 * wrong + gap, 0.9 * noise + values.var(0).mean()
        total, weight = 0.9 * total + values.mean(), 0.9 * weight + 1
    found, share = level(4, None)
    close(found, total / weight)
    wrong = wrong.clamp(min=0)
    close(share, wrong / (wrong + noise / 3))
    before = level.sums.clone()
    level.update(torch.full((4, 3), math.inf, dtype=f64), found, None)
    assert torch.equal(level.sums, before)


def test_a_level_that_is_known_takes_a_quarter_of_the_variance():
    """With n = 4, f without structure and a mean that stays: (n - 1)/n of leave-one-out's."""
    torch.manual_seed(0)
    law = KSubset(torch.randn(12), 4)
    estimator = dbsurf.StructuredCV(4)

    def noise(x: Tensor) -> Tensor:
        return 5 + torch.randn(x.shape[:-1])

    for _ in range(15):
        estimator.estimate(noise, law.expand((50,)))
    assert estimator.level(4, None)[1] < 0.1
    # 1,000 estimates each: a ratio of .75 with an error of about .02
    assert variance(estimator.eval(), noise, law) < 0.85 * variance(dbsurf.LOORF(4), noise, law)


def test_levels_that_differ_are_told_by_the_context_or_left_out():
    torch.manual_seed(0)
    law, context = KSubset(torch.randn(50, 6), 2), torch.randn(50, 3)
    own = 30 * torch.randn(50)  # of each element: no feature says it
    found = {}
    for name, level in (("own", own), ("context", context @ torch.tensor([1.0, -1.0, 2.0]))):
        estimator = dbsurf.StructuredCV(4)
        for _ in range(20):
            noise = 3 * torch.randn(4, 50)
            estimator.estimate(lambda x, b=level + noise: x[..., 0] + b, law, context=context)
        found[name] = estimator.level(4, context)[1].item()
    assert found["own"] > 0.98  # as leave-one-out
    assert found["context"] < 0.3


def test_features_that_never_vary_have_no_coefficient():
    estimator = dbsurf.StructuredCV(3, form="quadratic")
    for _ in range(3):
        grad = estimator.estimate(reward, KSubset(torch.randn(3), 3)).grad
    assert grad.abs().max() < 1e-5
    assert estimator.regression.coefficients.abs().max() == 0


# --- state ----------------------------------------------------------------------------------------


@both_forms
def test_a_run_is_resumed_bit_for_bit(form, tmp_path):
    law, context = KSubset(torch.randn(3, 5), 2), torch.randn(3, 2)
    random = torch.Generator().manual_seed(0)

    def run(estimator: dbsurf.StructuredCV, calls: int) -> Tensor:
        for _ in range(calls):
            found = estimator.estimate(reward, law, context=context, generator=random).grad
        return found

    whole = dbsurf.StructuredCV(3, form=form)
    run(whole, 30)
    torch.save(whole.state_dict(), tmp_path / "state.pt")
    state = random.get_state()
    wanted = run(whole, 30)
    random.set_state(state)
    resumed = dbsurf.StructuredCV(3, form=form)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert torch.equal(run(resumed, 30), wanted)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    assert list(whole.parameters()) == []


def test_eval_mode_learns_nothing():
    estimator = dbsurf.StructuredCV(3, size=5)
    before = copy.deepcopy(estimator.state_dict())
    estimator.eval()
    for _ in range(3):
        estimator.estimate(reward, KSubset(torch.zeros(5), 2))
    for name, value in estimator.state_dict().items():
        assert torch.equal(value, before[name])


def test_samples_evaluated_elsewhere():
    estimator, law = dbsurf.StructuredCV(3), KSubset(torch.zeros(5, requires_grad=True), 2)
    for _ in range(3):
        x = estimator.draw(law)
        estimator.loss(x, reward(x).numpy(), law).backward()
    assert estimator.regression.weight > 3


# --- the biased one -------------------------------------------------------------------------------


def test_the_marginal_gradient_is_exact_for_linear_functions_only():
    logits = torch.randn(2, 5, dtype=f64)
    value = torch.randn(5, dtype=f64)
    linear = dbsurf.MarginalGradient(2).estimate(lambda x: x @ value, KSubset(logits, 2)).grad
    close(linear, dbsurf.exact(lambda x: x @ value, KSubset(logits, 2)).grad)

    def bent(x: Tensor) -> Tensor:
        return torch.tanh(3 * x @ value)

    law = KSubset(logits[0], 2)
    states = law.enumerate_support().requires_grad_()
    (slope,) = torch.autograd.grad(bent(states).sum(), states)
    mass = law.log_prob(states.detach()).exp()
    estimator = dbsurf.MarginalGradient(1)
    assert not estimator.unbiased
    single = estimator.estimate(bent, law.expand((len(mass),)), samples=states.detach()[None]).grad
    close(single, slope @ law.covariance)
    gap = mass @ single - dbsurf.exact(bent, law).grad
    assert gap.abs().max() > 0.01


def test_the_marginal_gradient_of_trees_and_of_several_laws():
    logits = torch.randn(2, 4, 3, dtype=f64, requires_grad=True)
    law = Independent(SpanningTree(logits, complete_graph(3)), 1)
    value = torch.randn(4, 3, dtype=f64)
    dbsurf.MarginalGradient(2)(lambda x: (x * value).sum((-1, -2)), law).sum().backward()
    wanted = SpanningTree(logits.detach(), complete_graph(3)).covariance_vector(value)
    close(logits.grad, wanted)


VECTORS = [case for case in LAWS if case.statistics is None]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case.name)
def test_the_second_order_is_exact_for_functions_of_degree_two(case):
    (logits,) = case.parameters()
    law, mass = case.build(logits), case.log_probs([logits]).exp()
    states = torch.tensor(case.values).to(f64)
    size = len(logits)
    slope, matrix = torch.randn(size, dtype=f64), torch.randn(size, size, dtype=f64)

    def quadratic(x: Tensor) -> Tensor:
        return x @ slope + (x @ matrix * x).sum(-1)

    found = {}
    for order in (1, 2):
        estimator = dbsurf.MarginalGradient(1, order=order)
        many = law.expand((len(states),))
        found[order] = mass @ estimator.estimate(quadratic, many, samples=states[None]).grad
    wanted = (mass * quadratic(states)) @ law.score(states)
    close(found[2], wanted)
    if case.name in ("3 of 6", "tree", "directed tree"):
        assert (found[1] - wanted).abs().max() > 0.01


def test_the_second_order_of_one_item_is_reinmax():
    logits = torch.randn(3, 5, dtype=f64)
    value = torch.randn(5, dtype=f64)
    samples = torch.eye(5, dtype=f64)[torch.tensor([[0, 1, 4], [2, 2, 3]])]  # (2, 3, 5)
    found = [
        estimator.estimate(lambda x: torch.tanh(x @ value), law, samples=samples).grad
        for estimator, law in (
            (dbsurf.MarginalGradient(2, order=2), KSubset(logits, 1)),
            (dbsurf.ReinMax(2), OneHotCategorical(logits=logits)),
        )
    ]
    close(*found)


def test_the_second_order_of_several_laws_with_one_value():
    logits = torch.randn(2, 3, dtype=f64)
    law = KSubset(logits, 1)
    one = torch.eye(3, dtype=f64)
    states = torch.stack([torch.stack(pair) for pair in itertools.product(one, one)])  # (9, 2, 3)
    mass = Independent(law, 1).log_prob(states).exp()
    matrix = torch.randn(6, 6, dtype=f64)

    def quadratic(x: Tensor) -> Tensor:
        flat = x.flatten(-2)
        return (flat @ matrix * flat).sum(-1)

    many = Independent(law.expand((9, 2)), 1)
    estimator = dbsurf.MarginalGradient(1, order=2)
    grad = estimator.estimate(quadratic, many, samples=states[None]).grad
    found = torch.einsum("t,tsm->sm", mass, grad)
    close(found, torch.einsum("t,t,tsm->sm", mass, quadratic(states), law.score(states)))


# --- declared, compared, refused ------------------------------------------------------------------


def test_compare_has_them_where_they_apply():
    torch.manual_seed(0)
    found = dbsurf.compare(network(2, 6), KSubset(torch.randn(6), 2), n=4, draws=20)
    tried = [row.estimator for row in found.rows]
    quadratic = 'StructuredCV(4, form="quadratic")'
    assert {"StructuredCV(4)", quadratic, "MarginalGradient(4)", "LOORF(4)"} <= set(tried)
    chain = MarkovChain(torch.randn(8, 3), torch.randn(3, 3))  # 24 + 63 statistics
    found = dbsurf.compare(reward, chain, n=4, draws=20)
    assert "StructuredCV(4)" in [row.estimator for row in found.rows]
    assert "at most 2,048 coefficients, got 87" in found.left_out[quadratic]
    assert "zeros and ones" in found.left_out["MarginalGradient(4)"]
    bits = Independent(Bernoulli(logits=torch.zeros(3)), 1)
    assert (
        "log-partition" in dbsurf.compare(reward, bits, n=4, draws=20).left_out["StructuredCV(4)"]
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dbsurf.StructuredCV(1), "n must be"),
        (lambda: dbsurf.StructuredCV(2, form="cubic"), "form must be"),
        (lambda: dbsurf.StructuredCV(2, rank=0), "rank must be an integer >= 1, got 0"),
        (lambda: dbsurf.StructuredCV(2, uses="mean"), "uses must be one of 'values', 'gradient'"),
        (lambda: dbsurf.StructuredCV(2, size=0), "size must be an integer >= 1"),
        (lambda: dbsurf.StructuredCV(2, decay=1.0), "decay must be"),
        (lambda: dbsurf.StructuredCV(2, form="quadratic", size=64), "got 64 statistics"),
        (lambda: dbsurf.StructuredCV(2, size=500, context=9), "9 features of the context"),
        (lambda: dbsurf.MarginalGradient(0), "n must be"),
        (lambda: dbsurf.MarginalGradient(1, order=3), "order must be one of 1, 2, got 3"),
    ],
)
def test_bad_options(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bad_laws_and_contexts():
    estimator = dbsurf.StructuredCV(2)
    with pytest.raises(ValueError, match="dist must be a law with a log-partition .* PlackettLuce"):
        estimator(reward, PlackettLuce(torch.zeros(3)))
    with pytest.raises(ValueError, match="dist must be a law with a log-partition .* Bernoulli"):
        estimator(reward, Bernoulli(logits=torch.zeros(3)))
    estimator(reward, KSubset(torch.zeros(3), 2))
    with pytest.raises(ValueError, match="3 coordinates and 0 features as in earlier calls, got 4"):
        estimator(reward, KSubset(torch.zeros(4), 2))
    with pytest.raises(ValueError, match="context must be"):
        estimator(reward, KSubset(torch.zeros(3), 2), context=torch.zeros(3, 2))
    chain = MarkovChain(torch.zeros(4, 3), torch.zeros(3, 3))
    with pytest.raises(ValueError, match="law of zeros and ones .* got MarkovChain"):
        dbsurf.MarginalGradient(2)(reward, chain)
    with pytest.raises(ValueError, match="f must be differentiable in x for MarginalGradient"):
        dbsurf.MarginalGradient(2)(lambda x: x.detach().sum(-1), KSubset(torch.zeros(3), 2))
