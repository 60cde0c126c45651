"""A law of one's own, from its log-partition and a sampler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints

from dbsurf.distributions.base import INFINITE
from dbsurf.distributions.structured import StructuredDistribution, check_logits


class LogPartition(StructuredDistribution):
    r"""A law of one's own, from its log-partition and a sampler.

    $p(x) = \exp(\theta \cdot s(x) - A(\theta))$, where $\theta$ is ``logits``, A is ``log_z`` and
    s is ``statistics``. Marginals, covariances, scores and the entropy follow by automatic
    differentiation; A is not checked against the sampler.

    Args:
        logits: $\theta$, ``(*batch, m)``.
        log_z: A as a function of logits ``(*batch, m)``, differentiable twice; ``(*batch,)``.
        sampler: ``sampler(logits, n, generator)`` returns n independent samples
            ``(n, *batch, *event)``.
        statistics_of: s as a function of samples, ``(..., *batch, m)``; None if x = s(x).
        event_shape: shape of one sample; None for ``(m,)``.

    Examples:
        Bits that are not all 0, drawn by rejection:

        >>> import torch
        >>> from dbsurf.distributions import LogPartition
        >>> def log_z(logits):
        ...     return torch.expm1(torch.nn.functional.softplus(logits).sum(-1)).log()
        >>> def sampler(logits, n, generator):
        ...     chance = logits.sigmoid().expand(n, *logits.shape)
        ...     x = torch.bernoulli(chance, generator=generator)
        ...     while (empty := (x == 0).all(-1, keepdim=True)).any():
        ...         x = torch.where(empty, torch.bernoulli(chance, generator=generator), x)
        ...     return x
        >>> law = LogPartition(torch.zeros(2), log_z, sampler)
        >>> law.marginals
        tensor([0.6667, 0.6667])
        >>> law.log_prob(torch.tensor([1.0, 0.0])).exp()
        tensor(0.3333)
    """

    arg_constraints = {
        "logits": constraints.independent(constraints.real, 1),
        "log_z": constraints.dependent,
        "sampler": constraints.dependent,
        "statistics_of": constraints.dependent,
    }
    batched = {"logits": 1}

    def __init__(
        self,
        logits: Tensor,
        log_z: Callable[[Tensor], Tensor],
        sampler: Callable[[Tensor, int, torch.Generator | None], Tensor],
        statistics_of: Callable[[Tensor], Tensor] | None = None,
        event_shape: Any = None,
        *,
        validate_args: bool | None = None,
    ) -> None:
        check_logits(logits, "logits", axes=1)
        for name, function in (("log_z", log_z), ("sampler", sampler)):
            if not callable(function):
                raise ValueError(f"{name} must be a function, got {function!r}")
        self.logits, self.log_z, self.sampler = logits, log_z, sampler
        self.statistics_of, self.over_vectors = statistics_of, statistics_of is None
        event = logits.shape[-1:] if event_shape is None else torch.Size(event_shape)
        if self._start(logits.shape[:-1], event, validate_args):
            self._check_shape("log_z", log_z(logits.detach()).shape, self.batch_shape)

    @property
    def support(self) -> None:
        """Not known: samples are not checked."""
        return None

    def _validate_sample(self, value: Tensor) -> None:
        return None

    def log_partition_at(self, logits: Tensor) -> Tensor:
        return self.log_z(logits)

    def statistics(self, value: Tensor) -> Tensor:
        if self.statistics_of is None:
            return super().statistics(value)
        return self.statistics_of(value)

    def support_size(self) -> float:
        return INFINITE

    def _draw(self, n: int, generator: torch.Generator | None) -> Tensor:
        samples = self.sampler(self.logits, n, generator)
        self._check_shape("sampler", samples.shape, (n, *self.batch_shape, *self.event_shape))
        return samples

    @staticmethod
    def _check_shape(name: str, got: Any, wanted: Any) -> None:
        if tuple(got) != tuple(wanted):
            raise ValueError(f"{name} must return shape {tuple(wanted)}, got {tuple(got)}")
