"""The training study: exact rewards, unbiased gradients at a model, tables and figures."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from dbsurf.experiments.sequences import exact, study, training
from dbsurf.experiments.sequences.addition import (
    Transformer,
    answer_log_probs,
    complete,
    prompts_and_answers,
    success,
)
from dbsurf.experiments.sequences.arms import TRAINED, Arm
from dbsurf.sequences import Systematic

TINY = training.Size(
    seeds=2, n=(4,), pretraining=5, steps=4, batch=3, pool=20, every=2, replicates=3
)


def test_sums_are_right():
    prompts, answers = prompts_and_answers()
    assert prompts[1234].tolist() == [1, 2, 10, 3, 4, 11]  # 12+34=
    assert answers[1234].tolist() == [0, 4, 6]
    assert answers[9999].tolist() == [1, 9, 8]


def test_success_is_the_share_of_right_completions():
    torch.manual_seed(0)
    model, (prompts, _) = Transformer(), prompts_and_answers()
    with torch.no_grad():
        model.head.weight.mul_(4)  # a law that is not nearly uniform
    best = complete_greedily(model, prompts[:1])
    codes = Systematic(2000, 1, generator=torch.Generator().manual_seed(1))
    completions = complete(model, prompts[:1], codes)
    share = (completions == best).all(-1).double().mean()
    chance = float(success(model, prompts[:1], best))
    assert chance > 0.01
    assert share == pytest.approx(chance, abs=0.02)


def complete_greedily(model: Transformer, prompt: torch.Tensor) -> torch.Tensor:
    tokens = prompt
    for _ in range(3):
        tokens = torch.cat([tokens, model(tokens)[:, -1].argmax(-1, keepdim=True)], 1)
    return tokens[:, 6:]


def test_a_later_digit_does_not_change_an_earlier_probability():
    torch.manual_seed(0)
    model, (prompts, _) = Transformer(), prompts_and_answers()
    first, second = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 9]])
    both = [answer_log_probs(model, prompts[:1], answer) for answer in (first, second)]
    torch.testing.assert_close(both[0][:, :2], both[1][:, :2])


@pytest.mark.parametrize("arm", [Arm("systematic halves", "prefix"), Arm("iid", "leave-one-out")])
def test_gradients_of_groups_are_unbiased_at_a_model(arm):
    """The mean over many groups, projected on the exact gradient, by a z-test of 5 sigma."""
    size = training.Size(pretraining=100, batch=2, pool=20)
    begin = training.start(size, 0)
    prompts, answers = prompts_and_answers()
    which = begin.pool[:2]
    parameters = tuple(begin.model.parameters())
    exact = success(begin.model, prompts[which], answers[which])
    loss = answer_log_probs(begin.model, prompts[which], answers[which]).sum(1).exp().mean()
    truth = torch.autograd.grad(loss, parameters)
    generator = torch.Generator().manual_seed(0)
    slopes = []
    for _ in range(150):
        found, _ = training.group_loss(
            begin.model, prompts[which], answers[which], arm, 8, generator, exact
        )
        gradient = torch.autograd.grad(found.mean(), parameters)
        slopes.append(sum((a * b).sum() for a, b in zip(gradient, truth, strict=True)))
    square = sum(part.square().sum() for part in truth)
    ratios = torch.stack(slopes) / square
    assert (ratios.mean() - 1).abs() < 5 * ratios.std() / 150**0.5


def test_tables_and_figures(tmp_path):
    study.run_training(TINY, tmp_path)
    runs = pd.read_csv(tmp_path / "training.csv")
    assert set(runs.arm) == {str(arm) for arm in TRAINED}
    assert runs.completions.max() == 4 * 3 * 4
    assert runs.reward.between(0, 1).all()
    # The same seed starts at the same model.
    first = runs[runs.completions == 0].groupby("seed").reward
    assert (first.nunique() == 1).all()
    outcomes = pd.read_csv(tmp_path / "outcomes.csv")
    reference = outcomes[outcomes.arm == str(training.REFERENCE)]
    assert reference.gain.tolist() == [0]
    assert reference.error.tolist() == [1]
    assert (tmp_path / "rewards.png").stat().st_size > 5000
    assert (tmp_path / "gradient-errors.png").stat().st_size > 5000


def test_a_run_repeats():
    begin = training.start(TINY, 1)
    first, second = (training.train(begin, TRAINED[3], 4, TINY)[0] for _ in range(2))
    assert str(first) == str(second)


def test_the_exact_study_writes_its_files(tmp_path):
    small = exact.Size(length=2, n=(2,), sharpness=(1.0, 5.0), law_seeds=1, draws=50, many_draws=50)
    study.run_exact(small, tmp_path)
    for name in ("cells.csv", "laws.csv", "claims.csv", "positions.csv", "entropy.png"):
        assert (tmp_path / name).exists()
