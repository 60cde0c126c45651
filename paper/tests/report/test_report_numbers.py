"""Means, differences and words for them."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from dbsurf_paper.report.numbers import counted, listed, plus_minus, ranges
from dbsurf_paper.report.statistics import Mean, Spread, paired, unpaired


def test_mean_and_standard_error_by_hand():
    mean = Mean.of([101.0, 103.0, 105.0])  # standard deviation 2
    assert (mean.value, mean.count) == (103.0, 3)
    assert mean.error == pytest.approx(2 / math.sqrt(3))
    assert mean.text() == "103.00 ± 1.15"


def test_one_run_has_no_error():
    mean = Mean.of([120.25])
    assert math.isnan(mean.error)
    assert mean.text() == "120.25"
    assert plus_minus(1234.5, math.nan, 1) == "1,234.5"


def test_a_paired_difference_has_students_interval():
    first, second = [101.0, 103.0, 105.5], [99.5, 100.5, 104.0]
    found = paired(first, second)
    student = stats.ttest_rel(first, second)
    interval = student.confidence_interval(0.95)
    assert found.value == pytest.approx(11 / 6)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.p == pytest.approx(student.pvalue)
    assert found.known
    assert found.decided == (student.pvalue < 0.05)
    assert paired([10.0, 10.1, 9.9], [1.0, 1.2, 0.9]).decided


def test_one_pair_has_no_interval():
    single = paired([2.0], [1.0])
    assert not single.known
    assert not single.decided


def test_words():
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert counted(1, "seed") == "1 seed"
    assert counted(1200, "run") == "1,200 runs"
    assert ranges([3, 1, 2, 9]) == [(1, 3), (9, 9)]


def test_differences_with_a_common_spread_are_those_of_student():
    first, second = [1.0, 2.0, 4.0], [3.0, 5.0, 4.0, 7.0]
    found = unpaired(first, second, Spread.of([first, second]))
    expected = stats.ttest_ind(first, second)
    low, high = expected.confidence_interval()
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.interval(1) == f"{low:+.1f} to {high:+.1f}"
    assert paired([1.0], [2.0]).interval() == ""
