"""Independent samples: what `dist.sample` does, with a generator."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf import laws
from dbsurf.samplers.base import UniformSampler, uniform


class IID(UniformSampler):
    """Independent, identically distributed samples.

    Examples:
        >>> import torch
        >>> from torch.distributions import Poisson
        >>> from dbsurf.samplers import IID
        >>> IID().sample(Poisson(torch.tensor([0.5, 20.0])), 8).shape
        torch.Size([8, 2])
    """

    independent = True

    def uniforms(self, like: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        return uniform(like, n, generator)

    def count_law(self, probs: Tensor, n: int) -> Tensor:
        return laws.iid_count_law(probs, n, validate=False)

    def disagreement(self, probs: Tensor, n: int) -> Tensor:
        return 2 * probs * (1 - probs)
