"""A law is opened once, by type; any law with sample and log_prob will do; laws may be joined."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Binomial,
    Categorical,
    Distribution,
    Geometric,
    Independent,
    MixtureSameFamily,
    Multinomial,
    OneHotCategorical,
    Poisson,
    constraints,
)

import dbsurf
from cases import CASES
from dbsurf.distributions import Bits, Categories, OneHot, coordinates, register_distribution
from ztests import assert_mean

f64 = torch.float64


class Markov(Distribution):
    """Bits that depend on the one before: no independent coordinates, only sample and log_prob."""

    arg_constraints = {"logits": constraints.real}
    support = constraints.boolean

    def __init__(self, logits: Tensor, validate_args: bool | None = None) -> None:
        self.logits = logits  # (*batch, 2): after a 0, after a 1
        super().__init__(logits.shape[:-1], torch.Size([3]), validate_args=False)

    def sample(self, sample_shape: torch.Size = ()) -> Tensor:
        shape = (*sample_shape, *self.batch_shape)
        last, bits = torch.zeros(shape), []
        for _ in range(3):
            chance = torch.where(last == 1, self.logits[..., 1], self.logits[..., 0]).sigmoid()
            last = torch.bernoulli(chance.detach().expand(shape)).to(torch.float32)
            bits.append(last)
        return torch.stack(bits, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        before = torch.cat([torch.zeros_like(value[..., :1]), value[..., :-1]], -1)
        logits = torch.where(before == 1, self.logits[..., 1:], self.logits[..., :1])
        return (value * logits - torch.nn.functional.softplus(logits)).sum(-1)


def reward(x: Tensor) -> Tensor:
    return (x[..., 0] + 2 * x[..., 1] * x[..., 2]).double()


@pytest.mark.parametrize("build", [dbsurf.Reinforce, dbsurf.LOORF])
def test_any_law_with_sample_and_log_prob_works_where_no_more_is_needed(build):
    logits = torch.tensor([0.3, -0.8], dtype=f64).expand(20_000, 2).clone().requires_grad_()
    estimator, law = build(4), Markov(logits)
    estimator(reward, law).sum().backward()
    free = torch.tensor([0.3, -0.8], dtype=f64, requires_grad=True)
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=f64)] * 3)
    exact = (Markov(free).log_prob(states).exp() * reward(states)).sum()
    (truth,) = torch.autograd.grad(exact, free)
    assert_mean(logits.grad, truth)
    assert_mean(estimator.estimate(reward, law).grad, truth)


def test_the_generator_decides_what_any_law_draws():
    law, state = Markov(torch.zeros(5, 2)), torch.get_rng_state()
    draws = [
        dbsurf.LOORF(4).draw(law, generator=torch.Generator().manual_seed(3)) for _ in range(2)
    ]
    assert torch.equal(*draws)
    assert torch.equal(state, torch.get_rng_state())  # torch's own generator is left alone


def test_dependent_samples_of_an_unknown_law_are_refused():
    for estimator in (dbsurf.DBsurf(2), dbsurf.DBsurf(2, alpha="preserve")):
        with pytest.raises(ValueError, match="independent coordinates .*got Markov"):
            estimator(reward, Markov(torch.zeros(2)))
    with pytest.raises(
        ValueError, match="dist must be Bernoulli or categorical for MDsurf, got Markov"
    ):
        dbsurf.MDsurf(2)(reward, Markov(torch.zeros(2)))


def test_laws_that_torch_itself_has_and_nobody_registered():
    mixture = MixtureSameFamily(
        Categorical(torch.ones(2)), Poisson(torch.tensor([1.0, 5.0], requires_grad=True))
    )
    dbsurf.LOORF(4)(lambda x: x, mixture).backward()
    logits = torch.zeros(3, requires_grad=True)
    dbsurf.LOORF(4)(lambda x: x[..., 0], Multinomial(5, logits=logits)).backward()
    assert logits.grad.abs().sum() > 0


class Coin(Distribution):
    """A law of the user's own: a coin with a chance in the middle of the unit interval."""

    arg_constraints = {"lift": constraints.real}

    def __init__(self, lift: Tensor) -> None:
        self.lift = lift
        super().__init__(lift.shape, validate_args=False)


def test_a_user_adds_a_law():
    @register_distribution(Coin)
    def open_coin(base: Coin, dist: Distribution) -> Bits:
        chance = 0.25 + 0.5 * torch.sigmoid(base.lift)
        return Bits(Bernoulli(chance), dist)

    lift = torch.tensor([0.3, -1.0], dtype=f64).expand(20_000, 2).clone().requires_grad_()
    dbsurf.MDsurf(4)(lambda x: x.prod(-1), Independent(Coin(lift), 1)).sum().backward()
    slope = 0.5 * torch.sigmoid(lift) * torch.sigmoid(-lift)
    chance = 0.25 + 0.5 * torch.sigmoid(lift)
    assert_mean(lift.grad, (slope * chance.flip(-1))[0].detach())

    class Penny(Coin):  # a subclass needs no entry of its own
        pass

    assert dbsurf.sample(Penny(torch.zeros(3)), 2).sum(0).tolist() == [1, 1, 1]


def test_a_law_is_opened_once_a_call(monkeypatch):
    opened = []
    original = Bits.__init__

    def counted(self, *args, **kwargs):
        opened.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(Bits, "__init__", counted)
    logits = torch.zeros(3, requires_grad=True)
    for case in CASES:
        opened.clear()
        case.build(4)(lambda x: x.sum(-1), Independent(Bernoulli(logits=logits), 1)).backward()
        assert len(opened) == 1


def test_scores_refuse_what_they_cannot_use():
    class Shifted(dbsurf.LOORF):
        def combine(self, draw):
            return super().combine(draw)._replace(offset=torch.ones(()))

    shares = torch.full((3,), 1 / 3, requires_grad=True)
    with pytest.raises(ValueError, match="dist must have logits .* got Multinomial"):
        Shifted(2)(lambda x: x.sum(-1), Multinomial(4, shares))
    with pytest.raises(ValueError, match="dist must have logits .* got Multinomial"):
        Shifted(2).estimate(lambda x: x.sum(-1), Multinomial(4, shares))


# --- several distributions at once --------------------------------------------------------------


def parts(batch: tuple[int, ...] = ()) -> dict[str, Distribution]:
    return {
        "bits": Independent(Bernoulli(logits=torch.full((*batch, 2), 0.3, dtype=f64)), 1),
        "word": Categorical(logits=torch.tensor([0.1, -0.4, 0.7], dtype=f64).expand(*batch, 3)),
    }


def joint_reward(bits: Tensor, word: Tensor) -> Tensor:
    return (1 + bits.sum(-1)) * (word.double() - 0.5).square() + bits.prod(-1)


def joint_truth() -> tuple[Tensor, Tensor]:
    a = torch.full((2,), 0.3, dtype=f64, requires_grad=True)
    b = torch.tensor([0.1, -0.4, 0.7], dtype=f64, requires_grad=True)
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=f64)] * 2)
    mass = torch.where(states == 1, a.sigmoid(), (-a).sigmoid()).prod(-1)
    table = joint_reward(states[:, None], torch.arange(3)[None])
    value = (mass[:, None] * b.softmax(-1)[None] * table).sum()
    return torch.autograd.grad(value, (a, b))


def test_joint_distributions_by_enumeration_and_in_both_containers():
    truth = joint_truth()
    found = dbsurf.exact(lambda x: joint_reward(x["bits"], x["word"]), parts())
    assert found.f_values.shape == (12,)
    for name, gradient in zip(parts(), truth, strict=True):
        assert (found.grad[name] - gradient).abs().max() < 1e-12
    pair = tuple(parts().values())
    found = dbsurf.exact(lambda x: joint_reward(*x), pair)
    for ours, gradient in zip(found.grad, truth, strict=True):
        assert (ours - gradient).abs().max() < 1e-12


@pytest.mark.parametrize("build", [dbsurf.Reinforce, dbsurf.LOORF, dbsurf.MDsurf])
def test_joint_estimates_are_unbiased(build):
    logits = {
        "bits": torch.full((20_000, 2), 0.3, dtype=f64, requires_grad=True),
        "word": torch.tensor([0.1, -0.4, 0.7], dtype=f64).expand(20_000, 3).clone(),
    }
    logits["word"].requires_grad_()
    dists = {
        "bits": Independent(Bernoulli(logits=logits["bits"]), 1),
        "word": Categorical(logits=logits["word"]),
    }
    build(3)(lambda x: joint_reward(x["bits"], x["word"]), dists).sum().backward()
    for leaf, truth in zip(logits.values(), joint_truth(), strict=True):
        assert_mean(leaf.grad, truth)


JOINED = [
    c for c in CASES if c.name in ("reinforce", "loorf", "dbsurf", "mdsurf", "arms", "disarm")
]


@pytest.mark.parametrize("case", JOINED, ids=str)
def test_joined_bernoullis_are_one_long_bernoulli(case):
    """The same random numbers, split in two: the same gradient."""
    a = torch.randn(5, 2, dtype=f64, requires_grad=True)
    b = torch.randn(5, 3, dtype=f64, requires_grad=True)
    pair = (Independent(Bernoulli(logits=a), 1), Independent(Bernoulli(logits=b), 1))
    estimator = case.build(4)
    x, y = estimator.draw(pair)
    values = torch.sin(x.sum(-1)) + y.prod(-1) + x[..., 0] * y[..., 1]
    estimator.loss((x, y), values, pair).sum().backward()
    long = torch.cat([a, b], -1).detach().requires_grad_()
    whole = Independent(Bernoulli(logits=long), 1)
    case.build(4).loss(torch.cat([x, y], -1), values, whole).sum().backward()
    torch.testing.assert_close(torch.cat([a.grad, b.grad], -1), long.grad)


def test_joint_distributions_that_do_not_fit():
    with pytest.raises(ValueError, match=r"one batch shape, got \(\), \(5,\)"):
        dbsurf.LOORF(2)(lambda x: x, (parts()["bits"], parts((5,))["word"]))
    with pytest.raises(ValueError, match="dist must be Bernoulli or categorical for MDsurf"):
        dbsurf.MDsurf(2)(lambda x: x, (parts()["bits"], Poisson(torch.tensor(2.0))))
    bits = (parts()["bits"], parts()["bits"])
    with pytest.raises(ValueError, match="dist must be one .* got Bernoulli and Bernoulli"):
        dbsurf.DoubleCV(2)(lambda x: x[0].sum(-1), bits)
    with pytest.raises(ValueError, match="torch distribution for an estimator"):
        dbsurf.LOORF(2)(lambda x: x, (stats.poisson(2.0),))
    with pytest.raises(ValueError, match="dist must be a discrete distribution"):
        dbsurf.sample((), 2)


# --- half precision, and tables that are hard to make -------------------------------------------


def test_counting_laws_in_half_precision_and_out_of_range():
    assert dbsurf.sample(Geometric(torch.tensor(0.001, dtype=torch.float16)), 4).shape == (4,)
    for bad in (
        Poisson(torch.tensor(-1.0), validate_args=False),
        Geometric(torch.tensor(0.0), validate_args=False),
        Binomial(3, torch.tensor(1.5), validate_args=False),
    ):
        with pytest.raises(ValueError, match="must be finite and in their range"):
            dbsurf.sample(bad, 2)


def test_a_small_tail_of_a_wide_law_is_found_at_once():
    law = coordinates(Poisson(torch.tensor(1e6, dtype=f64)), tail=1e-12)
    assert law.table().shape[-1] < 40_000
    above = law.table()[-1].item()
    assert 0 < above <= 1e-12
    cut = law.table().shape[-1] - 1
    first = law.decode(torch.zeros((1,), dtype=torch.long), None).item()
    assert above == pytest.approx(stats.poisson.sf(first + cut - 1, 1e6), rel=1e-3)


@pytest.mark.parametrize("kind", [Categorical, OneHotCategorical])
def test_states_of_categorical_laws(kind):
    logits = torch.randn(2, 3, dtype=f64)
    law = coordinates(Independent(kind(logits=logits), 1))
    states, mass = law.states()
    assert states.shape[0] == law.state_count() == 9
    assert mass.sum().item() == pytest.approx(1)


# --- which parameter was given --------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Bernoulli, Categorical, OneHotCategorical])
def test_the_given_parameter_is_used_after_both_were_read(kind):
    """torch computes the other one, clamped; `expand` copies both, and forgets which was given."""
    p = torch.tensor([1e-9, 0.3, 1 - 1e-9 - 0.3], dtype=torch.float64)
    logits = torch.tensor([-40.0, 0.5, 50.0])
    for options, exact in (({"probs": p}, p), ({"logits": logits}, None)):
        law = kind(**options)
        if exact is None:
            exact = coordinates(kind(**options)).probs
        assert law.logits is not None  # read, and so stored
        assert law.probs is not None
        for one in (law, law.expand((4, *law.batch_shape)), law.expand((4, *law.batch_shape))):
            opened = coordinates(one)
            assert opened.by_logits == ("logits" in options)
            assert (opened.probs / exact - 1).abs().max() < 1e-14


def test_a_gradient_for_probabilities_that_were_expanded():
    """The gradient of E[x] = p is 1, also where torch's own logits are clamped."""
    p = torch.tensor([1e-9, 0.3], requires_grad=True)
    law = Bernoulli(probs=p)
    assert law.logits is not None
    dbsurf.Exact()(lambda x: x, law.expand((1, 2))).sum().backward()
    assert p.grad.tolist() == pytest.approx([1.0, 1.0], abs=1e-5)


# --- parameters that no law has -------------------------------------------------------------------


@pytest.fixture
def unchecked():
    """Distributions of torch whose parameters torch does not check."""
    torch.distributions.Distribution.set_default_validate_args(False)
    yield
    torch.distributions.Distribution.set_default_validate_args(True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parameters_that_are_not_real_numbers(case, unchecked):
    for dtype in (torch.complex64, torch.int64, torch.bool):
        for name in ("probs", "logits"):
            parameter = torch.zeros(2, 3, dtype=dtype)
            if name == "probs" and dtype == torch.bool:
                continue  # torch itself cannot normalise them
            law = Independent(Bernoulli(**{name: parameter}), 1)
            with pytest.raises(ValueError, match=f"floating-point parameters, got .* with {dtype}"):
                case.build(4).estimate(lambda x: x.sum(-1), law)
    for kind in (Categorical, OneHotCategorical):
        law = kind(logits=torch.zeros(2, 3, dtype=torch.complex64))
        with pytest.raises(ValueError, match="floating-point parameters, got .*complex64"):
            case.build(4).estimate(lambda x: x.sum(-1), law)
        with pytest.raises(ValueError, match="floating-point parameters, got .*complex64"):
            dbsurf.sample(law, 3)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (2, 0, 3), (0, 0), (0, 2, 3)], ids=str)
def test_empty_shapes_of_categories(case, shape, unchecked):
    """No category is refused; an empty batch and an event without coordinates are answered."""
    kinds = {Categorical: Categories, OneHotCategorical: OneHot}
    for kind in [one for one in kinds if issubclass(kinds[one], case.build(4).accepts.kinds)]:
        law = kind(logits=torch.zeros(shape))
        axes = 1 if kind is OneHotCategorical else 0
        if len(shape) == 3:
            law, axes = Independent(law, 1), axes + 1

        def f(x, axes=axes):
            return x.float().sum(tuple(range(-axes, 0))) if axes else x.float()

        if shape[-1] == 0:
            with pytest.raises(ValueError, match="dist must have at least one category"):
                case.build(4).estimate(f, law)
            continue
        if shape == (2, 0, 3) and case.name in ("localexpectation", "indecater", "spotcheck"):
            with pytest.raises(ValueError, match="dist must have at least one coordinate"):
                case.build(4).estimate(f, law)
            continue
        assert case.build(4).estimate(f, law).grad.shape == shape
