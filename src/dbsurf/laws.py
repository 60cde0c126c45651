r"""Exact laws of dependent Bernoulli samples (appendix A of the DBsurf paper).

Everything here is a formula, not a simulation. A *coordinate* is one Bernoulli variable of
probability p; n samples of it are drawn jointly and $K = \sum_i x_i$ counts the ones. *Algorithm 1*
is the paper's sampler `DBSample`: it draws the samples one after the other and corrects the
probability of the next one by $\alpha$ times the discrepancy of those before it.

All functions are vectorised over coordinates: ``probs`` has any shape ``(*coords,)``, and the axis
of samples or counts comes first. They keep the dtype of ``probs`` and are differentiable in it,
except where algorithm 1 clamps a probability to [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dbsurf import checks

Alpha = float | Tensor | Literal["preserve"]
MOST_DIRICHLET = 30  # samples for which the count law of the Dirichlet copula keeps five digits


def _checked(
    probs: Tensor,
    n: int = 1,
    *,
    smallest: int = 1,
    even: bool = False,
    alpha: Alpha = 0.0,
    validate: bool = True,
) -> Tensor:
    """Check the arguments and return the probabilities in at least float32.

    With ``validate=False`` they are returned as they are. Samplers use that: their probabilities
    are checked already, and reading tensor values makes the host wait for the device.
    """
    if not validate or checks.transformed():
        return probs
    if not isinstance(probs, Tensor) or not probs.is_floating_point():
        raise ValueError(f"probs must be a floating-point tensor, got {probs!r}")
    checks.probabilities(probs)
    checks.sample_count(n, minimum=smallest, even=even)
    checks.correction(alpha)
    return probs.float() if probs.dtype.itemsize < 4 else probs


# --- DBSample (algorithm 1) -----------------------------------------------------------------------


def preserving_alpha(probs: Tensor, *, validate: bool = True) -> Tensor:
    r"""The largest $\alpha$ that keeps the marginals: $\min(\frac{p}{1-p}, \frac{1-p}{p})$.

    It is the bound of propositions 2.1 and 2.2, coordinate by coordinate.
    """
    probs = _checked(probs, validate=validate)
    minor = torch.minimum(probs, 1 - probs)
    return minor / (1 - minor)


def resolve_alpha(alpha: Alpha, probs: Tensor) -> float | Tensor:
    """``alpha`` as a number or a tensor that can be multiplied with ``probs``.

    Very large values are clamped so that the product does not overflow. The result is the same:
    the corrected probability is clamped to [0, 1] there anyway.
    """
    if isinstance(alpha, str):
        return preserving_alpha(probs, validate=False)
    largest = torch.finfo(probs.dtype).max / 4
    if isinstance(alpha, Tensor):
        return alpha.to(probs).clamp(max=largest)
    return min(float(alpha), largest)


def _next_probability(probs: Tensor, alpha: float | Tensor, drawn: int, counts: Tensor) -> Tensor:
    """q after ``drawn`` samples of which ``counts`` were ones: the last line of algorithm 1."""
    if drawn == 0:
        return probs.unsqueeze(0)
    return (probs + alpha * (probs - counts / drawn)).clamp(0, 1)


def _counts(n: int, probs: Tensor) -> Tensor:
    """0, 1, ..., n along a new first axis, ready to broadcast against ``probs``."""
    return torch.arange(n + 1, dtype=probs.dtype, device=probs.device).view(-1, *(1,) * probs.ndim)


def _advance(law: Tensor, q: Tensor) -> Tensor:
    """Law of the count after one more sample; the count axis is the first one before coords."""
    axis = law.ndim - q.ndim
    zero = torch.zeros_like(law.narrow(axis, 0, 1))
    return torch.cat([law * (1 - q), zero], axis) + torch.cat([zero, law * q], axis)


def count_law(probs: Tensor, n: int, alpha: Alpha = 1.0, *, validate: bool = True) -> Tensor:
    r"""Law of the count of ones among n samples of algorithm 1 (appendix A.5).

    $$\nu_{i,k} = (1 - q_i(k))\,\nu_{i-1,k} + q_i(k-1)\,\nu_{i-1,k-1}, \qquad
      q_i(k) = \varphi\bigl(p(1+\alpha) - \alpha \tfrac{k}{i-1}\bigr).$$

    (The paper writes $\hat p_{n-1} = k/n$ in the line before this formula; it must be $k/(n-1)$.)

    Args:
        probs: probabilities p, ``(*coords,)``.
        n: number of samples.
        alpha: correction factor, broadcastable to ``probs``, or ``"preserve"``.

    Returns:
        $\nu_{n,k}$ for k = 0..n along the first axis, ``(n + 1, *coords)``.
    """
    probs = _checked(probs, n, alpha=alpha, validate=validate)
    alpha = resolve_alpha(alpha, probs)
    law = torch.ones_like(probs).unsqueeze(0)  # (1, *coords): no sample, count 0
    for drawn in range(n):
        law = _advance(law, _next_probability(probs, alpha, drawn, _counts(drawn, probs)))
    return law


def marginals(probs: Tensor, n: int, alpha: Alpha = 1.0) -> Tensor:
    r"""$\mathbb{E}[x_i]$ of every sample of algorithm 1, ``(n, *coords)``.

    $\mathbb{E}[x_i] = \sum_k \nu_{i-1,k}\, q_i(k)$: the same numbers as the paper's
    $\sum_k k\,\nu_{i,k} - \sum_{j<i}\mathbb{E}[x_j]$, without its cancellation.
    """
    probs = _checked(probs, n, alpha=alpha)
    alpha = resolve_alpha(alpha, probs)
    law, means = torch.ones_like(probs).unsqueeze(0), []
    for drawn in range(n):
        q = _next_probability(probs, alpha, drawn, _counts(drawn, probs))
        means.append((law * q).sum(0))
        law = _advance(law, q)
    return torch.stack(means)


def pair_probabilities(probs: Tensor, n: int, alpha: Alpha = 1.0) -> Tensor:
    r"""$P(x_i = 1, x_j = 1)$ for all pairs of samples of algorithm 1, ``(n, n, *coords)``.

    Carries the joint law of ($x_i$ = 1, count) for every i at once: $O(n^3)$ work where the tree
    of appendix A.5 takes $O(2^n)$. The diagonal holds the marginals.
    """
    probs = _checked(probs, n, alpha=alpha)
    alpha = resolve_alpha(alpha, probs)
    law = torch.ones_like(probs).unsqueeze(0)  # P(count = k)
    joint = law.new_zeros((0, 1, *probs.shape))  # P(x_i = 1, count = k), one row for each earlier i
    pairs = probs.new_zeros((n, n, *probs.shape))
    for drawn in range(n):
        q = _next_probability(probs, alpha, drawn, _counts(drawn, probs))
        both = (joint * q).sum(1)
        mean = (law * q).sum(0)
        column = torch.cat([both, mean.unsqueeze(0)])  # (drawn + 1, *coords)
        rows = torch.zeros_like(pairs)
        rows[: drawn + 1, drawn] = column
        rows[drawn, :drawn] = both
        pairs = pairs + rows
        newest = torch.cat([torch.zeros_like(law[:1]), law * q]).unsqueeze(0)
        joint = torch.cat([_advance(joint, q), newest])
        law = _advance(law, q)
    return pairs


def correlations(probs: Tensor, n: int, alpha: Alpha = 1.0) -> Tensor:
    r"""$\mathrm{Corr}(x_i, x_j)$ of the samples of algorithm 1, ``(n, n, *coords)``.

    A constant sample (all of them at p = 0, the third of three at p = 1/3 and alpha = 2) gets 1
    with itself and 0 with the others; at p = 0 and 1 that is also the limit, as $P(1, 1)$ vanishes
    faster than the standard deviations.
    """
    probs = _checked(probs, n, alpha=alpha)
    pairs = pair_probabilities(probs, n, alpha)
    mean = torch.stack([pairs[i, i] for i in range(n)])  # (n, *coords)
    deviation = (mean * (1 - mean)).sqrt()
    scale = deviation.unsqueeze(0) * deviation.unsqueeze(1)
    covariance = pairs - mean.unsqueeze(0) * mean.unsqueeze(1)
    ratio = torch.where(scale > 0, covariance / torch.where(scale > 0, scale, 1), 0)
    diagonal = torch.eye(n, dtype=torch.bool, device=probs.device)
    return torch.where(diagonal.view(n, n, *(1,) * probs.ndim), 1, ratio)


def two_sample_variance(probs: Tensor, alpha: Alpha = 1.0) -> Tensor:
    r"""Variance of the debiased estimator for d = 1, n = 2, over $C_f = (f(1) - f(0))^2$.

    The four cases of the paper are one formula: with $\kappa = P(x_1 \ne x_2)$,
    $$\mathrm{Var} = [p(1-p)]^2 \frac{1-\kappa}{\kappa}, \qquad
      \kappa = p\,\min(1, (1-p)(1+\alpha)) + (1-p)\min(1, p(1+\alpha)).$$

    (Appendix A.4 writes $\kappa$ with $q(x_1=0, x_2=0)$; it must be $q(0, 1)$.) At p = 0 and p = 1
    the variance is 0: $\kappa$ is of order p and the factor before the fraction of order $p^2$.
    """
    probs = _checked(probs, alpha=alpha)
    alpha = resolve_alpha(alpha, probs)
    other = 1 - probs
    # (1-p)(1 + alpha), clamped to 1, is the probability of a zero after a one.
    kappa = probs * (other * (1 + alpha)).clamp(max=1) + other * (probs * (1 + alpha)).clamp(max=1)
    spread = (probs * other).square()
    return torch.where(kappa > 0, spread * (1 - kappa) / torch.where(kappa > 0, kappa, 1), 0)


# --- properties of any joint law, from its count law ----------------------------------------------


def disagreement(law: Tensor) -> Tensor:
    r"""Mean over pairs of $P(x_i \ne x_j)$, $D = \mathbb{E}[2K(n-K)] / (n(n-1))$.

    Args:
        law: a count law ``(n + 1, *coords)``, n >= 2.
    """
    if law.ndim == 0 or law.shape[0] < 3:
        raise ValueError(
            f"law must have shape (n + 1, *coords) with n >= 2, got {tuple(law.shape)}"
        )
    n = law.shape[0] - 1
    k = _counts(n, law[0])
    return (law * (2 * k * (n - k) / (n * (n - 1)))).sum(0)


def expected_squared_discrepancy(law: Tensor, probs: Tensor) -> Tensor:
    r"""$\mathbb{E}[(\hat p - p)^2]$ of each coordinate; its sum is $\mathbb{E}\|D_p\|^2$."""
    n = law.shape[0] - 1
    return (law * (_counts(n, probs) / n - probs).square()).sum(0)


def bias(law: Tensor, probs: Tensor) -> Tensor:
    r"""$\mathbb{E}[\hat p] - p$: how far the samples' mean is shifted (figure 4, left)."""
    n = law.shape[0] - 1
    return (law * (_counts(n, probs) / n - probs)).sum(0)


def relative_moments(law: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of LOORF in one dimension, over the exact gradient.

    In one dimension LOORF is $(f(1) - f(0)) K(n-K)/(n(n-1))$ whatever f is, so with
    $g = (f(1)-f(0))p(1-p)$ both moments of LOORF/g come from the count law. Debiased, the
    variance over $g^2$ is ``variance / mean**2``. For p strictly between 0 and 1.
    """
    n = law.shape[0] - 1
    k = _counts(n, probs)
    ratio = k * (n - k) / (n * (n - 1)) / (probs * (1 - probs))
    mean = (law * ratio).sum(0)
    return mean, (law * (ratio - mean).square()).sum(0)


def debias_factor(disagreement: Callable[[Tensor], Tensor], probs: Tensor) -> Tensor:
    r"""The factor $c = 2p(1-p)/D$ that makes LOORF unbiased in any dimension.

    With coordinates independent of each other and every marginal equal to p,
    $\mathbb{E}[\mathrm{LOORF}_k] = \frac{D_k}{2p_k(1-p_k)}\,\partial_k$ for every f and any
    dependence between the n samples inside a coordinate. Where marginals are shifted, c removes the
    coordinate's own bias, and what remains comes through the other coordinates.

    Args:
        disagreement: D as a function of p; symmetric in p and 1 - p, as those of all samplers are.
        probs: probabilities p, ``(*coords,)``.

    Returns:
        c, ``(*coords,)``. As p goes to 0, c has a limit. Where p is below the square root of the
        smallest normal number, c is computed at that number: it equals the limit to rounding.
    """
    floor = math.sqrt(torch.finfo(probs.dtype).tiny)
    minor = torch.minimum(probs, 1 - probs).clamp(min=floor)
    differ = disagreement(minor)
    return 2 * minor * (1 - minor) / differ


def one_dimensional_debias_factor(pairs: Tensor, probs: Tensor) -> Tensor:
    r"""The paper's debiasing term (appendix A.6), from all pair probabilities.

    $$\frac{n(n-1)\,p(1-p)}{\sum_{i<j} (\mu_i + \mu_j - 2\mu_i S_{ij})}, \qquad
      \mu_i S_{ij} = P(x_i = 1, x_j = 1).$$

    Equal to `debias_factor` of the same law, for p strictly between 0 and 1. It is here because
    the paper has this form.
    """
    n = pairs.shape[0]
    total = torch.zeros_like(probs)
    for i in range(n):
        for j in range(i + 1, n):
            total = total + pairs[i, i] + pairs[j, j] - 2 * pairs[i, j]
    return n * (n - 1) * probs * (1 - probs) / total


# --- other samplers -------------------------------------------------------------------------------


def iid_count_law(probs: Tensor, n: int, *, validate: bool = True) -> Tensor:
    """Binomial law of the count of n independent samples, ``(n + 1, *coords)``."""
    return count_law(probs, n, alpha=0.0, validate=validate)


def min_discrepancy_count_law(probs: Tensor, n: int, *, validate: bool = True) -> Tensor:
    r"""All mass on $\lfloor np \rfloor$ and $\lceil np \rceil$, with mean np."""
    probs = _checked(probs, n, validate=validate)
    whole = (n * probs.detach()).floor()
    part = n * probs - whole
    k = _counts(n, probs)
    return torch.where(k == whole, 1 - part, 0) + torch.where(k == whole + 1, part, 0)


def min_discrepancy_disagreement(probs: Tensor, n: int, *, validate: bool = True) -> Tensor:
    r"""$D = \frac{2}{n(n-1)}[np(n-1-2m) + m(m+1)]$ with $m = \lfloor np \rfloor$.

    The bracket is $(1-r)\,m(n-m) + r\,(m+1)(n-m-1)$, the mean of K(n-K) over its two values,
    with r = np - m put in.
    """
    probs = _checked(probs, n, smallest=2, validate=validate)
    whole = (n * probs.detach()).floor()
    return (n * probs * (n - 1 - 2 * whole) + whole * (whole + 1)) * (2 / (n * (n - 1)))


def antithetic_count_law(probs: Tensor, n: int, *, validate: bool = True) -> Tensor:
    """Count law of n/2 independent antithetic pairs (u, 1 - u), ``(n + 1, *coords)``."""
    probs = _checked(probs, n, smallest=2, even=True, validate=validate)
    minor = torch.minimum(probs, 1 - probs)
    mixed = 2 * minor  # probability that the two samples of a pair differ
    pair = torch.stack([1 - mixed, mixed, torch.zeros_like(mixed)])
    pair = torch.where(probs > 0.5, pair.flip(0), pair)
    law = torch.ones_like(probs).unsqueeze(0)
    for _ in range(n // 2):
        grown = law.new_zeros((law.shape[0] + 2, *probs.shape))
        for ones in range(3):
            padding = (torch.zeros_like(grown[:ones]), torch.zeros_like(grown[: 2 - ones]))
            grown = grown + torch.cat([padding[0], law * pair[ones], padding[1]])
        law = grown
    return law


def antithetic_disagreement(probs: Tensor, n: int, *, validate: bool = True) -> Tensor:
    """Mean over pairs: 2s with s = min(p, 1 - p) inside an antithetic pair, 2s(1 - s) across."""
    probs = _checked(probs, n, smallest=2, even=True, validate=validate)
    minor = torch.minimum(probs, 1 - probs)
    return 2 * minor * (1 + (n - 2) * (1 - minor)) / (n - 1)


def dirichlet_count_law(probs: Tensor, n: int, *, validate: bool = True) -> Tensor:
    r"""Count law of n samples of the Dirichlet copula, ``(n + 1, *coords)``.

    All of j given samples have the rarer value with probability
    $(1 - j(1 - s^{1/(n-1)}))_+^{n-1}$, $s = \min(p, 1-p)$; inclusion and exclusion give the count.
    The alternating sum is done in float64 and loses about n/3 of its 15 digits, so n is at most
    30.
    """
    wide = _checked(probs, n, smallest=2, validate=validate).double()
    if n > MOST_DIRICHLET:
        raise ValueError(f"n must be at most {MOST_DIRICHLET} for this law, got {n}")
    minor = torch.minimum(wide, 1 - wide)
    gap = -torch.expm1(torch.log(minor) / (n - 1))  # 1 - s^(1/(n-1)); 1 where s = 0
    together = torch.stack([(1 - j * gap).clamp(min=0) ** (n - 1) for j in range(n + 1)])
    rows = []
    for k in range(n + 1):
        terms = [(-1) ** j * math.comb(n - k, j) * together[k + j] for j in range(n - k + 1)]
        rows.append(math.comb(n, k) * torch.stack(terms).sum(0))
    law = torch.stack(rows).clamp(min=0)
    return torch.where(wide > 0.5, law.flip(0), law).to(probs.dtype)


def dirichlet_disagreement(probs: Tensor, n: int, *, validate: bool = True) -> Tensor:
    r"""$D = 2\bigl[s - (2 s^{1/(n-1)} - 1)_+^{n-1}\bigr]$ of the Dirichlet copula."""
    probs = _checked(probs, n, smallest=2, validate=validate)
    minor = torch.minimum(probs, 1 - probs)
    gap = -torch.expm1(torch.log(minor) / (n - 1))  # 1 - s^(1/(n-1)), accurate for large n, too
    return 2 * (minor - torch.exp((n - 1) * torch.log1p(-2 * gap.clamp(max=0.5))))


def hoernig_bound(probs: Tensor, n: int) -> Tensor:
    r"""Lower bound on the pair correlation of n exchangeable Bernoulli variables (Hoernig 2018).

    $$\rho \ge \frac{r(1-r) - np(1-p)}{n(n-1)p(1-p)}, \qquad r = np - \lfloor np \rfloor.$$

    `MinDiscrepancy` attains it. At p = 0 and p = 1 it is 0, the limit of -p/(1-p).
    """
    probs = _checked(probs, n, smallest=2)
    part = n * probs - (n * probs.detach()).floor()
    spread = probs * (1 - probs)
    bound = (part * (1 - part) - n * spread) / (n * (n - 1) * torch.where(spread > 0, spread, 1))
    return torch.where(spread > 0, bound, 0)


def gaussian_disagreement(probs: Tensor, n: int, *, validate: bool = True) -> Tensor:
    r"""$D = 2(p - \Phi_2(h, h; \rho)) = 4\,T(h, a)$ of the equicorrelated Gaussian copula.

    $\rho = -1/(n-1)$, $h = \Phi^{-1}(p)$, $a = \sqrt{n/(n-2)}$ and T is Owen's function. In this
    form nothing cancels, so the relative error of D stays small for p near 0 and 1.
    """
    probs = _checked(probs, n, smallest=2, validate=validate)
    minor = torch.minimum(probs, 1 - probs)
    return 4 * _owens_t_of_quantile(minor, math.sqrt((n - 2) / n))


def bivariate_normal_cdf_diagonal(probs: Tensor, rho: float) -> Tensor:
    r"""$\Phi_2(h, h; \rho)$ at $h = \Phi^{-1}(p)$, for $-1 \le \rho \le 0$.

    $\Phi_2(h, h; \rho) = p - 2\,T\bigl(h, \sqrt{(1-\rho)/(1+\rho)}\bigr)$ with Owen's T.
    """
    if not -1 <= rho <= 0:
        raise ValueError(f"rho must lie in [-1, 0], got {rho!r}")
    minor = torch.minimum(probs, 1 - probs)
    return probs - 2 * _owens_t_of_quantile(minor, math.sqrt((1 + rho) / (1 - rho)))


def upper_normal(x: Tensor) -> Tensor:
    """Q(x) = P(z > x) of a standard normal; torch's own ndtr loses all digits of a small Q."""
    return torch.erfc(x / math.sqrt(2)) / 2


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


def _owens_t_of_quantile(minor: Tensor, slope: float) -> Tensor:
    r"""Owen's $T(h, 1/b)$ at $h = -\Phi^{-1}(s) \ge 0$, for slope b in [0, 1].

    $T(h, 1/b) = \tfrac12[Q(h) + Q(h/b)] - Q(h)Q(h/b) - T(h/b, b)$, and Q(h) = s. The last term is
    an integral over [0, b] of a smooth function; Gauss-Legendre with 48 nodes gives it to 1e-15.
    """
    h: Tensor = torch.special.ndtri(minor).abs()  # +inf at s = 0, where T is 0
    if slope == 0:  # correlation -1: h/b is infinite
        return minor / 2
    far = h / slope
    upper_far = upper_normal(far)  # Q(h / b)
    # T(far, b) = 1/(2 pi) int_0^b exp(-far^2 (1 + t^2)/2) / (1 + t^2) dt; negligible for t > 9/far.
    top = torch.clamp(9 / far, max=slope)
    half_square, area = far * far / 2, torch.zeros_like(far)
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        one_plus = 1 + (top * ((node + 1) / 2)).square()  # 1 + t^2; one node at a time saves memory
        area = area + weight * torch.exp(-half_square * one_plus) / one_plus
    inner = top / 2 * area / (2 * math.pi)
    inner = torch.where(torch.isinf(far), 0, inner)
    return (minor + upper_far) / 2 - minor * upper_far - inner
