"""k of d items: independent bits, given their sum (the conditional Bernoulli law)."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import constraints

from dbsurf.distributions.structured import (
    StructuredDistribution,
    Uniforms,
    check_below_infinity,
    check_integer,
    check_logits,
    finite,
    invert,
    invert_at,
)

BISECTIONS = 24  # the tilt's error is then far below what could make a probability underflow


class _Subset(constraints.Constraint):
    """Zeros and ones of which exactly or at most k are 1."""

    is_discrete = True
    event_dim = 1

    def __init__(self, k: int, at_most: bool) -> None:
        self.k, self.at_most = k, at_most
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        count = value.sum(-1)
        right: Tensor = count <= self.k if self.at_most else count == self.k
        return ((value == 0) | (value == 1)).all(-1) & right


class KSubset(StructuredDistribution):
    r"""A subset of exactly k of d items, $p(x) \propto \exp(\theta \cdot x)$, $x \in \{0,1\}^d$.

    This is the law of independent bits with logits $\theta$, given that k of them are 1. It is not
    the law of the k largest of Gumbel-perturbed logits (Plackett-Luce without the order), whose
    probabilities are different.

    The log-partition is $A = \log e_k(e^{\theta_1}, \dots, e^{\theta_d})$, with $e_k$ the
    elementary symmetric polynomial. Adding a constant to all logits changes nothing but A, so a
    constant is chosen for which the independent bits have k ones on average. All sums are then
    over probabilities of moderate size, without a logarithm in between: exact at logits of +-60
    and in float32. Polynomials are multiplied in pairs, pairs of pairs and so on; the sampler goes
    the same way back and splits k between the halves: log2(d) steps for all samples at once.

    Args:
        logits: $\theta$, ``(*batch, d)``; -inf for an item that is never chosen.
        k: number of chosen items, 1 <= k <= d.
        at_most: whether fewer than k items may be chosen, too (also none).

    Examples:
        >>> import torch
        >>> from dbsurf.distributions import KSubset
        >>> law = KSubset(torch.tensor([2.0, 0.0, 0.0, -1.0]), k=2)
        >>> law.sample((5,)).sum(-1)
        tensor([2., 2., 2., 2., 2.])
        >>> law.marginals
        tensor([0.9097, 0.4553, 0.4553, 0.1796])
        >>> law.mode
        tensor([1., 1., 0., 0.])

    References:
        S. X. Chen and J. S. Liu, Statistical applications of the Poisson-binomial and conditional
        Bernoulli distributions, Statistica Sinica 7 (1997).
    """

    arg_constraints = {
        "logits": constraints.independent(constraints.real, 1),
        "k": constraints.dependent,
        "at_most": constraints.dependent,
    }
    batched = {"logits": 1}
    has_enumerate_support = True

    k: int
    at_most: bool

    def __init__(
        self,
        logits: Tensor,
        k: int,
        *,
        at_most: bool = False,
        validate_args: bool | None = None,
    ) -> None:
        check_logits(logits, "logits", axes=1)
        k = check_integer(k, "k", 1, logits.shape[-1], "the number of items")
        if not isinstance(at_most, bool):
            raise ValueError(f"at_most must be True or False, got {at_most!r}")
        self.logits, self.k, self.at_most = logits, k, at_most
        if self._start(logits.shape[:-1], logits.shape[-1:], validate_args):
            self._check_values()

    def _check_values(self) -> None:
        check_below_infinity(self.logits, "logits")
        wanted = 1 if self.at_most else self.k
        possible = (self.logits > -math.inf).sum(-1)
        if (possible < wanted).any():
            raise ValueError(
                f"logits must have at least {wanted} entries above -inf in every batch element, "
                f"got one with {int(possible.min())}"
            )

    @property
    def support(self) -> constraints.Constraint:
        return _Subset(self.k, self.at_most)

    # --- the law --------------------------------------------------------------------------------

    def log_partition_at(self, logits: Tensor) -> Tensor:
        bits = self._tilted(logits)
        return self._log_count(bits) + bits.scale.sum(-1) - self.k * bits.tilt[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        # Each item's own term is small, which A and the sum of the logits need not be.
        if self._validate_args:
            self._validate_sample(value)
        bits = self._tilted(self.logits)
        chosen = self.logits + bits.tilt - bits.scale
        terms = torch.where(value == 1, chosen, -bits.scale)  # (..., *batch, d)
        log_prob = terms.sum(-1) - self._log_count(bits)
        if self.at_most:
            log_prob = log_prob + (self.k - value.sum(-1)) * bits.tilt[..., 0]
        return log_prob

    def entropy(self) -> Tensor:
        mean, bits = self.mean_statistics, self._tilted(self.logits)
        chosen = finite(self.logits) + bits.tilt - bits.scale
        entropy = self._log_count(bits) - (mean * chosen - (1 - mean) * bits.scale).sum(-1)
        if self.at_most:
            entropy = entropy - (self.k - mean.sum(-1)) * bits.tilt[..., 0]
        return entropy

    @property
    def mean(self) -> Tensor:
        return self.mean_statistics

    @property
    def variance(self) -> Tensor:
        mean = self.mean_statistics
        return mean * (1 - mean)

    @property
    def pair_marginals(self) -> Tensor:
        """P(items i and j are both chosen), ``(*batch, d, d)``, by d backward passes."""
        mean = self.mean_statistics.detach()
        return self.covariance + mean.unsqueeze(-1) * mean.unsqueeze(-2)

    @property
    def mode(self) -> Tensor:
        chosen = self.logits.detach().topk(self.k, -1).indices
        mode = torch.zeros_like(self.logits).scatter(-1, chosen, 1.0)
        return torch.where(self.logits > 0, mode, 0.0) if self.at_most else mode

    def support_size(self) -> float:
        d = self.event_shape[0]
        sizes = range(self.k + 1) if self.at_most else (self.k,)
        return float(sum(math.comb(d, size) for size in sizes))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        self._check_enumerable()
        d = self.event_shape[0]
        sizes = range(self.k + 1) if self.at_most else (self.k,)
        rows: list[Tensor] = []
        for size in sizes:
            chosen = torch.tensor(list(itertools.combinations(range(d), size)), dtype=torch.long)
            rows.append(torch.zeros(len(chosen), d).scatter(-1, chosen, 1.0))
        return self._enumerated(torch.cat(rows).to(self.logits), expand)

    # --- counting ones --------------------------------------------------------------------------

    def _tilted(self, logits: Tensor) -> _Bits:
        """Probabilities of independent bits whose mean number of ones is about k."""
        theta = finite(logits)
        with torch.no_grad():
            largest = theta.topk(self.k, -1).values
            high = 40 - largest[..., -1:]  # here each of the k largest has a probability of 1
            low = -largest[..., :1] - math.log(theta.shape[-1])  # here the mean is at most 1
            for _ in range(BISECTIONS):
                tilt = (low + high) / 2
                few = torch.sigmoid(theta + tilt).sum(-1, keepdim=True) < self.k
                low, high = torch.where(few, tilt, low), torch.where(few, high, tilt)
            tilt = (low + high) / 2
            if self.at_most:
                tilt = tilt.clamp(max=0.0)
            scale = F.softplus(theta + tilt)
        # The identities hold for any constants tilt and scale, so these have no gradient. What is
        # left has terms of one sign only, and so has its gradient.
        return _Bits((theta + tilt - scale).exp(), (-scale).exp(), scale, tilt)

    def _counts(self, bits: _Bits) -> list[Tensor]:
        """Laws of the number of ones among 1, 2, 4, ... items, each ``(*batch, blocks, size)``."""
        levels = [torch.stack([bits.zero, bits.one], -1)]
        while levels[-1].shape[-2] > 1:
            if levels[-1].shape[-2] % 2:
                levels[-1] = F.pad(levels[-1], (0, 0, 0, 1))
                levels[-1][..., -1, 0] = 1.0  # an empty block
            left, right = levels[-1][..., 0::2, :], levels[-1][..., 1::2, :]
            highest = min(2 * (left.shape[-1] - 1), self.k)
            levels.append(convolve(left, right, 0, highest))
        return levels

    def _weights(self, counts: Tensor, bits: _Bits) -> Tensor:
        """Weights of the numbers of ones that are allowed, ``(*batch, 1 or k + 1)``."""
        if not self.at_most:
            return counts[..., self.k :]
        fewer = torch.arange(self.k, -1, -1, device=counts.device)
        return counts * (fewer * bits.tilt).exp()

    def _log_count(self, bits: _Bits) -> Tensor:
        return self._weights(self._counts(bits)[-1][..., 0, :], bits).sum(-1).log()

    def _draw(self, n: int, generator: torch.Generator | None) -> Tensor:
        bits = self._tilted(self.logits)
        levels = self._counts(bits)
        weights = self._weights(levels[-1], _Bits(*(part.unsqueeze(-2) for part in bits)))
        rows = n * self.batch_shape.numel()
        if self.at_most:
            weights = weights.expand(n, *weights.shape).reshape(rows, 1, self.k + 1)
            count = invert(weights, generator)  # (rows, 1)
        else:
            count = torch.full((rows, 1), self.k, device=self.device)
        for level in reversed(levels[:-1]):
            count = split(count, level.flatten(0, -3) if level.ndim > 2 else level[None], generator)
        items = count[:, : self.event_shape[0]].to(self.logits.dtype)
        return items.reshape(n, *self.batch_shape, *self.event_shape)

    def draw_group(self, n: int, uniforms: Uniforms) -> Tensor:
        # Item by item in a random order: that leaves less discrepancy than splitting blocks.
        bits, d = self._tilted(self.logits), self.event_shape[0]
        order = uniforms(bits.one.new_empty(d))[0].argsort()
        one, zero = bits.one[..., order], bits.zero[..., order]  # (*batch, d)
        counts = [F.pad(one.new_ones(*self.batch_shape, 1), (0, self.k))]  # no item: no ones
        for i in reversed(range(d)):  # the number of ones among items i and later, up to k
            more = F.pad(counts[-1][..., :-1], (1, 0))
            counts.append(zero[..., i : i + 1] * counts[-1] + one[..., i : i + 1] * more)
        counts.reverse()
        left = torch.full((n, *self.batch_shape), self.k, device=self.device)
        if self.at_most:
            left = invert_at(self._weights(counts[0], bits), uniforms(one[..., 0]))
        taken = []
        for i in range(d):
            # P(i | r are left) for r = 0 to k; 0 / 0 where there cannot be r.
            chance = one[..., i : i + 1] * F.pad(counts[i + 1][..., :-1], (1, 0)) / counts[i]
            chance = chance.nan_to_num(0.0).expand(n, *self.batch_shape, self.k + 1)
            now = uniforms(one[..., 0]) < chance.gather(-1, left.unsqueeze(-1))[..., 0]
            left = left - now.long()
            taken.append(now)
        return torch.stack(taken, -1)[..., order.argsort()].to(self.logits.dtype)


def split(count: Tensor, level: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw how many of the ones of every pair of blocks are in its left and its right block.

    Args:
        count: number of ones in pairs of blocks, ``(rows, pairs or more)``; the batch is the
            faster part of a row's number.
        level: weights of the numbers of ones in a block, ``(batch, 2 pairs, size)``.
        generator: source of randomness.

    Returns:
        Number of ones in blocks, ``(rows, 2 pairs)``.
    """
    left, right = level[:, 0::2], level[:, 1::2]  # (batch, pairs, size)
    batch, pairs, size = left.shape
    count = count[:, :pairs]
    # Only pairs with ones in them need a draw: at most k of a row.
    row, pair = count.nonzero(as_tuple=True)  # (draws,)
    total = count[row, pair]
    block = row % batch * pairs + pair if batch else row
    # P(j in the left block) is proportional to left[j] right[total - j]. Padded and reversed,
    # the right block's weights are read from position 2 (size - 1) - total on.
    reverse = F.pad(right, (size - 1, size - 1)).flip(-1)  # (batch, pairs, 3 size - 2)
    start = block * (3 * size - 2) + 2 * (size - 1) - total
    other = reverse.take(start.unsqueeze(-1) + torch.arange(size, device=count.device))
    first = torch.zeros_like(count)
    first[row, pair] = invert(left.flatten(0, 1)[block] * other, generator)
    return torch.stack([first, count - first], -1).flatten(-2)


class _Bits(NamedTuple):
    """Independent bits: probabilities of 1 and 0, -log P(0), and the constant in the logits."""

    one: Tensor  # (*batch, d)
    zero: Tensor  # (*batch, d)
    scale: Tensor  # (*batch, d)
    tilt: Tensor  # (*batch, 1)


class Convolution(torch.autograd.Function):
    """Products of polynomials; its derivative is a product of polynomials, too.

    Coefficients ``low`` to ``high`` of the product of ``one`` and ``two``, ``(..., size)`` each.
    """

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int, int], output: Tensor) -> None:
        one, two, ctx.low, _ = inputs
        ctx.save_for_backward(one, two)

    @staticmethod
    def forward(one: Tensor, two: Tensor, low: int, high: int) -> Tensor:
        if one.shape[-1] > two.shape[-1]:
            one, two = two, one
        size, width = one.shape[-1], high - low + 1
        two = F.pad(two, (size - 1 - low, high - two.shape[-1] + 1))  # negative: cut off
        total = one[..., :1] * two[..., size - 1 : size - 1 + width]
        for j in range(1, size):
            start = size - 1 - j
            total = torch.addcmul(total, one[..., j : j + 1], two[..., start : start + width])
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        # d out[r] / d a[j] = b[r - j]: the product of the gradient with the reversed b.
        one, two = ctx.saved_tensors
        (grad,) = grads
        sides: list[Tensor | None] = []
        for wanted, mine, other in ((0, one, two), (1, two, one)):
            if not ctx.needs_input_grad[wanted]:
                sides.append(None)
                continue
            last = other.shape[-1] - 1
            low = last - ctx.low
            sides.append(convolve(grad, other.flip(-1), low, low + mine.shape[-1] - 1))
        return sides[0], sides[1], None, None


def convolve(one: Tensor, two: Tensor, low: int, high: int) -> Tensor:
    """Coefficients ``low`` to ``high`` of the product of two polynomials, differentiable."""
    product: Tensor = Convolution.apply(one, two, low, high)  # type: ignore[no-untyped-call]
    return product
