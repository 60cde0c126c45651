"""The finite law behaves as torch's own distributions do."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Independent

import dbsurf

f64 = torch.float64
POINTS = torch.tensor([-1.5, 0.0, 4.0], dtype=f64)
PROBS = torch.tensor([[0.2, 0.5, 0.3], [0.0, 0.9, 0.1]], dtype=f64)


def law() -> dbsurf.Finite:
    return dbsurf.Finite(POINTS, PROBS, validate_args=True)


def test_moments_and_log_prob():
    dist = law()
    assert dist.batch_shape == (2,)
    torch.testing.assert_close(dist.mean, PROBS @ POINTS)
    torch.testing.assert_close(dist.variance, PROBS @ POINTS.square() - dist.mean.square())
    value = torch.tensor([[4.0, 0.0], [-1.5, 4.0]], dtype=f64)
    expected = torch.tensor([[0.3, 0.9], [0.2, 0.1]], dtype=f64)
    torch.testing.assert_close(dist.log_prob(value).exp(), expected)
    torch.testing.assert_close(dist.logits.exp(), PROBS, atol=1e-12, rtol=0)


def test_samples_and_support():
    dist = law()
    samples = dist.sample((5000,))
    assert samples.shape == (5000, 2)
    assert dist.support.check(samples).all()
    assert (samples[:, 1] != -1.5).all()
    assert samples[:, 0].mean().item() == pytest.approx(dist.mean[0].item(), abs=0.2)
    assert not dist.support.check(torch.tensor(1.0)).any()
    with pytest.raises(ValueError, match="within the support"):
        dist.log_prob(torch.tensor([1.0, 1.0], dtype=f64))
    assert dist.enumerate_support().shape == (3, 2)


def test_expand_and_independent():
    wide = law().expand((4, 2))
    assert wide.batch_shape == (4, 2)
    assert wide.sample((3,)).shape == (3, 4, 2)
    event = Independent(wide, 1)
    assert event.log_prob(torch.zeros(4, 2, dtype=f64)).shape == (4,)
    assert dbsurf.sample(event, 5).shape == (5, 4, 2)


def test_points_of_each_batch_element():
    points = torch.tensor([[0.0, 1.0], [10.0, 20.0]])
    dist = dbsurf.Finite(points, logits=torch.zeros(2, 2))
    samples = dbsurf.sample(dist, 6)
    assert set(samples[:, 0].tolist()) <= {0.0, 1.0}
    assert set(samples[:, 1].tolist()) <= {10.0, 20.0}
    assert dbsurf.discrepancy(samples, dist).shape == (2, 2)
