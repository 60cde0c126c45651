"""Unbiased baselines in the form that verl's registry of advantage estimators takes.

Nothing of verl is imported. The form is that of its ``register_adv_est`` (versions 0.5 to 0.9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.sequences import advantages

NAMES = ("leave-one-out", "shrinkage", "optimal", "group-mean", "standardised")


def advantage_function(
    baseline: str = "leave-one-out", *, otherwise: float | None = 0.0
) -> Callable[..., tuple[Tensor, Tensor]]:
    """A function for verl's registry that makes advantages with a baseline.

    Register it in the process that runs the trainer, then name it in the configuration as
    ``algorithm.adv_estimator=dbsurf``:

        from verl.trainer.ppo.core_algos import register_adv_est
        from dbsurf.integrations.verl import advantage_function

        register_adv_est("dbsurf")(advantage_function("shrinkage"))

    Args:
        baseline: a name of `dbsurf.sequences.advantages`. "optimal" needs ``old_log_probs`` and
            ``sum_pi_squared`` among the arguments, which verl computes with
            ``actor.calculate_sum_pi_squared=True``.
        otherwise: the baseline of a row that is alone with its prompt; None is an error.

    Returns:
        A function of ``token_level_rewards`` (rows, T), ``response_mask`` (rows, T), ``index``
        (rows,) and further keywords, that returns advantages and returns, both (rows, T).
    """
    checks.choice(baseline, "baseline", NAMES)

    def compute(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        index: Any,
        config: Any = None,
        **more: Any,
    ) -> tuple[Tensor, Tensor]:
        mask = response_mask.bool()
        rewards = (token_level_rewards * mask).sum(-1)
        _, group = np.unique(np.asarray(index), return_inverse=True)  # (verl's are strings)
        found = advantages(
            rewards,
            torch.as_tensor(group, device=rewards.device),
            mask,
            baseline=baseline,  # type: ignore[arg-type]
            energy=_energy(mask, **more) if baseline == "optimal" else None,
            otherwise=otherwise,
        )
        return found, found

    return compute


def _energy(
    mask: Tensor,
    old_log_probs: Tensor | None = None,
    sum_pi_squared: Tensor | None = None,
    **more: Any,
) -> Tensor:
    """The squared scores, as `dbsurf.sequences.squared_scores` computes them from logits."""
    if old_log_probs is None or sum_pi_squared is None:
        raise ValueError(
            'old_log_probs and sum_pi_squared must be given for "optimal", got None; set '
            "actor.calculate_sum_pi_squared=True"
        )
    steps = 1 - 2 * old_log_probs.exp() + sum_pi_squared
    return steps.clamp(min=0).masked_fill(~mask, 0).cumsum(-1)
