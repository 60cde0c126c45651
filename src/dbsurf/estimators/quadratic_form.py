"""What the quadratic control variate is made of: its coefficients, and pairs of coordinates.

`Network` computes the coefficients v, s and D from a context and fits them, a step at a time.
`BitPairs` and `OneHotPairs` compute what differs between bits and categories in sums over pairs of
different coordinates, `MixedPairs` for several laws at once. `QuadraticCV` uses both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, linear

from dbsurf.distributions import Vectors
from dbsurf.gradient.fitting import Fitted, RunningRatio

HIDDEN = 100  # width of the layer between the context and the coefficients
LEAK = 0.3  # slope of that layer's leaky ReLU below 0


class Coefficients(NamedTuple):
    """What h is made of for each batch element, in units of the scale of f.

    Attributes:
        linear: $v$, ``(batch, d)``.
        strength: $s$, ``(batch, rank)``.
        curvature: what the context adds to D, ``(batch, d)``.
        hidden: the layer between the context and these three, None without a context.
    """

    linear: Tensor
    strength: Tensor
    curvature: Tensor
    hidden: Tensor | None


class Network(Fitted):
    """v, s and D as functions of the context, the directions u, and how all of them learn.

    Args:
        size: number of coordinates, d.
        rank: number of directions.
        features: number of features of the context; 0 without one.
        lr: learning rate.
    """

    sizes: Tensor

    def __init__(self, size: int, rank: int, features: int, lr: float) -> None:
        random = torch.Generator().manual_seed(0)  # the same for all: no global state is touched
        split = [size, rank, size]
        start = {
            "directions": 0.1 * torch.randn(size, rank, generator=random),
            "constant": torch.cat([torch.zeros(size), torch.full((rank,), 0.1), torch.zeros(size)]),
        }
        if features:
            bound = features**-0.5
            weight = torch.empty(HIDDEN, features).uniform_(-bound, bound, generator=random)
            start["hidden_weight"] = weight
            start["hidden_bias"] = torch.zeros(HIDDEN)
            start["outer_weight"] = torch.zeros(sum(split), HIDDEN)
        super().__init__(start, lr)
        self.split = split
        self.register_buffer("sizes", torch.tensor([size, features]))
        # The part of D that is the same for all: the slope of grad f along its own coordinate.
        self.bend = RunningRatio(torch.inf, smallest=-torch.inf, size=size)

    @property
    def directions(self) -> Tensor:
        """u, ``(d, rank)``."""
        return self.tensors()["directions"]

    def coefficients(self, features: Tensor | None, probs: Tensor) -> Coefficients:
        """v, s and D for each batch element, and the hidden layer behind them."""
        fitted, hidden = self.tensors(), None
        found = fitted["constant"].clone()
        if features is not None:
            features = features.to(found.dtype)
            hidden = linear(features, fitted["hidden_weight"], fitted["hidden_bias"])
            hidden = leaky_relu(hidden, LEAK)
            found = linear(hidden, fitted["outer_weight"], found)
        v, s, curvature = found.to(probs.dtype).expand(probs.shape[0], -1).split(self.split, -1)
        return Coefficients(v, s, curvature, hidden)

    def fit(
        self,
        features: Tensor | None,
        hidden: Tensor | None,
        by_coefficient: Tensor,
        by_direction: Tensor,
    ) -> None:
        """One step along the derivatives of the loss by v, s and D together, and by u."""
        gradients = [by_direction, by_coefficient.sum(0)]
        if features is not None and hidden is not None:
            by_coefficient = by_coefficient.to(hidden.dtype)
            by_hidden = by_coefficient @ self.tensors()["outer_weight"]
            by_hidden = torch.where(hidden > 0, by_hidden, LEAK * by_hidden)
            by_weight = by_hidden.T @ features.to(hidden.dtype)
            gradients += [by_weight, by_hidden.sum(0), by_coefficient.T @ hidden]
        self.step(gradients)


# --- what a coordinate has with itself ------------------------------------------------------------
# h has no product of a coordinate with itself: (u . c)^2 less the sum of t_k^2, t_k = u_k . c_k.
# For bits a coordinate is one number, for one-hot laws a vector with an entry for each class.


class Pairs(Protocol):
    """The four sums, for a law as vectors of length d."""

    def own(self, centred: Tensor, u: Tensor) -> Tensor:
        """The sum of t_k^2, ``(n, batch, rank)``."""

    def slope(self, centred: Tensor, s: Tensor, u: Tensor) -> Tensor:
        """Half the gradient of s times that sum, ``(n, batch, d)``."""

    def derivatives(
        self, centred: Tensor, dg: Tensor, dh: Tensor, s: Tensor, u: Tensor, crossed: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What dg gives to s through `slope`, and what dg and dh give to u through both."""

    def weigh(self, residual: Tensor, weight: Tensor, probs: Tensor) -> Tensor:
        """Errors of a gradient, weighted by what they do to the variance: Cov(x) times them.

        ``weight`` is p, or p times a constant.
        """


class BitPairs:
    """Bits: t_k = u_k c_k, never made as an array of its own."""

    def own(self, centred: Tensor, u: Tensor) -> Tensor:
        return centred.square() @ u.square()

    def slope(self, centred: Tensor, s: Tensor, u: Tensor) -> Tensor:
        return centred * (s @ u.square().T)

    def derivatives(
        self, centred: Tensor, dg: Tensor, dh: Tensor, s: Tensor, u: Tensor, crossed: Tensor
    ) -> tuple[Tensor, Tensor]:
        squared = (dh * centred.square()).sum(0)  # (batch, d)
        return crossed @ u.square(), u * ((2 * crossed + squared).T @ s)

    def weigh(self, residual: Tensor, weight: Tensor, probs: Tensor) -> Tensor:
        return residual * (weight * (1 - probs))


class OneHotPairs:
    """One-hot vectors of m classes: t_k is a sum over the classes of coordinate k."""

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def _split(self, tensor: Tensor) -> Tensor:
        # (..., coordinates, classes); said in full, for an empty batch does not determine it
        return tensor.reshape(*tensor.shape[:-1], tensor.shape[-1] // self.classes, self.classes)

    def _products(self, vectors: Tensor, u: Tensor) -> Tensor:
        split_u = u.unflatten(0, (-1, self.classes))
        products: Tensor = torch.einsum("nbkc,kcr->nbkr", self._split(vectors), split_u)
        return products

    def own(self, centred: Tensor, u: Tensor) -> Tensor:
        return self._products(centred, u).square().sum(-2)

    def slope(self, centred: Tensor, s: Tensor, u: Tensor) -> Tensor:
        t = self._products(centred, u) * s.unsqueeze(-2)
        found: Tensor = torch.einsum("nbkr,kcr->nbkc", t, u.unflatten(0, (-1, self.classes)))
        return found.flatten(-2)

    def derivatives(
        self, centred: Tensor, dg: Tensor, dh: Tensor, s: Tensor, u: Tensor, crossed: Tensor
    ) -> tuple[Tensor, Tensor]:
        t, q = self._products(centred, u), self._products(dg, u)
        by_c = (dh.unsqueeze(-1) * t + q) * s.unsqueeze(-2)
        by_u = torch.einsum("nbkc,nbkr->kcr", self._split(centred), by_c)
        by_u = by_u + torch.einsum("nbkc,nbkr->kcr", self._split(dg), t * s.unsqueeze(-2))
        return (t * q).sum((0, -2)), by_u.flatten(0, 1)

    def weigh(self, residual: Tensor, weight: Tensor, probs: Tensor) -> Tensor:
        split, p = self._split(residual), self._split(probs)
        # A constant over the classes of a coordinate does nothing: they sum to one.
        return ((split - (p * split).sum(-1, keepdim=True)) * self._split(weight)).flatten(-2)


class CountPairs(OneHotPairs):
    """Integers: t_k is a sum over two numbers, of which only the first is in the score."""

    def weigh(self, residual: Tensor, weight: Tensor, probs: Tensor) -> Tensor:
        first = self._split(residual).clone()
        first[..., 1:] = 0
        return first.flatten(-2)


class MixedPairs:
    """Several laws, one behind the other: the coordinates of each have its own sums.

    Args:
        parts: the sums of each law.
        sizes: the length of its vectors.
    """

    def __init__(self, parts: Sequence[Pairs], sizes: Sequence[int]) -> None:
        self.parts, self.sizes = parts, list(sizes)

    def own(self, centred: Tensor, u: Tensor) -> Tensor:
        each = zip(self.parts, self._split(centred), u.split(self.sizes), strict=True)
        return torch.stack([part.own(c, w) for part, c, w in each]).sum(0)

    def slope(self, centred: Tensor, s: Tensor, u: Tensor) -> Tensor:
        each = zip(self.parts, self._split(centred), u.split(self.sizes), strict=True)
        return torch.cat([part.slope(c, s, w) for part, c, w in each], -1)

    def derivatives(
        self, centred: Tensor, dg: Tensor, dh: Tensor, s: Tensor, u: Tensor, crossed: Tensor
    ) -> tuple[Tensor, Tensor]:
        shares = zip(
            self.parts,
            self._split(centred),
            self._split(dg),
            u.split(self.sizes),
            self._split(crossed),
            strict=True,
        )
        found = [part.derivatives(c, g, dh, s, w, x) for part, c, g, w, x in shares]
        by_s, by_u = zip(*found, strict=True)
        return torch.stack(by_s).sum(0), torch.cat(by_u)

    def weigh(self, residual: Tensor, weight: Tensor, probs: Tensor) -> Tensor:
        shares = zip(self.parts, *map(self._split, (residual, weight, probs)), strict=True)
        return torch.cat([part.weigh(r, w, p) for part, r, w, p in shares], -1)

    def _split(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return torch.split(tensor, self.sizes, -1)


def pairs_of(vectors: Vectors) -> Pairs:
    """The sums for a law, or for several."""
    parts: list[Pairs] = []
    for part in vectors.parts:
        if part.of_counts:
            parts.append(CountPairs(part.groups))
        else:
            parts.append(BitPairs() if part.law.binary else OneHotPairs(part.groups))
    return parts[0] if len(parts) == 1 else MixedPairs(parts, vectors.sizes)
