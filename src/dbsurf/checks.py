"""Checks of arguments: each raises one ValueError with what was expected and what was got.

Checks that read tensor *values* wait for the device. They are skipped while ``torch.compile``
traces, and callers can skip them by ``validate=False``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor

MOST_SAMPLES = 2**24  # float32 represents every integer up to here


def sample_count(n: object, *, minimum: int = 1, even: bool = False, owner: str = "") -> int:
    """Return ``n`` if it is a sample count that ``owner`` can work with."""
    wanted = f"an even integer >= {minimum}" if even else f"an integer >= {minimum}"
    whole = isinstance(n, Integral) and not isinstance(n, bool)
    if whole and n > MOST_SAMPLES:  # type: ignore[operator]
        wanted = f"an integer <= {MOST_SAMPLES:,}"
        whole = False
    if not whole or n < minimum or (even and n % 2):  # type: ignore[operator]
        raise ValueError(f"n must be {wanted}{f' for {owner}' if owner else ''}, got {n!r}")
    return int(n)  # type: ignore[call-overload,no-any-return]


def flag(value: object, name: str) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return value


def choice(value: object, name: str, options: Sequence[object]) -> None:
    """Check that ``value`` is one of the options."""
    if not any(value is option or value == option for option in options):
        words = ", ".join(map(repr, options))
        raise ValueError(f"{name} must be one of {words}, got {value!r}")


def positive(value: object, name: str, *, none: bool = False) -> None:
    """Check that ``value`` is a finite number > 0; with ``none``, None will do too."""
    if value is None and none:
        return
    if not is_finite_number(value) or not value > 0:  # type: ignore[operator]
        raise ValueError(f"{name} must be a number > 0{' or None' if none else ''}, got {value!r}")


def decay(value: object) -> None:
    """Check the factor on running sums at each call."""
    if not is_finite_number(value) or not 0 <= value < 1:  # type: ignore[operator]
        raise ValueError(f"decay must be a number in [0, 1), got {value!r}")


def coefficient(value: object) -> None:
    """Check the coefficient of a control variate: a number, or None to tune it."""
    if value is not None and not is_finite_number(value):
        raise ValueError(f"coefficient must be a finite number or None, got {value!r}")


def whole(value: object, name: str, *, minimum: int = 0) -> int:
    """Return ``value`` if it is an integer that is large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")
    return int(value)


def shape(value: object, name: str) -> tuple[int, ...]:
    """Return ``value`` if it is the shape of a tensor."""
    if not isinstance(value, (tuple, list)):  # a torch.Size is a tuple
        raise ValueError(f"{name} must be a tuple of integers, got {value!r}")
    return tuple(whole(size, name) for size in value)


def correction(alpha: object) -> None:
    """Check DBSample's correction factor: a number >= 0, a tensor of such, or ``"preserve"``."""
    wanted = 'alpha must be a finite number >= 0, a tensor of such, or "preserve"'
    if isinstance(alpha, str):
        valid = alpha == "preserve"
    elif isinstance(alpha, Tensor):
        valid = bool((torch.isfinite(alpha) & (alpha >= 0)).all())
    elif isinstance(alpha, (int, float)) and not isinstance(alpha, bool):
        valid = math.isfinite(alpha) and alpha >= 0
    else:
        valid = False
    if not valid:
        raise ValueError(f"{wanted}, got {alpha!r}")


def probabilities(probs: Tensor, name: str = "probs") -> None:
    """Check that every entry of ``probs`` lies in [0, 1]; NaN does not."""
    if probs.numel() == 0:
        return
    low, high = torch.aminmax(probs.detach())  # NaN spreads into both
    if not (low >= 0 and high <= 1):
        raise ValueError(
            f"{name} must lie in [0, 1], got values from {low.item():g} to {high.item():g}"
        )


def tail_mass(tail: object) -> float:
    """Check the tail mass at which an infinite support is cut off and grouped."""
    if isinstance(tail, bool) or not isinstance(tail, float) or not 0 < tail < 0.5:
        raise ValueError(f"tail must be a number in (0, 0.5), got {tail!r}")
    return tail


def generator_device(generator: torch.Generator | None, device: torch.device) -> None:
    """Check that ``generator`` is on the device where the random numbers are needed."""
    if generator is None or torch.compiler.is_compiling():
        return
    if not isinstance(generator, torch.Generator):
        raise ValueError(f"generator must be a torch.Generator or None, got {generator!r}")
    if generator.device.type != device.type:
        raise ValueError(
            f"generator must be on the distribution's device {device}, "
            f"got a generator on {generator.device}"
        )


def baseline(given: object, f_values: Tensor) -> Tensor | float:
    """Return a caller's baseline if it can be subtracted from f-values ``(n, *batch)``."""
    wanted = f"baseline must be a number or a tensor that broadcasts to {tuple(f_values.shape)}"
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        if not abs(given) <= torch.finfo(f_values.dtype).max:  # NaN is not, either
            raise ValueError(f"baseline must be finite in {f_values.dtype}, got {given!r}")
        return float(given)
    if not isinstance(given, Tensor) or given.is_complex():
        raise ValueError(f"{wanted} (n, *batch), got {type(given).__name__}")
    fits = given.ndim <= f_values.ndim and all(
        size in (1, full)
        for size, full in zip(reversed(given.shape), reversed(f_values.shape), strict=False)
    )
    if not fits:
        raise ValueError(f"{wanted} (n, *batch), got shape {tuple(given.shape)}")
    cast = given.detach().to(f_values.dtype)  # what is finite in float64 may not be in float32
    if not torch.compiler.is_compiling():
        finite_tensor(cast, f"baseline must be finite in {f_values.dtype}")
    return cast


def finite_tensor(values: Tensor, demand: str, *, optional: bool = True) -> None:
    """Check that no entry is NaN or infinite; ``demand`` says what was expected.

    ``optional`` says whether the caller has ``validate=``.
    """
    if values.numel() == 0 or under_transform():
        return
    low, high = torch.aminmax(values.detach())  # NaN spreads into both, and no copy is made
    if not (torch.isfinite(low) and torch.isfinite(high)):
        bad = ~torch.isfinite(values.detach())
        raise ValueError(
            f"{demand}, got {int(bad.sum())} of {bad.numel()} that are NaN or infinite"
            f"{' (validate=False turns this check off)' if optional else ''}"
        )


def is_finite_number(value: object) -> bool:
    """Whether ``value`` is a number, and not NaN or infinite."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]


# --- where tensor values cannot be read -----------------------------------------------------------


def under_transform() -> bool:
    """Whether this runs inside a transform of torch.func."""
    return torch._C._are_functorch_transforms_active()


def transformed() -> bool:
    """Whether this runs inside torch.compile or a transform of torch.func.

    There tensor values cannot be read, and a second backward is not possible.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def in_sight(flag: Tensor) -> bool:
    """Whether the value of a tensor can be read without a wait for the device."""
    return flag.device.type == "cpu" and not transformed()
