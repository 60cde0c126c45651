"""The functions that the toy study looks at."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Independent

Function = Callable[[Tensor], Tensor]


def least_squares(target: float) -> Function:
    """REBAR's toy objective $(x - t)^2$, for each coordinate on its own."""
    return lambda x: (x - target).square()


def interacting(target: float) -> Function:
    """A non-additive objective over all coordinates of an event: squares, neighbours, a parity.

    One dimension flatters: there every f is linear. Here a coordinate's gradient depends on the
    others.
    """

    def f(x: Tensor) -> Tensor:
        squares = (x - target).square().sum(-1)
        neighbours = (x[..., 1:] * x[..., :-1]).sum(-1)
        parity = torch.prod(1 - 2 * x, -1)
        return squares + neighbours + 0.5 * parity

    return f


def spread(dim: int) -> Distribution:
    """Bernoulli coordinates with probabilities evenly spaced from 0.1 to 0.9."""
    probs = torch.linspace(0.1, 0.9, dim, dtype=torch.float64)
    return Independent(Bernoulli(probs), 1)


def load_function(name: str) -> Function:
    """The callable that ``module:callable`` names, looked for in the current folder too."""
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise ValueError(f"--function must have the form module:callable, got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's module raises while it is imported
        raise ValueError(
            f"--function {name!r}: module {module_name!r} can't be imported "
            f"({type(error).__name__}: {' '.join(str(error).split())})"
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise ValueError(f"--function {name!r}: {module_name!r} has no callable {attribute!r}")

    def guarded(x: Tensor) -> Tensor:
        try:
            return function(x)  # type: ignore[no-any-return]
        except Exception as error:  # whatever the user's function raises
            reason = " ".join(str(error).split())
            raise ValueError(
                f"--function {name!r} failed on samples of shape {tuple(x.shape)} "
                f"({type(error).__name__}: {reason})"
            ) from error

    return guarded
