"""REBAR and RELAX: unbiased by quadrature, their formulas, and what they learn."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dbsurf
from dbsurf.estimators import Drawn, relaxation
from smooth_problems import bits, exact, f, f64


def quadrature(monkeypatch: pytest.MonkeyPatch, d: int) -> Tensor:
    """Replace the uniform numbers behind z by the nodes of a trapezoidal rule; its weights.

    In u = sigmoid(s) the integrands are analytic in s and fall off as exp(-|s|), where equal steps
    converge faster than any power. The estimate is a sum of a function of the first draw of z
    and one of the second: both may use the same nodes.
    """
    s = torch.linspace(-24, 24, 81, dtype=f64)
    step = s[1] - s[0]
    nodes = torch.cartesian_prod(*[s] * d).view(-1, d)
    weights = (torch.sigmoid(nodes) * torch.sigmoid(-nodes) * step).prod(-1)
    states = 2**d
    uniforms = torch.sigmoid(nodes).repeat(states, 1)  # (states * nodes, d)
    monkeypatch.setattr(relaxation, "uniform", lambda like, n, generator: uniforms.clone()[None])
    return weights.repeat(states)


@pytest.mark.parametrize("name", ["rebar", "relax"])
@pytest.mark.parametrize("point", [(0.3,), (0.999,), (0.35, 0.8)], ids=str)
def test_relaxed_control_variates_are_unbiased_by_quadrature(name, point, monkeypatch):
    d = len(point)
    logits = torch.logit(torch.tensor(point, dtype=f64))
    estimator = dbsurf.get(name, 1).double()
    if name == "relax":
        estimator = dbsurf.RELAX(1, network=Wavy())
    else:
        estimator.fixed = 0.8
    weights = quadrature(monkeypatch, d)
    states, mass = dbsurf.distributions.coordinates(bits(logits)).states()
    count = weights.numel() // states.shape[0]
    samples = states.repeat_interleave(count, 0)
    law = bits(logits.expand(samples.shape[0], d))
    bound, slope = relaxation.noisy_logits_given(
        dbsurf.distributions.coordinates(law), samples[None], None
    )
    noise = relaxation.Noise(bound, bound, slope)
    estimator.eval().draw_samples = lambda law, generator: Drawn(samples[None], noise)
    gradient = estimator.estimate(f, law).grad
    total = weights * mass.repeat_interleave(count)
    assert total.sum().item() == pytest.approx(1, abs=1e-9)
    expected = (total.unsqueeze(-1) * gradient).sum(0)
    assert (expected - exact(f, bits(logits))).abs().max() < 1e-7


class Wavy(nn.Module):
    """Some surrogate with parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, points: Tensor, context: Tensor | None) -> Tensor:
        return self.scale * torch.sin(3 * points.sum(-1)) + points.square().prod(-1)


class Nothing(nn.Module):
    def forward(self, points: Tensor, context: Tensor | None) -> Tensor:
        return 0 * points.sum(-1)


def test_relax_with_a_zero_surrogate_is_reinforce():
    logits = torch.randn(20, 5, dtype=f64)
    for estimator in (dbsurf.RELAX(3), dbsurf.RELAX(3, network=Nothing())):
        found = estimator.estimate(f, bits(logits))
        plain = dbsurf.Reinforce(3).estimate(f, bits(logits), samples=found.samples)
        assert (found.grad - plain.grad).abs().max() < 1e-12
    zero = dbsurf.REBAR(3, coefficient=0.0).estimate(f, bits(logits))
    plain = dbsurf.Reinforce(3).estimate(f, bits(logits), samples=zero.samples)
    assert (zero.grad - plain.grad).abs().max() < 1e-12


def test_rebar_written_out():
    """The estimate from its formula, by autograd through the relaxed samples."""
    logits = torch.randn(6, 4, dtype=f64)
    law = dbsurf.distributions.coordinates(bits(logits))
    estimator = dbsurf.REBAR(2, temperature=0.7, coefficient=0.6)
    x, noise = estimator.draw_samples(law, None)
    estimator.draw_samples = lambda law, generator: Drawn(x, noise)
    leaf = logits.clone().requires_grad_()
    side = 2 * x - 1
    # z = logits + noise; and z given x as a function of the logits with v held fixed, where v is
    # the uniform number behind it, found by bisection.
    free = leaf + (noise.free - logits)
    low, high = torch.zeros_like(x), torch.ones_like(x)
    for _ in range(200):
        v = (low + high) / 2
        z = side * (nn.functional.softplus(side * logits + v.log()) - torch.log1p(-v))
        above = side * (z - noise.bound) > 0
        high, low = torch.where(above, v, high), torch.where(above, low, v)
    bound = side * (nn.functional.softplus(side * leaf + v.log()) - torch.log1p(-v))
    torch.testing.assert_close(bound.detach(), noise.bound)
    c = [0.6 * f(torch.sigmoid(z / 0.7)) for z in (free, bound)]
    score = (x * nn.functional.logsigmoid(leaf) + (1 - x) * nn.functional.logsigmoid(-leaf)).sum(-1)
    total = ((f(x) - c[1]).detach() * score + c[0] - c[1]).mean(0).sum()
    (expected,) = torch.autograd.grad(total, leaf)
    assert (estimator.estimate(f, bits(logits)).grad - expected).abs().max() < 1e-10


@pytest.mark.parametrize("name", ["rebar", "relax"])
def test_relaxed_control_variates_learn_to_vary_less(name):
    logits = torch.linspace(-1, 1, 4)
    estimator = dbsurf.RELAX(1, lr=1e-2) if name == "relax" else dbsurf.REBAR(1)
    for _ in range(300):
        estimator.estimate(f, bits(logits.expand(50, 4)))
    law = bits(logits.expand(5000, 4))
    learned = estimator.eval().estimate(f, law).grad.var(0).sum()
    assert learned < 0.5 * dbsurf.Reinforce(1).estimate(f, law).grad.var(0).sum()


def test_a_surrogate_of_the_callers_own_gets_its_gradient_or_its_step():
    logits = torch.randn(20, 3, dtype=f64)

    def seeded() -> torch.Generator:
        return torch.Generator().manual_seed(2)

    mine = Wavy()
    dbsurf.RELAX(2, network=mine, lr=None).estimate(f, bits(logits), generator=seeded())
    small = 1e-4
    lengths = []
    for change in (-small, small):
        other = Wavy().double()
        with torch.no_grad():
            other.scale.add_(change)
        found = dbsurf.RELAX(2, network=other, lr=None).eval()
        gradient = found.estimate(f, bits(logits), generator=seeded()).grad
        lengths.append(gradient.square().sum(-1).mean())
    slope = (lengths[1] - lengths[0]) / (2 * small)
    assert mine.scale.grad.item() == pytest.approx(slope.item(), rel=1e-4)
    fitted = Wavy()
    before = fitted.scale.item()
    estimator = dbsurf.RELAX(2, network=fitted, lr=0.1)
    estimator.estimate(f, bits(logits))
    assert abs(fitted.scale.item() - before) == pytest.approx(0.1, rel=1e-3)
    assert not fitted.scale.requires_grad  # no other optimiser touches it
    wide = dbsurf.RELAX(2)
    wide.estimate(f, bits(logits))
    with pytest.raises(ValueError, match="as in earlier calls, got 5"):
        wide.estimate(f, bits(torch.zeros(20, 5)))


def test_relax_uses_the_context_and_saves_what_it_learned():
    logits, context = torch.zeros(8, 3), torch.randn(8, 2)
    estimator = dbsurf.RELAX(2)
    for _ in range(5):
        estimator.estimate(f, bits(logits), context=context)
    again = dbsurf.RELAX(2)
    again.load_state_dict(estimator.state_dict())
    found = [
        e.eval().estimate(f, bits(logits), context=context, generator=torch.Generator()).grad
        for e in (estimator, again)
    ]
    assert torch.equal(*found)
