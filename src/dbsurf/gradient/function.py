"""The caller's f behind one signature: samples in, a tensor ``(n, *batch)`` out.

All variants of calling f are handled here: samples folded into the batch, a few samples at a time,
data beside the samples, results as numpy arrays or plain numbers, auxiliary results, autocast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dbsurf import checks

Function = Callable[[Any], Any]
CHANGES = attrgetter("_version")  # how often a tensor was changed in place


@dataclass
class Evaluator:
    """f, and how to call it.

    An estimator computes with autocast off; f is called with the autocast that its caller had.

    Attributes:
        f: the caller's function.
        batch_shape: of the distribution.
        validate: whether to check values.
        fold: f takes ``(n * batch, *event)`` and returns ``(n * batch,)``: samples and batch as one
            axis, for convolutions, batch normalisation, cross-entropy.
        chunk: how many samples f gets at a time; None for all. The backward pass evaluates f again,
            so that it needs the memory of one chunk only.
        has_aux: f returns ``(values, aux)``; aux is returned to the caller.
        inputs: tensors ``(*batch, ...)`` that f gets beside the samples, in the same layout: one
            tensor or a tuple as positional arguments, a dict as keyword arguments.
        autocast: devices and dtypes for which f's caller has turned autocast on.
        aux: the aux of the last call: one object, or a list with one for each chunk.
    """

    f: Function
    batch_shape: torch.Size
    validate: bool
    fold: bool = False
    chunk: int | None = None
    has_aux: bool = False
    inputs: Any = None
    autocast: Sequence[tuple[str, torch.dtype]] = ()
    aux: Any = None

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise ValueError(f"f must be a function of the samples, got {type(self.f).__name__}")
        if self.chunk is not None:
            checks.whole(self.chunk, "chunk", minimum=1)
        if not (isinstance(self.fold, bool) and isinstance(self.has_aux, bool)):
            checks.flag(self.fold, "fold")
            checks.flag(self.has_aux, "has_aux")
        if self.inputs is not None:
            self._check_inputs()

    def __call__(self, samples: Any) -> Tensor:
        """The values of f, ``(n, *batch)``, with their graph."""
        values, self.aux = self._in_chunks(samples, None)
        return values

    def beside(self, points: Any, elements: Tensor | None = None) -> Tensor:
        """The values of f at points that are not the samples, whose aux stays as it is.

        Args:
            points: ``(k, *batch, *event)``.
            elements: the number of the batch element that each point belongs to, ``(k, *batch)``,
                if that is not the one of its place; f then gets the inputs of these elements.
        """
        if elements is not None and self.inputs is None:
            raise ValueError(
                "inputs must be what f needs to know of a batch element where f is evaluated for "
                "some elements only, got None: use E(f, dist, inputs=...)"
            )
        values, _ = self._in_chunks(points, elements)
        return values

    def _in_chunks(self, samples: Any, elements: Tensor | None) -> tuple[Tensor, Any]:
        """Values and aux, for a few samples at a time if that was asked for."""
        if self.chunk is None:
            return self._ask(samples, elements)
        count = tensors_in(samples)[0].shape[0]
        answers = []
        for start in range(0, count, self.chunk):
            some = slice(start, start + self.chunk)
            part = each(lambda x, some=some: x[some], samples)  # type: ignore[misc]
            theirs = None if elements is None else elements[some]
            # Activations of f are not kept but computed again, one chunk at a time.
            if torch.is_grad_enabled():
                answers.append(checkpoint(self._ask, part, theirs, use_reentrant=False))
            else:
                answers.append(self._ask(part, theirs))
        aux = [aux for _, aux in answers] if self.has_aux else None
        return torch.cat([values for values, _ in answers]), aux

    def _check_inputs(self) -> None:
        if isinstance(self.inputs, Tensor):
            self.inputs = (self.inputs,)
        dims = len(self.batch_shape)
        for tensor in tensors_in(self.inputs, "inputs"):
            if tensor.shape[:dims] != self.batch_shape:
                raise ValueError(
                    f"inputs must have the batch shape {tuple(self.batch_shape)} first, "
                    f"got {tuple(tensor.shape)}"
                )

    @property
    def aux_has_graph(self) -> bool:
        """Whether the loss may reach the samples through aux as well as through f."""
        return self.has_aux and not _without_graph(self.aux)

    def with_gradient(self, samples: Any, *, required: bool = True) -> tuple[Tensor, Any]:
        """The values of f with their graph, and the gradient of f at each sample, detached.

        The gradient is None if f has none, otherwise like the samples: one tensor, or a tuple or
        dict of them. If it is not finite, that is an error if the gradient is required; otherwise
        it counts as none.
        """
        if checks.transformed():
            found = True

            def tracked(points: Any) -> Tensor:
                nonlocal found
                answer = self(points)
                found = answer.requires_grad  # here: whether it depends on the points
                return answer

            values, pull, *_ = torch.func.vjp(tracked, samples)
            (gradient,) = pull(torch.ones_like(values))
            return values, each(Tensor.detach, gradient) if found else None
        with torch.inference_mode(False), torch.enable_grad():
            inputs = each(lambda x: x.clone().requires_grad_(), samples)
            values = self(inputs)
            return values, self.gradient(values, inputs, required=required)

    def gradient(self, values: Tensor, inputs: Any, *, required: bool = True) -> Any:
        """The gradient of computed values with respect to the inputs; None if there is none."""
        tensors = tensors_in(inputs)
        if not (values.requires_grad and all(x.requires_grad for x in tensors)):
            return None
        # (Autocast is off here: a backward under it computes float32 products in half precision.)
        found = torch.autograd.grad(values.sum(), tensors, allow_unused=True, retain_graph=True)
        usable = usable_gradients(found, tensors, required=required, validate=self.validate)
        if usable is None:
            return None
        rest = iter(usable)
        return each(lambda _: next(rest), inputs)

    def _ask(self, samples: Any, elements: Tensor | None) -> tuple[Tensor, Any]:
        """Values and aux for some of the samples."""
        tensors = [samples] if isinstance(samples, Tensor) else tensors_in(samples)
        shape = wanted = torch.Size((tensors[0].shape[0], *self.batch_shape))
        given = samples
        if self.fold:
            given, wanted = each(self._flatten, samples), torch.Size((shape.numel(),))
        look = self.validate and not checks.transformed()
        counted = tensors if look and not tensors[0].is_inference() else []
        with torch.no_grad():
            before = list(map(Tensor.sum, tensors)) if look else []
            changes = list(map(CHANGES, counted))
        if self.inputs is None and not self.autocast:
            answer, aux = self.f(given), None
        else:
            answer, aux = self._call(given, shape[0], elements), None
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

    def _call(self, samples: Any, count: int, elements: Tensor | None) -> Any:
        """f with the data beside the samples, and with the caller's autocast."""
        with ExitStack() as stack:
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype))
            if self.inputs is None:
                return self.f(samples)
            if elements is None:
                inputs = each(lambda x: x.expand(count, *x.shape), self.inputs)
            else:
                dims, batch = len(self.batch_shape), self.batch_shape.numel()
                inputs = each(lambda x: x.reshape(batch, *x.shape[dims:])[elements], self.inputs)
            if self.fold:
                inputs = each(self._flatten, inputs)
            if isinstance(inputs, dict):
                return self.f(samples, **inputs)
            return self.f(samples, *inputs)

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
            f"got {values.dtype} of shape {tuple(values.shape)}{_hint(values.shape, shape)}"
        )
    if finite and not bool(torch.isfinite(values.detach()).all()):
        checks.finite_tensor(values, f"{name} finite values")
    return values


def _hint(got: torch.Size, wanted: torch.Size) -> str:
    """What is probably missing where f has summed over the last axes of the batch."""
    missing = len(wanted) - len(got)
    if missing < 1 or got != wanted[: len(got)] or not got:
        return ""
    return (
        f"; if f is one value for all of the last {'axis' if missing == 1 else f'{missing} axes'}, "
        f"the distribution must be Independent(dist, {missing})"
    )


def as_function_values(values: Any, shape: torch.Size, like: Tensor, *, finite: bool) -> Tensor:
    """f-values that a caller computed: a tensor, a numpy array or a list of this shape."""
    if not isinstance(values, Tensor):
        values = _as_tensor(values, shape, like)
    return function_values(values, shape, finite=finite, name="f_values must be")


def usable_gradients(
    found: Sequence[Tensor | None], samples: Sequence[Tensor], *, required: bool, validate: bool
) -> list[Tensor] | None:
    """The gradients of f if they are finite, otherwise an error or None.

    f may use some of several tensors of samples only: its gradient is 0 for the others.
    """
    if all(one is None for one in found):
        return None
    usable = []
    for one, tensor in zip(found, samples, strict=True):
        gradient = torch.zeros_like(tensor) if one is None else one.detach()
        if required:
            if validate:
                checks.finite_tensor(gradient, "f must have a finite gradient at 0 and 1")
        # (The sum is not finite if an entry is not, and is quicker to check.)
        elif not bool(torch.isfinite(gradient.sum())):
            return None
        usable.append(gradient)
    return usable


def _as_tensor(answer: Any, shape: torch.Size, like: Tensor) -> Any:
    """Numpy arrays and Python numbers as a tensor; anything else unchanged."""
    if isinstance(answer, (int, float, np.generic)) and shape.numel() == 1:
        answer = [answer]
    if not isinstance(answer, (np.ndarray, list)):
        return answer
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    try:
        values = torch.as_tensor(np.asarray(answer, dtype=np.float64)).to(like.device, dtype)
    except (TypeError, ValueError, RuntimeError):  # torch's for a tensor with a graph
        return answer
    return values.reshape(shape) if values.numel() == shape.numel() == 1 else values


def each(function: Callable[[Tensor], Tensor], samples: Any) -> Any:
    """Apply a function to every tensor of joint samples; the result has the same container."""
    if isinstance(samples, Tensor):
        return function(samples)
    if isinstance(samples, dict):
        return {name: function(x) for name, x in samples.items()}
    return tuple(function(x) for x in samples)


def tensors_in(samples: Any, name: str = "samples") -> list[Tensor]:
    """The tensors of a tensor, a tuple, a list or a dict."""
    if isinstance(samples, Tensor):
        return [samples]
    found = list(samples.values()) if isinstance(samples, dict) else samples
    if not isinstance(found, (list, tuple)) or not all(isinstance(x, Tensor) for x in found):
        raise ValueError(
            f"{name} must be a tensor, or a tuple or dict of tensors, got {type(samples).__name__}"
        )
    return list(found)


def _without_graph(aux: Any) -> bool:
    """Whether nothing in aux can lead a backward pass to the samples."""
    if isinstance(aux, Tensor):
        return not aux.requires_grad
    if isinstance(aux, dict):
        aux = list(aux.values())
    if isinstance(aux, (tuple, list)):
        return all(map(_without_graph, aux))
    return aux is None or isinstance(aux, (int, float, complex, str, bytes, np.ndarray, np.generic))
