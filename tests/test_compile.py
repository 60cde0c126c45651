"""torch.compile(fullgraph=True) runs a training step, and gives what eager gives."""

from __future__ import annotations

import copy

import pytest
import torch
import torch._inductor.config
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Independent

import dbsurf

CASES = [
    ("loorf", {}, torch.float32),
    ("dbsurf", {}, torch.float64),
    ("dbsurf", {"alpha": "preserve", "debias": True}, torch.float32),
    ("mdsurf", {}, torch.float32),
    ("doublecv", {}, torch.float32),
    ("spotcheck", {"size": 5}, torch.float64),
    ("spotcheck", {"size": 5, "pooled": True}, torch.float64),
]

pytestmark = pytest.mark.skipif(
    torch.__version__.startswith("2.6."), reason="torch 2.6 cannot trace an estimator"
)


@pytest.fixture(autouse=True)
def _same_uniforms():
    """Compiled code draws from torch's own generator instead of one of its own."""
    torch._dynamo.reset()
    with torch._inductor.config.patch(fallback_random=True):
        yield


class Model(nn.Module):
    def __init__(self, estimator: dbsurf.Estimator, dtype: torch.dtype) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 5, dtype=dtype)
        self.decoder = nn.Linear(5, 6, dtype=dtype)
        self.estimator = estimator

    def forward(self, h: Tensor) -> Tensor:
        dist = Independent(Bernoulli(logits=self.encoder(h), validate_args=False), 1)

        def f(x: Tensor, h: Tensor) -> Tensor:
            return (self.decoder(x) - h).square().sum(-1)

        return self.estimator(f, dist, inputs=h).mean()


def step(model: nn.Module, forward, h: Tensor) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(3)
    model.zero_grad()
    loss = forward(h)
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters()]


@pytest.mark.filterwarnings(  # all of them are torch's own
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)
@pytest.mark.parametrize(("name", "options", "dtype"), CASES)
def test_a_compiled_training_step_equals_eager(name, options, dtype):
    model = Model(dbsurf.get(name, 4, **options), dtype)
    other = copy.deepcopy(model)  # what learns does so on both sides
    compiled = torch.compile(model, fullgraph=True)
    for h in (torch.randn(8, 6, dtype=dtype), torch.randn(6, 8, dtype=dtype).T):
        eager_loss, eager_grads = step(other, other, h)
        compiled_loss, compiled_grads = step(model, compiled, h)
        torch.testing.assert_close(compiled_loss, eager_loss)
        for ours, theirs in zip(compiled_grads, eager_grads, strict=True):
            torch.testing.assert_close(ours, theirs)
    for ours, theirs in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_compiled_categorical_sampling_equals_eager():
    logits, estimator = torch.randn(8, 5), dbsurf.DBsurf(4)

    def draw(logits: Tensor) -> Tensor:
        dist = Categorical(logits=logits, validate_args=False)
        return estimator(lambda x: x.float(), dist)

    torch.manual_seed(1)
    eager = draw(logits)
    torch.manual_seed(1)
    assert torch.equal(torch.compile(draw, fullgraph=True)(logits), eager)
