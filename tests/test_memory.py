"""Peak memory of an estimate: at most 2n + 6 tensors of one sample's size, f's own aside."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent
from torch.utils._python_dispatch import TorchDispatchMode

import dbsurf


class PeakMemory(TorchDispatchMode):
    """Counts the bytes of storages that operators make and that are still alive."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor):
                self._watch(tensor)
        return result

    def _watch(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.alive:
            self.alive[key] = storage.nbytes()
            weakref.finalize(storage, self.alive.pop, key, None)
            self.peak = max(self.peak, sum(self.alive.values()))


@pytest.mark.parametrize("n", [2, 4, 16])
@pytest.mark.parametrize(
    "build",
    [
        dbsurf.Reinforce,
        dbsurf.LOORF,
        dbsurf.DBsurf,
        lambda n: dbsurf.DBsurf(n, alpha="preserve"),
        dbsurf.MDsurf,
        lambda n: dbsurf.DBsurf(n, debias=True),
        lambda n: dbsurf.DBsurf(n, alpha="preserve", debias=True),
        dbsurf.ARMS,
        lambda n: dbsurf.ARMS(n, copula="gaussian"),
        dbsurf.DisARM,
    ],
    ids=[
        "reinforce",
        "loorf",
        "dbsurf",
        "preserve",
        "mdsurf",
        "debias",
        "preserve-debias",
        "arms",
        "arms-gaussian",
        "disarm",
    ],
)
def test_peak_memory_of_a_call_and_its_backward(build, n):
    estimator = build(n)
    logits = torch.randn(64, 512, requires_grad=True)
    one_sample = 4 * logits.numel()
    dist = Independent(Bernoulli(logits=logits, validate_args=False), 1)
    f = lambda x: x[..., 0]  # noqa: E731  (a view: nothing of its own)
    with PeakMemory() as memory:
        estimator(f, dist).sum().backward()
    small = 8 * n * 64 * 4  # a few tensors of shape (n, batch)
    assert n < (memory.peak - small) / one_sample <= 2 * n + 6


@pytest.mark.parametrize("n", [2, 4, 16])
def test_peak_memory_with_the_gradient_of_f(n):
    """The gradient of f at the samples is f's own: n tensors, counted apart."""
    logits = torch.randn(64, 512, requires_grad=True)
    one_sample = 4 * logits.numel()
    dist = Independent(Bernoulli(logits=logits, validate_args=False), 1)
    with PeakMemory() as memory:
        dbsurf.DoubleCV(n)(lambda x: x.sum(-1), dist).sum().backward()
    small = 12 * n * 64 * 4
    assert (memory.peak - small) / one_sample - n <= 2 * n + 6
