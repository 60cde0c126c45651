"""The training study: exact rewards, unbiased gradients at a model, tables and figures."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import torch

from dbsurf.sequences import StochasticBeam, SystematicGroup
from dbsurf_paper.experiments.sequences import exact, study, training
from dbsurf_paper.experiments.sequences.addition import (
    Transformer,
    answer_log_probs,
    complete,
    complete_beam,
    prompts_and_answers,
    success,
)
from dbsurf_paper.experiments.sequences.arms import TRAINED, WITHOUT_REPLACEMENT, Arm
from dbsurf_paper.experiments.sequences.groups import Prompts, draw, group_loss

TINY = training.Size(
    seeds=2,
    n=(4,),
    pretraining=5,
    steps=4,
    batch=3,
    pool=20,
    every=2,
    replicates=3,
    variance_draws=3,
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
    codes = SystematicGroup(2000, 1, generator=torch.Generator().manual_seed(1))
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


def test_a_beam_has_different_answers_of_the_policy():
    torch.manual_seed(0)
    model, (prompts, _) = Transformer(), prompts_and_answers()
    beam = StochasticBeam(5, 4, generator=torch.Generator().manual_seed(1))
    tokens = complete_beam(model, prompts[:4], beam)  # (5, 4, 3)
    for prompt in range(4):
        assert len(tokens[:, prompt].unique(dim=0)) == 5
        # The search keeps the right prefixes: its log-probabilities are those of its answers.
        repeated = prompts[prompt].expand(5, 6)
        log_probs = answer_log_probs(model, repeated, tokens[:, prompt]).sum(1)
        torch.testing.assert_close(beam.log_probs[:5, prompt].float(), log_probs)


def fixed_batch(begin: training.Start, size: int) -> Prompts:
    """Prompts of the pool with their exact reward as the baseline known from elsewhere."""
    prompts, answers = (table[begin.pool[:size]] for table in prompts_and_answers())
    return Prompts(prompts, answers, success(begin.model, prompts, answers))


@pytest.fixture(scope="module")
def begin():
    return training.start(training.Size(pretraining=100, pool=20), 0)


@pytest.mark.parametrize(
    "arm",
    [
        Arm("systematic halves", "prefix"),
        Arm("iid", "leave-one-out"),
        Arm(WITHOUT_REPLACEMENT, "known"),
        Arm(WITHOUT_REPLACEMENT, "none"),
    ],
    ids=str,
)
def test_gradients_of_groups_are_unbiased_at_a_model(begin, arm):
    """The mean over many groups, projected on the exact gradient, by a z-test of 5 sigma."""
    batch = fixed_batch(begin, 2)
    truth = training.exact_gradient(begin.model, batch)
    generator = torch.Generator().manual_seed(0)
    found = training.repeated_gradients(begin.model, batch, arm, 8, 150, generator)
    ratios = found @ truth / truth.square().sum()
    assert (ratios.mean() - 1).abs() < 5 * ratios.std() / 150**0.5


@pytest.mark.parametrize("arm", TRAINED, ids=str)
def test_repeated_gradients_are_those_of_one_draw_after_the_other(begin, arm):
    """Groups of a batch that is repeated, and split again, have the gradients of their parts."""
    batch = fixed_batch(begin, 3)
    found = training.repeated_gradients(
        begin.model, batch, arm, 4, 2, torch.Generator().manual_seed(3)
    )
    whole = draw(begin.model, batch.repeated(2), arm, 4, torch.Generator().manual_seed(3))
    loss = group_loss(begin.model, whole)  # (6,)
    for part, gradient in zip(loss.split(3), found, strict=True):
        parameters = tuple(begin.model.parameters())
        parts = torch.autograd.grad(part.mean(), parameters, retain_graph=True)
        expected = torch.cat([one.flatten() for one in parts])
        torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-3)


def test_the_variance_is_measured_without_a_change_of_training(begin):
    size = replace(TINY, batch=8)
    first, second = (
        training.train(begin, TRAINED[3], 4, replace(size, variance_draws=draws))[0]
        for draws in (12, 20)
    )
    for one, two in zip(first, second, strict=True):
        assert one["reward"] == two["reward"]
        assert one["variance"] != two["variance"]
    assert all(row["variance"] > 0 and row["square"] > 0 for row in first)


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
    assert (runs.groupby(["seed", "arm"]).variance.count() == 3).all()
    assert (tmp_path / "variances.png").stat().st_size > 5000
    assert (tmp_path / "rewards.png").stat().st_size > 5000
    assert (tmp_path / "gradient-errors.png").stat().st_size > 5000


def test_the_ratio_of_variances_along_training():
    """By hand: 6 and 3 on average for seed 0, 1 and 8 for seed 1; none without a signal."""
    reference, other = str(TRAINED[0]), str(TRAINED[1])
    rows = [
        {"n": 4, "seed": seed, "arm": arm, "completions": step, "variance": variance}
        for seed, arm, variances in (
            (0, reference, (8.0, 4.0)),
            (0, other, (1.0, 5.0)),
            (1, reference, (1.0, 1.0)),
            (1, other, (0.0, 16.0)),
        )
        for step, variance in enumerate(variances)
    ]
    runs = pd.DataFrame(rows).assign(reward=0.5, silent=0.0)
    errors = pd.DataFrame(
        [{"n": 4, "seed": s, "arm": a, "ratio": 1.0} for s in (0, 1) for a in (reference, other)]
    )
    found = study.outcomes(runs, errors).set_index("arm")
    assert found.variance[reference] == 1
    assert found.variance[other] == (0.5 + 8) / 2
    assert (found.variance_low[other], found.variance_high[other]) == (0.5, 8)
    silent = study.outcomes(runs.assign(variance=0.0), errors)
    assert silent.variance.isna().all()


def test_the_figure_of_variances_without_a_signal(tmp_path):
    rows = [
        {"seed": 0, "n": n, "arm": str(arm), "completions": step, "square": 0.1}
        for n in (4, 8)
        for arm in TRAINED
        for step in (0, 10)
    ]
    for variance in (0.0, 2.0):
        runs = pd.DataFrame(rows).assign(variance=variance)
        study.figures.variances(runs, tmp_path / "figure", str(training.REFERENCE))
        assert (tmp_path / "figure.png").stat().st_size > 5000


def test_a_run_repeats():
    begin = training.start(TINY, 1)
    first, second = (training.train(begin, TRAINED[3], 4, TINY)[0] for _ in range(2))
    assert str(first) == str(second)


def test_the_exact_study_writes_its_files(tmp_path):
    small = exact.Size(length=2, n=(2,), sharpness=(1.0, 5.0), law_seeds=1, draws=50, many_draws=50)
    study.run_exact(small, tmp_path)
    for name in ("cells.csv", "laws.csv", "claims.csv", "positions.csv", "entropy.png"):
        assert (tmp_path / name).exists()
