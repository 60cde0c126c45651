"""The Dirichlet copula of ARMS."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf import laws
from dbsurf.samplers.base import UniformSampler, ones_below


class DirichletCopula(UniformSampler):
    r"""Negatively dependent uniforms $u_i = (1 - d_i)^{n-1}$, d from a flat Dirichlet law.

    Each $d_i$ is Beta(1, n - 1), so each $u_i$ is uniform. At most one $d_i$ can be large, so
    at most one $u_i$ can be small. For Bernoulli coordinates small $u_i$ give the rarer value,
    which makes the correlation as negative as this copula allows.

    Reference:
        Dimitriev and Zhou, "ARMS: Antithetic-REINFORCE-Multi-Sample gradient for binary
        variables", ICML 2021.
    """

    smallest = 2

    def uniforms(self, like: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        dtype = torch.promote_types(like.dtype, torch.float32)
        spacings = torch.rand(
            (n, *like.shape), dtype=dtype, device=like.device, generator=generator
        )
        spacings = spacings.neg_().log1p_().neg_()  # exponential
        dirichlet = spacings.div_(spacings.sum(0))
        # (1 - d)^(n-1); for large n the rounding of 1 - d would be multiplied by n
        uniforms = dirichlet.neg_().log1p_().mul_(n - 1).exp_()
        return uniforms.clamp(max=1 - torch.finfo(dtype).eps / 2)  # the largest number below 1

    def binary(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        rare = ones_below(self.uniforms(probs, n, generator), torch.minimum(probs, 1 - probs))
        return (rare - (probs > 0.5).to(rare.dtype)).abs_()

    def count_law(self, probs: Tensor, n: int) -> Tensor:
        return laws.dirichlet_count_law(probs, n, validate=False)

    def disagreement(self, probs: Tensor, n: int) -> Tensor:
        return laws.dirichlet_disagreement(probs, n, validate=False)
