"""How curved f is at a sample: a small network that scales `SpotCheck`'s table of curvatures.

The table D_k[a, c] is a mean over samples. For one-hot laws the curvature of a move from a to c at
a sample x is fitted by (s(x) + t_kc(x) + t_ka(x)) D_k[a, c]: each class has a number t_kc that says
how far it is from the others where x is. A network with one hidden layer computes all t from the
features of the sample, the gradient of f, x and p. It learns what the table and s leave of the
checked changes, by one step of Adam a call, after the gradient was taken.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, linear

from dbsurf.estimators.spotcheck.cells import Sizes
from dbsurf.gradient.fitting import ratio

HIDDEN = 64  # width of the hidden layer
LEAK = 0.3  # slope of its leaky ReLU below 0
LR = 1e-3
DECAYS = (0.9, 0.99)  # of Adam's two moments


class Layers(NamedTuple):
    """The weights that the next call uses: of the hidden layer, and of the outer one."""

    inner: Tensor  # (HIDDEN, inputs)
    bias: Tensor  # (HIDDEN,)
    outer: Tensor  # (M, HIDDEN)
    shift: Tensor  # (M,)


class Bends(NamedTuple):
    """What the network made of the samples of a call.

    Attributes:
        inputs: ``(n, B, inputs)``.
        hidden: ``(n, B, HIDDEN)``.
        found: t of every cell, ``(n, B, M)``.
    """

    inputs: Tensor
    hidden: Tensor
    found: Tensor

    @classmethod
    def at(cls, layers: Layers, inputs: Tensor) -> Bends:
        """The network at inputs."""
        hidden = leaky_relu(linear(inputs, layers.inner, layers.bias), LEAK)
        return cls(inputs, hidden, linear(hidden, layers.outer, layers.shift))


class BendNetwork(nn.Module):
    """The weights, all in one flat buffer, and Adam's memory of them.

    Args:
        cells: M, the number of cells.
        features: number of features φ of a sample.
    """

    values: Tensor
    moments: Tensor
    steps: Tensor

    def __init__(self, cells: int, features: int) -> None:
        super().__init__()
        inputs = features + 3 * cells
        self.shapes = [(HIDDEN, inputs), (HIDDEN,), (cells, HIDDEN), (cells,)]
        random = torch.Generator().manual_seed(0)  # the same for all: no global state is touched
        start = [torch.zeros(shape) for shape in self.shapes]
        start[0].uniform_(-(inputs**-0.5), inputs**-0.5, generator=random)
        flat = torch.cat([tensor.flatten() for tensor in start])
        self.register_buffer("values", flat)
        self.register_buffer("moments", torch.zeros(2, flat.numel()))
        self.register_buffer("steps", torch.zeros(()))

    @classmethod
    def of(cls, sizes: Sizes, features: int) -> BendNetwork | None:
        """For one one-hot law; None for others."""
        (coordinates, classes), *others = sizes
        return None if classes == 1 or others else cls(coordinates * classes, features)

    def read(self, dtype: torch.dtype) -> Layers:
        """The weights, as they are now."""
        parts = self.values.to(dtype, copy=True).split([torch.Size(s).numel() for s in self.shapes])
        return Layers(*(part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)))

    def update(self, layers: Layers, bends: Bends, by_found: Tensor, checked: Tensor) -> None:
        """One step along the derivative of the loss by t, ``(n, B, M)``, if the call checked."""
        inputs, hidden, slope = (x.flatten(0, 1) for x in (bends.inputs, bends.hidden, by_found))
        by_hidden = slope @ layers.outer
        by_hidden = torch.where(hidden > 0, by_hidden, LEAK * by_hidden)
        gradients = [by_hidden.T @ inputs, by_hidden.sum(0), slope.T @ hidden, slope.sum(0)]
        flat = torch.cat([one.flatten() for one in gradients]).to(self.values.dtype)
        steps = self.steps + 1
        news = torch.stack([flat, flat.square()])
        decays = torch.tensor(DECAYS, dtype=flat.dtype, device=flat.device).unsqueeze(-1)
        moments = torch.lerp(news, self.moments, decays)
        mean, square = moments / (1 - decays**steps)
        # (Adam without its epsilon: what never had a gradient stays as it is.)
        values = self.values - LR * ratio(mean, square.sqrt())
        kept = checked & torch.isfinite(flat.dot(flat))
        for state, new in ((self.values, values), (self.moments, moments), (self.steps, steps)):
            state.copy_(torch.where(kept, new, state))
