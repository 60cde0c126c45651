"""The fused log-probability of pixels against float64 and against autograd."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from dbsurf.experiments.vae.likelihood import group_size, log_prob, pixel_log_prob


def reference(logits, pixels):
    logits, pixels = logits.double(), pixels.double().expand(logits.shape)
    return -F.binary_cross_entropy_with_logits(logits, pixels, reduction="none").sum(-1)


@pytest.mark.parametrize("scale", [0.0, 1e-4, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("pixels", [1, 5, 112, 113, 784])
def test_value_to_float_accuracy(scale, pixels):
    logits = torch.randn(3, 7, pixels) * scale
    images = torch.randint(0, 2, (7, pixels)).float()
    expected = reference(logits, images)
    # One rounding for every product of 112 and for every term of the two sums.
    tolerance = 1e-5 + 1e-6 * expected.abs()
    assert ((pixel_log_prob(logits, images) - expected).abs() <= tolerance).all()
    assert ((log_prob(logits, images) - expected).abs() <= tolerance).all()


def test_extreme_logits_stay_exact():
    logits = torch.tensor([[[1e4, -1e4, 200.0, -200.0]]])
    right, wrong = torch.tensor([[1.0, 0, 1, 0]]), torch.tensor([[0.0, 1, 0, 1]])
    assert pixel_log_prob(logits, right).item() == 0
    assert pixel_log_prob(logits, wrong).item() == -20400
    worst = torch.zeros(1, 1, 784)  # every factor 1/2: the smallest product there is
    found = pixel_log_prob(worst, torch.zeros(1, 784)).item()
    assert found == pytest.approx(-784 * math.log(2), rel=1e-6)


def test_gradient_is_that_of_the_reference():
    logits = torch.randn(3, 2, 10, dtype=torch.float64, requires_grad=True)
    images, seed = torch.randint(0, 2, (2, 10)).double(), torch.randn(3, 2).double()
    (found,) = torch.autograd.grad((pixel_log_prob(logits, images) * seed).sum(), logits)
    (wanted,) = torch.autograd.grad((reference(logits, images) * seed).sum(), logits)
    torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-13)


def test_second_backward_is_refused_rather_than_wrong():
    logits = torch.randn(2, 3, 4, requires_grad=True)
    value = pixel_log_prob(logits, torch.ones(3, 4)).sum()
    value.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="inplace operation|in-place"):
        value.backward()


def test_products_are_of_a_divisor():
    assert group_size(784) == 112
    assert group_size(200) == 100
    assert group_size(113) == 1
