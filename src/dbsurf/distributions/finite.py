"""A distribution on finitely many real points: the general finite law of appendix B.2."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, constraints

from dbsurf.distributions.base import register_distribution
from dbsurf.distributions.categories import Points


class _OneOf(constraints.Constraint):
    """Membership in a finite set of points, given per batch element or for all."""

    is_discrete = True

    def __init__(self, points: Tensor) -> None:
        self.points = points
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        return (value.unsqueeze(-1) == self.points).any(-1)


class Finite(Distribution):
    r"""The law $P(x = a_k) = p_k$ on points $a_1, \dots, a_m$.

    Args:
        points: the support, shape ``(m,)`` or ``(*batch, m)``; distinct along the last axis.
        probs: probabilities ``(*batch, m)``, normalised like ``Categorical``'s.
        logits: unnormalised log-probabilities; give one of the two.

    Examples:
        >>> import torch, dbsurf
        >>> die = dbsurf.Finite(torch.tensor([-1.0, 0.5, 2.0]), probs=torch.tensor([0.2, 0.5, 0.3]))
        >>> dbsurf.sample(die, 10).shape
        torch.Size([10])
    """

    arg_constraints = {
        "points": constraints.real_vector,
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True

    def __init__(
        self,
        points: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.categorical = Categorical(probs=probs, logits=logits, validate_args=validate_args)
        shape = self.categorical.param_shape
        if points.ndim == 0 or points.shape[-1] != shape[-1]:
            raise ValueError(
                f"points must have {shape[-1]} entries along the last axis, as many as there are "
                f"probabilities, got shape {tuple(points.shape)}"
            )
        ordered = points.sort(-1).values
        if not torch.isfinite(points).all() or (ordered[..., 1:] == ordered[..., :-1]).any():
            raise ValueError(f"points must be finite and distinct, got {points.tolist()}")
        self.points = points.expand(shape)
        super().__init__(self.categorical.batch_shape, validate_args=validate_args)

    @property
    def probs(self) -> Tensor:
        """Probabilities of the points, ``(*batch, m)``."""
        return self.categorical.probs

    @property
    def logits(self) -> Tensor:
        """Normalised log-probabilities of the points, ``(*batch, m)``."""
        return self.categorical.logits

    @property
    def support(self) -> constraints.Constraint:
        return _OneOf(self.points)

    @property
    def mean(self) -> Tensor:
        return (self.points * self.probs).sum(-1)

    @property
    def variance(self) -> Tensor:
        return ((self.points - self.mean.unsqueeze(-1)).square() * self.probs).sum(-1)

    def expand(self, batch_shape: Any, _instance: Finite | None = None) -> Finite:
        new: Finite = self._get_checked_instance(  # type: ignore[no-untyped-call]
            Finite, _instance
        )
        shape = torch.Size(batch_shape)
        new.categorical = self.categorical.expand(shape)
        new.points = self.points.expand(shape + self.points.shape[-1:])
        super(Finite, new).__init__(shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def index(self, value: Tensor) -> Tensor:
        """Category of each value: the position of the point it equals."""
        return (value.unsqueeze(-1) == self.points).to(torch.uint8).argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        index = self.categorical.sample(torch.Size(sample_shape))
        return self.points.expand(index.shape + self.points.shape[-1:]).gather(
            -1, index.unsqueeze(-1)
        )[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        log_prob: Tensor = self.categorical.log_prob(self.index(value))
        return log_prob

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self.points.movedim(-1, 0)


@register_distribution(Finite)
def _open(base: Finite, dist: Distribution) -> Points:
    return Points((dist.batch_shape, dist.event_shape), base.categorical, base.points, "Finite")
