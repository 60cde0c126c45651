"""The network that scales SpotCheck's table of curvatures for one-hot laws.

That SpotCheck has no bias with arbitrary weights of it is in `test_spotcheck.py`.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, OneHotCategorical
from torch.nn.functional import leaky_relu, linear

import dbsurf
from dbsurf.distributions import coordinates
from dbsurf.estimators.spotcheck.bends import LEAK
from dbsurf.estimators.spotcheck.joint import cells_of

f64 = torch.float64
SHAPE = (5, 3)


def law(batch: int) -> Independent:
    logits = torch.randn(SHAPE, generator=torch.Generator().manual_seed(2), dtype=f64)
    return Independent(OneHotCategorical(logits=logits.expand(batch, *SHAPE)), 1)


def f(x: Tensor) -> Tensor:
    """The curvature of a coordinate depends on the class of the one before it."""
    along = x @ torch.tensor([1.0, -1.5, 0.5], dtype=x.dtype)
    return ((1 + 8 * x[..., :-1, 0]) * along[..., 1:].square()).sum(-1)


def checking(n: int, m: int) -> dbsurf.SpotCheck:
    """One that never takes plain samples, which are better where f does not change."""
    estimator = dbsurf.SpotCheck(n, checks=m, size=SHAPE).double()
    estimator.fade.forward = lambda left: torch.tensor(False)
    return estimator


def taught(calls: int, *, network: bool = True) -> dbsurf.SpotCheck:
    estimator = checking(2, 2)
    if not network:
        estimator.memory.bends = None
    random = torch.Generator().manual_seed(1)
    for _ in range(calls):
        estimator.estimate(f, law(20), generator=random)
    return estimator


def test_only_one_one_hot_law_has_a_network():
    assert dbsurf.SpotCheck(2, size=SHAPE).memory.bends is not None
    for size in (5, [SHAPE, 4], [SHAPE, SHAPE]):
        assert dbsurf.SpotCheck(2, size=size).memory.bends is None


def test_what_it_has_learned_lowers_the_variance():
    spreads = []
    for network in (True, False):
        estimator = taught(600, network=network).eval()
        random = torch.Generator().manual_seed(3)
        spreads.append(estimator.estimate(f, law(4000), generator=random).grad.var(0).sum())
    assert spreads[0] < 0.7 * spreads[1]


def test_a_step_is_that_of_adam_along_the_derivative_of_the_squared_errors():
    """The weights after a call, with torch's own derivative and optimiser."""
    estimator = taught(30)
    memory = estimator.memory
    before, seen = copy.deepcopy(memory.bends), []
    update = memory.update
    memory.update = lambda known, found, checked: (
        seen.append((known, found)) or update(known, found, checked)
    )
    estimator.estimate(f, law(20), generator=torch.Generator().manual_seed(4))
    del memory.update
    known, found = seen[0]
    bends, by_found = found.bends
    weights = [layer.clone().requires_grad_() for layer in known.layers]
    hidden = leaky_relu(linear(bends.inputs, weights[0], weights[1]), LEAK)
    loss = (linear(hidden, weights[2], weights[3]) * by_found).sum()  # (linear in t: by_found)
    gradients = torch.autograd.grad(loss, weights)
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    parameter = before.values.clone().requires_grad_()
    adam = torch.optim.Adam([parameter], lr=1e-3, betas=(0.9, 0.99), eps=0.0)
    state = {"step": before.steps.clone().float()}
    state |= {"exp_avg": before.moments[0].clone(), "exp_avg_sq": before.moments[1].clone()}
    adam.state[parameter] = state
    parameter.grad = flat
    adam.step()
    moved = memory.bends.moments[1] > 0
    assert moved.any()
    torch.testing.assert_close(memory.bends.values[moved], parameter.detach()[moved])
    assert torch.equal(memory.bends.values[~moved], before.values[~moved])


def test_the_derivative_by_t_is_that_of_half_the_weighted_squared_errors():
    """One law, one sample: what was checked is known from the entry of the table."""
    estimator, seen = checking(1, 3), []
    random = torch.Generator().manual_seed(1)
    for _ in range(40):
        estimator.estimate(f, law(20), generator=random)
    estimator.memory.update = lambda known, found, checked: seen.append((known, found))
    samples = estimator.estimate(f, law(20), generator=random).samples
    known, found = seen[0]
    bends, by_found = found.bends
    cells = cells_of(coordinates(law(20)))
    t = bends.found.clone().requires_grad_()
    enters = found.entry // (SHAPE[1] ** 2) * SHAPE[1] + found.entry % SHAPE[1]  # (m, B)
    both = cells.both_ends(cells.flat(samples), t)[0].T  # (M, B)
    curvature = known.table[found.entry]
    error = found.rest - (found.scale + both.gather(0, enters)) * curvature
    (expected,) = torch.autograd.grad(0.5 * (found.share * error.square()).sum(), t)
    torch.testing.assert_close(by_found, expected)
    assert (known.table.abs() > 0.1).any()


def test_no_input_can_be_large():
    logits = torch.tensor([[[80.0, 0.0, -80.0], [0.0, 0.0, 0.0]]], dtype=f64)
    certain = Independent(OneHotCategorical(logits=logits), 1)
    estimator, seen = dbsurf.SpotCheck(2).double(), []
    for factor in (0.0, 1.0, 1e9):
        slope = lambda x, factor=factor: factor * (x[..., 0, 1] + 1e-9 * x[..., 1, 0])  # noqa: E731
        estimator.estimate(slope, certain)
        estimator.memory.update = lambda known, found, checked: seen.append(found.bends[0].inputs)
    assert len(seen) == 2
    assert all(inputs.abs().max() <= 3 for inputs in seen)


def test_a_call_that_is_not_finite_or_of_plain_samples_leaves_it_as_it_was():
    estimator = taught(60)
    estimator.validate = False
    before = [buffer.clone() for buffer in estimator.memory.buffers()]
    for bad in (torch.nan, torch.inf, 1e200):
        estimator.estimate(lambda x, bad=bad: f(x) * bad + bad * x.prod(-1).sum(-1), law(5))
    pairs = zip(before, estimator.memory.buffers(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    before = [buffer.clone() for buffer in estimator.memory.bends.buffers()]
    estimator.fade.forward = lambda left: torch.tensor(True)
    estimator.estimate(f, law(5))
    pairs = zip(before, estimator.memory.bends.buffers(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_learning_is_resumed_bit_for_bit():
    whole, first = taught(50), taught(30)
    second = checking(2, 2)
    second.load_state_dict(first.state_dict())
    random = torch.Generator().manual_seed(1)
    again = taught(0)
    for call in range(50):
        used = again if call < 30 else second
        used.estimate(f, law(20), generator=random)
    pairs = zip(whole.buffers(), second.buffers(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_state_from_before_the_network_says_what_it_lacks():
    state = {k: v for k, v in taught(3).state_dict().items() if "bends" not in k}
    with pytest.raises(RuntimeError, match="Missing key.*memory.bends.values"):
        dbsurf.SpotCheck(2).load_state_dict(state)
