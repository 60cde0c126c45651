"""A score-function loss for samples and log-probabilities that the caller already has."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.gradient.attach import attach
from dbsurf.gradient.function import function_values

Baseline = Literal["leave-one-out"] | Tensor | float | None


def surrogate(
    log_probs: Tensor, f_values: Tensor, *, baseline: Baseline = "leave-one-out"
) -> Tensor:
    r"""The mean of f over n samples; its backward is a score-function gradient.

    $$g = \frac1n \sum_{i=1}^n (f_i - b_i)\,\nabla\log p(x_i)$$

    No distribution object is needed: policies, trajectories and autoregressive models sum their
    log-probabilities themselves. Parameters that f depends on directly get their pathwise gradient.

    Bias: none if the samples are independent and $b_i$ does not depend on $x_i$. The
    leave-one-out baseline is the mean of the other f-values: unbiased for independent samples,
    biased for samples that depend on each other.

    Args:
        log_probs: log-probabilities of the samples, ``(n, *batch)``, with their graph.
        f_values: f at the samples, ``(n, *batch)``: a loss to be minimised.
        baseline: ``"leave-one-out"`` (n >= 2), None for 0, or the caller's own: a number or a
            tensor that broadcasts to ``(n, *batch)``.

    Returns:
        The mean of f over the samples, ``(*batch,)``.

    Examples:
        >>> import torch, dbsurf
        >>> logits = torch.zeros(5, requires_grad=True)
        >>> policy = torch.distributions.Categorical(logits=logits)
        >>> action = policy.sample((8,))
        >>> cost = (action - 2).abs().float()  # from an environment, later
        >>> dbsurf.surrogate(policy.log_prob(action), cost).backward()
        >>> logits.grad.shape
        torch.Size([5])
    """
    if not isinstance(log_probs, Tensor) or log_probs.ndim == 0:
        got = (
            f"shape {tuple(log_probs.shape)}" if isinstance(log_probs, Tensor) else type(log_probs)
        )
        raise ValueError(f"log_probs must be a tensor of shape (n, *batch), got {got}")
    f_values = function_values(f_values, log_probs.shape, finite=False, name="f_values must be")
    checks.finite_tensor(f_values, "f_values must be finite", optional=False)
    checks.finite_tensor(log_probs, "log_probs must be finite", optional=False)
    n = log_probs.shape[0]
    weights = f_values.detach().to(torch.promote_types(f_values.dtype, torch.float32))
    if isinstance(baseline, str):
        if baseline != "leave-one-out":
            raise ValueError(
                f'baseline must be "leave-one-out", None, a number or a tensor, got {baseline!r}'
            )
        checks.sample_count(n, minimum=2, owner="a leave-one-out baseline")
        weights = (weights - weights.mean(0)) * (n / (n - 1))
    elif baseline is not None:
        weights = weights - checks.baseline(baseline, weights)
    total = ((weights / n).to(log_probs.dtype) * log_probs).sum(0)  # (*batch,)
    return attach(f_values.mean(0), total, torch.ones_like(total))
