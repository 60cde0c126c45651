"""Every option of every estimator is checked when it is built, with one form of error."""

from __future__ import annotations

import inspect

import pytest

import dbsurf
from dbsurf.estimators import estimator_class

HOSTILE = [object(), "x", "", -5, 2.5, float("nan"), float("inf"), [1], {}, b"1", 1j, print]
OPTIONS = [
    (name, option)
    for name in dbsurf.available()
    for option in inspect.signature(estimator_class(name)).parameters
]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_a_wrong_value_is_a_value_error_that_says_what_was_got(name, option):
    kind, refused = estimator_class(name), []
    for value in HOSTILE:
        given = {"n": 4, option: value}
        try:
            kind(given.pop("n"), **given)
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) >= 5  # what is allowed is the exception
    assert all(" must " in message and "got " in message for message in refused)


@pytest.mark.parametrize("name", dbsurf.available())
def test_everything_after_n_is_a_keyword(name):
    first, *others = inspect.signature(estimator_class(name)).parameters.values()
    assert first.name == "n"
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in others)


def test_one_name_for_one_thing():
    """A learning rate is lr and a factor on running sums is decay, as in torch."""
    names = {option for _, option in OPTIONS}
    assert not names & {"rate", "learning_rate", "momentum", "alpha_", "tau", "temp"}


def test_what_was_given_can_be_read_back():
    assert dbsurf.DoubleCV(2, coefficient=0.5).coefficient == 0.5
    assert dbsurf.REBAR(2, coefficient=0.5).coefficient == 0.5
    assert dbsurf.RELAX(2, lr=0.1).lr == 0.1
    assert dbsurf.QuadraticCV(2, lr=0.1, rank=3).rank == 3
    assert dbsurf.GumbelSoftmax(2, temperature=0.3).backward_temperature == 0.3
