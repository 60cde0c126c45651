"""Bad input stops at the door with one ValueError that names argument, expectation and finding."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Categorical,
    Geometric,
    Independent,
    Multinomial,
    Normal,
    Poisson,
    RelaxedBernoulli,
)

import dbsurf
from cases import CASES, ENUMERABLE, SAMPLERS
from dbsurf.estimators import GradF
from dbsurf.samplers import IID, Antithetic, DBSample

HALF = Independent(Bernoulli(torch.full((2, 3), 0.5)), 1)


def f(x: Tensor) -> Tensor:
    return x.sum(-1)


# --- n --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_estimators_refuse_too_few_samples(case):
    smallest = min(case.counts)
    with pytest.raises(
        ValueError, match=rf"n must be an .*integer >= {smallest}.*got {smallest - 1}"
    ):
        case.build(smallest - 1)


def test_integers_of_numpy_are_integers():
    assert dbsurf.LOORF(np.int64(4)).n == 4
    assert IID().sample(HALF, np.int32(3)).shape == (3, 2, 3)


def test_antithetic_pairs_need_even_n():
    with pytest.raises(ValueError, match="n must be an even integer >= 2 for DisARM, got 3"):
        dbsurf.DisARM(3)
    with pytest.raises(ValueError, match="n must be an even integer >= 2 for Antithetic, got 5"):
        Antithetic().sample(HALF, 5)


@given(n=st.one_of(st.integers(max_value=0), st.floats(), st.booleans(), st.text(max_size=3)))
@settings(max_examples=60, deadline=None)
def test_nothing_but_a_positive_integer_is_a_sample_count(n):
    for sampler in SAMPLERS:
        with pytest.raises(ValueError, match="n must be an"):
            sampler.sample(HALF, n)
    for case in CASES:
        with pytest.raises(ValueError, match="n must be an"):
            case.build(n)


# --- alpha ----------------------------------------------------------------------------------------


@given(
    alpha=st.one_of(
        st.floats(max_value=-1e-300),
        st.sampled_from([math.nan, math.inf, "keep", None, True, [1.0]]),
    )
)
@settings(max_examples=60, deadline=None)
def test_alpha_is_finite_and_not_negative(alpha):
    for build in (DBSample, lambda a: dbsurf.DBsurf(2, alpha=a)):
        with pytest.raises(ValueError, match="alpha must be a finite number >= 0.*got"):
            build(alpha)


def test_alpha_tensors_are_checked_too():
    for bad in (torch.tensor([0.5, -0.1]), torch.tensor([math.nan, 1.0])):
        with pytest.raises(ValueError, match="alpha must be a finite number >= 0"):
            DBSample(bad)
    for dist in (HALF, Independent(Categorical(torch.ones(2, 3, 4)), 1)):
        with pytest.raises(
            ValueError, match=r"alpha must broadcast to .*\(2, 3\), got shape \(4,\)"
        ):
            DBSample(torch.ones(4)).sample(dist, 2)


# --- the distribution -----------------------------------------------------------------------------


@given(p=st.one_of(st.floats(max_value=-1e-30), st.floats(min_value=1.000001), st.just(math.nan)))
@settings(max_examples=60, deadline=None)
def test_probabilities_lie_between_zero_and_one(p):
    dist = Bernoulli(torch.tensor([0.5, p], dtype=torch.float64), validate_args=False)
    for sampler in SAMPLERS:
        with pytest.raises(ValueError, match=r"probs must lie in \[0, 1\], got"):
            sampler.sample(dist, 2)
    for case in CASES:
        with pytest.raises(ValueError, match=r"probs must lie in \[0, 1\], got"):
            case.build(2)(lambda x: x, dist)


def test_nan_logits_are_found():
    for dist in (
        Bernoulli(logits=torch.tensor([math.nan]), validate_args=False),
        Categorical(logits=torch.tensor([math.nan, 0.0]), validate_args=False),
    ):
        with pytest.raises(ValueError, match=r"probs must lie in \[0, 1\], got"):
            dbsurf.sample(dist, 2)
    with pytest.raises(ValueError, match="parameters of .* must be finite"):
        dbsurf.sample(Poisson(torch.tensor(math.nan), validate_args=False), 2)


@pytest.mark.parametrize(
    "dist",
    [
        Normal(0.0, 1.0),
        RelaxedBernoulli(torch.tensor(1.0), torch.tensor(0.5)),
        Multinomial(3, torch.ones(3)),
        stats.norm(0, 1),
        stats.poisson,
        "bernoulli",
        None,
        torch.tensor(0.5),
    ],
    ids=lambda d: type(d).__name__,
)
def test_only_discrete_laws_with_independent_coordinates(dist):
    with pytest.raises(ValueError, match="dist must be a discrete distribution.*got"):
        dbsurf.sample(dist, 2)
    with pytest.raises(ValueError, match="dist must be a"):
        dbsurf.DBsurf(2)(f, dist)


def test_estimators_need_a_law_with_parameters_to_differentiate():
    with pytest.raises(
        ValueError, match="dist must be a torch distribution.*got rv_discrete_frozen"
    ):
        dbsurf.LOORF(2)(f, stats.poisson(3))


@pytest.mark.parametrize("case", [c for c in CASES if not (c.any_law or c.categorical)], ids=str)
def test_bernoulli_only_estimators_say_so(case):
    with pytest.raises(ValueError, match="dist must be Bernoulli.* for .*got Categorical"):
        case.build(2)(lambda x: x.float(), Categorical(torch.ones(3)))


def test_exact_needs_a_finite_and_small_support():
    with pytest.raises(ValueError, match="1,048,576 states for Exact, got infinitely many"):
        dbsurf.exact(lambda x: x, Poisson(torch.tensor(1.0)))
    with pytest.raises(ValueError, match=r"at most 1,048,576 states for Exact, got 2,097,152"):
        dbsurf.exact(f, Independent(Bernoulli(torch.full((21,), 0.5)), 1))


@given(
    tail=st.one_of(st.floats(max_value=0), st.floats(min_value=0.5), st.just("small"), st.just(1))
)
@settings(max_examples=30, deadline=None)
def test_tail_mass(tail):
    with pytest.raises(ValueError, match=r"tail must be a number in \(0, 0.5\), got"):
        dbsurf.sample(Poisson(torch.tensor(1.0)), 2, tail=tail)


def test_supports_too_wide_to_tabulate():
    with pytest.raises(ValueError, match="support must fit in .* table entries"):
        dbsurf.sample(Geometric(torch.tensor(1e-9)), 2)
    with pytest.raises(ValueError, match="support must fit in .* table entries"):
        dbsurf.sample(stats.randint(0, 10**9), 2)
    with pytest.raises(ValueError, match="must be valid, got an empty support"):
        dbsurf.sample(stats.poisson(-1.0), 2)


def test_integers_too_large_for_the_dtype():
    law = Geometric(logits=torch.tensor(-12.0, dtype=torch.float16))
    with pytest.raises(ValueError, match=r"values must fit in torch.float16, which ends at 65504"):
        dbsurf.LOORF(4).estimate(lambda x: x, law)


def test_generators_live_where_the_distribution_does():
    elsewhere = Bernoulli(torch.empty(3, device="meta"), validate_args=False)
    with pytest.raises(ValueError, match="generator must be on the distribution's device meta"):
        dbsurf.sample(elsewhere, 2, generator=torch.Generator())
    with pytest.raises(ValueError, match="generator must be on the distribution's device meta"):
        dbsurf.LOORF(2)(f, elsewhere, generator=torch.Generator())
    with pytest.raises(ValueError, match=r"generator must be a torch.Generator or None, got 7"):
        dbsurf.sample(HALF, 2, generator=7)


# --- f --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x, r"shape \(\d+, 2\) .*got torch.float32 of shape \(\d+, 2, 3\)"),
        (lambda x: x.sum(), r"shape \(\d+, 2\) .*got torch.float32 of shape \(\)"),
        (lambda x: x.sum(-1, keepdim=True), r"shape \(\d+, 2\) .*got .* of shape \(\d+, 2, 1\)"),
        (lambda x: x.sum((0, -1)), r"shape \(\d+, 2\) .*got .* of shape \(2,\)"),
        (lambda x: x.sum(-1).long(), r"floating-point .* got torch.int64"),
        (lambda x: (f(x), f(x)), r"one tensor of shape \(\d+, 2\) .* got tuple"),
        (lambda x: None, "got NoneType"),
        (lambda x: 1.0, "got float"),
        (lambda x: f(x) * math.nan, r"finite values, got \d+ of \d+ that are NaN"),
        (lambda x: f(x) / 0 + math.inf, "finite values, got"),
    ],
)
def test_f_returns_one_finite_tensor_of_the_right_shape(case, function, message):
    estimator = case.build(4)
    for call in (estimator, estimator.estimate):
        with pytest.raises(ValueError, match=message):
            call(function, HALF)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_f_leaves_its_samples_alone(case):
    """Where the gradient of f is needed, torch itself refuses the change."""
    estimator = case.build(4)
    logits = torch.zeros(2, 3, requires_grad=True)
    dist = Independent(Bernoulli(logits=logits), 1)
    for call in (estimator, estimator.estimate):
        with pytest.raises((ValueError, RuntimeError), match=r"(?i)in-? ?place"):
            call(lambda x: x.sub_(0.5).sum(-1), dist)


@pytest.mark.parametrize(
    "case", [c for c in ENUMERABLE if c.build(2).grad_f & GradF.SAMPLES], ids=str
)
def test_f_has_a_finite_gradient_where_that_is_needed(case):
    logits = torch.zeros(3, requires_grad=True)
    dist = Independent(Bernoulli(logits=logits), 1)
    estimator = case.build(4)
    with pytest.raises(ValueError, match="f must have a finite gradient at 0 and 1, got"):
        estimator.estimate(lambda x: x.sqrt().sum(-1), dist)
    with pytest.raises(ValueError, match="f must have a finite gradient at 0 and 1, got"):
        estimator(lambda x: x.sqrt().sum(-1), dist).backward()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_checks_can_be_turned_off(case):
    estimator = case.build(4, validate=False)
    value = estimator(lambda x: f(x) * math.nan, HALF)
    assert torch.isnan(value).all()


@given(
    shape=st.lists(st.integers(0, 4), max_size=3).map(tuple),
    n=st.integers(2, 4),
    batch=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_any_other_shape_is_refused(shape, n, batch):
    dist = Independent(Bernoulli(torch.full((batch, 2), 0.5)), 1)
    if shape == (n, batch):
        assert dbsurf.LOORF(n)(lambda x: torch.zeros(shape), dist).shape == (batch,)
    else:
        with pytest.raises(ValueError, match="f must return one floating-point tensor of shape"):
            dbsurf.LOORF(n)(lambda x: torch.zeros(shape), dist)


def test_a_missing_independent_is_named():
    """f sums over the coordinates, the distribution is a batch of single ones."""
    with pytest.raises(ValueError, match=r"the last axis, .* must be Independent\(dist, 1\)$"):
        dbsurf.LOORF(3)(lambda x: x.sum(-1), Bernoulli(torch.full((6,), 0.5)))
    with pytest.raises(ValueError, match=r"the last 2 axes, .* must be Independent\(dist, 2\)$"):
        dbsurf.LOORF(3)(lambda x: x.sum((-2, -1)), Bernoulli(torch.full((6, 2), 0.5)))
    with pytest.raises(ValueError, match=r"of shape \(2,\)$"):
        dbsurf.LOORF(3)(lambda x: x.new_zeros(2), Bernoulli(torch.full((6,), 0.5)))


# --- names and options ----------------------------------------------------------------------------


def test_names_and_options():
    assert {"reinforce", "loorf", "dbsurf"} <= set(dbsurf.available())
    assert isinstance(dbsurf.get("DBsurf", n=4), dbsurf.DBsurf)
    for bad in ("gumbel", 3, None):
        with pytest.raises(ValueError, match="name must be one of .*loorf.*got"):
            dbsurf.get(bad, n=4)
    with pytest.raises(ValueError, match="got 'gumbelsoftmx'; did you mean 'gumbelsoftmax'"):
        dbsurf.get("gumbelsoftmx", n=4)
    with pytest.raises(ValueError, match="options of LOORF must be .*validate, got alpha"):
        dbsurf.get("loorf", n=4, alpha=1.0)
    with pytest.raises(ValueError, match="n must be an integer >= 2 for LOORF, got None"):
        dbsurf.get("loorf")
    with pytest.raises(
        ValueError, match="copula must be one of 'dirichlet', 'gaussian', got 'clayton'"
    ):
        dbsurf.ARMS(4, copula="clayton")
    with pytest.raises(ValueError, match="baseline must be one of None, 'running-mean', got 3.0"):
        dbsurf.Reinforce(4, baseline=3.0)
    for build in (lambda d: dbsurf.Reinforce(2, decay=d), lambda d: dbsurf.DoubleCV(2, decay=d)):
        with pytest.raises(ValueError, match=r"decay must be a number in \[0, 1\), got 1.5"):
            build(1.5)


def test_given_samples_have_the_right_shape():
    with pytest.raises(ValueError, match=r"samples must have shape \(4, 2, 3\).*got \(2, 2, 3\)"):
        dbsurf.LOORF(4).estimate(f, HALF, samples=torch.zeros(2, 2, 3))


def test_discrepancy_wants_samples_of_the_distribution():
    with pytest.raises(ValueError, match=r"samples must have shape \(n, 2, 3\).*got \(4, 3\)"):
        dbsurf.discrepancy(torch.zeros(4, 3), HALF)
    with pytest.raises(ValueError, match="samples must be 0 or 1 for a Bernoulli"):
        dbsurf.discrepancy(torch.full((4, 2, 3), 0.5), HALF)
    for samples, dist in (
        (torch.tensor([0, 3]), Categorical(torch.ones(3))),
        (torch.tensor([-1.0]), Poisson(torch.tensor(2.0))),
        (torch.tensor([1.5]), Poisson(torch.tensor(2.0))),
        (torch.tensor([2]), stats.randint(0, 2)),
    ):
        with pytest.raises(ValueError, match="samples must lie in the distribution's support"):
            dbsurf.discrepancy(samples, dist)


def test_finite_law_checks_its_points():
    with pytest.raises(ValueError, match=r"points must have 2 entries.*got shape \(3,\)"):
        dbsurf.Finite(torch.arange(3.0), torch.ones(2))
    for bad in ([1.0, 1.0], [0.0, math.inf]):
        with pytest.raises(ValueError, match="points must be finite and distinct"):
            dbsurf.Finite(torch.tensor(bad), torch.ones(2))


# --- context, and what f returns ------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_context_that_is_no_features_of_the_batch(case):
    """Refused by all, also by those that have no use for it."""
    bad = [
        [1, 2],
        3.0,
        "x",
        torch.zeros(5, 2),
        torch.zeros(2),
        torch.zeros(()),
        torch.zeros(2, 1, 1),
    ]
    bad += [torch.zeros(2, 2, dtype=torch.int64), torch.zeros(2, 2, dtype=torch.complex64)]
    for context in bad:
        with pytest.raises(ValueError, match=r"context must be a floating-point tensor \(2,\)"):
            case.build(4)(lambda x: (x - 0.4).square().sum(-1), HALF, context=context)
        with pytest.raises(ValueError, match=r"context must be a floating-point tensor \(2,\)"):
            case.build(4).estimate(lambda x: (x - 0.4).square().sum(-1), HALF, context=context)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_f_that_returns_lists_of_tensors(case):
    weight = torch.ones((), requires_grad=True)

    def rows(x: Tensor) -> list[Tensor]:
        return [weight * row.square().sum(-1) for row in x]

    def numbers(x: Tensor) -> list[list[Tensor]]:
        return [list(row) for row in rows(x)]

    for bad in (rows, numbers, lambda x: tuple(rows(x)), lambda x: {"f": rows(x)}):
        with pytest.raises(ValueError, match=r"f must return one tensor of shape .*, got"):
            case.build(4)(bad, HALF)


@pytest.mark.parametrize("name", ["localexpectation", "indecater"])
def test_local_expectations_need_a_coordinate(name):
    empty = Independent(Bernoulli(logits=torch.zeros(2, 0)), 1)
    with pytest.raises(ValueError, match="dist must have at least one coordinate for .*, got none"):
        dbsurf.get(name, 4).estimate(f, empty)
