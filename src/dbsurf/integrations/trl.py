"""Unbiased baselines for TRL's `GRPOTrainer` and `RLOOTrainer`. Tested with trl 1.16.

Two private methods of the trainers are extended, because TRL has no public place for it:
``_calculate_rewards``, to see the rewards, and ``_generate_and_score_completions``, to replace the
advantages. Another version of TRL may have changed them; an error then says so.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.sequences import advantages

NAMES = ("leave-one-out", "prefix-mean", "shrinkage", "group-mean", "standardised")


class WithBaseline:
    """A mixin that gives a trainer of TRL one of the baselines of `dbsurf.sequences.advantages`.

    The trainer's own normalisation (``scale_rewards``, ``normalize_advantages``) is not used: what
    is logged as reward is unchanged, what is logged as advantage is TRL's own. For `GRPOTrainer`
    choose ``loss_type="dr_grpo"``: "grpo" and "dapo" divide by lengths, which is another objective.

    A completion without a reward (all reward functions returned None) is left out, and its
    advantage is 0. So is that of a completion that is then alone with its prompt, except with
    ``"shrinkage"``, which has the other prompts.

    Args:
        baseline: ``"leave-one-out"``, ``"prefix-mean"`` (one baseline a token, `GRPOTrainer` only),
            ``"shrinkage"``, or one of the biased ``"group-mean"`` and ``"standardised"``.
        arguments: those of the trainer.

    Examples:
        >>> from trl import GRPOTrainer
        >>> class Trainer(WithBaseline, GRPOTrainer):
        ...     pass
        >>> # Trainer(model, reward_funcs, args=config, train_dataset=data, baseline="prefix-mean")
    """

    def __init__(self, *arguments: Any, baseline: str = "leave-one-out", **options: Any) -> None:
        checks.choice(baseline, "baseline", NAMES)
        self._baseline = baseline
        self._rewards: Tensor | None = None
        super().__init__(*arguments, **options)
        trainer: Any = self
        for name in ("_calculate_rewards", "_generate_and_score_completions"):
            if not hasattr(super(), name):
                raise ValueError(
                    f"WithBaseline must be mixed into GRPOTrainer or RLOOTrainer of trl 1.16, got "
                    f"{type(self).__name__} without {name}"
                )
        if getattr(trainer, "multi_objective_aggregation", "sum_then_normalize") != (
            "sum_then_normalize"
        ):
            raise ValueError(
                'multi_objective_aggregation must be "sum_then_normalize", got '
                f"{trainer.multi_objective_aggregation!r}"
            )
        if self._has_one_ratio_a_sequence():
            if baseline == "prefix-mean":
                raise ValueError(
                    'baseline must have one value a sequence for RLOOTrainer, got "prefix-mean"'
                )
            if trainer.beta or trainer.reward_clip_range:
                raise ValueError(
                    "beta and reward_clip_range must be off for RLOOTrainer with a baseline, got "
                    f"{trainer.beta} and {trainer.reward_clip_range}: put both into the reward"
                )

    def _has_one_ratio_a_sequence(self) -> bool:
        return hasattr(self, "reward_clip_range")  # RLOOTrainer

    def _calculate_rewards(self, *arguments: Any, **options: Any) -> Tensor:
        found: Tensor = super()._calculate_rewards(*arguments, **options)  # type: ignore[misc]
        self._rewards = found  # of all processes, (rows, reward functions)
        return found

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        trainer: Any = self
        if self._rewards is None or "advantages" not in output:
            raise ValueError("trl must be version 1.16, got one that makes advantages elsewhere")
        training = trainer.model.training
        n = trainer.num_generations if training else trainer.num_generations_eval
        by_function, self._rewards = self._rewards, None
        weights = trainer.reward_weights.to(by_function.device)
        rewards = (by_function * weights).nansum(1)
        scored = ~by_function.isnan().all(1)
        rows = len(output["advantages"])
        first = trainer.accelerator.process_index * rows
        tokens, mask = self._tokens(output)
        found = _advantages(rewards, scored, n, tokens, mask, self._baseline)
        local = found[first : first + rows]
        if local.ndim > 1:
            local = local[:, : output["completion_ids"].shape[1]]
        output["advantages"] = local.to(output["advantages"].device)
        return output

    def _tokens(self, output: Any) -> tuple[Tensor | None, Tensor | None]:
        """Tokens and mask of the completions of all processes, where the baseline needs them."""
        if self._baseline != "prefix-mean":
            return None, None
        accelerator = self.accelerator  # type: ignore[attr-defined]
        both = (
            accelerator.gather(accelerator.pad_across_processes(output[name], dim=1))
            for name in ("completion_ids", "completion_mask")
        )
        tokens, mask = both
        return tokens, mask.bool()


def _advantages(
    rewards: Tensor,
    scored: Tensor,
    n: int,
    tokens: Tensor | None,
    mask: Tensor | None,
    baseline: str,
) -> Tensor:
    """Advantages of all rows; 0 for a row without a reward, or alone with its prompt."""
    group = torch.arange(len(rewards), device=rewards.device) // n
    shape = rewards.shape if mask is None else mask.shape
    found = torch.zeros(shape, dtype=rewards.dtype, device=rewards.device)
    if not bool(scored.any()):
        return found
    found[scored] = advantages(
        rewards[scored],
        group[scored],
        None if mask is None else mask[scored],
        baseline=baseline,  # type: ignore[arg-type]
        tokens=None if tokens is None else tokens[scored],
        otherwise=0.0,
    )
    number = torch.zeros_like(group).index_add_(0, group, scored.long())[group]
    if baseline != "shrinkage":
        found[number < 2] = 0
    return found
