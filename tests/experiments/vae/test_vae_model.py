"""The model and its gradient, held to enumeration over all bits of small models."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

import dbsurf
from conftest import assert_mean
from dbsurf.experiments.vae.evaluation import bounds, fixed_images, gradient_spread, seeded
from dbsurf.experiments.vae.model import BinaryVAE, posterior
from dbsurf.experiments.vae.training import negative_elbo, share_decoder_gradient

PIXELS, LATENTS = 6, 3


def small(layers: int, architecture: str = "nonlinear") -> BinaryVAE:
    torch.manual_seed(3)
    model = BinaryVAE(
        torch.rand(PIXELS), latents=LATENTS, hidden=5, layers=layers, architecture=architecture
    ).double()
    for value in model.parameters():
        value.data.mul_(2)  # away from p = 1/2, where everything looks alike
    return model


def images() -> torch.Tensor:
    return torch.tensor([[0, 1, 1, 0, 1, 0], [1, 0, 0, 0, 1, 1.0]], dtype=torch.float64)


def states(count: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=count)), dtype=torch.float64)


def bernoulli(logits, bits):
    return torch.distributions.Bernoulli(logits=logits).log_prob(bits).sum(-1)


def enumerated(model: BinaryVAE, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """-ELBO and -log p(x) of each image, term by term from the definitions."""
    every = states(LATENTS)
    elbo, joint = [], []
    for image in x:
        total, masses = 0.0, []
        for chain in itertools.product(every, repeat=model.layers):
            log_q = log_p = 0.0
            below, visible = image - model.mean, image
            for level, bits in enumerate(chain):
                log_q = log_q + bernoulli(model.encoders[level](below), bits)
                log_p = log_p + bernoulli(model.decoders[level](bits), visible)
                below = visible = bits
            log_p = log_p - LATENTS * math.log(2)
            total = total + log_q.exp() * (log_q - log_p)
            masses.append(log_p)
        elbo.append(total)
        joint.append(-torch.logsumexp(torch.stack(masses), 0))
    return torch.stack(elbo), torch.stack(joint)


@pytest.mark.parametrize("architecture", ["nonlinear", "linear"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_evaluation_agrees_with_enumeration(layers, architecture):
    model, x = small(layers, architecture), images()
    if layers == 3:
        model, x = small(3, architecture), images()[:1]
    with torch.no_grad():
        elbo, evidence = enumerated(model, x)
        repeated = x.repeat_interleave(4000, 0)
        bits, logits = model.chains(repeated, 1, seeded(0, x.device))
        draws = model.energy(repeated, bits, logits)[0].reshape(len(x), -1).T
        assert_mean(draws, elbo)
        found = bounds(model, x.to(torch.uint8), 20_000)
        assert found.elbo == pytest.approx(elbo.mean().item(), abs=0.2)
        assert found.importance == pytest.approx(evidence.mean().item(), abs=0.05)
        assert found.importance < found.elbo


@pytest.mark.parametrize("name", ["loorf", "doublecv", "mdsurf", "disarm"])
@pytest.mark.parametrize("layers", [1, 2])
def test_training_gradient_is_unbiased(layers, name):
    """Encoder and decoder, against the derivative of the enumerated -ELBO."""
    model, x = small(layers), images()
    elbo, _ = enumerated(model, x)
    parameters = dict(model.named_parameters())
    exact = dict(
        zip(parameters, torch.autograd.grad(elbo.mean(), parameters.values()), strict=True)
    )
    estimators = nn.ModuleList(dbsurf.get(name, 2) for _ in range(layers))
    estimators.double()
    generator = torch.Generator().manual_seed(5)
    draws = []
    repeated = x.repeat(20, 1)  # a draw is the mean of 20 independent ones
    for _ in range(150):
        model.zero_grad()
        negative_elbo(model, estimators, repeated, generator).backward()
        share_decoder_gradient(model)
        draws.append(torch.cat([value.grad.flatten() for value in parameters.values()]))
    assert_mean(torch.stack(draws), torch.cat([exact[key].flatten() for key in parameters]))


def test_every_layer_costs_n_evaluations():
    for layers in (1, 2, 3):
        model, x = small(layers), images()
        seen = []
        model.decoders[0].register_forward_hook(
            lambda m, i, o, s=seen: s.append(o.shape[:-1].numel())
        )
        estimators = nn.ModuleList(dbsurf.LOORF(4) for _ in range(layers))
        negative_elbo(model, estimators, x, torch.Generator().manual_seed(0))
        assert seen[0] == 4 * len(x)
        assert len(seen) == layers


def test_variance_is_that_of_the_estimator():
    """Against the exact second moment of LOORF with n = 2, over all pairs of samples."""
    model, x = small(1), images()
    every = states(LATENTS)
    with torch.no_grad():
        logits = model.encoders[0](model.centred(x))
        f = model.continuation(x, (), (logits,), None)
        values = f(every.unsqueeze(1).expand(-1, len(x), -1))  # (8, batch)
        log_q = posterior(logits).log_prob(every.unsqueeze(1).expand(-1, len(x), -1))
    weight = (log_q.unsqueeze(0) + log_q.unsqueeze(1)).exp().unsqueeze(-1)  # (8, 8, batch, 1)
    gap = (values.unsqueeze(0) - values.unsqueeze(1)).unsqueeze(-1)
    pairs = gap * (every.unsqueeze(0) - every.unsqueeze(1)).unsqueeze(2) / 2
    mean, square = (weight * pairs).sum((0, 1)), (weight * pairs.square()).sum((0, 1))
    exact = (square - mean.square()).sum(-1).mean().item()
    found = gradient_spread(model, dbsurf.LOORF(2), x.repeat(40, 1), 500)
    assert found.variance == pytest.approx(exact, rel=0.05)
    assert found.mean_square == pytest.approx(mean.square().sum(-1).mean().item(), rel=0.1)


def test_measuring_variance_leaves_the_estimator_alone():
    model, x = small(1), images()
    estimator = dbsurf.DoubleCV(2)
    estimator.double()
    estimator.estimate(
        model.continuation(x, (), (torch.zeros(2, 3).double(),), None),
        posterior(torch.zeros(2, 3).double()),
    )
    before = estimator.state_dict()["energy"].clone()
    assert before > 0
    gradient_spread(model, estimator, x, 5)
    assert estimator.energy == before
    assert estimator.training


@pytest.mark.parametrize("name", ["loorf", "dbsurf", "doublecv"])
def test_memory_grows_with_n_only_by_samples_and_decoder_activations(name):
    """Bytes held for the backward pass, counted where autograd puts them away."""
    batch, latents, hidden, pixels = 10, 16, 12, 112
    torch.manual_seed(0)
    model = BinaryVAE(torch.rand(pixels), latents=latents, hidden=hidden)
    x = torch.randint(0, 2, (batch, pixels)).float()

    def held(n: int) -> int:
        kept: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        estimators = nn.ModuleList([dbsurf.get(name, n)])
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = negative_elbo(model, estimators, x, torch.Generator().manual_seed(0))
        assert loss.requires_grad
        return sum(kept.values())

    activations = 4 * batch * (latents + 2 * hidden + pixels)  # of one sample, in bytes
    slope = (held(20) - held(4)) / 16
    assert activations <= slope <= 1.02 * activations + 4 * batch * latents


def test_first_images_do_not_depend_on_how_many():
    pixels = torch.randint(0, 256, (250, 10), dtype=torch.uint8)
    few, all_of_them = fixed_images(pixels, 150), fixed_images(pixels, 0)
    assert torch.equal(few[:100], all_of_them[:100])
    assert len(few) == 150
    assert len(all_of_them) == 250
    assert set(few.unique().tolist()) == {0, 1}


def test_frozen_network_passes_gradients_to_its_input_alone():
    model = small(1)
    x = images().requires_grad_()
    network = model.encoders[0]
    assert torch.equal(network.frozen(x), network(x))
    network.frozen(x).sum().backward()
    assert x.grad.abs().sum() > 0
    assert all(value.grad is None for value in network.parameters())
