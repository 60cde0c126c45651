"""Closed forms of the exact study against every outcome of the codes themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import sequence_outcomes
from dbsurf.sequences import AntitheticGroup, ArithmeticGroup, IIDGroup, SystematicGroup
from dbsurf_paper.experiments.sequences import exact, pair_counts
from dbsurf_paper.experiments.sequences.arms import BASELINES, SAMPLERS, Arm, Group
from dbsurf_paper.experiments.sequences.law import REWARDS, Law, decided_at
from dbsurf_paper.experiments.sequences.moments import Problem
from dbsurf_paper.experiments.sequences.simulation import simulate, simulate_beam

LAW = Law(seed=3, sharpness=4.0, length=2)
PROBLEM = Problem(LAW, REWARDS["smooth"])


def enumerated(make) -> tuple[sequence_outcomes.Outcomes, Tensor]:
    """Every outcome of the codes on the study's law, and the strings' numbers ``(n, outcomes)``."""
    copy = sequence_outcomes.Law(4, 2)
    with torch.no_grad():
        copy.logits.copy_(torch.cat([rows.log() for rows in LAW.conditionals]))
    found = sequence_outcomes.outcomes(make, copy)
    return found, 4 * found.tokens[..., 0] + found.tokens[..., 1]


def second_moments(make) -> Tensor:
    found, strings = enumerated(make)
    counts = torch.nn.functional.one_hot(strings, 16).sum(0).double()  # (outcomes, strings)
    return counts.T @ (found.weights[:, None] * counts)


def gradients(make, baseline: str) -> tuple[Tensor, Tensor]:
    """Estimates ``(outcomes, parameters)`` and their probabilities."""
    found, strings = enumerated(make)
    f_values = PROBLEM.f[strings]
    outside = f_values.new_full(f_values.shape[1:], PROBLEM.mean)
    b = BASELINES[baseline](Group(f_values, found.tokens, found.codes, outside))
    b = b.unsqueeze(-1) if b.ndim == 2 else b
    scores = LAW.token_scores[strings]  # (n, outcomes, T, parameters)
    advantage = (f_values.unsqueeze(-1) - b).expand(scores.shape[:-1])
    return (advantage.unsqueeze(-1) * scores).sum(2).mean(0), found.weights


GROUPS = {
    "iid": (lambda batch: IIDGroup(2, batch), lambda: pair_counts.independent(LAW, 2)),
    "systematic": (lambda batch: SystematicGroup(3, batch), lambda: pair_counts.systematic(LAW, 3)),
    "arithmetic": (lambda batch: ArithmeticGroup(3, batch), lambda: pair_counts.arithmetic(LAW, 3)),
    "antithetic": (lambda batch: AntitheticGroup(2, batch), lambda: pair_counts.antithetic(LAW)),
}


@pytest.mark.parametrize(("make", "closed"), GROUPS.values(), ids=GROUPS)
def test_second_moments_of_counts(make, closed):
    assert (second_moments(make) - closed()).abs().max() < 1e-12


@pytest.mark.parametrize(("make", "closed"), GROUPS.values(), ids=GROUPS)
def test_error_with_a_known_baseline_and_bias_of_leave_one_out(make, closed):
    estimates, weights = gradients(make, "known")
    n = make(1).n
    error = weights @ (estimates - PROBLEM.gradient).square().sum(1)
    exact_error = PROBLEM.fixed_baseline(closed(), n, 1, PROBLEM.mean).error
    assert exact_error == pytest.approx(float(error), rel=1e-9)
    estimates, weights = gradients(make, "leave-one-out")
    bias = (weights @ estimates - PROBLEM.gradient).square().sum()
    assert PROBLEM.leave_one_out_bias(closed(), n) == pytest.approx(float(bias), abs=1e-12)
    estimates, weights = gradients(make, "group mean")
    bias = (weights @ estimates - PROBLEM.gradient).square().sum()
    assert PROBLEM.group_mean_bias(closed(), n) == pytest.approx(float(bias), abs=1e-12)


def test_error_of_independent_leave_one_out():
    estimates, weights = gradients(lambda batch: IIDGroup(2, batch), "leave-one-out")
    error = weights @ (estimates - PROBLEM.gradient).square().sum(1)
    assert PROBLEM.independent_leave_one_out(2).error == pytest.approx(float(error), rel=1e-9)


@pytest.mark.parametrize("kind", [SystematicGroup, ArithmeticGroup])
def test_error_of_halves(kind):
    """Two independent halves of two: all pairs of outcomes of one half."""
    found, strings = enumerated(lambda batch: kind(2, batch))
    f, s = PROBLEM.f[strings], LAW.scores[strings]  # (2, outcomes), (2, outcomes, parameters)
    score, product = s.sum(0), (f.unsqueeze(-1) * s).sum(0)
    mean = f.mean(0)
    error = 0.0
    for k, weight in enumerate(found.weights):
        estimates = (product[k] + product - mean[:, None] * score[k] - mean[k] * score) / 4
        squares = (estimates - PROBLEM.gradient).square().sum(1)
        error += float(weight * (found.weights @ squares))
    closed = pair_counts.systematic if kind is SystematicGroup else pair_counts.arithmetic
    assert PROBLEM.halves(closed(LAW, 2), 2).error == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize(
    ("sampler", "baseline"), [("systematic halves", "other half"), ("iid", "known")]
)
def test_simulation_agrees_with_the_closed_form(sampler, baseline):
    law = Law(seed=3, sharpness=4.0, length=3)
    problem = Problem(law, REWARDS["prefix"])
    found = simulate({"prefix": problem}, sampler, 4, [baseline], draws=4000, seed=1)
    sums = found["prefix", baseline]
    wanted = exact.exact_moments(problem, exact.counts(law, sampler, 4), 4, False)[baseline]
    assert abs(sums.error - wanted.error) < 5 * sums.error_se
    assert abs(sums.bias) < 5 * sums.bias_se


def test_without_replacement_is_unbiased():
    problem = Problem(LAW, decided_at(1))
    for sums in simulate_beam(problem, 4, draws=4000, seed=1).values():
        assert abs(sums.bias) < 5 * sums.bias_se
        assert sums.error > 0


def test_the_tables_of_the_smallest_study():
    size = exact.Size(
        length=2, n=(2, 4), sharpness=(1.0, 5.0), law_seeds=1, draws=50, many_draws=50
    )
    cells = exact.every_cell(size, lambda share: None)
    assert set(cells.sampler) == {*SAMPLERS, exact.WITHOUT_REPLACEMENT}
    assert set(cells.n) == {2, 4}
    assert cells.error.gt(0).all()
    reference = cells[(cells.sampler == "iid") & (cells.baseline == "leave-one-out")]
    assert reference.error.tolist() == pytest.approx([1.0] * 16)
    laws = exact.over_laws(replace(size, law_seeds=2), lambda share: None, n=4)
    table = exact.claims(laws)
    assert len(table) == len(exact.CLAIMS) * len(REWARDS)
    assert (table.low <= table["mean"]).all()
    assert set(table["count"]) == {2}  # networks, each at two sharpnesses
    one = exact.claims(laws[laws.law.str.startswith("0,")])
    assert one[["low", "high", "p"]].isna().all(axis=None)  # one network: no interval
    positions = exact.by_position(size, n=2)
    assert set(positions.position) == {"1", "2"}


def test_arms_say_whether_they_are_biased():
    assert Arm("systematic halves", "other half").unbiased
    assert Arm("iid", "leave-one-out").unbiased
    assert not Arm("systematic", "leave-one-out").unbiased
    assert not Arm("systematic", "other half").unbiased
    assert not Arm("iid", "group mean").unbiased
    assert str(Arm("iid", "prefix")) == "iid, prefix"
