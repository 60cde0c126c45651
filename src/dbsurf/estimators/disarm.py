"""DisARM: antithetic pairs."""

from __future__ import annotations

from torch import Tensor

from dbsurf.distributions import Combination, Coordinates
from dbsurf.estimators.leave_one_out import loorf_weights
from dbsurf.gradient.declaration import BITS, GREY, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw
from dbsurf.gradient.registry import register
from dbsurf.samplers.antithetic import Antithetic


@register
class DisARM(Estimator[Coordinates]):
    r"""The mean over n/2 independent antithetic pairs $(x, \tilde x)$ of
    $\tfrac12 (f(x) - f(\tilde x))(x - \tilde x)\,\max(p, 1-p)$.

    That is LOORF inside each pair times the debias factor of a pair.

    Bias: none. Evaluations of f: n. Needs no gradient of f. n >= 2 and even. Bernoulli only.

    Args:
        n: number of samples, two for each pair.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.DisARM(4)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Dong, Mnih and Tucker, "DisARM: An antithetic gradient estimator for binary latent
        variables", NeurIPS 2020.
    """

    accepts = BITS
    variants = (
        Variant("DisARM", GREY, ":", choose="with n = 2, where it equals `ARMS` and `MDsurf`"),
    )

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, Antithetic(), validate=validate)

    def combine(self, draw: Draw[Coordinates]) -> Combination:
        factor = draw.law.debias_factor(self.sampler, 2)
        return Combination(pair_weights(draw.f_values), factor, centred=True)


def pair_weights(f_values: Tensor) -> Tensor:
    """The mean over pairs of LOORF inside each pair, as weights of the n samples."""
    pairs = f_values.unflatten(0, (-1, 2))  # (n/2, 2, *batch)
    weights = loorf_weights(pairs.transpose(0, 1)) / pairs.shape[0]  # (2, n/2, *batch)
    joined: Tensor = weights.transpose(0, 1).flatten(0, 1)
    return joined
