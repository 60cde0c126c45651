"""Several distributions in a tuple or a dict: samples go by key or by place, and nothing else."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent

import dbsurf
from cases import CASES, UNBIASED
from dbsurf.samplers import IID

SIZES = {"a": 2, "b": 3, "c": 4}
JOINT = [case for case in CASES if case.build(4).accepts.parts and not case.build(4).needs_call]


def dists(keys: Any = "abc") -> dict[str, Independent]:
    """Bernoulli events of different sizes, by name."""
    return {
        key: Independent(Bernoulli(logits=torch.zeros(5, SIZES[key], requires_grad=True)), 1)
        for key in keys
    }


def f(x: dict[str, Tensor]) -> Tensor:
    return x["a"].sum(-1) - 2 * x["b"].prod(-1) + 3 * x["c"].sum(-1) * x["a"][..., 0]


def grads(parts: dict[str, Independent]) -> dict[str, Tensor]:
    return {key: q.base_dist.logits.grad for key, q in parts.items()}


@pytest.mark.parametrize("case", JOINT, ids=str)
def test_a_dict_goes_by_key_in_every_order(case):
    parts = dists()
    x = case.build(4).draw(parts, generator=torch.Generator().manual_seed(1))
    case.build(4).loss(x, f(x), parts).sum().backward()
    expected = grads(parts)
    assert all(expected[key].shape[-1] == SIZES[key] for key in "abc")
    for order in itertools.permutations("abc"):
        shuffled, other = {key: x[key] for key in order}, dists(reversed(order))
        case.build(4).loss(shuffled, f(x), other).sum().backward()
        for key, found in grads(other).items():
            assert torch.equal(found, expected[key])
        estimate = case.build(4).estimate(f, dists(order), samples=shuffled)
        assert {key: g.shape[-1] for key, g in estimate.grad.items()} == SIZES


@pytest.mark.parametrize("case", [c for c in UNBIASED if c.build(4).accepts.parts], ids=str)
def test_equal_shapes_do_not_hide_an_exchange(case):
    """Two parts of one shape, of which f looks at one: the other gets noise of mean 0."""
    one, two = (torch.zeros(2000, 3, requires_grad=True) for _ in range(2))
    for order in (("a", "b"), ("b", "a")):
        parts = {key: Independent(Bernoulli(logits={"a": one, "b": two}[key]), 1) for key in order}
        one.grad = two.grad = None
        case.build(4)(lambda x: x["a"].sum(-1), parts).sum().backward()
        assert one.grad.mean().item() == pytest.approx(0.25, abs=0.05)
        assert two.grad.mean().item() == pytest.approx(0, abs=0.05)


BAD_SAMPLES = {
    "a key is missing": lambda x: {"a": x["a"], "b": x["b"]},
    "a key too many": lambda x: {**x, "d": x["a"]},
    "another key": lambda x: {"a": x["a"], "b": x["b"], "C": x["c"]},
    "a tuple": lambda x: tuple(x.values()),
    "a list": lambda x: list(x.values()),
    "a tensor": lambda x: x["a"],
    "None": lambda x: None,
}


@pytest.mark.parametrize("bad", BAD_SAMPLES)
def test_samples_in_another_container(bad):
    parts = dists()
    E = dbsurf.LOORF(4)
    x = E.draw(parts)
    match = r"samples must be a dict with the keys \['a', 'b', 'c'\] of the distributions, got"
    if bad == "None":
        with pytest.raises(ValueError, match=match):
            E.loss(None, f(x), parts)
        return
    for use in (
        lambda samples: E.loss(samples, f(x), parts),
        lambda samples: E.estimate(f, parts, samples=samples),
    ):
        with pytest.raises(ValueError, match=match):
            use(BAD_SAMPLES[bad](x))


def test_samples_of_a_tuple_in_another_container():
    parts = tuple(dists().values())
    E = dbsurf.LOORF(4)
    x = E.draw(parts)
    values = torch.zeros(4, 5)
    E.loss(list(x), values, parts)  # a list is as good as a tuple
    for bad in (x[:2], (*x, x[0]), x[0], dict(enumerate(x)), "abc"):
        with pytest.raises(ValueError, match="samples must be a tuple of 3"):
            E.loss(bad, values, parts)
    for bad in ((x[0], x[1], None), (x[0], x[1], [1])):
        with pytest.raises(ValueError, match="samples must be"):
            E.loss(bad, values, parts)
    for bad in ((x[0],), {"a": x[0]}, None, [1.0]):
        with pytest.raises(ValueError, match="samples must be one tensor, got"):
            E.loss(bad, values, parts[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_not_a_flat_container_of_distributions(case):
    bit = Bernoulli(logits=torch.zeros(3))
    nested = [((bit, bit), bit), {"a": (bit, bit)}, [bit, {"a": bit}], {"a": {"b": bit}}]
    others = [{bit}, (x for x in (bit, bit)), (), {}, (bit, 3), (bit, None), None, Bernoulli, "q"]
    for bad in nested + others:
        match = "flat tuple or dict" if bad in nested else "dist must be"
        for use in (
            lambda bad: case.build(4)(lambda x: x, bad),
            lambda bad: case.build(4).estimate(lambda x: x, bad),
            lambda bad: case.build(4).check(bad),
            lambda bad: IID().sample(bad, 3),
            lambda bad: dbsurf.discrepancy(torch.zeros(3, 3), bad),
        ):
            with pytest.raises(ValueError, match=match):
                use(bad)


def test_an_ordered_dict_is_a_dict():
    parts = OrderedDict(dists())
    found = dbsurf.LOORF(4).estimate(f, parts)
    assert list(found.samples) == ["a", "b", "c"]


def test_parts_of_different_batches():
    parts = (Bernoulli(logits=torch.zeros(3)), Categorical(logits=torch.zeros(2, 3)))
    with pytest.raises(ValueError, match="one batch shape"):
        dbsurf.LOORF(4)(lambda x: x[0], parts)


# --- samples of estimators that take states -------------------------------------------------------


def test_samples_of_the_unordered_set_are_different_states():
    """Also where there are fewer states than n: then all are drawn, and the estimate is exact."""
    law = Categorical(logits=torch.tensor([0.3, -1.0, 2.0], requires_grad=True))
    E = dbsurf.UnorderedSet(8)
    x = E.draw(law)
    assert sorted(x.tolist()) == [0, 1, 2]
    found = E.estimate(lambda x: x.square().float(), law, samples=x).grad
    torch.testing.assert_close(found, dbsurf.exact(lambda x: x.square().float(), law).grad)
    E.loss(x, x.square().float(), law).backward()
    for bad in (x[:2], torch.tensor([0, 0, 1])):
        with pytest.raises(ValueError, match="samples must"):
            E.loss(bad, bad.float(), law)


def test_samples_of_exact_are_all_states_in_their_order():
    law = Categorical(logits=torch.tensor([0.3, -1.0, 2.0]))
    E = dbsurf.Exact()
    x = E.draw(law)
    expected = E.estimate(lambda x: x.square().float(), law)
    found = E.estimate(lambda x: x.square().float(), law, samples=x)
    assert torch.equal(found.grad, expected.grad)
    for bad in (x.flip(0), x[:2], torch.tensor([0, 1, 1])):
        with pytest.raises(ValueError, match="samples must"):
            E.loss(bad, bad.float(), law)
