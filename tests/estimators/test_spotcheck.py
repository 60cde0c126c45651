"""SpotCheck: no bias over samples and checks, bounded weights, small variance, and the fade."""

from __future__ import annotations

import copy
import io
import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import dbsurf
from dbsurf.distributions import coordinates
from dbsurf.estimators import Drawn
from dbsurf.estimators.spotcheck.checks import MIX, chances, choose
from dbsurf.estimators.spotcheck.estimator import Random
from dbsurf.estimators.spotcheck.joint import cells_of
from oracles import class_tuples, least_discrepancy

f64 = torch.float64
LAWS = {
    "2 bits": torch.tensor([0.3, 0.8], dtype=f64),
    "3 bits": torch.tensor([0.05, 0.5, 0.71], dtype=f64),
    "2 of 3 classes": torch.tensor([[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]], dtype=f64),
}
COUNTS = list(itertools.product((1, 2, 3), (1, 2, 3)))


def law_of(probs: Tensor, count: int | None = None, logits: Tensor | None = None) -> Independent:
    """The law with these probabilities, as one problem or as a batch of copies."""
    if logits is None:
        logits = logits_of(probs) if count is None else logits_of(probs, count)
    kind = Bernoulli if probs.ndim == 1 else OneHotCategorical
    return Independent(kind(logits=logits), 1)


def logits_of(probs: Tensor, *count: int) -> Tensor:
    logits = torch.logit(probs) if probs.ndim == 1 else probs.log()
    return logits.expand(*count, *logits.shape).clone()


def f(x: Tensor) -> Tensor:
    """Neither additive nor symmetric, with a gradient that is far from its differences."""
    weights = torch.linspace(1.3, -0.7, x.shape[-1]).to(x)
    linear = (x * weights).sum(-1)
    return 2.5 + linear + torch.sin(7 * linear) + 1.7 * x.prod(-1) + (x[..., 0] - x[..., 1]).exp()


def f_for(probs: Tensor):
    return f if probs.ndim == 1 else lambda x: f(x.flatten(-2))


# --- the law of a draw, written out ---------------------------------------------------------------


def sample_tuples(probs: Tensor, n: int, *, plain: bool = False) -> tuple[Tensor, Tensor]:
    """All n samples, ``(n, tuples, *event)``, and their probabilities."""
    if probs.ndim == 1:
        laws = [least_discrepancy(p, n) for p in probs.tolist()]
        each = [{path: law[path] for path in itertools.product((0, 1), repeat=n)} for law in laws]
    else:
        each = [class_tuples(p, n, plain=plain) for p in probs.tolist()]
    index, mass = [], []
    for combination in itertools.product(*(one.items() for one in each)):
        weight = math.prod(w for _, w in combination)
        if weight > 0:
            index.append([path for path, _ in combination])
            mass.append(weight)
    samples = torch.tensor(index).permute(2, 0, 1)  # (n, tuples, coordinates)
    if probs.ndim > 1:
        samples = nn.functional.one_hot(samples, probs.shape[-1])
    return samples.to(f64), torch.tensor(mass, dtype=f64)


def outcomes(estimator: dbsurf.SpotCheck, probs: Tensor, m: int) -> tuple[Tensor, Tensor, Tensor]:
    """All samples with all their checks: samples, starts and probabilities.

    What is checked is constant between the starts at which a systematic point passes a cut of the
    cumulative chances.
    """
    n = estimator.n
    samples, mass = sample_tuples(probs, n)
    law = coordinates(law_of(probs, len(mass)))
    cells = cells_of(law)
    size = estimator.prepare(law, None, f).known.size
    chance = chances(cells, cells.flat(samples), size)
    chance = chance if chance.shape[0] == n else (chance / n).expand(n, -1, -1)
    cumulative = chance.permute(1, 2, 0).flatten(1).cumsum(-1)  # (tuples, cells * n)
    assert torch.allclose(cumulative[:, -1], torch.ones((), dtype=f64))
    places, starts, weights = [], [], []
    for t, row in enumerate(cumulative.tolist()):
        cuts = sorted({0.0, 1.0, *((m * c) % 1 for c in row[:-1])})
        for low, high in itertools.pairwise(cuts):
            places.append(t)
            starts.append((low + high) / 2)
            weights.append(mass[t].item() * (high - low))
    weight = torch.tensor(weights, dtype=f64)
    assert abs(weight.sum() - 1) < 1e-12
    return samples[:, places], torch.tensor(starts, dtype=f64), weight


def replayed(estimator: dbsurf.SpotCheck, samples: Tensor, random: Random) -> None:
    estimator.draw_samples = lambda law, generator: Drawn(samples.clone(), random)


NOT_PLAIN, PLAIN = torch.tensor(False), torch.tensor(True)


def expectation(estimator: dbsurf.SpotCheck, probs: Tensor, *, backward: bool = False) -> Tensor:
    """E[estimate] over samples and checks, as one batch, with the state as it is."""
    samples, start, weight = outcomes(estimator, probs, estimator.checks)
    estimator = copy.deepcopy(estimator).eval()
    replayed(estimator, samples, Random(NOT_PLAIN, None, start))
    logits = logits_of(probs, len(weight)).requires_grad_(backward)
    dist = law_of(probs, logits=logits)
    if backward:
        estimator(f_for(probs), dist).sum().backward()
        grad = logits.grad
    else:
        grad = estimator.estimate(f_for(probs), dist).grad
    return (weight.reshape(-1, *(1,) * probs.ndim) * grad).sum(0)


def truth(probs: Tensor) -> Tensor:
    return dbsurf.exact(f_for(probs), law_of(probs)).grad


def arbitrary(n: int, m: int, probs: Tensor, seed: int = 0) -> dbsurf.SpotCheck:
    """A state that nothing has taught: tables, sizes of errors and scale, all of them at work."""
    estimator = dbsurf.SpotCheck(n, checks=m).double()
    estimator.estimate(f_for(probs), law_of(probs))
    random = torch.Generator().manual_seed(seed)
    memory = estimator.memory
    with torch.no_grad():
        for name, buffer in memory.named_buffers():
            if name != "sizes":
                buffer.copy_(torch.randn(buffer.shape, generator=random, dtype=f64))
        memory.tables[1:] = 0.01 + memory.tables[1:].square()
        memory.features[1] = 50 * memory.features[1].abs()
        memory.counts.fill_(50.0)
        root = memory.scale[:, :3].clone()
        memory.scale[:, :3] = root @ root.T
        square = memory.pairs.sums[:-2]
        square.copy_(square + square.T).diagonal().abs_()
        memory.pairs.totals.copy_(torch.tensor([50.0, 2.0, 0.7 + seed / 100, 1.0]))
        memory.pairs.within.copy_(torch.tensor([3.0, 0.6 + seed / 100, 1.0, 2.0]))
        if memory.blend is not None:
            memory.blend.sums.abs_()
        if memory.bends is not None:
            memory.bends.values.mul_(0.2)
            memory.bends.moments[1].abs_()
            memory.bends.steps.fill_(50.0)
    law = coordinates(law_of(probs))
    known = estimator.prepare(law, None, f).known
    assert known.scale.abs().min() > 1e-3
    assert known.size.std() > 1e-3
    assert known.table.abs().max() > 0.1
    assert known.slopes.matrix.abs().max() > 0.05
    assert known.slopes.share > 0.5
    assert known.slopes.trust > 0.5
    assert known.slopes.level.abs().min() > 1e-3
    assert (known.layers is None) == (probs.ndim == 1)
    if probs.ndim == 1 and n > 1:
        assert known.share.max() > 0.05
    else:
        assert known.share is None
    return estimator


# --- no bias --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("n", "m"), COUNTS)
def test_exact_over_samples_and_checks_with_an_arbitrary_state(name, n, m):
    probs = LAWS[name]
    estimator = arbitrary(n, m, probs, seed=10 * n + m)
    for backward in (False, True):
        error = expectation(estimator, probs, backward=backward) - truth(probs)
        assert error.abs().max() < 1e-10
    fresh = dbsurf.SpotCheck(n, checks=m)
    assert (expectation(fresh, probs) - truth(probs)).abs().max() < 1e-10


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_plain_samples_are_exact_too(name, n, m):
    """The other form: all evaluations at samples, leave-one-out."""
    probs = LAWS[name]
    if probs.ndim > 1 and n + m > 3:
        return  # 6561 tuples say nothing that 729 do not
    samples, mass = sample_tuples(probs, n + m, plain=True)
    estimator = arbitrary(n, m, probs).eval()
    start = torch.full((len(mass),), 0.5, dtype=f64)
    others = cells_of(coordinates(law_of(probs, len(mass)))).flat(samples[n:])
    replayed(estimator, samples[:n], Random(PLAIN, others, start))
    grad = estimator.estimate(f_for(probs), law_of(probs, len(mass))).grad
    found = (mass.reshape(-1, *(1,) * probs.ndim) * grad).sum(0)
    assert (found - truth(probs)).abs().max() < 1e-10


@pytest.mark.parametrize("name", ["2 bits", "2 of 3 classes"])
def test_the_second_call_is_exact_given_what_the_first_has_taught(name):
    """For every outcome of the first call, the expectation of the second is the gradient."""
    probs, n, m = LAWS[name], 2 if name == "2 bits" else 1, 2
    warm = arbitrary(n, m, probs)
    samples, start, weight = outcomes(warm, probs, m)
    taught, slopes = set(), set()
    for outcome in torch.nonzero(weight > 0).flatten().tolist():
        estimator = copy.deepcopy(warm)
        one = Random(NOT_PLAIN, None, start[outcome : outcome + 1])
        replayed(estimator, samples[:, outcome], one)
        estimator.estimate(f_for(probs), law_of(probs))
        del estimator.draw_samples
        taught.add(round(estimator.memory.tables.sum().item(), 9))
        slopes.add(round(estimator.memory.pairs.sums[0, -1].item(), 9))
        if name != "2 bits":
            assert not torch.equal(estimator.memory.bends.values, warm.memory.bends.values)
        assert (expectation(estimator, probs) - truth(probs)).abs().max() < 1e-10
    assert len(taught) > 4  # different outcomes teach different things
    assert len(slopes) > 4


def test_a_graph_walked_twice_gives_the_same_and_teaches_once():
    states = []
    for walks in (1, 3):
        logits = torch.linspace(-1, 1, 12).reshape(2, 6).requires_grad_()
        estimator = dbsurf.SpotCheck(2)
        for call in range(30):
            seed = torch.Generator().manual_seed(call)
            value = estimator(f, Independent(Bernoulli(logits=logits), 1), generator=seed).sum()
            grads = [torch.autograd.grad(value, logits, retain_graph=True)[0] for _ in range(walks)]
            assert all(torch.equal(grad, grads[0]) for grad in grads)
        states.append([buffer.clone() for buffer in estimator.buffers()])
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_samples_have_the_law_that_the_enumeration_takes(n):
    law = coordinates(law_of(LAWS["3 bits"], 20_000))
    uniforms = torch.rand(n, 20_000, 3, dtype=f64, generator=torch.Generator().manual_seed(1))
    samples = cells_of(law).spread(uniforms[:1] if n == 2 else uniforms, n).long()
    assert samples.shape == (n, 20_000, 3)
    for k, p in enumerate(LAWS["3 bits"].tolist()):
        for path, mass in zip(
            itertools.product((0, 1), repeat=n), least_discrepancy(p, n).ravel(), strict=True
        ):
            share = (torch.tensor(path) == samples[..., k].T).all(-1).double().mean()
            assert abs(share - mass) < 5.5 * (mass * (1 - mass) / 20_000) ** 0.5 + 1e-12
    probs = LAWS["2 of 3 classes"]
    law = coordinates(law_of(probs, 20_000))
    uniforms = torch.rand(n + 1, 20_000, 2, dtype=f64, generator=torch.Generator().manual_seed(1))
    cells = cells_of(law)
    index = cells.unflat(cells.spread(uniforms, n)).argmax(-1)  # (n, 20000, 2)
    for k in range(2):
        for path, mass in class_tuples(probs[k].tolist(), n, plain=False).items():
            share = (torch.tensor(path) == index[..., k].T).all(-1).double().mean()
            assert abs(share - mass) < 5.5 * (mass * (1 - mass) / 20_000) ** 0.5 + 1e-12


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("n", "m"), [(1, 3), (2, 2), (3, 1)])
def test_the_weight_of_a_check_is_bounded(name, n, m):
    """However wrong the sizes: an error moves the gradient by at most |error| sum(w) / (m MIX)."""
    probs = LAWS[name]
    random = torch.Generator().manual_seed(3)
    samples, mass = sample_tuples(probs, n)
    law = coordinates(law_of(probs, len(mass)))
    cells = cells_of(law)
    flat = cells.flat(samples)
    entries = int(cells.entries(flat).max()) + 1
    total = cells.weight(flat).sum(-1).mean(0)  # (tuples,), the mean over samples
    assert total.max() <= (probs.numel() / 4 if probs.ndim == 1 else 2**0.5 * len(probs))
    for _ in range(20):
        size = 10 ** (8 * torch.randn(entries, generator=random, dtype=f64)).clamp(-300, 300)
        start = torch.rand(len(mass), generator=random, dtype=f64)
        sample, cell, chance, _ = choose(chances(cells, flat, size), n, m, start)
        for j in range(m):
            change = torch.zeros_like(flat)
            place = torch.arange(len(mass))
            change[sample[j], place, cell[j]] = 1 / (m * chance[j])
            moved = cells.gradient(flat, change).flatten(1).norm(dim=-1)
            assert (moved <= total / (m * MIX) * (1 + 1e-9)).all()
            # (a check of the own class would be no move)
            assert (cells.weight(flat).expand_as(flat)[sample[j], place, cell[j]] > 0).all()


# --- variance, and the fade -----------------------------------------------------------------------


def spread_of(estimator: dbsurf.Estimator, f, dist, calls: int, first: int = 0) -> float:
    """Trace of the covariance over calls in training mode, the first ones left out."""
    found = [estimator.estimate(f, dist).grad for _ in range(first + calls)][first:]
    return torch.stack(found).var(0).sum().item()


def network(seed: int, width: int, activation) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = nn.Sequential(nn.Linear(width, 30), activation, nn.Linear(30, 1))
        for layer in (made[0], made[2]):
            nn.init.normal_(layer.weight, std=1.5 / layer.in_features**0.5)
    return made.requires_grad_(False)


@pytest.mark.parametrize(("n", "m", "most"), [(2, 2, 0.03), (1, 1, 0.1), (1, 3, 0.03)])
def test_a_smooth_function_has_a_small_part_of_the_variance_of_loorf(n, m, most):
    torch.manual_seed(0)
    net = network(1, 20, nn.Softplus())
    law = Independent(Bernoulli(logits=torch.linspace(-1, 1, 20).expand(20, 20)), 1)
    ours = spread_of(dbsurf.SpotCheck(n, checks=m), lambda x: net(x)[..., 0], law, 100, 150)
    plain = spread_of(dbsurf.LOORF(n + m), lambda x: net(x)[..., 0], law, 100)
    assert ours < most * plain


def test_one_hot_laws_have_a_part_of_the_variance_of_loorf():
    torch.manual_seed(0)
    net = network(1, 40, nn.Tanh())
    logits = torch.randn(20, 10, 4, generator=torch.Generator().manual_seed(2))
    law = Independent(OneHotCategorical(logits=logits), 1)
    function = lambda x: net(x.flatten(-2))[..., 0]  # noqa: E731
    ours = spread_of(dbsurf.SpotCheck(1, checks=3), function, law, 100, 250)
    assert ours < 0.5 * spread_of(dbsurf.LOORF(4), function, law, 100)


def hard(x: Tensor) -> Tensor:
    """Thresholds: the gradient is 0 or has nothing to do with f."""
    weight = torch.randn(x.shape[-1], 20, generator=torch.Generator().manual_seed(4))
    return (x @ weight > weight.sum(0) / 2).to(x.dtype).sum(-1) + 0 * x.sum(-1)


def noise(x: Tensor) -> Tensor:
    steep = (30 * x).sum(-1)
    return torch.randn(x.shape[:-1]) + steep - steep.detach()


def dropout(x: Tensor) -> Tensor:
    weight = torch.linspace(-2, 2, x.shape[-1]).sin()
    return (nn.functional.dropout(x, 0.5) * weight).sum(-1).tanh()


@pytest.mark.parametrize(
    ("function", "n", "m"), [(hard, 2, 2), (hard, 1, 1), (noise, 2, 2), (dropout, 2, 2)]
)
def test_it_fades_where_the_gradient_says_nothing_about_flips(function, n, m):
    """At most 5 % above LOORF at equal evaluations, tries of the other form included."""
    torch.manual_seed(0)
    law = Independent(Bernoulli(logits=torch.linspace(-2, 2, 40).expand(20, 40)), 1)
    ours = spread_of(dbsurf.SpotCheck(n, checks=m), function, law, 400, 300)
    plain = spread_of(dbsurf.LOORF(n + m), function, law, 400)
    assert ours < 1.05 * plain


def test_one_hot_fades_too():
    torch.manual_seed(0)
    law = Independent(OneHotCategorical(logits=torch.zeros(20, 8, 4)), 1)
    ours = spread_of(dbsurf.SpotCheck(2), lambda x: hard(x.flatten(-2)), law, 400, 300)
    assert ours < 1.05 * spread_of(dbsurf.LOORF(4), lambda x: hard(x.flatten(-2)), law, 400)


def test_a_black_box_is_unbiased_and_ends_as_plain_samples():
    torch.manual_seed(0)
    law = Independent(Bernoulli(logits=torch.linspace(-1, 1, 10).expand(50, 10)), 1)
    estimator = dbsurf.SpotCheck(2)
    box = lambda x: hard(x).detach()  # noqa: E731
    found = torch.stack([estimator.estimate(box, law).grad for _ in range(400)])  # (400, 50, 10)
    error = found.mean((0, 1)) - dbsurf.exact(box, law).grad[0]
    deviation = (found.var((0, 1)) / (400 * 50)).sqrt()
    assert (error / deviation).abs().max() < 5  # fails for a right mean with probability 6e-6
    assert estimator.eval().fade()


def test_common_random_numbers_keep_an_f_with_noise_of_its_own():
    """The same inner noise for all evaluations of a call: f is one function again."""
    torch.manual_seed(0)
    law = Independent(Bernoulli(logits=torch.linspace(-2, 2, 40).expand(20, 40)), 1)
    weight = torch.linspace(-2, 2, 40).sin()
    estimator, found = dbsurf.SpotCheck(2), []
    for _ in range(400):
        keep = torch.rand(20, 40) < 0.5  # drawn once a call, for each batch element
        found.append(estimator.estimate(lambda x, k=keep: (x * k @ weight).tanh(), law).grad)
    assert not estimator.eval().fade()


# --- state and input ------------------------------------------------------------------------------


def train(estimator: dbsurf.Estimator, steps: range) -> Tensor:
    logits = torch.linspace(-1, 1, 40).reshape(4, 10).requires_grad_()
    for step in steps:
        logits.grad = None
        seed = torch.Generator().manual_seed(step)
        estimator(f, Independent(Bernoulli(logits=logits), 1), generator=seed).sum().backward()
    return logits.grad


def test_training_is_resumed_bit_for_bit():
    whole = train(dbsurf.SpotCheck(2), range(80))
    first = dbsurf.SpotCheck(2)
    train(first, range(55))
    blob = io.BytesIO()
    torch.save(first.state_dict(), blob)
    blob.seek(0)
    second = dbsurf.SpotCheck(2)  # never called: the state has the shapes
    second.load_state_dict(torch.load(blob, weights_only=True))
    assert torch.equal(train(second, range(55, 80)), whole)
    third = dbsurf.SpotCheck(2, size=10)
    third.load_state_dict(first.state_dict())
    assert torch.equal(train(third, range(55, 80)), whole)


def test_estimate_and_backward_teach_the_same():
    one, two = dbsurf.SpotCheck(2), dbsurf.SpotCheck(2)
    law = Independent(Bernoulli(logits=torch.linspace(-1, 1, 40).reshape(4, 10)), 1)
    for step in range(45):
        one.estimate(f, law, generator=torch.Generator().manual_seed(step))
    train(two, range(45))
    for ours, theirs in zip(one.buffers(), two.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_baseline_changes_nothing():
    law = law_of(LAWS["3 bits"], 5)
    for training in (True, False):
        estimators = dbsurf.SpotCheck(2), dbsurf.SpotCheck(2)
        for step in range(45):
            found = [
                estimator.train(training or step < 40).estimate(
                    f, law, baseline=baseline, generator=torch.Generator().manual_seed(step)
                )
                for estimator, baseline in zip(estimators, (None, 3.5), strict=True)
            ]
            torch.testing.assert_close(found[0].grad, found[1].grad)


def test_a_draw_that_is_not_finite_teaches_nothing():
    law = Independent(Bernoulli(logits=torch.zeros(4, 10)), 1)
    estimator = dbsurf.SpotCheck(2, validate=False)
    for _ in range(5):
        estimator.estimate(f, law)
    before = [buffer.clone() for buffer in estimator.buffers()]
    for bad in (torch.nan, torch.inf, 3e38):
        estimator.estimate(lambda x, bad=bad: f(x) * bad, law)
    assert all(torch.equal(a, b) for a, b in zip(before, estimator.buffers(), strict=True))


def test_probabilities_too_small_for_a_reciprocal():
    logits = torch.tensor([[-55.0, 42.0, -291.0]])  # in float32 6e-43, 1 and 0
    law = OneHotCategorical(logits=logits)
    for f in (lambda x: x[..., 0], lambda x: x.sum(-1)):
        found = dbsurf.SpotCheck(5).estimate(f, law).grad
        assert bool((found.abs() < 1e-30).all())


def test_a_budget_is_split():
    split = {k: dbsurf.SpotCheck.with_evaluations(k) for k in range(2, 9)}
    assert [(e.n, e.checks) for e in split.values()] == [
        (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 4), (4, 4),
    ]  # fmt: skip
    assert all(e.evaluations == k for k, e in split.items())
    given = dbsurf.SpotCheck.with_evaluations(4, checks=3)
    assert (given.n, given.checks) == (1, 3)
    with pytest.raises(ValueError, match="n must be an integer >= 1 for SpotCheck, got 0"):
        dbsurf.SpotCheck.with_evaluations(1)


def test_bad_input():
    with pytest.raises(ValueError, match="checks must be an integer >= 1, got 0"):
        dbsurf.SpotCheck(2, checks=0)
    with pytest.raises(ValueError, match="decay must be a number in"):
        dbsurf.SpotCheck(2, decay=1.0)
    with pytest.raises(ValueError, match="size must be"):
        dbsurf.SpotCheck(2, size="many")
    estimator = dbsurf.SpotCheck(2, size=3)
    with pytest.raises(ValueError, match="dist must have 3 bits as in earlier calls, got 2 bits"):
        estimator.estimate(f, law_of(LAWS["2 bits"]))
    with pytest.raises(ValueError, match="got 2 coordinates of 3 classes"):
        estimator.estimate(f_for(LAWS["2 of 3 classes"]), law_of(LAWS["2 of 3 classes"]))
    with pytest.raises(ValueError, match="Bernoulli or OneHotCategorical for SpotCheck"):
        estimator.estimate(f, Categorical(torch.ones(3)))
    law = law_of(LAWS["3 bits"])
    with pytest.raises(ValueError, match="samples must be drawn by SpotCheck itself"):
        estimator.estimate(f, law, samples=torch.zeros(2, 3, dtype=f64))
