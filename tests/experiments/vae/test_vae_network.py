"""The hand-differentiated perceptron against the same layers in plain torch."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dbsurf.experiments.vae.network import SLOPE, Network


def plain(network: Network, x: torch.Tensor) -> torch.Tensor:
    *hidden, head = network.layers()
    for weight, bias in hidden:
        x = F.leaky_relu(F.linear(x, weight, bias), SLOPE)
    return F.linear(x, *head)


@pytest.mark.parametrize("hidden", [(), (4,), (4, 6)])
@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3)])
def test_value_and_gradients_are_those_of_plain_torch(hidden, shape):
    network = Network(3, hidden, 7).double()
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    seed = torch.randn(*shape[:-1], 7, dtype=torch.float64)
    found = torch.autograd.grad((network(x) * seed).sum(), [x, network.vector])
    wanted = torch.autograd.grad((plain(network, x) * seed).sum(), [x, network.vector])
    torch.testing.assert_close(network(x), plain(network, x), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_initialised_as_torch_would():
    torch.manual_seed(7)
    network = Network(9, (8, 4), 5)
    torch.manual_seed(7)
    layers = [nn.Linear(*pair) for pair in pairwise((9, 8, 4, 5))]
    for (weight, bias), layer in zip(network.layers(), layers, strict=True):
        assert torch.equal(weight, layer.weight)
        assert torch.equal(bias, layer.bias)


def test_features_are_the_last_hidden_layer():
    network, x = Network(3, (4,), 2), torch.randn(2, 5, 3)
    logits, features = network.with_features(x)
    *_, (weight, bias) = network.layers()
    assert features.shape == (2, 5, 4)
    assert not features.requires_grad
    torch.testing.assert_close(logits, F.linear(features, weight, bias))
    assert torch.equal(Network(3, (), 2).with_features(x)[1], x)
    assert repr(network) == "Network(3-4-2)"


def test_gradient_twice_over_one_graph_adds_up():
    network, x = Network(3, (4,), 2), torch.randn(5, 3)
    loss = network(x).square().sum()
    loss.backward(retain_graph=True)
    once = network.vector.grad.clone()
    loss.backward()
    torch.testing.assert_close(network.vector.grad, 2 * once)
