"""REBAR and RELAX: control variates on the continuous variables that samples are rounded from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dbsurf import checks
from dbsurf.distributions import ByLogits, Combination, Coordinates
from dbsurf.distributions.base import transformed
from dbsurf.estimators.base import Draw
from dbsurf.estimators.fitting import Fitter, RunningRatio
from dbsurf.estimators.objective import Objective
from dbsurf.estimators.relaxation import (
    CategoricalEstimator,
    check_relaxable,
    check_temperature,
    noisy_logits_given,
    squash,
    through,
    to_logits,
)
from dbsurf.samplers.iid import IID

HIDDEN = 50  # width of the network that RELAX makes for itself

# Values and gradients of a function at relaxed samples.
SlopesOf = Callable[[Callable[[Tensor], Tensor], Tensor], tuple[Tensor, Tensor]]


class Noise(NamedTuple):
    """The noise behind the samples: two independent draws of z given each sample.

    Attributes:
        free: the first, as a function of the logits an unconditional draw of z.
        bound: the second, as a function of the logits a draw of z that rounds to its sample.
        slope: the derivative of ``bound`` with respect to the logits.
    """

    free: Tensor
    bound: Tensor
    slope: Tensor


class Probed(NamedTuple):
    """f at the relaxed samples, and its gradient with respect to the logits."""

    bound: Tensor  # (n, *batch)
    path: Tensor  # the mean over n of the free minus the bound gradient, like the logits


class _Relaxing(CategoricalEstimator):
    """Draws the samples, and then z given the samples, twice."""

    def __init__(self, n: int, *, validate: bool) -> None:
        super().__init__(n, IID(), validate=validate)

    def draw_with_noise(
        self, law: Coordinates, generator: torch.Generator | None
    ) -> tuple[Any, Noise]:
        assert isinstance(law, ByLogits)
        samples, _ = super().draw_with_noise(law, generator)
        free, _ = noisy_logits_given(law, samples, generator)
        return samples, Noise(free, *noisy_logits_given(law, samples, generator))

    def need_noise(self, noise: Any) -> None:
        if noise is None:
            raise ValueError(
                f"samples must be drawn by {type(self).__name__} itself, got samples without the "
                "noise behind them: use E(f, dist)"
            )


def difference(
    law: ByLogits, noise: Noise, points: tuple[Tensor, Tensor], slopes: tuple[Tensor, Tensor]
) -> Tensor:
    """The mean over samples of the gradient through the free draw minus that of the bound one.

    Args:
        law: the distribution.
        noise: the noise behind the samples.
        points: relaxed samples, free and bound.
        slopes: gradients with respect to them.
    """
    free = through(law, points[0], slopes[0])
    bound = to_logits(law, noise.slope, through(law, points[1], slopes[1]))
    return (free - bound).mean(0)


class REBAR(_Relaxing):
    r"""REINFORCE with f at relaxed samples as control variate.

    A sample x is what $z = \theta + \epsilon$ rounds to. $\tilde z$ is an independent draw of z
    given x, and $c(z) = \eta f(\sigma(z/\tau))$:
    $$g = \frac1n\sum_i\,(f(x_i) - c(\tilde z_i))\,\nabla\log p(x_i)
      + \nabla_\theta c(z_i) - \nabla_\theta c(\tilde z_i)$$

    $\eta$ is the coefficient that would have minimised the variance of earlier calls.

    Bias: none. Evaluations of f: 3n, two thirds of them at relaxed samples, where its gradient is
    needed too; f has to accept numbers between 0 and 1. n >= 1. Bernoulli and one-hot categorical.

    Args:
        n: number of independent samples.
        temperature: $\tau$ of the relaxed samples.
        coefficient: a fixed $\eta$; None to tune it.
        decay: factor on the sums for $\eta$ at each call.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.REBAR(1)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Tucker, Mnih, Maddison, Lawson and Sohl-Dickstein, "REBAR: Low-variance, unbiased gradient
        estimates for discrete latent variable models", NeurIPS 2017.
    """

    needs_grad_f = True  # at the relaxed samples, in `probe`
    learns = True

    def __init__(
        self,
        n: int,
        temperature: float = 0.5,
        *,
        coefficient: float | None = None,
        decay: float = 0.99,
        validate: bool = True,
    ) -> None:
        super().__init__(n, validate=validate)
        self.temperature = check_temperature(temperature)
        if coefficient is not None and not checks.is_finite_number(coefficient):
            raise ValueError(f"coefficient must be a finite number or None, got {coefficient!r}")
        self.fixed = coefficient
        self.ratio = RunningRatio(torch.inf, decay)

    @property
    def evaluations(self) -> int:
        assert self.n is not None
        return 3 * self.n

    @property
    def distributions(self) -> str:
        return "Bernoulli, one-hot"

    def check_law(self, law: Coordinates) -> None:
        super().check_law(law)
        check_relaxable(law, self)

    def prepare(self, law: Coordinates, context: Tensor | None, f: Objective) -> float | Tensor:
        return self.ratio() if self.fixed is None else self.fixed

    def probe(self, law: Coordinates, noise: Noise | None, f: Objective) -> Probed | None:
        if noise is None:
            return None
        assert isinstance(law, ByLogits)
        points = [squash(law, z, self.temperature) for z in (noise.free, noise.bound)]
        values, slopes = [], []
        for point in points:
            value, slope = f.with_gradient(point.to(law.dtype))
            if slope is None:
                raise ValueError(
                    "f must be differentiable in x for REBAR, got values without a gradient"
                )
            values.append(value.detach())
            slopes.append(slope.to(law.probs.dtype))
        path = difference(law, noise, (points[0], points[1]), (slopes[0], slopes[1]))
        return Probed(values[1], path / self.temperature)

    def combine(self, draw: Draw) -> Combination:
        law, probed, eta = draw.law, draw.noise, draw.prepared
        self.need_noise(probed)
        assert isinstance(law, ByLogits)
        n = draw.f_values.shape[0]
        bound = probed.bound.to(draw.f_values.dtype)
        weights = (draw.f_values - eta * bound) / n
        return Combination(weights, offset=eta * probed.path)

    def learn(self, draw: Draw, combination: Combination) -> None:
        law, probed = draw.law, draw.noise
        assert isinstance(law, ByLogits)
        n = draw.f_values.shape[0]
        plain, bound = (
            law.contract((values / n).to(law.probs.dtype), draw.samples, False)
            for values in (draw.f_values, probed.bound)
        )
        self.ratio.update(plain, bound - probed.path)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, temperature={self.temperature}"


class RELAX(_Relaxing):
    r"""REINFORCE with a learned function of the continuous variables as control variate.

    A sample x is what $z = \theta + \epsilon$ rounds to. $\tilde z$ is an independent draw of z
    given x, and c a network of $\sigma(z)$, or of $\mathrm{softmax}(z)$:
    $$g = \frac1n\sum_i\,(f(x_i) - c(\tilde z_i))\,\nabla\log p(x_i)
      + \nabla_\theta c(z_i) - \nabla_\theta c(\tilde z_i)$$

    The network takes one step of Adam a call to lower the mean of $\|g\|^2$, after the gradient is
    made. At first c = 0, and this is `Reinforce`.

    Bias: none. Evaluations of f: n. Needs no gradient of f. n >= 1. Bernoulli, categorical and
    other finite laws with logits.

    Args:
        n: number of independent samples.
        surrogate: a module of relaxed samples ``(n, *batch, features)``, their event flattened,
            and of the context (or None), that returns values ``(n, *batch)``; None for a network
            with one hidden layer, scaled by the size of f.
        rate: learning rate of the surrogate. None leaves it to the caller's own optimiser: the
            gradient of the mean of $\|g\|^2$ is added to ``.grad`` of its parameters.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Categorical, Independent
        >>> theta = torch.zeros(4, 3, requires_grad=True)
        >>> E = dbsurf.RELAX(1)
        >>> E(lambda x: x.float().sum(-1), Independent(Categorical(logits=theta), 1)).backward()
        >>> theta.grad.shape
        torch.Size([4, 3])

    Reference:
        Grathwohl, Choi, Wu, Roeder and Duvenaud, "Backpropagation through the void: Optimizing
        control variates for black-box gradient estimation", ICLR 2018.
    """

    def __init__(
        self,
        n: int,
        surrogate: nn.Module | None = None,
        *,
        rate: float | None = 1e-3,
        validate: bool = True,
    ) -> None:
        super().__init__(n, validate=validate)
        if rate is not None and not rate > 0:
            raise ValueError(f"rate must be a number > 0 or None, got {rate!r}")
        if rate is None and surrogate is None:
            raise ValueError("rate must be a number > 0 for a surrogate of RELAX's own, got None")
        self.rate = rate
        self.power = RunningRatio(torch.inf)  # mean square of f
        self.surrogate: nn.Module | None = surrogate
        self.fitter: Fitter | None = None
        self.own = surrogate is None
        parameters = [] if surrogate is None else list(surrogate.parameters())
        self.learns = surrogate is None or bool(parameters)
        if parameters and rate is not None:
            self.fitter = Fitter(parameters, rate)

    def prepare(self, law: Coordinates, context: Tensor | None, f: Objective) -> Tensor:
        """The size of f, by which the surrogate is scaled."""
        assert isinstance(law, ByLogits)
        if self.surrogate is None:
            if torch._C._are_functorch_transforms_active():
                raise ValueError(
                    "RELAX must be called once before it is used under torch.func, got its first "
                    "call, which builds its network"
                )
            self._build(_size(law), 0 if context is None else context.shape[-1], law.device)
        return self.power().sqrt() if self.own else torch.ones_like(self.power.energy)

    def combine(self, draw: Draw) -> Combination:
        self.need_noise(draw.noise)
        law = draw.law
        assert isinstance(law, ByLogits)
        assert self.surrogate is not None
        parameters: dict[str, Tensor] = dict(self.surrogate.named_parameters())
        if transformed():
            return self._control(draw, parameters, draw.noise, _slopes_under_transforms)[0]
        learning = self.learns and self.training and not torch.is_inference_mode_enabled()
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {
                name: p.detach().clone().requires_grad_(learning) for name, p in parameters.items()
            }
            noise = Noise(*(tensor.clone() for tensor in draw.noise))
            plain, graph = self._control(draw, leaves, noise, _slopes(create_graph=learning))
        return plain._replace(memo=(leaves, *graph)) if learning else plain

    def _control(
        self, draw: Draw, leaves: dict[str, Tensor], noise: Noise, slopes_of: SlopesOf
    ) -> tuple[Combination, tuple[Tensor, Tensor]]:
        """The estimate, and its weights and offset with their graph."""
        law = draw.law
        assert isinstance(law, ByLogits)
        points = [squash(law, z) for z in noise[:2]]
        values, slopes = [], []
        for point in points:
            value, slope = slopes_of(lambda x: self._values(x, leaves, draw), point)
            values.append(value)
            slopes.append(slope)
        weights = (draw.f_values - values[1].to(draw.f_values.dtype)) / draw.f_values.shape[0]
        offset = difference(law, noise, (points[0], points[1]), (slopes[0], slopes[1]))
        return Combination(weights.detach(), offset=offset.detach()), (weights, offset)

    def learn(self, draw: Draw, combination: Combination) -> None:
        """One step on the mean over the batch of the squared length of the estimate."""
        if combination.memo is not None:
            self._fit(draw, *combination.memo)
        self.power.update(draw.f_values.square(), torch.ones_like(draw.f_values))

    def _fit(self, draw: Draw, leaves: dict[str, Tensor], weights: Tensor, offset: Tensor) -> None:
        law, unit = draw.law, draw.prepared
        assert isinstance(law, ByLogits)
        assert self.surrogate is not None
        with torch.enable_grad():
            scores = law.contract(weights.to(law.probs.dtype), draw.samples, False)
            elements = max(1, law.batch_shape.numel())
            loss = (scores + offset).square().sum() / elements
            found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        if not torch.isfinite(loss):  # an infinite f-value must not destroy the state
            return
        if self.own and unit > 0:
            found = tuple(None if g is None else g / unit.square() for g in found)
        pairs = zip(leaves.values(), found, strict=True)
        self._step([torch.zeros_like(p) if g is None else g for p, g in pairs])

    def _step(self, gradients: Sequence[Tensor]) -> None:
        if self.fitter is not None:
            self.fitter.step(gradients)
            return
        assert self.surrogate is not None
        for parameter, gradient in zip(self.surrogate.parameters(), gradients, strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient

    def _values(self, points: Tensor, leaves: dict[str, Tensor], draw: Draw) -> Tensor:
        """c at relaxed samples, ``(n, *batch)``."""
        law = draw.law
        assert isinstance(law, ByLogits)
        assert self.surrogate is not None
        flat = points.reshape(*draw.f_values.shape, _size(law))
        wide = {name: leaf.to(points.dtype) for name, leaf in leaves.items()}
        values: Tensor = torch.func.functional_call(self.surrogate, wide, (flat, draw.context))
        return values * float(draw.prepared)

    # --- state ----------------------------------------------------------------------------------

    def _build(self, size: int, features: int, device: torch.device) -> None:
        assert self.rate is not None
        with torch.inference_mode(False):
            self.surrogate = Surrogate(size, features).to(device, self.power.energy.dtype)
            self.fitter = Fitter(list(self.surrogate.parameters()), self.rate)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Build the network first if this estimator was never called, so that it can be loaded."""
        weight = state_dict.get(f"{prefix}surrogate.weight")
        if self.surrogate is None and weight is not None:
            features = int(state_dict[f"{prefix}surrogate.features"])
            self._build(weight.shape[1] - features, features, self.power.energy.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _slopes(*, create_graph: bool) -> SlopesOf:
    def slopes_of(function: Callable[[Tensor], Tensor], points: Tensor) -> tuple[Tensor, Tensor]:
        points = points.detach().requires_grad_()
        values = function(points)
        (slopes,) = torch.autograd.grad(values.sum(), points, create_graph=create_graph)
        return values, slopes

    return slopes_of


def _slopes_under_transforms(
    function: Callable[[Tensor], Tensor], points: Tensor
) -> tuple[Tensor, Tensor]:
    values, pull, *_ = torch.func.vjp(function, points)
    (slopes,) = pull(torch.ones_like(values))
    return values, slopes


def _size(law: ByLogits) -> int:
    """How many numbers a relaxed sample of one batch element has."""
    return law.probs.shape[len(law.batch_shape) :].numel()


class Surrogate(nn.Module):
    """One hidden layer of relaxed samples and of the context; 0 at first.

    Args:
        size: how many numbers a relaxed sample has.
        features: how many the context has for each batch element.
    """

    features: Tensor

    def __init__(self, size: int, features: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)  # a fixed seed: the global generator is not used
        inputs = size + features
        bound = max(1, inputs) ** -0.5
        weight = torch.empty(HIDDEN, inputs).uniform_(-bound, bound, generator=random)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(HIDDEN))
        self.outer = nn.Parameter(torch.zeros(HIDDEN))
        self.constant = nn.Parameter(torch.zeros(()))
        self.register_buffer("features", torch.tensor(float(features)))

    def forward(self, points: Tensor, context: Tensor | None) -> Tensor:
        """Values ``(n, *batch)`` at points ``(n, *batch, size)``."""
        inputs = 2 * points - 1
        if context is not None:
            context = context.detach().to(points.dtype)
            inputs = torch.cat([inputs, context.expand(points.shape[0], *context.shape)], -1)
        if inputs.shape[-1] != self.weight.shape[1]:
            raise ValueError(
                f"dist and context must have {self.weight.shape[1]} numbers for each batch element "
                f"as in earlier calls, got {inputs.shape[-1]}"
            )
        hidden = torch.tanh(nn.functional.linear(inputs, self.weight, self.bias))
        return hidden @ self.outer + self.constant
