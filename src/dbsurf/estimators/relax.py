"""RELAX: a learned function of the continuous variables that samples are rounded from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dbsurf import checks
from dbsurf.distributions import ByLogits, Combination
from dbsurf.estimators.relaxation import Noise, Relaxing, difference, squash
from dbsurf.gradient.context import (
    check_declared,
    check_first_call,
    check_sizes,
    features_of,
)
from dbsurf.gradient.declaration import Variant
from dbsurf.gradient.fitting import Fitted, Moments, RunningRatio
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw, needs_own_samples
from dbsurf.gradient.registry import register

HIDDEN = 50  # width of the network that RELAX makes for itself

# Values and gradients of a function at relaxed samples.
SlopesOf = Callable[[Callable[[Tensor], Tensor], Tensor], tuple[Tensor, Tensor]]


@register
class RELAX(Relaxing):
    r"""REINFORCE with a learned function of the continuous variables as control variate.

    A sample x is what $z = \theta + \epsilon$ rounds to. $\tilde z$ is an independent draw of z
    given x, and c a network of $\sigma(z)$, or of $\mathrm{softmax}(z)$:
    $$g = \frac1n\sum_i\,(f(x_i) - c(\tilde z_i))\,\nabla\log p(x_i)
      + \nabla_\theta c(z_i) - \nabla_\theta c(\tilde z_i)$$

    The network takes one step of Adam a call to lower the mean of $\|g\|^2$, after the gradient is
    made. At first c = 0, and this is `Reinforce`. This is the form for a black box. For VAEs the
    authors add f at the relaxed sample, with a learned temperature, to the network, which takes the
    gradient of f and 3n evaluations; that form is not here.

    Bias: none. Evaluations of f: n. Needs no gradient of f. n >= 1. Bernoulli, categorical and
    other finite laws with logits.

    Args:
        n: number of independent samples.
        network: a module of relaxed samples ``(n, *batch, features)``, their event flattened,
            and of the context (or None), that returns values ``(n, *batch)``; None for a network
            with one hidden layer, scaled by the size of f.
        lr: learning rate of the network. None leaves it to the caller's own optimiser: the
            gradient of the mean of $\|g\|^2$ is added to ``.grad`` of its parameters.
        size: how many numbers a sample of one batch element has, to build the network at once
            instead of at the first call.
        context: how many features the context has, with ``size``.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
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

    variants = (
        Variant(
            "RELAX",
            "#DA70D6",
            choose="for a black box with n = 1: it learns a network as it goes",
        ),
    )

    def __init__(
        self,
        n: int,
        *,
        network: nn.Module | None = None,
        lr: float | None = 1e-3,
        size: int | None = None,
        context: int = 0,
        validate: bool = True,
    ) -> None:
        super().__init__(n, validate=validate)
        checks.positive(lr, "lr", none=network is not None)
        check_declared(size, context)
        if network is not None and not isinstance(network, nn.Module):
            raise ValueError(f"network must be a torch module or None, got {network!r}")
        self.lr = lr
        self.power = RunningRatio(torch.inf)  # mean square of f
        self.control: Given | Own | None = None
        if network is not None:
            self.control = Given(network, lr)
            self.learns = bool(self.control.tensors())
        elif size is not None:
            self._build(size, context, self.power.energy)

    def prepare(self, law: ByLogits, context: Tensor | None, f: Evaluator) -> Prepared:
        size, features = law.probs.shape[len(law.batch_shape) :].numel(), features_of(context, law)
        control = self.control or self._build(size, features, law.probs)
        control.check(size, features)
        own = isinstance(control, Own)
        unit = self.power().sqrt() if own else torch.ones_like(self.power.energy)
        return Prepared(control, unit)

    def combine(self, draw: Draw[ByLogits]) -> Combination:
        if draw.hidden is None:
            raise needs_own_samples(self)
        tensors = draw.prepared.control.tensors()
        if checks.transformed():
            return self._control(draw, tensors, draw.hidden, _slopes_under_transforms)[0]
        learning = self.learns and self.training and not torch.is_inference_mode_enabled()
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {
                name: t.detach().clone().requires_grad_(learning) for name, t in tensors.items()
            }
            noise = Noise(*(tensor.clone() for tensor in draw.hidden))
            plain, graph = self._control(draw, leaves, noise, _slopes(create_graph=learning))
        return plain._replace(memo=(leaves, *graph)) if learning else plain

    def _control(
        self, draw: Draw[ByLogits], leaves: dict[str, Tensor], noise: Noise, slopes_of: SlopesOf
    ) -> tuple[Combination, tuple[Tensor, Tensor]]:
        """The estimate, and its weights and offset with their graph."""
        law, (control, unit) = draw.law, draw.prepared
        size = law.probs.shape[len(law.batch_shape) :].numel()

        def c(points: Tensor) -> Tensor:  # at relaxed samples, (n, *batch)
            flat = points.reshape(*draw.f_values.shape, size)
            wide = {name: leaf.to(points.dtype) for name, leaf in leaves.items()}
            values: Tensor = control.values_at(flat, draw.context, wide)
            scaled: Tensor = values * unit.clone().to(values.dtype)  # (not of inference mode)
            return scaled

        points = [squash(law, z) for z in noise[:2]]
        found = [slopes_of(c, point) for point in points]
        bound = found[1][0].to(draw.f_values.dtype)
        weights = (draw.f_values - bound) / draw.f_values.shape[0]
        offset = difference(law, noise, (points[0], points[1]), (found[0][1], found[1][1]))
        return Combination(weights.detach(), offset=offset.detach()), (weights, offset)

    def learn(self, draw: Draw[ByLogits], combination: Combination) -> None:
        """One step on the mean over the batch of the squared length of the estimate."""
        if combination.memo is not None:
            self._fit(draw, *combination.memo)
        self.power.update(draw.f_values.square(), torch.ones_like(draw.f_values))

    def _fit(
        self, draw: Draw[ByLogits], leaves: dict[str, Tensor], weights: Tensor, offset: Tensor
    ) -> None:
        law, (control, unit) = draw.law, draw.prepared
        with torch.enable_grad():
            scores = law.contract(weights.to(law.probs.dtype), draw.samples, False)
            elements = max(1, law.batch_shape.numel())
            loss = (scores + offset).square().sum() / elements
            found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        square = unit.square() if unit > 0 else 1.0
        pairs = zip(leaves.values(), found, strict=True)
        control.step([torch.zeros_like(t) if g is None else g / square for t, g in pairs])

    # --- state ----------------------------------------------------------------------------------

    def _build(self, size: int, features: int, like: Tensor) -> Own:
        check_first_call(self)
        with torch.inference_mode(False):
            built = Own(size, features, self.lr or 0.0)
            self.control = built.to(like.device, self.power.energy.dtype)
        return built

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Build the network first if this estimator was never called, so that it can be loaded."""
        sizes = state_dict.get(f"{prefix}control.sizes")
        if self.control is None and sizes is not None:
            self._build(int(sizes[0]), int(sizes[1]), self.power.energy)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class Prepared(NamedTuple):
    """The network, and the size of f by which it is scaled."""

    control: Given | Own
    unit: Tensor


class Given(nn.Module):
    """A network that the caller gave, and how it is fitted.

    Args:
        network: the module.
        lr: learning rate; None leaves the fitting to the caller.
    """

    def __init__(self, network: nn.Module, lr: float | None) -> None:
        super().__init__()
        self.network = network
        parameters = list(network.parameters())
        self.moments = Moments(parameters, lr) if parameters and lr is not None else None

    def check(self, size: int, features: int) -> None:
        """The caller's network says itself what does not fit."""

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.network.named_parameters())

    def values_at(
        self, points: Tensor, context: Tensor | None, tensors: dict[str, Tensor]
    ) -> Tensor:
        """Values ``(n, *batch)`` at points ``(n, *batch, size)``."""
        found: Tensor = torch.func.functional_call(self.network, tensors, (points, context))
        return found

    def step(self, gradients: Sequence[Tensor]) -> None:
        if self.moments is not None:
            self.moments.step(gradients)
            return
        for parameter, gradient in zip(self.network.parameters(), gradients, strict=True):
            if torch.isfinite(gradient).all():
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


class Own(Fitted):
    """One hidden layer of relaxed samples and of the context; 0 at first.

    Args:
        size: how many numbers a relaxed sample has.
        features: how many the context has for each batch element.
        lr: learning rate.
    """

    sizes: Tensor

    def __init__(self, size: int, features: int, lr: float) -> None:
        random = torch.Generator().manual_seed(0)  # a fixed seed: the global generator is not used
        inputs = size + features
        bound = max(1, inputs) ** -0.5
        start = {
            "weight": torch.empty(HIDDEN, inputs).uniform_(-bound, bound, generator=random),
            "bias": torch.zeros(HIDDEN),
            "outer": torch.zeros(HIDDEN),
            "constant": torch.zeros(()),
        }
        super().__init__(start, lr)
        self.register_buffer("sizes", torch.tensor([size, features]))

    def check(self, size: int, features: int) -> None:
        check_sizes(self.sizes, size, features)

    def values_at(
        self, points: Tensor, context: Tensor | None, tensors: dict[str, Tensor]
    ) -> Tensor:
        """Values ``(n, *batch)`` at points ``(n, *batch, size)``."""
        inputs = 2 * points - 1
        if context is not None:
            context = context.detach().to(points.dtype)
            inputs = torch.cat([inputs, context.expand(points.shape[0], *context.shape)], -1)
        hidden = torch.tanh(nn.functional.linear(inputs, tensors["weight"], tensors["bias"]))
        return hidden @ tensors["outer"] + tensors["constant"]


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
