"""DBsurf: LOORF over discrepancy-based samples."""

from __future__ import annotations

from dbsurf.estimators.leave_one_out import LeaveOneOut
from dbsurf.gradient.declaration import BROWN, ORANGE, SAND, VERMILION, WINE, Variant
from dbsurf.gradient.registry import register
from dbsurf.laws import Alpha
from dbsurf.samplers.dbsample import DBSample


@register
class DBsurf(LeaveOneOut):
    r"""The paper's estimator: LOORF whose samples are drawn by `DBSample`.

    Bias: yes as in the paper (``debias=False``): the samples disagree more often than
    independent ones, which scales the gradient up, and above `dbsurf.laws.preserving_alpha` their
    marginals are shifted. ``alpha="preserve", debias=True`` has none. With a larger alpha the
    debias factor removes a coordinate's own bias (all of it in one dimension), and what remains
    comes through the shifted marginals of the other coordinates. Evaluations of f: n. Needs no
    gradient of f. n >= 2. Any discrete law; debias for Bernoulli only.

    Args:
        n: number of samples.
        alpha: correction factor of `DBSample`: a number, a tensor per coordinate, ``"preserve"``.
        debias: multiply by $2p(1-p)/D$.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.DBsurf(4)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Mulet Arabi, Flowers, Mauch and Cardinaux, "DBsurf: A discrepancy based method for
        discrete stochastic gradient estimation", 2023.
    """

    variants = (
        Variant("DBsurf", VERMILION, choose="to follow the paper", bias="as in the paper"),
        Variant("DBsurf debiased", ORANGE, options={"debias": True}, bias="as in the paper"),
        Variant(
            "DBsurf preserving",
            WINE,
            "--",
            options={"alpha": "preserve", "debias": True},
            choose="to have DBSample without bias",
        ),
        Variant(
            "DBsurf alpha=preserve",
            BROWN,
            ":",
            options={"alpha": "preserve"},
            compared=False,
            measured=False,
        ),
        Variant(
            "DBsurf alpha=0.5", SAND, "--", options={"alpha": 0.5}, compared=False, measured=False
        ),
    )

    def __init__(
        self, n: int, *, alpha: Alpha = 1.0, debias: bool = False, validate: bool = True
    ) -> None:
        super().__init__(n, sampler=DBSample(alpha), debias=debias, validate=validate)
