"""The Gaussian copula of ARMS."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dbsurf import laws
from dbsurf.samplers.base import UniformSampler


class GaussianCopula(UniformSampler):
    r"""Uniforms $u_i = \Phi(z_i)$ of normals with correlation $-1/(n-1)$, the lowest there is.

    $z_i = \sqrt{n/(n-1)}\,(g_i - \bar g)$ with independent normal $g_i$ has that correlation
    exactly, without factoring a covariance matrix.

    Reference:
        Dimitriev and Zhou, "ARMS: Antithetic-REINFORCE-Multi-Sample gradient for binary
        variables", ICML 2021.
    """

    smallest = 2

    def uniforms(self, like: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        dtype = torch.promote_types(like.dtype, torch.float32)
        normal = torch.randn((n, *like.shape), dtype=dtype, device=like.device, generator=generator)
        normal.sub_(normal.mean(0)).mul_(math.sqrt(n / (n - 1)))
        uniforms = normal.mul_(-math.sqrt(0.5)).erfc_().mul_(0.5)  # `laws.upper_normal`, in place
        return uniforms.clamp(max=1 - torch.finfo(dtype).eps / 2)  # the largest number below 1

    def disagreement(self, probs: Tensor, n: int) -> Tensor:
        return laws.gaussian_disagreement(probs, n, validate=False)
