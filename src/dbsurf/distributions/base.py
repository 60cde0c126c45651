"""A distribution as independent coordinates: what samplers and estimators need to know of it.

`coordinates` opens a distribution once and returns one object that knows its probabilities, how
category numbers become samples and back, its states, and its score. A registry keyed by type
decides which class that is, as in ``torch.distributions.kl``; `register_distribution` adds a type.

An estimate of a gradient is a weighted sum of scores (see `Combination`). `Coordinates.targets`
says which tensors it is sent to; handing it to autograd is not done here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, Independent
from torch.distributions.utils import logits_to_probs

from dbsurf import checks

TAIL = 1e-6  # tail mass at which an infinite support is cut off and grouped
INFINITE = math.inf


class Draws(Protocol):
    """The part of a sampler that distributions use."""

    independent: bool

    def binary(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor: ...

    def categorical(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor: ...

    def debias_factor(self, probs: Tensor, n: int) -> Tensor: ...


@runtime_checkable
class DrawsUniforms(Protocol):
    """A sampler that puts dependent uniforms through the inverse cdf."""

    def uniforms(self, like: Tensor, n: int, generator: torch.Generator | None) -> Tensor: ...


class Combination(NamedTuple):
    r"""How samples become a gradient: $c \odot \sum_i w_i \nabla\log p(x_i) + o$.

    Attributes:
        weights: $w$, ``(n, *batch)``; None for 0, where the offset is the whole estimate.
        factor: $c$ for every coordinate, or None for 1; a list with one for each part of a joint
            distribution.
        offset: $o$ for every coordinate, or None for 0; likewise.
        centred: whether the weights sum to 0 over the samples, so that p cancels.
        memo: intermediate results of `Estimator.combine` that `Estimator.learn` uses again.
    """

    weights: Tensor | None
    factor: Any = None
    offset: Any = None
    centred: bool = False
    memo: Any = None

    def only_weights(self, law: str) -> Tensor:
        """The weights, for a law that supports neither a factor nor an offset."""
        if self.weights is None or self.factor is not None or self.offset is not None:
            raise ValueError(
                "dist must have logits for an estimator with a factor or an offset for each "
                f"coordinate, got {law}"
            )
        return self.weights


class Coordinates(ABC):
    """A distribution as independent coordinates.

    Probabilities are detached and at least float32, whatever the precision of the distribution;
    samples have the distribution's own dtype.

    Attributes:
        name: what error messages call the distribution.
        batch_shape: shape of the batch, as in torch.distributions.
        event_shape: shape of one sample of one problem.
        device: device of the samples.
        binary: whether the coordinates are bits; then ``probs`` is ``(*batch, *event)``.
        differentiable: whether it has parameters that a gradient can be estimated for.
    """

    name: str
    batch_shape: torch.Size
    event_shape: torch.Size
    device: torch.device
    binary: bool = False
    differentiable: bool = True

    @property
    def parts(self) -> Sequence[Coordinates]:
        """The distributions that it is made of, one for each tensor of its samples."""
        return [self]

    # --- drawing --------------------------------------------------------------------------------

    def check(self) -> None:  # noqa: B027 (a law may have nothing to check)
        """Check the values of the parameters; skipped by callers with ``validate=False``."""

    def group_tails(self, tail: float) -> None:  # noqa: B027
        """Set the tail mass at which an infinite support is cut off; a finite one has no tail."""

    @abstractmethod
    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Any:
        """n samples ``(n, *batch, *event)``, drawn by ``sampler``."""

    def debias_factor(self, sampler: Draws, n: int) -> Any:
        """The factor for each coordinate that makes leave-one-out over these samples unbiased."""
        raise ValueError(f"dist must be Bernoulli for a debias factor, got {self.name}")

    # --- support --------------------------------------------------------------------------------

    def encode(self, samples: Tensor) -> Tensor:
        """Category numbers ``(n, *coords)`` of samples; -1 for what is outside the support."""
        raise self.no_table()

    def contains(self, samples: Any) -> bool:
        """Whether all samples lie in the support."""
        return bool((self.encode(samples) >= 0).all())

    def table(self) -> Tensor:
        """Probabilities of the values of each coordinate, ``(*coords, m)``."""
        raise self.no_table()

    def state_count(self) -> float:
        """How many states one event has; infinite for an infinite support."""
        table = self.table()
        coords = table.shape[len(self.batch_shape) : -1]
        return float(table.shape[-1] ** coords.numel())

    def states(self) -> tuple[Tensor, Tensor]:
        """All states ``(states, *batch, *event)`` and their probabilities ``(states, *batch)``."""
        table = self.table()
        coords, values = table.shape[:-1], table.shape[-1]
        event = coords[len(self.batch_shape) :]
        count = values ** event.numel()
        state = torch.arange(count, device=table.device)
        place = values ** torch.arange(event.numel(), device=table.device)
        digits = (state.unsqueeze(-1) // place) % values  # (states, event.numel())
        index = digits.view(count, *(1,) * len(self.batch_shape), *event).expand(count, *coords)
        chosen = table.expand(*index.shape, values).gather(-1, index.unsqueeze(-1))[..., 0]
        mass = chosen.flatten(1 + len(self.batch_shape)) if event else chosen.unsqueeze(-1)
        return self.decode(index, None), mass.prod(-1)

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        """Samples from category numbers ``(n, *coords)``."""
        raise self.no_table()

    def no_table(self) -> ValueError:
        return ValueError(
            "dist must be a discrete distribution with independent coordinates (torch Bernoulli, "
            "Categorical, OneHotCategorical, Binomial, Poisson, Geometric, NegativeBinomial, "
            "dbsurf.Finite, these inside Independent, or a frozen discrete law of scipy.stats), "
            f"got {self.name}"
        )

    # --- score ----------------------------------------------------------------------------------

    @abstractmethod
    def gradient(self, combination: Combination, samples: Any) -> Any:
        """The estimate with respect to the logits (else the law's own parameter), detached."""

    @abstractmethod
    def targets(self, combination: Combination, samples: Any) -> list[tuple[Tensor, Tensor]]:
        """Tensors that depend on the parameters, each with the gradient that is sent to it."""

    def unpack(self, samples: Any) -> list[Tensor]:
        """The tensors of samples, in the order of the distributions that they belong to."""
        if not isinstance(samples, Tensor):
            raise ValueError(f"samples must be one tensor, got {type(samples).__name__}")
        return [samples]

    def pack(self, each: Sequence[Any]) -> Any:
        """What `unpack` takes apart: one object for each part, as the samples have them."""
        return each[0]

    def shares(self, each: Sequence[Any]) -> Any:
        """A factor or an offset for each part, as a `Combination` has them."""
        return each[0]


class ByLogits(Coordinates):
    """A law whose score with respect to its logits is x - p in closed form.

    Attributes:
        parameter: the tensor that the distribution was built from, logits or probabilities.
        by_logits: which of the two it is.
        dtype: of the parameter, and so of the gradient.
        probs: probabilities, ``(*coords,)`` for bits, ``(*coords, m)`` for categories.
    """

    parameter: Tensor
    by_logits: bool
    dtype: torch.dtype
    probs: Tensor

    def check(self) -> None:
        if self.probs.numel() == 0 or checks.transformed():
            return
        low, high = torch.aminmax(self.probs)  # NaN spreads into both
        if not (low >= 0 and high <= 1):
            checks.probabilities(self.probs)

    @property
    def minor(self) -> Tensor:
        """The smaller of p and 1 - p."""
        return torch.minimum(self.probs, 1 - self.probs)

    def contract(self, weights: Tensor, samples: Tensor, centred: bool) -> Tensor:
        """The weighted sum of x - p over samples that have the shape of the logits.

        Args:
            weights: ``(n, *batch)``.
            samples: ``(n, *batch, *event)``.
            centred: whether the weights sum to 0, so that p drops out.
        """
        weights = weights.reshape(weights.shape + (1,) * (samples.ndim - weights.ndim))
        samples = samples.to(weights.dtype)
        n, mass = samples.shape[0], weights[0]
        if centred:
            # The weights should sum to 0 but sum to a rounding error; subtract the first x times
            # that error. Where all x are equal the result is then exactly 0.
            total = samples[0] * weights[0]
            for i in range(1, n):
                total, mass = torch.addcmul(total, samples[i], weights[i]), mass + weights[i]
            return torch.addcmul(total, samples[0], mass, value=-1)
        # x - p = (x - r) + (r - p), with r the likelier value. Both parts are accurate where p is
        # close to 1; the difference of two sums of weights would cancel there.
        likely = (self.probs > 0.5).to(weights.dtype)
        total = (samples[0] - likely) * weights[0]
        for i in range(1, n):
            total, mass = torch.addcmul(total, samples[i] - likely, weights[i]), mass + weights[i]
        return torch.addcmul(total, (2 * likely - 1) * self.minor, mass)

    @abstractmethod
    def slope(self) -> Tensor:
        """The gradient for the probabilities is that for the logits divided by this."""

    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        weights, factor, offset, centred = combination[:4]
        if weights is None:
            total = torch.zeros_like(self.probs) if offset is None else offset
            return total.to(self.dtype)
        total = self.contract(weights.to(self.probs.dtype), samples, centred)
        if factor is not None:
            total = total * factor
        if offset is not None:
            total = total + offset
        return total.to(self.dtype)

    def targets(self, combination: Combination, samples: Tensor) -> list[tuple[Tensor, Tensor]]:
        gradient = self.gradient(combination, samples)
        return [(self.parameter, gradient if self.by_logits else self.to_parameter(gradient))]

    def to_parameter(self, gradient: Tensor) -> Tensor:
        """Turn a gradient for the logits into one for the parameter that was given.

        Where p is exactly 0 or 1 the samples never vary and the gradient is 0, as for the logits.
        torch itself would go through clamped logits, which is wrong for all p below 1e-7.
        """
        if self.by_logits:
            return gradient
        slope = self.slope().to(gradient.dtype)
        return torch.where(slope > 0, gradient / torch.where(slope > 0, slope, 1), 0)


# --- which class opens which distribution -------------------------------------------------------

Shapes = tuple[torch.Size, torch.Size]  # batch and event
Opener = Callable[[Any, Distribution], Coordinates]
AnyOpener = TypeVar("AnyOpener", bound=Callable[[Any, Any], Coordinates])
OtherOpener = Callable[[Any], Coordinates | None]
_OPENERS: dict[type, Opener] = {}
_OTHERS: list[OtherOpener] = []  # for objects that are not torch distributions


def register_distribution(kind: type[Distribution]) -> Callable[[AnyOpener], AnyOpener]:
    """Register a function that opens distributions of a type.

    The decorated function gets two distributions, the one inside any ``Independent`` wrappers and
    the whole one, and returns a `Coordinates`. Subclasses of a registered type are opened by the
    same function.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, constraints
        >>> class Coin(torch.distributions.Distribution):
        ...     arg_constraints = {"chance": constraints.unit_interval}
        ...     def __init__(self, chance):
        ...         self.chance = chance
        ...         super().__init__(chance.shape, validate_args=False)
        >>> @dbsurf.distributions.register_distribution(Coin)
        ... def open_coin(base, dist):
        ...     return dbsurf.distributions.coordinates(Bernoulli(base.chance))
        >>> dbsurf.sample(Coin(torch.tensor([0.5, 0.5])), 2).sum(0)
        tensor([1., 1.])
    """

    def add(opener: AnyOpener) -> AnyOpener:
        _OPENERS[kind] = opener
        return opener

    return add


def register_other(opener: OtherOpener) -> OtherOpener:
    """Add a function that opens other objects; it returns None for those it does not know."""
    _OTHERS.append(opener)
    return opener


def coordinates(dist: Any, *, tail: float = TAIL) -> Coordinates:
    """Open ``dist`` as independent coordinates.

    Args:
        dist: a torch distribution; a tuple, list or dict of them, drawn jointly; or a frozen
            discrete law of scipy.stats (for sampling only).
        tail: an infinite support is tabulated until this mass is left; the rest is grouped.
    """
    base = dist
    while isinstance(base, Independent):
        base = base.base_dist
    law = None
    if isinstance(base, Distribution):
        for kind in type(base).__mro__:
            if kind in _OPENERS:
                law = _OPENERS[kind](base, dist)
                break
    else:
        for other in _OTHERS:
            law = other(dist)
            if law is not None:
                break
    if law is None:
        raise ValueError(
            "dist must be a discrete distribution of torch, a tuple or dict of them, or a frozen "
            f"discrete law of scipy.stats, got {type(dist).__name__}"
        )
    if tail != TAIL:
        law.group_tails(checks.tail_mass(tail))
    return law


def given_logits(dist: Any) -> bool:
    """Whether ``dist`` was built from logits rather than probabilities.

    The parameter that was given is exact. torch computes the other one when it is first used, and
    clamps logits that it computes from probabilities. If both are stored and it is not known which
    was given, the probabilities are used, since they are never clamped.
    """
    held: Mapping[str, Any] = dist.__dict__
    if "logits" not in held or "probs" not in held:
        return "logits" in held
    if getattr(dist, "_param", held["probs"]) is not held["logits"]:
        return False
    if checks.transformed():
        return True
    # After ``expand`` torch says "logits" of both. Those that were given have exactly these
    # probabilities.
    computed = logits_to_probs(held["logits"].detach(), not isinstance(dist, Categorical))
    return torch.equal(computed, held["probs"])


def real(parameter: Tensor, name: str) -> Tensor:
    """The parameter of a distribution, if it is a floating-point tensor."""
    if not parameter.is_floating_point():
        raise ValueError(
            f"dist must have floating-point parameters, got {name} with {parameter.dtype}"
        )
    return parameter


def at_least_float32(tensor: Tensor) -> Tensor:
    """The tensor, in float32 if it was in half precision: sums over samples need the digits."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
