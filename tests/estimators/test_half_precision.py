"""Half-precision logits are computed in float32; modes of autograd and edges of the input."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Independent,
    NegativeBinomial,
    OneHotCategorical,
    Poisson,
)

import dbsurf
from cases import ANY_LAW, CASES, UNBIASED
from dbsurf import laws
from ztests import assert_mean

HALF = [torch.bfloat16, torch.float16]
# Those whose work grows with n and not with its square.
FOR_MANY_SAMPLES = (
    "reinforce",
    "loorf",
    "dbsurf",
    "mdsurf",
    "arms",
    "disarm",
    "doublecv",
    "quadraticcv",
)


def f(x: Tensor) -> Tensor:
    x = x.float()
    return (x - 0.49).square().sum(-1) + x.prod(-1)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("case", UNBIASED, ids=str)
def test_half_precision_logits_are_unbiased_too(case, dtype):
    """The logits are numbers that half precision has, so that the truth is the same."""
    row = torch.tensor([0.5, -1.25, 2.0])
    logits = row.to(dtype).expand(case.repeat, 3).clone().requires_grad_()
    estimator = case.build(4)
    dist = Independent(Bernoulli(logits=logits), 1)
    estimator.estimate(f, dist)  # lets what learns come from elsewhere
    estimate = estimator.estimate(f, dist)
    assert estimate.grad.dtype == dtype
    truth = dbsurf.exact(f, Independent(Bernoulli(logits=row), 1)).grad
    assert_mean(estimate.grad.float(), truth)
    estimator(f, dist).sum().backward()
    assert logits.grad.dtype == dtype
    assert_mean(logits.grad.float(), truth)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("n", [512, 1000])
@pytest.mark.parametrize("case", [c for c in UNBIASED if c.name in FOR_MANY_SAMPLES], ids=str)
def test_many_samples_in_half_precision(case, n, dtype):
    """As many as half precision cannot count."""
    row = torch.tensor([0.5, -1.25])
    dist = Independent(Bernoulli(logits=row.to(dtype).expand(200, 2)), 1)
    estimator = case.build(n)
    estimator.estimate(f, dist)
    found = estimator.estimate(f, dist).grad.double()
    truth = dbsurf.exact(f, Independent(Bernoulli(logits=row), 1)).grad.double()
    error = (found.var(0) / 200).sqrt() + 2.0**-9 * truth.abs()  # and the rounding of the result
    assert ((found.mean(0) - truth).abs() < 6 * error).all()


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("case", ANY_LAW, ids=str)
def test_categorical_laws_in_half_precision(case, dtype):
    logits = torch.randn(5, 4).to(dtype).requires_grad_()
    for kind in (Categorical, OneHotCategorical):
        dist = kind(logits=logits, validate_args=False)  # (torch's check of a simplex is too fine)
        g = (lambda x: x.float()) if kind is Categorical else (lambda x: x[..., 0].float())
        estimate = case.build(4).estimate(g, dist)
        assert estimate.grad.dtype == dtype
        assert torch.isfinite(estimate.grad).all()
        logits.grad = None
        case.build(4)(g, dist).sum().backward()
        assert logits.grad.dtype == dtype


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("case", [c for c in ANY_LAW if c.unbiased], ids=str)
def test_counting_laws_in_half_precision(case, dtype):
    """Log-probabilities of large counts overflow in float16; their gradients need not."""
    for build in (
        lambda t: NegativeBinomial(2.0, logits=t, validate_args=False),
        lambda t: Geometric(logits=t, validate_args=False),
        lambda t: Binomial(5, logits=t, validate_args=False),
    ):
        row = torch.tensor([2.5, -1.0])
        logits = row.to(dtype).expand(2000, 2).clone().requires_grad_()
        estimator, wide = case.build(4), case.build(4)
        dist = build(logits)
        x = estimator.draw(dist)
        f_values = x.float() / 10
        estimator.loss(x, f_values, dist).sum().backward()
        assert torch.isfinite(logits.grad).all()
        leaf = row.expand(2000, 2).clone().requires_grad_()
        wide.loss(x.float(), f_values, build(leaf)).sum().backward()
        torch.testing.assert_close(logits.grad.float(), leaf.grad, rtol=2e-2, atol=2e-2)


# --- modes of autograd ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_estimates_without_autograd_are_the_same(case, mode):
    dist = Independent(Bernoulli(logits=torch.linspace(-1, 1, 6).view(2, 3)), 1)
    expected = case.build(4).estimate(f, dist, generator=torch.Generator().manual_seed(1)).grad
    with mode():
        found = case.build(4).estimate(f, dist, generator=torch.Generator().manual_seed(1)).grad
    torch.testing.assert_close(found.clone(), expected)


@pytest.mark.parametrize("case", ANY_LAW, ids=str)
def test_counting_laws_in_inference_mode(case):
    with torch.inference_mode():
        for dist in (
            Geometric(torch.tensor([0.4])),
            Binomial(5, torch.tensor([0.4])),
            NegativeBinomial(3.0, torch.tensor([0.4])),
            Poisson(torch.tensor([2.0])),
        ):
            assert torch.isfinite(case.build(4).estimate(lambda x: x, dist).grad).all()


def test_an_event_without_coordinates():
    empty = Independent(Bernoulli(torch.zeros(5, 0)), 1)
    found = dbsurf.exact(lambda x: x.sum(-1) + 3, empty)
    assert found.value.tolist() == [3.0] * 5
    assert found.grad.shape == (5, 0)


# --- alpha and laws -------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [2.0**24, 1e8, 1e300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_very_large_alpha_never_draws_what_cannot_happen(alpha, dtype):
    p = torch.tensor([0.0, 1.0], dtype=dtype).expand(500, 2)
    bits = dbsurf.samplers.DBSample(alpha).sample(Bernoulli(p), 6)
    assert (bits == p).all()
    index = dbsurf.samplers.DBSample(alpha).sample(
        Categorical(torch.tensor([0.0, 1.0, 0.0], dtype=dtype)), 6
    )
    assert (index == 1).all()
    law = laws.count_law(torch.tensor([0.0, 1.0], dtype=dtype), 6, alpha)
    assert law[0, 0] == law[6, 1] == 1


PROBS = torch.tensor([0.3])
OF_N = [
    laws.min_discrepancy_disagreement,
    laws.antithetic_count_law,
    laws.antithetic_disagreement,
    laws.dirichlet_count_law,
    laws.dirichlet_disagreement,
    laws.gaussian_disagreement,
    laws.hoernig_bound,
]
OF_ALPHA = [laws.count_law, laws.marginals, laws.pair_probabilities, laws.correlations]


@pytest.mark.parametrize("law", OF_N + OF_ALPHA + [laws.min_discrepancy_count_law])
def test_laws_check_what_they_are_given(law):
    for bad in (torch.tensor([1.5]), torch.tensor([-0.1]), torch.tensor([math.nan])):
        with pytest.raises(ValueError, match=r"probs must lie in \[0, 1\]"):
            law(bad, 4)
    for bad in (0.3, torch.tensor([1]), None):
        with pytest.raises(ValueError, match="probs must be a floating-point tensor"):
            law(bad, 4)
    for n in (0, 2.5, "4", None):
        with pytest.raises((ValueError, TypeError), match="n must be an"):
            law(PROBS, n) if n is not None else law(PROBS, -1)
    if law in OF_N:
        with pytest.raises(ValueError, match="n must be an .*integer >= 2"):
            law(PROBS, 1)
    if law in OF_ALPHA:
        with pytest.raises(ValueError, match="alpha must be a finite number >= 0"):
            law(PROBS, 4, "x")


def test_the_dirichlet_law_stays_a_law_or_says_why_not():
    for n in (2, 10, 30):
        law = laws.dirichlet_count_law(torch.tensor([0.02, 0.3, 0.5, 0.9]), n)
        assert law.dtype == torch.float32
        assert (law >= 0).all()
        torch.testing.assert_close(law.sum(0), torch.ones(4), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="n must be at most 30 for this law, got 60"):
        laws.dirichlet_count_law(PROBS, 60)
    with pytest.raises(ValueError, match=r"law must have shape \(n \+ 1, \*coords\) with n >= 2"):
        laws.disagreement(torch.ones(2, 3))
    with pytest.raises(ValueError, match="samples must be a tensor, got list"):
        dbsurf.discrepancy([0, 1], Bernoulli(PROBS))


# --- large batches --------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum", "weighted"])
@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", [c for c in CASES if c.build(2).grad_f], ids=str)
def test_a_large_batch_and_its_mean(case, dtype, reduction):
    """The mean over 17,000 elements of the estimates that the elements have by themselves.

    n over the gradient of the loss with respect to an element is 68,000: not a number of float16.
    """
    batch = 17_000
    estimator, alone = case.build(4).eval(), case.build(4).eval()
    logits = torch.tensor([0.5, -1.25], dtype=dtype).expand(batch, 2).clone().requires_grad_()
    law = Independent(Bernoulli(logits=logits), 1)
    one, two = (torch.Generator().manual_seed(7) for _ in range(2))
    value = estimator(f, law, generator=one)
    weight = {"mean": 1 / batch, "sum": 1.0, "weighted": 1e-42}[reduction]
    loss = value.mean() if reduction == "mean" else (value * weight).sum()
    (found,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(found).all()
    if reduction == "weighted":  # below what these types represent accurately
        assert found.double().abs().max() < 1e-40
        return
    expected = alone.estimate(f, law, generator=two).grad.double() * weight
    # The rounding of what arrives, and of the smallest numbers of the type.
    fine = {torch.bfloat16: 2e-2, torch.float16: 5e-3}.get(dtype, 1e-5)
    torch.testing.assert_close(found.double(), expected, rtol=fine, atol=fine * weight)
