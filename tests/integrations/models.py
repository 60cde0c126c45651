"""A small model with a learned estimator inside, as every framework's test trains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Independent

import dbsurf

BITS, PIXELS = 4, 6


class Autoencoder(nn.Module):
    """Bits between two linear layers; ``forward`` is the loss."""

    def __init__(self, estimator: dbsurf.Estimator):
        super().__init__()
        random = torch.Generator().manual_seed(5)
        self.encoder, self.decoder = nn.Linear(PIXELS, BITS), nn.Linear(BITS, PIXELS)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=random))
        self.estimator = estimator

    def forward(self, data: Tensor) -> dict[str, Tensor]:
        q = Independent(Bernoulli(logits=self.encoder(data)), 1)
        # The draw depends on the data alone, so that a run can be compared with a resumed one.
        seed = int(data.sum().abs().mul(1e6)) % 2**31
        generator = torch.Generator().manual_seed(seed)

        def f(bits: Tensor, data: Tensor) -> Tensor:
            return (self.decoder(bits) - data).square().sum(-1)

        loss = self.estimator(f, q, inputs=data, context=data, generator=generator)
        return {"loss": loss.mean()}


ESTIMATORS: dict[str, Callable[[], dbsurf.Estimator]] = {
    "QuadraticCV": lambda: dbsurf.QuadraticCV(3, rank=2),
    "QuadraticCV sized": lambda: dbsurf.QuadraticCV(3, rank=2, size=BITS, context=PIXELS),
    "QuadraticCV values": lambda: dbsurf.QuadraticCV(3, rank=2, uses="values"),
    "RELAX": lambda: dbsurf.RELAX(2),
    "RELAX sized": lambda: dbsurf.RELAX(2, size=BITS, context=PIXELS),
    "RELAX network": lambda: dbsurf.RELAX(2, network=Control()),
    "DoubleCV": lambda: dbsurf.DoubleCV(3),
    "running mean": lambda: dbsurf.Reinforce(2, baseline="running-mean"),
}


class Control(nn.Module):
    """A network that a user gives to RELAX."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(BITS, 1)
        with torch.no_grad():
            self.layer.weight.copy_(torch.linspace(-1, 1, BITS).unsqueeze(0))
            self.layer.bias.zero_()

    def forward(self, points: Tensor, context: Tensor | None) -> Tensor:
        return self.layer(points).squeeze(-1)


def optimiser(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)


def batches(first: int, last: int) -> Iterator[Tensor]:
    """The batches of steps ``first`` to ``last - 1``."""
    for step in range(first, last):
        yield torch.randn(8, PIXELS, generator=torch.Generator().manual_seed(step))


def train(model: nn.Module, optimiser: torch.optim.Optimizer, first: int, last: int) -> None:
    for data in batches(first, last):
        optimiser.zero_grad()
        model(data)["loss"].backward()
        optimiser.step()


def assert_same(one: nn.Module, two: nn.Module) -> None:
    """Parameters and learned state are equal, bit for bit."""
    first, second = one.state_dict(), two.state_dict()
    assert first.keys() == second.keys()
    assert any(name.startswith("estimator.") for name in first)
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
