"""What autograd holds for a backward pass, in bytes, weights left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Ledger:
    """Bytes held for backward: now, and at most."""

    def __init__(self, network: nn.Module) -> None:
        self.weights = {value.data_ptr() for value in network.parameters()}
        self.holders: Counter[int] = Counter()
        self.now = self.peak = 0

    def take(self, tensor: Tensor) -> Held:
        return Held(tensor, self)

    @contextmanager
    def open(self) -> Iterator[Ledger]:
        with torch.autograd.graph.saved_tensors_hooks(self.take, lambda held: held.tensor):
            yield self


class Held:
    """One tensor that autograd keeps; its memory counts once, however many keep it."""

    def __init__(self, tensor: Tensor, ledger: Ledger) -> None:
        self.tensor, self.ledger = tensor, ledger
        storage = tensor.untyped_storage()
        self.place, self.size = storage.data_ptr(), storage.nbytes()
        if tensor.data_ptr() in ledger.weights:
            self.size = 0
        ledger.holders[self.place] += 1
        if ledger.holders[self.place] == 1:
            ledger.now += self.size
            ledger.peak = max(ledger.peak, ledger.now)

    def __del__(self) -> None:
        self.ledger.holders[self.place] -= 1
        if not self.ledger.holders[self.place]:
            self.ledger.now -= self.size
