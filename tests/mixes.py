"""Bits and categories drawn jointly, with every outcome of their samples."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

from oracles import class_tuples, least_discrepancy

f64 = torch.float64
Tuples = tuple[Tensor, Tensor]  # values (n, tuples) of one coordinate, and their mass

# Parts by name: bits, one-hot vectors or category numbers, with their logits.
MIXES: dict[str, dict[str, tuple[str, list[Any]]]] = {
    "a bit, 3 and 4 classes": {
        "bit": ("bits", [0.4]),
        "three": ("one-hot", [0.3, -1.2, 0.8]),
        "four": ("one-hot", [1.0, 0.1, -0.5, 0.2]),
    },
    "3 classes before two bits": {
        "three": ("one-hot", [0.3, -1.2, 0.8]),
        "bits": ("bits", [-0.6, 1.3]),
    },
    "bits twice": {"one": ("bits", [0.4]), "two": ("bits", [-0.9, 2.0])},
    "two coordinates of 2 classes": {
        "pair": ("one-hot", [[0.3, -0.8], [1.1, 0.2]]),
        "bit": ("bits", [0.7]),
    },
}
NUMBERS: dict[str, dict[str, tuple[str, list[Any]]]] = {
    "a number and bits": {"level": ("index", [0.3, -1.2, 0.8]), "bits": ("bits", [0.4, -1.0])},
    "numbers and a vector": {
        "level": ("index", [[0.3, -1.2], [0.8, 0.5]]),
        "three": ("one-hot", [1.0, 0.1, -0.5]),
    },
}


def laws(mix: dict[str, tuple[str, list[Any]]], count: int | None = None) -> dict[str, Any]:
    """The distributions of a mix, repeated ``count`` times as a batch."""
    found = {}
    for name, (kind, numbers) in mix.items():
        logits = torch.tensor(numbers, dtype=f64)
        events = logits.ndim if kind == "bits" else logits.ndim - 1
        if count is not None:
            logits = logits.expand(count, *logits.shape).clone()
        inner: Any = {"bits": Bernoulli, "one-hot": OneHotCategorical, "index": Categorical}[kind]
        found[name] = Independent(inner(logits=logits), events) if events else inner(logits=logits)
    return found


def every_outcome(
    mix: dict[str, tuple[str, list[Any]]],
    n: int,
    *,
    systematic: bool = False,
) -> tuple[dict[str, Tensor], Tensor]:
    """All samples ``(n, tuples, ...)`` of a mix by name, and their mass.

    Bits have least discrepancy; categories are independent, or systematic in random order.
    """
    coordinates: list[Tuples] = []
    for kind, numbers in mix.values():
        logits = torch.tensor(numbers, dtype=f64)
        if kind == "bits":
            for p in torch.sigmoid(logits).tolist():
                values = torch.tensor(list(itertools.product((0, 1), repeat=n))).T
                law = torch.as_tensor(least_discrepancy(p, n)).flatten().to(f64)
                coordinates.append((values, law))
        else:
            for p in torch.softmax(logits, -1).reshape(-1, logits.shape[-1]).tolist():
                found = class_tuples(p, n, plain=not systematic)
                values = torch.tensor(list(found)).T
                coordinates.append((values, torch.tensor(list(found.values()), dtype=f64)))
    grid = torch.cartesian_prod(*[torch.arange(len(mass)) for _, mass in coordinates])
    chosen = [values[:, grid[:, k]] for k, (values, _) in enumerate(coordinates)]
    mass = torch.stack([mass[grid[:, k]] for k, (_, mass) in enumerate(coordinates)]).prod(0)
    samples, place = {}, iter(chosen)
    for name, (kind, numbers) in mix.items():
        logits = torch.tensor(numbers)
        count = logits.numel() if kind == "bits" else logits[..., 0].numel()
        x = torch.stack([next(place) for _ in range(count)], -1)  # (n, tuples, coordinates)
        if kind == "one-hot":
            x = torch.nn.functional.one_hot(x, logits.shape[-1])
        event = logits.shape[:-1] if kind == "index" else logits.shape
        x = x.reshape(n, len(mass), *event)
        samples[name] = x if kind == "index" else x.to(f64)
    return samples, mass


def entangled(x: dict[str, Tensor]) -> Tensor:
    """An f in which all coordinates of all parts play together."""
    flat = [part.to(f64).reshape(*part.shape[:2], -1) for part in x.values()]
    joined = torch.cat(flat, -1)
    mixing = torch.arange(1.0, joined.shape[-1] + 1, dtype=f64).sin()
    along = joined @ mixing
    return torch.sin(2 * along) + along.square() + joined.square().sum(-1).exp() / 20
