"""SpotCheck's share of leave-one-out: what it is, when it is there, what it gains."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

import dbsurf
from dbsurf.estimators.spotcheck import blend, fade

f64 = torch.float64
PROBS = torch.tensor([0.3, 0.8, 0.5], dtype=f64)


def law(*batch: int) -> Independent:
    return Independent(Bernoulli(PROBS.expand(*batch, 3).clone()), 1)


def f(x: Tensor) -> Tensor:
    linear = x @ torch.tensor([1.3, -0.7, 0.4], dtype=f64)
    return linear + torch.sin(7 * linear)


def test_the_share_mixes_two_gradients_of_the_same_samples():
    estimator = dbsurf.SpotCheck(2, size=3).double().eval()
    assert estimator.fade.near()  # nothing is known
    found = {}
    for share in (0.0, 0.25, 1.0):
        estimator.memory.blend.sums.copy_(torch.tensor([[share], [1.0]]).expand(2, 3))
        random = torch.Generator().manual_seed(1)
        found[share] = estimator.estimate(f, law(50), generator=random)
    torch.testing.assert_close(found[0.25].grad, 0.75 * found[0.0].grad + 0.25 * found[1.0].grad)
    samples = found[1.0].samples
    plain = dbsurf.MDsurf(2).estimate(f, law(50), samples=samples).grad
    torch.testing.assert_close(found[1.0].grad, plain)


def test_the_share_is_the_regression_of_one_gradient_on_the_difference():
    """Two gradients with independent noise: the share is that of the first in their variance."""
    random = torch.Generator().manual_seed(2)
    noise = torch.randn(2, 400, 100, 3, generator=random, dtype=f64)
    scale = torch.tensor([0.5, 1.0, 3.0], dtype=f64)
    known = blend.Blend(3, 0.999).double()
    always = torch.tensor(True)
    for one, two in noise.transpose(0, 1):
        known.update(blend.Blended(scale * one, scale * one - two), always)
    expected = scale.square() / (1 + scale.square())
    torch.testing.assert_close(known.read(always, f64), expected, atol=0.04, rtol=0)
    before = known.sums.clone()
    known.update(blend.Blended(one * torch.nan, two), always)
    known.update(blend.Blended(one, two), ~always)
    assert torch.equal(known.sums, before)


def test_the_sums_start_over_when_differences_have_become_far_smaller():
    always, known = torch.tensor(True), blend.Blend(3, 0.99).double()
    one = torch.ones(1, 3, dtype=f64)

    def call(size: float, share: float) -> None:
        difference = size**0.5 * one
        known.update(blend.Blended(share * difference, difference), always)

    for size in (100.0, 100.0, 10.0, 10.0, 10.0):  # a tenth is not far smaller
        call(size, 1.0)
    kept = torch.tensor([100.0, 100, 10, 10, 10], dtype=f64)
    expected = (0.99 ** torch.arange(4, -1, -1) * kept).sum()
    torch.testing.assert_close(known.sums, expected.expand(2, 3))
    for _ in range(20):
        call(0.1, 0.25)
    torch.testing.assert_close(known.read(always, f64), 0.25 * one[0])
    assert known.calls < 20  # of which a few were needed to see it


def test_the_errors_of_the_first_calls_do_not_decide_the_share():
    """A quadratic whose slopes nearly cancel its curvature, which is not known at first.

    The first estimate has ten thousand times the variance of leave-one-out, all later ones have
    hardly any.
    """
    logits = torch.randn(40, generator=torch.Generator().manual_seed(4), dtype=f64)
    dist = Independent(Bernoulli(logits=logits.expand(50, 40)), 1)
    estimator = dbsurf.SpotCheck(2, size=40).double()
    random = torch.Generator().manual_seed(5)

    def variance(one: dbsurf.Estimator) -> float:
        grads = one.estimate(lambda x: (x - 0.499).square().mean(-1), dist, generator=random).grad
        return float(grads.var(0).sum())

    plain = variance(dbsurf.LOORF(4))
    assert variance(estimator) > 1e3 * plain
    later = [variance(estimator) for _ in range(150)]
    checked = [value for value in later if value < 0.1 * plain]
    assert len(checked) > 120  # others try plain samples, at first every second call
    assert max(checked[-100:]) < 1e-3 * plain


def test_it_is_off_where_leave_one_out_is_much_worse():
    estimator = dbsurf.SpotCheck(2, size=3).double()
    estimator.fade.tried.fill_(10.0)
    law_of = dbsurf.distributions.coordinates(law(2))
    for ratio, there in ((1.0, True), (fade.NEAR + 1, False)):
        estimator.fade.second.copy_(torch.tensor([1.0, ratio]))
        assert (estimator.prepare(law_of, None, f).known.share is not None) == there
    assert dbsurf.SpotCheck(1, size=3).prepare(law_of, None, f).known.share is None


@pytest.mark.parametrize("pooled", [False, True])
def test_bits_whose_effects_the_gradient_does_not_see_have_less_variance(pooled, monkeypatch):
    """Half of the bits go through a threshold; their checks have errors as large as effects."""
    weight = torch.randn(20, generator=torch.Generator().manual_seed(3))
    dist = Independent(Bernoulli(logits=torch.zeros(50, 20)), 1)

    def half_hard(x: Tensor, scale: Tensor) -> Tensor:
        smooth = torch.nn.functional.softplus(2 * x[..., :10] @ weight[:10])
        return scale * (smooth + 0.7 * (x[..., 10:] @ weight[10:] > 0).to(x.dtype))

    found = {}
    for near in (False, True):
        monkeypatch.setattr(fade.Fade, "near", lambda self, near=near: torch.tensor(near))
        torch.manual_seed(0)
        estimator = dbsurf.SpotCheck(2, pooled=pooled)
        estimator.fade.forward = lambda left=None: torch.tensor(False)  # checks in every call
        gradients = [
            estimator.estimate(half_hard, dist, inputs=torch.ones(50)).grad for _ in range(500)
        ]
        found[near] = torch.stack(gradients[200:]).var(0).sum().item()
    assert found[True] < 0.8 * found[False]
