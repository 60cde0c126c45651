"""RODEO: control variates from a discrete Stein operator, with a small learned network."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Bits, Combination
from dbsurf.estimators.leave_one_out import loorf_weights
from dbsurf.gradient.declaration import ONE_BITS, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.fitting import Fitted
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID

HIDDEN = 100  # width of the network
LEAK = 0.3  # slope of its leaky units for negative input


class Network(NamedTuple):
    r"""A network of two inputs, one layer of `HIDDEN` units and two outputs, and its coefficients.

    Attributes:
        by_change: weights of the first input, $\nabla f(x_j)\cdot(y - x_j)$.
        by_value: weights of the second, $f(x_j)$.
        bias: of the units.
        outer: weights of the outputs, ``(2, HIDDEN)``.
        constant: of the outputs.
        first: a, how much of the baseline's control variate is used.
        second: b, how much of the other one.
    """

    by_change: Tensor
    by_value: Tensor
    bias: Tensor
    outer: Tensor
    constant: Tensor
    first: Tensor
    second: Tensor


@register
class RODEO(Estimator[Bits]):
    r"""LOORF with two control variates from a Stein operator, whose mean is 0 for every h.

    For a function h of bits, $y_i$ being x with bit i flipped and $w_i(x)$ the probability of its
    other value, $(Ah)(x) = \frac1d \sum_i w_i(x)\,[h(y_i) - h(x)]$ has mean 0 under p. With
    $h_k = (h_{k1}, h_{k2})$ made from all samples but the k-th,
    $$g = \frac1n\sum_k \Bigl[\Bigl(f_k - \frac{1}{n-1}\sum_{j \ne k} (f_j + a\,B_j)\Bigr)
      (x_k - p) + b\,V_k\Bigr], \quad B_k = (A h_{k1})(x_k), \quad
      V_{km} = (A[h_{k2}(\cdot)(\cdot - p)_m])(x_k).$$
    $h_k(y)$ is the mean over $j \ne k$ of a small network of $\nabla f(x_j)\cdot(y - x_j)$ and
    $f(x_j)$. The network, a and b take one step of Adam a call to lower the mean of $\|g\|^2$;
    they are fixed before the samples are drawn.

    Bias: none. Evaluations of f: n, and its gradient at the samples, taken from the one backward
    that the loss does anyway. n >= 2. Bernoulli only. The cost beside f grows as $n^2 d$. In
    training mode the state changes when the backward runs, in `estimate` at once.

    Args:
        n: number of independent samples.
        lr: learning rate of the network and the coefficients.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.RODEO(4)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Shi, Zhou, Hwang, Titsias and Mackey, "Gradient estimation with discrete Stein operators",
        NeurIPS 2022.
    """

    accepts = ONE_BITS
    grad_f = GradF.SAMPLES
    learns = True
    variants = (
        Variant(
            "RODEO",
            "#8C1D40",
            "-.",
            choose="to compare with RODEO; it learns a small network as it goes",
        ),
    )

    def __init__(self, n: int, *, lr: float = 1e-3, validate: bool = True) -> None:
        super().__init__(n, IID(), smallest=2, validate=validate)
        checks.positive(lr, "lr")
        random = torch.Generator().manual_seed(0)  # a fixed seed: the global generator is not used

        def uniform(*shape: int, inputs: int) -> Tensor:
            bound = inputs**-0.5
            return torch.empty(shape).uniform_(-bound, bound, generator=random)

        start = Network(
            by_change=uniform(HIDDEN, inputs=2),
            by_value=uniform(HIDDEN, inputs=2),
            bias=uniform(HIDDEN, inputs=2),
            outer=uniform(2, HIDDEN, inputs=HIDDEN),
            constant=torch.zeros(2),
            first=torch.zeros(()),
            second=torch.zeros(()),
        )
        self.fitted = Fitted(start._asdict(), lr)

    def prepare(self, law: Bits, context: Tensor | None, f: Evaluator) -> Network:
        tensors = self.fitted.tensors()
        return Network(**{name: t.to(law.probs.dtype, copy=True) for name, t in tensors.items()})

    def combine(self, draw: Draw[Bits]) -> Combination:
        law, network, grad_f = draw.law, draw.prepared, draw.grad_f
        probs = _flat(law.probs, law)  # (batch, d)
        samples, grad_f = (_flat(t.to(probs.dtype), law, 1) for t in (draw.samples, grad_f))
        f_values = draw.f_values.to(probs.dtype).reshape(samples.shape[:2])  # (n, batch)
        learning = self.training and not (checks.transformed() or torch.is_inference_mode_enabled())
        if learning:
            network = Network(*(p.detach().requires_grad_() for p in network))
        with torch.set_grad_enabled(learning):
            pieces = Pieces.of(network, samples, grad_f, f_values)
        parts = Parts.of(pieces.h(), samples, probs)
        n = samples.shape[0]
        control = network.first.detach() * parts.baseline
        others = (control.sum(0) - control) / (n - 1)
        weights = (loorf_weights(f_values) - others / n).reshape(draw.f_values.shape)
        offset = network.second.detach() / n * parts.vector.sum(0)
        memo = (network, pieces, parts) if learning else None
        return Combination(weights, offset=offset.reshape(law.probs.shape), memo=memo)

    def learn(self, draw: Draw[Bits], combination: Combination) -> None:
        """One step on the mean over the batch of the squared length of the estimate."""
        law = draw.law
        if combination.memo is None:
            return
        network, pieces, parts = combination.memo
        n, batch, size = parts.centred.shape
        if batch == 0:
            return
        estimate = law.gradient(combination, draw.samples).to(parts.centred.dtype)
        by_estimate = 2 / batch * estimate.reshape(batch, size)
        along = (parts.centred * by_estimate).sum(-1)  # (n, batch)
        by_baseline = (along.sum(0) - along) / (-n * (n - 1))
        by_first = (parts.baseline * by_baseline).sum()
        by_second = (parts.vector * by_estimate).sum() / n
        a, b = network.first.detach(), network.second.detach()
        by_h = parts.pull(a * by_baseline, b / n * along, b / n * by_estimate)
        by_network = torch.autograd.grad(pieces.table, network[:-2], pieces.pull(by_h))
        self.fitted.step([*by_network, by_first, by_second])


class Parts(NamedTuple):
    """The two control variates, and what they are made of.

    Attributes:
        centred: x - p, ``(n, batch, d)``.
        flip: w, the probability of the other value of each bit, divided by d.
        turn: w / d times 1 - 2x, which is the change of the bit if it is flipped.
        baseline: B, ``(n, batch)``.
        vector: V, ``(n, batch, d)``.
    """

    centred: Tensor
    flip: Tensor
    turn: Tensor
    baseline: Tensor
    vector: Tensor

    @classmethod
    def of(cls, h: Tensor, samples: Tensor, probs: Tensor) -> Parts:
        """From h at each sample and at its neighbours, ``(n, batch, 1 + d, 2)``."""
        centred = samples - probs
        change = 1 - 2 * samples
        # x(1 - p) + (1 - x)p = |x - p| for bits
        flip = centred.abs() / samples.shape[-1]
        here, there = h[:, :, :1], h[:, :, 1:]
        stein = (flip.unsqueeze(-1) * (there - here)).sum(-2)  # (n, batch, 2)
        turn = flip * change
        vector = centred * stein[..., 1:] + turn * there[..., 1]
        return cls(centred, flip, turn, stein[..., 0], vector)

    def pull(self, by_baseline: Tensor, by_stein: Tensor, by_vector: Tensor) -> Tensor:
        """Derivatives with respect to h, from those with respect to B, the Stein value and V."""
        by_both = torch.stack([by_baseline, by_stein], -1).unsqueeze(-2)  # (n, batch, 1, 2)
        there = self.flip.unsqueeze(-1) * by_both
        here = -there.sum(-2, keepdim=True)
        there[..., 1] += self.turn * by_vector
        return torch.cat([here, there], -2)


class Pieces(NamedTuple):
    """Where h is evaluated for each pair of samples (k, j), and on which piece of j's network.

    Attributes:
        change: the first input of the network, ``(n, n - 1, batch, 1 + d)``.
        row: the row of the table for each of these.
        table: slopes and intercepts of both outputs, ``(rows, 4)``.
    """

    change: Tensor
    row: Tensor
    table: Tensor

    @classmethod
    def of(cls, network: Network, samples: Tensor, grad_f: Tensor, f_values: Tensor) -> Pieces:
        """All other samples' networks at each sample and at all its neighbours.

        The gradient g_j at sample j times the difference from x_j to x_k with bit i flipped is
        g_j . (x_k - x_j) + g_ji (1 - 2 x_ki), so no array with two axes of coordinates is needed.
        """
        n, batch = f_values.shape
        index = torch.arange(n, device=samples.device)
        other = (index.unsqueeze(-1) + index[1:]) % n  # (n, n-1): all j but k
        way = torch.einsum("jbd,kbd->kjb", grad_f, samples)
        way = way - way.diagonal(dim1=0, dim2=1).T  # g_j . (x_k - x_j), (k, j, batch)
        way = way.gather(1, other.unsqueeze(-1).expand(-1, -1, batch)).unsqueeze(-1)
        turned = grad_f[other] * (1 - 2 * samples).unsqueeze(1)
        change = torch.cat([way, way + turned], -1)
        kinks, table = lines(network, f_values)
        first = other.unsqueeze(-1) * batch + torch.arange(batch, device=samples.device)
        row = torch.searchsorted(kinks[other], change, right=True)
        return cls(change, row.add_(first.unsqueeze(-1) * (HIDDEN + 1)), table)

    def h(self) -> Tensor:
        """h at each sample and its neighbours, a mean over the others, ``(n, batch, 1 + d, 2)``."""
        line = torch.nn.functional.embedding(self.row, self.table.detach())
        return (line[..., :2] * self.change.unsqueeze(-1) + line[..., 2:]).mean(1)

    def pull(self, by_h: Tensor) -> Tensor:
        """Derivatives with respect to the table, from those with respect to h."""
        row, columns = self.row.flatten(), []
        each = (by_h / self.change.shape[1]).unsqueeze(1)
        intercepts = [each[..., output].expand_as(self.change) for output in (0, 1)]
        slopes = [each[..., output] * self.change for output in (0, 1)]
        for source in (*slopes, *intercepts):
            column = self.table.new_zeros(self.table.shape[0])
            columns.append(column.scatter_add_(0, row, source.flatten()))
        return torch.stack(columns, -1)


def lines(network: Network, f_values: Tensor) -> tuple[Tensor, Tensor]:
    """The network as a piecewise linear function of its first input, for each second input.

    Every unit has one kink. Between two neighbouring kinks the outputs are linear, and from one
    piece to the next only the unit with the kink between them changes. So a running sum over the
    sorted kinks gives all pieces, and evaluating the network at a point means finding its piece.

    Returns:
        Sorted kinks ``(n, batch, HIDDEN)``; slopes and intercepts of both outputs
        ``(n * batch * (HIDDEN + 1), 4)``.
    """
    weight, outer = network.by_change, network.outer
    shift = network.by_value * f_values.unsqueeze(-1) + network.bias  # (n, batch, HIDDEN)
    one = torch.ones_like(weight.detach())
    rising = weight.detach() >= 0
    left = torch.where(rising, LEAK * one, one)  # a unit's slope left of its kink
    step = torch.where(rising, one, -one) * (1 - LEAK)
    # A unit whose weight is 0 has its kink at an end; if its shift is 0 too, the unit is 0.
    kinks = torch.nan_to_num(-shift.detach() / weight.detach())
    kinks, order = kinks.sort(-1)
    flat = weight.expand_as(shift)
    both = torch.stack([flat, flat, shift, shift], -1)  # (n, batch, HIDDEN, 4)
    scale = torch.cat([outer, outer]).T  # (HIDDEN, 4)
    constant = torch.nn.functional.pad(network.constant, (2, 0))
    start = (both * (scale * left.unsqueeze(-1))).sum(-2, keepdim=True) + constant
    jumps = (both * (scale * step.unsqueeze(-1))).gather(-2, order.unsqueeze(-1).expand_as(both))
    table = torch.cat([start, start + jumps.cumsum(-2)], -2)
    return kinks, table.reshape(-1, 4)


def _flat(tensor: Tensor, law: Bits, leading: int = 0) -> Tensor:
    """``(..., *batch, *event)`` as ``(..., batch, d)``."""
    return tensor.reshape(*tensor.shape[:leading], law.batch_shape.numel(), law.event_shape.numel())
