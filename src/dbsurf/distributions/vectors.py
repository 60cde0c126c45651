"""Independent coordinates as one vector: the parts of a law, one behind the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dbsurf.distributions.base import ByLogits, Coordinates, at_least_float32
from dbsurf.distributions.bits import Bits
from dbsurf.distributions.categories import OneHot
from dbsurf.distributions.counts import TorchLattice

FEATURES = 2  # of an integer: linear, and quadratic


class VectorPart(ABC):
    """One law as vectors of ``size`` numbers for each batch element.

    Attributes:
        law: the law.
        groups: how many numbers of the vector belong to one coordinate.
        mean: the mean of the vector, ``(B, size)``; B is the size of the batch.
        of_counts: whether the numbers are those of integers.
    """

    law: Coordinates
    groups: int
    mean: Tensor
    of_counts = False

    @property
    def size(self) -> int:
        return self.mean.shape[-1]

    @abstractmethod
    def of_samples(self, samples: Tensor) -> Tensor:
        """Samples ``(n, *batch, *event)`` as vectors, ``(n, B, size)``."""

    @abstractmethod
    def offset(self, covariance: Tensor) -> Tensor:
        """What a covariance with the vector, ``(B, size)``, is for the parameter of the law."""


class LogitVectors(VectorPart):
    """Bits and categories: a bit is one number, a category one for each of its classes.

    The score with respect to the logits is the vector minus its mean.
    """

    law: ByLogits

    def __init__(self, law: ByLogits) -> None:
        self.law = law
        self.groups = 1 if law.binary else law.probs.shape[-1]
        size = law.probs.shape[len(law.batch_shape) :].numel()
        self.mean = law.probs.reshape(law.batch_shape.numel(), size)

    def of_samples(self, samples: Tensor) -> Tensor:
        law = self.law
        if not isinstance(law, (Bits, OneHot)):
            index = law.encode(samples).unsqueeze(-1)
            shape = (*index.shape[:-1], self.groups)
            zeros = torch.zeros(shape, dtype=self.mean.dtype, device=index.device)
            samples = zeros.scatter(-1, index, 1.0)
        return self.flat(samples)

    def flat(self, tensor: Tensor) -> Tensor:
        """A tensor ``(n, ...)`` in the shape of the logits as ``(n, B, size)``."""
        return tensor.reshape(tensor.shape[0], *self.mean.shape).to(self.mean.dtype)

    def unflat(self, vectors: Tensor) -> Tensor:
        """Vectors ``(n, B, size)`` as f takes samples, whether or not they are in the support."""
        return vectors.reshape(vectors.shape[0], *self.law.probs.shape).to(self.law.dtype)

    def offset(self, covariance: Tensor) -> Tensor:
        return covariance.reshape(self.law.probs.shape)


class CountVectors(VectorPart):
    r"""Integers: each as two numbers of mean 0, variance 1 and no correlation.

    The first is $z = (x - \mu)/\sigma$. The variance of these laws is a quadratic function V of the
    mean, and the second is their quadratic orthogonal polynomial,
    $(z^2 - zV'(\mu)/\sigma - 1) / \sqrt{2 + V''}$. The score is a multiple of the first alone.
    """

    law: TorchLattice
    of_counts = True

    def __init__(self, law: TorchLattice) -> None:
        self.law, self.groups = law, FEATURES
        batch = law.batch_shape.numel()
        dtype = at_least_float32(law.parameter.detach()).dtype
        self._center, self._deviation, self._bend, self._slope = law.standard()
        size = law.event_shape.numel() * FEATURES
        self.mean = torch.zeros(batch, size, dtype=dtype, device=law.device)

    def of_samples(self, samples: Tensor) -> Tensor:
        z = _over(samples.to(self._center.dtype) - self._center, self._deviation)
        skew = _over(1 + self._bend * self._center, self._deviation)  # V' / sigma
        # (2 + V'' is 0 for a bit, whose quadratic polynomial is 0.)
        second = _over(z.square() - skew * z - 1, (2 + self._bend).clamp(min=0).sqrt())
        second = torch.where(self._deviation > 0, second, 0)
        both = torch.stack([z, second], -1)
        return both.reshape(samples.shape[0], *self.mean.shape).to(self.mean.dtype)

    def offset(self, covariance: Tensor) -> Tensor:
        first = covariance.reshape(*self._center.shape, FEATURES)[..., 0]
        return first * _over(self._slope, self._deviation).to(first.dtype)


def _over(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is 0: there x does not vary."""
    return torch.where(b > 0, a / torch.where(b > 0, b, 1), 0)


class Vectors:
    """A law as a vector of d numbers for each batch element.

    Control variates that are functions of such a vector do not have to know what it is made of.

    Args:
        law: one law of bits, categories or integers, or several that are drawn jointly.

    Attributes:
        parts: the laws that the vector is made of.
        probs: the mean of the vector, ``(B, d)``.
    """

    def __init__(self, law: Coordinates) -> None:
        self._law = law
        self.parts: list[VectorPart] = [_vectors_of(part) for part in law.parts]
        self.sizes = [part.size for part in self.parts]
        self.probs = _joined([part.mean for part in self.parts])

    def of_samples(self, samples: Any) -> Tensor:
        """Samples as vectors ``(n, B, d)``."""
        each = zip(self.parts, self._law.unpack(samples), strict=True)
        return _joined([part.of_samples(x) for part, x in each])

    def of_slopes(self, slopes: Any) -> Tensor:
        """Gradients of f with respect to samples of bits and one-hot laws, ``(n, B, d)``."""
        each = zip(self.parts, self._law.unpack(slopes), strict=True)
        return _joined([part.flat(x) for part, x in each if isinstance(part, LogitVectors)])

    def as_samples(self, vectors: Tensor) -> Any:
        """Vectors ``(n, B, d)`` of bits and one-hot laws as f takes samples."""
        each = zip(self.parts, vectors.split(self.sizes, -1), strict=True)
        return self._law.pack(
            [part.unflat(x) for part, x in each if isinstance(part, LogitVectors)]
        )

    def offsets(self, covariance: Tensor) -> Any:
        """A covariance with the vector, ``(B, d)``, as offsets of a `Combination`."""
        each = zip(self.parts, covariance.split(self.sizes, -1), strict=True)
        return self._law.shares([part.offset(x) for part, x in each])


def _vectors_of(law: Coordinates) -> VectorPart:
    if isinstance(law, TorchLattice):
        return CountVectors(law)
    assert isinstance(law, ByLogits)
    return LogitVectors(law)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors), -1)
