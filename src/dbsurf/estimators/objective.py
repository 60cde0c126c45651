"""The caller's f behind one signature: samples in, a tensor ``(n, *batch)`` out.

All variants of calling f are handled here: samples folded into the batch, a few samples at a time,
results as numpy arrays or plain numbers, auxiliary results beside the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dbsurf import checks
from dbsurf.distributions.base import transformed
from dbsurf.distributions.joint import leaves

Function = Callable[[Any], Any]
CHANGES = attrgetter("_version")  # how often a tensor was changed in place


@dataclass
class Objective:
    """f, and how to call it.

    Attributes:
        f: the caller's function.
        batch_shape: of the distribution.
        validate: whether to check values.
        fold: f takes ``(n * batch, *event)`` and returns ``(n * batch,)``: samples and batch as one
            axis, for convolutions, batch normalisation, cross-entropy.
        chunk: how many samples f gets at a time; None for all. The backward pass evaluates f again,
            so that it needs the memory of one chunk only.
        has_aux: f returns ``(values, aux)``; aux is returned to the caller.
        aux: the aux of the last call: one object, or a list with one for each chunk.
    """

    f: Function
    batch_shape: torch.Size
    validate: bool
    fold: bool = False
    chunk: int | None = None
    has_aux: bool = False
    aux: Any = None

    def __call__(self, samples: Any) -> Tensor:
        """The values of f, ``(n, *batch)``, with their graph."""
        if self.chunk is None:
            values, self.aux = self._ask(samples)
            return values
        size = checks.sample_count(self.chunk, owner="a chunk of samples")
        count = leaves(samples)[0].shape[0]
        answers = []
        for start in range(0, count, size):
            part = each(lambda x, start=start: x[start : start + size], samples)  # type: ignore[misc]
            # Activations of f are not kept but computed again, one chunk at a time.
            keep = not torch.is_grad_enabled()
            answers.append(
                self._ask(part) if keep else checkpoint(self._ask, part, use_reentrant=False)
            )
        self.aux = [aux for _, aux in answers] if self.has_aux else None
        return torch.cat([values for values, _ in answers])

    def with_gradient(
        self, samples: Tensor, *, required: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """The values of f with their graph, and the gradient of f at each sample, detached.

        The gradient is None if f has none. If it is not finite, that is an error if the gradient
        is required; otherwise it counts as none.
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
        """The gradient of computed values with respect to the inputs; None if there is none."""
        if not (values.requires_grad and inputs.requires_grad):
            return None
        (found,) = torch.autograd.grad(values.sum(), inputs, allow_unused=True, retain_graph=True)
        return usable_gradient(found, required=required, validate=self.validate)

    def _ask(self, samples: Any) -> tuple[Tensor, Any]:
        """Values and aux for some of the samples."""
        tensors = [samples] if isinstance(samples, Tensor) else leaves(samples)
        shape = wanted = torch.Size((tensors[0].shape[0], *self.batch_shape))
        given = samples
        if self.fold:
            given, wanted = each(self._flatten, samples), torch.Size((shape.numel(),))
        if not callable(self.f):
            raise ValueError(f"f must be a function of the samples, got {type(self.f).__name__}")
        under_transform = torch._C._are_functorch_transforms_active()
        look = self.validate and not (under_transform or torch.compiler.is_compiling())
        counted = tensors if look and not tensors[0].is_inference() else []
        with torch.no_grad():
            before = list(map(Tensor.sum, tensors)) if look else []
            changes = list(map(CHANGES, counted))
        answer, aux = self.f(given), None
        with torch.no_grad():
            after = list(map(Tensor.sum, tensors)) if look else []
        # (torch's version counter misses x.data.sub_(1), the sum misses a permutation.)
        if changes != list(map(CHANGES, counted)) or not all(map(torch.equal, before, after)):
            raise ValueError("f must not change its samples in place, got samples that it changed")
        if self.has_aux:
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise ValueError(
                    f"f must return (values, aux) with has_aux=True, got {type(answer).__name__}"
                )
            answer, aux = answer
        if not isinstance(answer, Tensor):
            answer = _as_tensor(answer, wanted, tensors[0])
        return function_values(answer, wanted, finite=look).reshape(shape), aux

    def _flatten(self, samples: Tensor) -> Tensor:
        return samples.flatten(0, len(self.batch_shape))


def function_values(
    values: object, shape: torch.Size, *, finite: bool, name: str = "f must return"
) -> Tensor:
    """Return ``values`` if they are one floating-point tensor of the expected shape."""
    if not isinstance(values, Tensor):
        raise ValueError(
            f"{name} one tensor of shape {tuple(shape)} (n, *batch), got {type(values).__name__}"
        )
    if values.shape != shape or not values.is_floating_point():
        raise ValueError(
            f"{name} one floating-point tensor of shape {tuple(shape)} (n, *batch), "
            f"got {values.dtype} of shape {tuple(values.shape)}"
        )
    if finite and not bool(torch.isfinite(values.detach()).all()):
        checks.finite_tensor(values, f"{name} finite values")
    return values


def usable_gradient(found: Tensor | None, *, required: bool, validate: bool) -> Tensor | None:
    """The gradient of f if it is finite, otherwise an error or None."""
    if found is None:
        return None
    if required:
        if validate:
            checks.finite_tensor(found, "f must have a finite gradient at 0 and 1")
        return found.detach()
    # (The sum is not finite if an entry is not, and is quicker to check.)
    return found.detach() if bool(torch.isfinite(found.sum())) else None


def _as_tensor(answer: Any, shape: torch.Size, like: Tensor) -> Any:
    """Numpy arrays and Python numbers as a tensor; anything else unchanged."""
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


def each(function: Callable[[Tensor], Tensor], samples: Any) -> Any:
    """Apply a function to every tensor of joint samples; the result has the same container."""
    if isinstance(samples, Tensor):
        return function(samples)
    if isinstance(samples, dict):
        return {name: function(x) for name, x in samples.items()}
    return tuple(function(x) for x in samples)
