"""f as the caller has it, behind one signature: samples in, a tensor ``(n, *batch)`` out.

Everything about how f wants to be asked lives here: folded into one batch, a few samples at a time,
with numpy arrays or plain numbers as its answer, with more than the values to give back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dbsurf import checks
from dbsurf.distributions import Coordinates
from dbsurf.distributions.joint import leaves

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Asking:
    """How f wants to be asked.

    Attributes:
        fold: f takes ``(n * batch, *event)`` and returns ``(n * batch,)``: samples and batch as one
            axis, for convolutions, batch normalisation, cross-entropy.
        chunk: how many samples f gets at a time; None for all. The memory of a backward is that of
            one chunk: f is evaluated again there.
        has_aux: f returns ``(values, aux)``; aux is given back to the caller.
    """

    fold: bool = False
    chunk: int | None = None
    has_aux: bool = False

    def __post_init__(self) -> None:
        if self.chunk is not None:
            checks.sample_count(self.chunk, owner="a chunk of samples")


class Objective:
    """f at the samples of one distribution.

    Attributes:
        aux: what f gave beside its values, at the samples: one entry, or a list with one for each
            chunk.
    """

    def __init__(self, f: Function, law: Coordinates, asking: Asking, *, validate: bool) -> None:
        self._f, self._law, self._asking, self._validate = f, law, asking, validate
        self.aux: Any = None

    def __call__(self, samples: Any) -> Tensor:
        """The values of f, ``(n, *batch)``, with f's own graph behind them."""
        chunk, count = self._asking.chunk, leaves(samples)[0].shape[0]
        if chunk is None or chunk >= count:
            values, self.aux = self._ask(samples, count)
            return values
        answers = [
            self._ask_again_in_backward(_slice(samples, slice(i, i + chunk)), min(chunk, count - i))
            for i in range(0, count, chunk)
        ]
        self.aux = [aux for _, aux in answers] if self._asking.has_aux else None
        return torch.cat([values for values, _ in answers])

    def with_gradient(
        self, samples: Tensor, *, required: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """The values of f with their graph, and the gradient of f at each sample, detached.

        None in place of the gradient says that f has none. One that is not finite is an error if
        it is required, and else as good as none.
        """
        if transformed():
            values, pull, *_ = torch.func.vjp(self, samples)
            (gradient,) = pull(torch.ones_like(values))
            return values, gradient.detach()
        with torch.inference_mode(False), torch.enable_grad():
            inputs = samples.clone().requires_grad_()
            values = self(inputs)
            return values, self.gradient(values, inputs, required=required)

    def gradient(self, values: Tensor, inputs: Tensor, *, required: bool = True) -> Tensor | None:
        """The gradient of values already computed at inputs that require one; None without it."""
        if not (values.requires_grad and inputs.requires_grad):
            return None
        (found,) = torch.autograd.grad(values.sum(), inputs, allow_unused=True, retain_graph=True)
        return usable_gradient(found, required=required, validate=self._validate)

    def _ask_again_in_backward(self, samples: Any, count: int) -> tuple[Tensor, Any]:
        if not torch.is_grad_enabled():
            return self._ask(samples, count)
        answer: tuple[Tensor, Any] = checkpoint(self._ask, samples, count, use_reentrant=False)
        return answer

    def _ask(self, samples: Any, count: int) -> tuple[Tensor, Any]:
        shape = torch.Size((count, *self._law.batch_shape))
        given, wanted = samples, shape
        if self._asking.fold:
            axes = len(self._law.batch_shape)
            given = _each(lambda x: x.flatten(0, axes), samples)
            wanted = torch.Size((shape.numel(),))
        tensors = leaves(given)
        before = checks.fingerprint(tensors, values=self._validate)
        answer = self._f(given)
        checks.unchanged(tensors, before)
        aux = None
        if self._asking.has_aux:
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise ValueError(
                    f"f must return (values, aux) with has_aux=True, got {type(answer).__name__}"
                )
            answer, aux = answer
        values = _as_tensor(answer, wanted, leaves(samples)[0])
        values = checks.function_values(values, wanted, finite=self._validate)
        return values.reshape(shape) if self._asking.fold else values, aux


def usable_gradient(found: Tensor | None, *, required: bool, validate: bool) -> Tensor | None:
    """A gradient of f that can be computed with, or None."""
    if found is None:
        return None
    if required:
        if validate:
            checks.finite_tensor(found, "f must have a finite gradient at 0 and 1")
        return found.detach()
    return found.detach() if bool(torch.isfinite(found).all()) else None


def transformed() -> bool:
    """Whether torch.compile or a transform of torch.func looks at what is computed now.

    There autograd's own machinery (a second backward, hooks) is not to be had.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def _as_tensor(answer: Any, shape: torch.Size, like: Tensor) -> Any:
    """Numbers of numpy or Python as a tensor; whatever else f gave as it is."""
    if isinstance(answer, Tensor):
        return answer
    if isinstance(answer, (int, float, np.generic)) and shape.numel() == 1:
        answer = [answer]
    if not isinstance(answer, (np.ndarray, list)):
        return answer
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    try:
        values = torch.as_tensor(np.asarray(answer, dtype=np.float64)).to(like.device, dtype)
    except (TypeError, ValueError):
        return answer
    return values.reshape(shape) if values.numel() == shape.numel() == 1 else values


def _each(function: Callable[[Tensor], Tensor], samples: Any) -> Any:
    """A function of every tensor of joint samples, in the same container."""
    if isinstance(samples, Tensor):
        return function(samples)
    if isinstance(samples, dict):
        return {name: function(x) for name, x in samples.items()}
    return tuple(function(x) for x in samples)


def _slice(samples: Any, part: slice) -> Any:
    return _each(lambda x: x[part], samples)
