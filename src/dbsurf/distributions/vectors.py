"""Bits and categories as one vector: the parts of a law, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dbsurf.distributions.base import ByLogits, Coordinates
from dbsurf.distributions.bits import Bits
from dbsurf.distributions.categories import OneHot


class Vectors:
    """A law of bits and categories as a vector of d numbers for each batch element.

    A bit is one number, a category one for each of its classes. Control variates that are
    functions of such a vector do not have to know which parts it is made of.

    Args:
        law: one law with logits, or several that are drawn jointly.

    Attributes:
        parts: the laws that the vector is made of.
        probs: the mean of the vector, ``(B, d)``; B is the size of the batch.
    """

    parts: Sequence[ByLogits]

    def __init__(self, law: Coordinates) -> None:
        self._law, self.parts = law, law.parts  # type: ignore[assignment]
        self._batch = law.batch_shape.numel()
        shapes = [part.probs.shape[len(law.batch_shape) :] for part in self.parts]
        self.sizes = [shape.numel() for shape in shapes]
        self.probs = self._joined([part.probs for part in self.parts])

    def of_samples(self, samples: Any) -> Tensor:
        """Samples as vectors ``(n, B, d)``: category numbers as unit vectors."""
        each = zip(self.parts, self._law.unpack(samples), strict=True)
        return self._joined([_one_hot(part, x) for part, x in each]).to(self.probs.dtype)

    def of_slopes(self, slopes: Any) -> Tensor:
        """Gradients of f with respect to samples, as vectors ``(n, B, d)``."""
        return self._joined(self._law.unpack(slopes)).to(self.probs.dtype)

    def as_samples(self, vectors: Tensor) -> Any:
        """Vectors ``(n, B, d)`` as f takes samples, whether or not they are in the support."""
        shaped = zip(self.parts, self.split(vectors), strict=True)
        return self._law.pack([x.to(part.dtype) for part, x in shaped])

    def split(self, vectors: Tensor) -> list[Tensor]:
        """The share of each part of vectors ``(..., B, d)``, in the shape of its logits."""
        lead = vectors.shape[:-2]
        shares = zip(self.parts, vectors.split(self.sizes, -1), strict=True)
        return [share.reshape(*lead, *part.probs.shape) for part, share in shares]

    def _joined(self, tensors: Sequence[Tensor]) -> Tensor:
        """Tensors in the shapes of the logits as one, ``(..., B, d)``."""
        flat = []
        for part, size, tensor in zip(self.parts, self.sizes, tensors, strict=True):
            lead = tensor.shape[: tensor.ndim - part.probs.ndim]
            flat.append(tensor.reshape(*lead, self._batch, size))
        return flat[0] if len(flat) == 1 else torch.cat(flat, -1)


def _one_hot(law: ByLogits, samples: Tensor) -> Tensor:
    """Samples in the shape of the probabilities: categories as unit vectors."""
    if isinstance(law, (Bits, OneHot)):
        return samples
    index = law.encode(samples).unsqueeze(-1)
    shape = (*index.shape[:-1], law.probs.shape[-1])
    return torch.zeros(shape, dtype=law.probs.dtype, device=index.device).scatter(-1, index, 1.0)
