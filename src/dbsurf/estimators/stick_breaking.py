"""Stick-breaking: categorical samples from coupled Bernoulli decisions."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf.distributions import Bits, ByLogits, Combination
from dbsurf.gradient.declaration import WITH_LOGITS, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw, Drawn
from dbsurf.gradient.registry import register
from dbsurf.samplers.base import Sampler
from dbsurf.samplers.min_discrepancy import MinDiscrepancy


@register
class StickBreaking(Estimator[ByLogits]):
    r"""LOORF over coupled samples of a categorical, each made of Bernoulli decisions.

    Categories are offered one after the other, and the first one accepted is the sample: category
    k is accepted with probability $s_k = p_k / \sum_{l \ge k} p_l$ if it is reached. A sampler
    couples the n decisions about each category. The term of LOORF for a pair of samples that both
    reach category k is multiplied by the sampler's debias factor $c_k$; the decision of a sample
    that does not reach k is integrated out. With $r_{ik}$ for "sample i reaches k", $a_{ik}$ for
    "it accepts k" and $e_{ik} = r_{ik}(a_{ik} - s_k)$ the gradient with respect to the logit of
    $s_k$ is
    $$\frac{1}{n(n-1)}\sum_{i,j} (f_i - f_j)\,e_{ik}\,(1 + (c_k - 1) r_{jk}),$$
    and the chain rule gives the gradient for the logits of p. At n = 2 this is the stick-breaking
    form of `DisARM` for categoricals.

    Bias: none. Evaluations of f: n. Needs no gradient of f. n >= 2. Bernoulli, categorical and
    other finite laws with logits.

    Args:
        n: number of samples.
        sampler: couples the n decisions; it must be exchangeable and have a known debias factor.
            None for `samplers.MinDiscrepancy`.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Categorical, Independent
        >>> theta = torch.zeros(4, 3, requires_grad=True)
        >>> E = dbsurf.StickBreaking(4)
        >>> E(lambda x: x.float().sum(-1), Independent(Categorical(logits=theta), 1)).backward()
        >>> theta.grad.shape
        torch.Size([4, 3])

    Reference:
        Dong, Mnih and Tucker, "Coupled gradient estimators for discrete latent variables", NeurIPS
        2021; Dimitriev and Zhou, "CARMS: Categorical-antithetic-REINFORCE multi-sample gradient
        estimator", NeurIPS 2021.
    """

    accepts = WITH_LOGITS
    variants = (
        Variant(
            "stick-breaking",
            "#00ACC1",
            "--",
            choose="for spread samples of categoricals without bias",
        ),
    )

    def __init__(self, n: int, *, sampler: Sampler | None = None, validate: bool = True) -> None:
        sampler = MinDiscrepancy() if sampler is None else sampler
        super().__init__(n, sampler, smallest=2, validate=validate)
        if not sampler.keeps_marginals:
            raise ValueError(f"sampler must keep the marginals for StickBreaking, got {sampler!r}")
        if not sampler.exchangeable and n > 2:
            raise ValueError(f"sampler must be exchangeable for StickBreaking, got {sampler!r}")

    def draw_samples(self, law: ByLogits, generator: torch.Generator | None) -> Drawn:
        accept, _ = sticks(law.table().double())  # the same numbers as in `combine`
        accepted = self.sampler.binary(accept, self.n, generator)  # (n, *coords, m-1)
        passed = (accepted != 0).cumsum(-1) == 0
        return Drawn(law.decode(passed.sum(-1), generator))

    def combine(self, draw: Draw[ByLogits]) -> Combination:
        law = draw.law
        table = law.table().double()
        accept, refuse = sticks(table)
        n = draw.f_values.shape[0]
        index = law.encode(draw.samples).unsqueeze(-1)  # (n, *coords, 1)
        category = torch.arange(accept.shape[-1], device=index.device)
        reached = (index >= category).to(accept.dtype)  # (n, *coords, m-1)
        score = torch.where(index == category, refuse, -accept * reached)
        # (At 1 - s_k, as it was drawn: a sampler's law may jump between two roundings of it.)
        excess = self.sampler.debias_factor(torch.minimum(accept, 1 - accept), n) - 1
        f_values = (draw.f_values - draw.f_values.mean(0)).to(accept.dtype)
        f_values = f_values.reshape(f_values.shape + (1,) * (reached.ndim - f_values.ndim))
        weight = f_values * (n + excess * reached.sum(0)) - excess * (f_values * reached).sum(0)
        stick = (score * weight).sum(0) / (n * (n - 1))  # (*coords, m-1)
        # The logit of s_k is the logit of p_k minus the logsumexp of those of later categories.
        later = tail_sums(table)[..., 1:]
        per_mass = torch.where(later > 0, stick / torch.where(later > 0, later, 1), 0)
        before = torch.nn.functional.pad(per_mass.cumsum(-1), (1, 0))
        gradient = torch.nn.functional.pad(stick, (0, 1)) - before * table
        if isinstance(law, Bits):
            gradient = gradient[..., 1]
        return Combination(None, offset=gradient.to(law.probs.dtype))


def tail_sums(table: Tensor) -> Tensor:
    """The probability of each category and all later ones together."""
    return table.flip(-1).cumsum(-1).flip(-1)


def sticks(table: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities to accept and to refuse each category but the last, given that it is reached.

    A category that cannot be reached is always refused.
    """
    tails = tail_sums(table)
    here, later = tails[..., :-1], tails[..., 1:]
    possible = here > 0
    here = torch.where(possible, here, 1)
    return table[..., :-1] / here, torch.where(possible, later / here, 1)
