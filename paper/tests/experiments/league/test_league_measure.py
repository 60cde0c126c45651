"""What a row of the league says, against enumerated variances; and who takes part."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from scipy import stats
from torch import Tensor

import dbsurf
from dbsurf_paper.experiments.league import entrants, measure, problems, study
from dbsurf_paper.experiments.league.entrants import Entrant
from dbsurf_paper.experiments.league.options import PRESETS
from dbsurf_paper.experiments.league.problems import Fixed
from dbsurf_paper.runs.life import Life
from oracles import all_samples, independent, least_discrepancy
from ztests import FAILURE_RATE

LOGITS = torch.tensor([-1.0, 0.3], dtype=torch.float64)
PROBS = torch.sigmoid(LOGITS).tolist()
SMOKE = PRESETS["smoke"]


def f(x: Tensor) -> Tensor:
    return (x[..., 0] - 0.3).square() + 2 * x[..., 0] * x[..., 1] - x[..., 1]


def tiny(copies: int = 20) -> Fixed:
    return Fixed("two bits", f, problems.bits, LOGITS, copies)


def moments(estimator: dbsurf.Estimator, laws) -> tuple[Tensor, float]:
    """Mean and trace of the covariance of an estimate, over every tuple of samples."""
    samples, mass = all_samples(estimator.n, laws)
    law = problems.bits(LOGITS.expand(len(mass), 2))
    found = estimator.estimate(f, law, samples=samples).grad
    mean = (mass.unsqueeze(-1) * found).sum(0)
    return mean, float((mass * (found - mean).square().sum(-1)).sum())


def test_the_ratio_is_that_of_the_enumerated_variances():
    place = tiny().place(measure.seeded(0))
    rows = []
    for name, estimator in (("loorf", dbsurf.LOORF(3)), ("mdsurf", dbsurf.MDsurf(3))):
        row, _ = measure.measure(estimator, place, 400, 1e-9)
        assert row["draws"] == 400
        times = {"milliseconds": 2.0, "loorf_milliseconds": 1.0}
        rows.append({"estimator": name, "evaluations": 3, **row, **times})
    plain, better = measure.ratios(rows, "loorf")
    laws = {"loorf": independent, "mdsurf": least_discrepancy}
    wanted = {
        name: moments(dbsurf.get(name, 3), [law(p, 3) for p in PROBS])[1]
        for name, law in laws.items()
    }
    assert better["time_ratio"] == 2
    assert (plain["ratio"], plain["ratio_error"], plain["low"], plain["high"]) == (1, 0, 1, 1)
    quantile = stats.norm.isf(FAILURE_RATE / 2)  # the gap of a right ratio is larger this rarely
    gap = math.log(better["ratio"] / (wanted["mdsurf"] / wanted["loorf"]))
    assert abs(gap) < quantile * better["ratio_error"] / better["ratio"]
    assert better["ratio_error"] < 0.1 * better["ratio"]
    assert better["low"] * better["high"] == pytest.approx(better["ratio"] ** 2)
    assert plain["variance"] == pytest.approx(20 * wanted["loorf"], rel=0.1)  # all copies together


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """80 intervals of 95 %: so few hold the truth with a probability below 1e-5."""
    problem, inside = tiny(4), 0
    truth = moments(dbsurf.LOORF(2), [independent(p, 2) for p in PROBS])[1]
    other = moments(dbsurf.MDsurf(2), [least_discrepancy(p, 2) for p in PROBS])[1]
    for seed in range(80):
        rows = []
        for name in ("loorf", "mdsurf"):
            place = problem.place(measure.seeded(seed, name))
            row, _ = measure.measure(dbsurf.get(name, 2), place, 60, 1e-9)
            times = {"milliseconds": 1.0, "loorf_milliseconds": 1.0}
            rows.append({"estimator": name, "evaluations": 2, **row, **times})
        _, found = measure.ratios(rows, "loorf")
        inside += found["low"] <= other / truth <= found["high"]
    assert inside >= stats.binom.ppf(1e-5, 80, 0.95)


def test_the_squared_bias_is_the_enumerated_one():
    problem = tiny(10)
    exact = problem.exact()
    assert torch.allclose(exact, dbsurf.exact(f, problems.bits(LOGITS)).grad.repeat(10))
    estimator = dbsurf.StraightThrough(2)
    place = problem.place(measure.seeded(3))
    row, mean = measure.measure(estimator, place, 2000, 1e-9)
    found = measure.squared_bias(row, mean, measure.Reference(exact, 0.0, "exact"))
    truth, _ = moments(estimator, [independent(p, 2) for p in PROBS])
    bias = 10 * float((truth - exact[:2]).square().sum())
    # The standard error of a squared length is about twice that length times the noise's root.
    error = 2 * math.sqrt(bias * found["bias_noise"])
    assert abs(found["squared_bias"] - bias) < 5 * error
    assert bias > 6 * error
    unbiased = measure.squared_bias(
        *measure.measure(dbsurf.LOORF(4), problem.place(measure.seeded(4)), 500, 1e-9),
        measure.Reference(exact, 0.0, "exact"),
    )
    assert unbiased["squared_bias"] < 5 * unbiased["bias_noise"]


def test_a_long_run_has_the_mean_and_its_noise():
    problem = tiny(10)
    found = dbsurf.measure.long_run(dbsurf.LOORF(4), problem.place(measure.seeded(5)).problem, 500)
    gap = float((found.gradient - problem.exact()).square().sum())
    assert 0 < found.noise < 0.1 * float(problem.exact().square().sum())
    assert gap < 6 * found.noise  # 20 terms: a chi square of 20 is above 120 with 1e-15


def test_estimates_stop_at_the_precision():
    row, _ = measure.measure(dbsurf.LOORF(4), tiny(100).place(measure.seeded(6)), 1000, 0.05)
    assert row["draws"] == dbsurf.measure.BLOCK
    assert row["variance_error"] <= 0.05 * row["variance"]
    assert measure.draws_for(16, 400) == 400
    assert measure.draws_for(17, 400) == 20


# --- who takes part -------------------------------------------------------------------------------


def test_every_registered_estimator_takes_part_or_has_a_reason():
    found, outside = entrants.every()
    names = {one.name for one in found} | {label.split(" ")[0] for label in outside}
    assert names == set(dbsurf.available())
    structured = {"structuredcv", "structuredcv form=quadratic", "marginalgradient"}
    structured.add("marginalgradient order=2")
    assert set(outside) == {"vimco", "exact", *structured}
    labels = [one.label for one in found]
    assert len(set(labels)) == len(labels)


def test_a_new_estimator_joins_without_a_word(tmp_path):
    class Newcomer(dbsurf.LOORF):
        """One more."""

        variants = (dbsurf.estimators.Variant("newcomer", "#123456"),)

    dbsurf.register(Newcomer)
    try:
        assert Entrant("newcomer") in entrants.every()[0]
        options = replace(SMOKE, problem="network", out=tmp_path)
        one = study.Study(options, tiny(), Life("league", options))
        assert Entrant("newcomer") in one.entrants
    finally:
        dbsurf.estimators.unregister(Newcomer)


@pytest.mark.parametrize("name", ["network", "table", "vae", "categorical-vae", "gates-perceptron"])
def test_at_every_problem_each_is_measured_or_left_out_for_a_reason(name, tmp_path):
    options = replace(SMOKE, problem=name, images=2, out=tmp_path)
    one = study.Study(options, study.PROBLEMS[name](options), Life("league", options))
    counted = one.counts()
    for entrant in entrants.every()[0]:
        assert (entrant in counted) != (entrant.label in one.left_out)
        assert counted.get(entrant, [None])
    for entrant, built in counted.items():
        for count, estimator in built:
            assert estimator.evaluations in (count, None), entrant
    base = {count for count, _ in counted[Entrant("loorf")]}
    assert base == {count for built in counted.values() for count, _ in built}


def test_evaluations_are_counted_where_the_law_decides():
    place = problems.network(SMOKE).place(measure.seeded(7))  # 20 bits
    assert entrants.evaluations_at(dbsurf.LocalExpectation(1), place) == 21
    assert entrants.evaluations_at(dbsurf.IndeCateR(1), place) == 40
    assert entrants.evaluations_at(dbsurf.QuadraticCV(3), place) == 4


@pytest.mark.parametrize(
    ("entrant", "evaluations", "n"),
    [
        (Entrant("loorf"), 4, 4),
        (Entrant("quadraticcv"), 4, 3),
        (Entrant("quadraticcv", ("uses=values",)), 4, 4),
        (Entrant("rebar"), 3, 1),
        (Entrant("rebar"), 4, None),
        (Entrant("disarm"), 3, None),
        (Entrant("localexpectation"), 4, None),
        (Entrant("bitflip"), 4, 2),
        (Entrant("ugc"), 4, 2),
        (Entrant("ugc"), 2, None),
        (Entrant("spotcheck", ("checks=3",)), 4, 1),
    ],
)
def test_samples_that_fit_a_number_of_evaluations(entrant, evaluations, n):
    found = entrant.with_evaluations(evaluations)
    assert (None if found is None else found.n) == n


def test_the_exact_gradient_of_the_quadratic():
    found = problems.quadratic(SMOKE)
    few = Fixed("few", found._f, problems.bits, found._logits[:6], 1)
    closed = found.exact()[:6] * 200 / 6  # f is a mean over the bits
    assert torch.allclose(few.exact(), closed)


def test_the_search_moves_the_logits_of_the_table():
    start, later = problems.table(SMOKE), problems.table_searched(SMOKE)
    gradients = [one.exact() for one in (start, later)]
    values = [dbsurf.exact(one._f, problems.one_hots(one._logits)).value for one in (start, later)]
    assert values[1] < values[0]  # minus the accuracy
    assert gradients[0].shape == gradients[1].shape == (2 * 6 * 5,)
