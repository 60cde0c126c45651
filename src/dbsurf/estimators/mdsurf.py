"""MDsurf: LOORF over samples of least discrepancy."""

from __future__ import annotations

from dbsurf.estimators.leave_one_out import LeaveOneOut
from dbsurf.samplers.min_discrepancy import MinDiscrepancy


class MDsurf(LeaveOneOut):
    r"""LOORF over `MinDiscrepancy` samples, debiased: the least discrepancy that samples can have.

    Bias: none. Evaluations of f: n. Needs no gradient of f. n >= 2. Bernoulli only.

    Args:
        n: number of samples.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.MDsurf(4)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])
    """

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, MinDiscrepancy(), debias=True, validate=validate)
