"""ARMS: LOORF over copula samples."""

from __future__ import annotations

from typing import Literal

from dbsurf import checks
from dbsurf.estimators.leave_one_out import LeaveOneOut
from dbsurf.gradient.declaration import BLUE, Variant
from dbsurf.gradient.registry import register
from dbsurf.samplers.dirichlet_copula import DirichletCopula
from dbsurf.samplers.gaussian_copula import GaussianCopula

COPULAS = {"dirichlet": DirichletCopula, "gaussian": GaussianCopula}


@register
class ARMS(LeaveOneOut):
    r"""LOORF over samples that are coupled by a copula, divided by $1 - \rho$.

    $\rho$ is the correlation of two samples of a coordinate. The division removes the bias that
    the dependence causes. With n = 2 and the Dirichlet copula this is `DisARM`.

    Bias: none. Evaluations of f: n. Needs no gradient of f. n >= 2. Bernoulli only.

    Args:
        n: number of samples.
        copula: ``"dirichlet"`` (ARMS-D) or ``"gaussian"`` (ARMS-N).
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.ARMS(4, copula="gaussian")
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Dimitriev and Zhou, "ARMS: Antithetic-REINFORCE-Multi-Sample gradient for binary
        variables", ICML 2021.
    """

    variants = (
        Variant("ARMS-D", BLUE, choose="to compare with ARMS, by Dirichlet or Gaussian copula"),
        Variant("ARMS-N", "#6BAED6", "--", options={"copula": "gaussian"}),
    )

    def __init__(
        self,
        n: int,
        *,
        copula: Literal["dirichlet", "gaussian"] = "dirichlet",
        validate: bool = True,
    ) -> None:
        checks.choice(copula, "copula", list(COPULAS))
        super().__init__(n, sampler=COPULAS[copula](), debias=True, validate=validate)
