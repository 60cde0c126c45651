"""Baselines inside TRL's trainers and in verl's form, with a tiny model and no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dbsurf.integrations.verl import advantage_function
from dbsurf.sequences import advantages, squared_scores

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS = ["<pad>", "<end>", "a", "b", "c", "d"]


@pytest.fixture(scope="module")
def trl() -> Any:
    pytest.importorskip("transformers", reason="needs dbsurf[integrations]")
    return pytest.importorskip("trl", reason="needs dbsurf[integrations]")


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "<pad>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )


def model() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(WORDS),
            n_embd=8,
            n_layer=1,
            n_head=1,
            n_positions=32,
            bos_token_id=1,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


def count_of_a(completions: list[str], **_: Any) -> list[float | None]:
    """The reward; None for completions without an a, so groups become ragged."""
    found = [float(text.split().count("a")) for text in completions]
    return [value if value else None if i % 5 == 4 else 0.0 for i, value in enumerate(found)]


def trained(trl: Any, name: str, folder: Path, baseline: str, **options: Any) -> list[Any]:
    """Run two steps; what the trainer's loss got, with the rewards behind it."""
    from datasets import Dataset

    from dbsurf.integrations.trl import WithBaseline

    kind = getattr(trl, f"{name}Trainer")
    seen: list[Any] = []

    class Trainer(WithBaseline, kind):  # type: ignore[misc,valid-type]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            before: list[torch.Tensor] = []
            calculate = self._calculate_rewards

            def remember(*arguments: Any, **more: Any) -> torch.Tensor:
                before.append(calculate(*arguments, **more))
                return before[-1]

            self._calculate_rewards = remember  # type: ignore[method-assign]
            output = super()._generate_and_score_completions(inputs)
            self._calculate_rewards = calculate  # type: ignore[method-assign]
            seen.append((before[0], output))
            return output

    config = getattr(trl, f"{name}Config")(
        output_dir=str(folder),
        max_steps=2,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=6,
        report_to=[],
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        **({"loss_type": "dr_grpo", "beta": 0.0} if name == "GRPO" else {"beta": 0.0}),
        **options,
    )
    trainer = Trainer(
        model=model(),
        reward_funcs=count_of_a,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["b c", "d", "c", "b b d"]}),
        processing_class=tokenizer(),
        baseline=baseline,
    )
    start = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    moved = zip(start, trainer.model.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in moved)
    return seen


@pytest.mark.parametrize(
    ("name", "baseline"),
    [
        ("GRPO", "leave-one-out"),
        ("GRPO", "prefix-mean"),
        ("GRPO", "shrinkage"),
        ("RLOO", "leave-one-out"),
        ("RLOO", "shrinkage"),
    ],
)
def test_the_loss_of_trl_gets_our_advantages(trl, name, baseline, tmp_path):
    seen = trained(trl, name, tmp_path, baseline)
    assert seen
    ragged = False
    for by_function, output in seen:
        rewards = by_function[:, 0]
        scored = ~rewards.isnan()
        ragged |= not bool(scored.all())
        group = torch.arange(len(rewards)) // 4
        mask = output["completion_mask"].bool()
        expected = advantages(
            rewards[scored],
            group[scored],
            mask[scored] if baseline == "prefix-mean" else None,
            baseline=baseline,
            tokens=output["completion_ids"][scored],
            otherwise=0.0,
        )
        found = output["advantages"]
        torch.testing.assert_close(found[scored], expected)
        assert (found[~scored] == 0).all()
        assert found.shape == (mask.shape if baseline == "prefix-mean" else rewards.shape)
    assert ragged


def test_what_the_mixin_refuses(trl, tmp_path):
    from dbsurf.integrations.trl import WithBaseline

    with pytest.raises(ValueError, match="baseline must be one of 'leave-one-out'"):
        trained(trl, "GRPO", tmp_path, "best")
    with pytest.raises(ValueError, match="one value a sequence for RLOOTrainer"):
        trained(trl, "RLOO", tmp_path, "prefix-mean")
    with pytest.raises(ValueError, match="reward_clip_range must be off"):
        trained(trl, "RLOO", tmp_path, "shrinkage", reward_clip_range=(-1.0, 1.0))
    with pytest.raises(ValueError, match="multi_objective_aggregation must be"):
        trained(
            trl, "GRPO", tmp_path, "shrinkage", multi_objective_aggregation="normalize_then_sum"
        )

    class Other(WithBaseline):
        pass

    with pytest.raises(ValueError, match="without _calculate_rewards"):
        Other()


def test_a_row_that_is_alone_has_no_signal():
    pytest.importorskip("trl", reason="needs dbsurf[integrations]")
    from dbsurf.integrations.trl import _advantages

    rewards = torch.tensor([1.0, 2.0, 3.0, 0.0])
    scored = torch.tensor([True, True, True, False])
    found = _advantages(rewards, scored, 2, None, None, "leave-one-out")
    assert found.tolist() == [-1, 1, 0, 0]
    assert (_advantages(rewards, ~scored & scored, 2, None, None, "leave-one-out") == 0).all()


# --- verl -----------------------------------------------------------------------------------------


def test_the_function_for_verl():
    rewards = torch.zeros(5, 3)
    rewards[:, 2] = torch.tensor([1.0, 0.0, 3.0, 1.0, 2.0])
    mask = torch.ones(5, 3, dtype=torch.int64)
    mask[1, 1:] = 0
    index = np.array(["x", "y", "x", "y", "x"], dtype=object)
    for baseline in ("leave-one-out", "shrinkage", "standardised"):
        compute = advantage_function(baseline)
        found, returns = compute(
            token_level_rewards=rewards, response_mask=mask, index=index, config={}, epsilon=1e-6
        )
        assert found is returns
        scores = (rewards * mask).sum(-1)
        expected = advantages(scores, [0, 1, 0, 1, 0], mask.bool(), baseline=baseline)
        torch.testing.assert_close(found, expected)


def test_optimal_for_verl_leaves_the_own_row_out():
    logits = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([[0, 1, 2], [3, 4, 0], [1, 1, 1], [2, 0, 4]])
    mask = torch.ones(4, 3, dtype=torch.bool)
    probs = logits.softmax(-1)
    old = probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).log()
    rewards = torch.zeros(4, 3)
    rewards[:, -1] = torch.tensor([1.0, 0.0, 2.0, 5.0])
    compute = advantage_function("optimal")
    given = {"token_level_rewards": rewards, "response_mask": mask, "index": ["p"] * 4}
    found, _ = compute(**given, old_log_probs=old, sum_pi_squared=probs.square().sum(-1))
    energy = squared_scores(logits, tokens)
    expected = advantages(rewards.sum(-1), [0] * 4, mask, baseline="optimal", energy=energy)
    torch.testing.assert_close(found, expected)
    with pytest.raises(ValueError, match="sum_pi_squared must be given"):
        compute(**given)
    with pytest.raises(ValueError, match="baseline must be one of"):
        advantage_function("prefix-mean")
