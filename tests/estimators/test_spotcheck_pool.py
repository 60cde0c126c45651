"""SpotCheck with checks that a batch shares: no bias, bounded weights, smaller variance."""

from __future__ import annotations

import copy
import io
import itertools

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent, OneHotCategorical

import dbsurf
from dbsurf.distributions import coordinates
from dbsurf.estimators import Drawn
from dbsurf.estimators.spotcheck.checks import MIX
from dbsurf.estimators.spotcheck.estimator import Random
from dbsurf.estimators.spotcheck.joint import cells_of
from dbsurf.estimators.spotcheck.pool import BINS, choose_shared, groups_of, shared_chances

f64 = torch.float64
LAWS = {
    "2 bits": torch.tensor([[0.3, 0.8], [0.6, 0.1]], dtype=f64),
    "1 of 3 classes": torch.tensor([[[0.2, 0.5, 0.3]], [[0.7, 0.1, 0.2]]], dtype=f64),
}
SCALES = torch.tensor([0.3, 2.0], dtype=f64)  # what f knows of the two elements
WEIGHT = torch.randn(12, 20, generator=torch.Generator().manual_seed(2))
NOT_PLAIN = torch.tensor(False)


def law_of(probs: Tensor) -> Independent:
    bits = probs.ndim == 2
    kind = Bernoulli(probs) if bits else OneHotCategorical(probs)
    return Independent(kind, 1)


def f(x: Tensor, scale: Tensor) -> Tensor:
    """Neither additive nor the same for two elements, with a gradient far from its differences."""
    x = x if x.shape[-1] == 2 else x.flatten(-2)
    weights = torch.linspace(1.3, -0.7, x.shape[-1]).to(x)
    linear = (x * weights).sum(-1)
    return scale * (2.5 + linear + torch.sin(7 * linear) + (x[..., 0] - x[..., 1]).exp())


def arbitrary(n: int, m: int, probs: Tensor) -> dbsurf.SpotCheck:
    """A state that nothing has taught, with sizes that differ by cell and by group."""
    estimator = dbsurf.SpotCheck(n, checks=m, pooled=True).double()
    estimator.estimate(f, law_of(probs), inputs=SCALES)
    random = torch.Generator().manual_seed(n + 10 * m)
    memory = estimator.memory
    with torch.no_grad():
        memory.tables.copy_(torch.rand(memory.tables.shape, generator=random) + 0.01)
        memory.counts.fill_(50.0)
        estimator.pool.sums.copy_(0.01 + torch.rand(2, BINS, generator=random))
    larger = estimator.pool.read(f64)
    assert larger.std() > 0.1
    return estimator.eval()


# --- no bias --------------------------------------------------------------------------------------


def cuts_of(first: float, m: int, chance: Tensor, b: int) -> list[float]:
    """The shifts of element b at which one of its points passes a cut of its chances."""
    n, batch, count = chance.shape
    flat = chance.permute(1, 2, 0).reshape(batch, count * n)
    total = flat.sum(-1)
    before = float(total[:b].sum())
    places = [(j + first) / (m * batch) * float(total.sum()) for j in range(m * batch)]
    inside = [(x - before) / float(total[b]) for x in places if 0 <= x - before < float(total[b])]
    inner = [0.0, *(flat[b].cumsum(-1)[:-1] / total[b]).tolist()]
    return sorted({0.0, 1.0, *((cut - x) % 1 for cut in inner for x in inside)})


def firsts_of(m: int, chance: Tensor) -> list[float]:
    """The beginnings at which a point passes from one element to the next."""
    total = chance.sum((0, 2))
    ends = total.cumsum(0)[:-1] / total.sum()
    return sorted({0.0, 1.0, *((m * len(total) * end) % 1 for end in ends.tolist())})


@pytest.mark.parametrize("m", [1, 2, 3])
def test_every_pair_is_drawn_as_often_as_its_chance_says(m):
    """Over all beginnings and shifts, exactly; and an element never has one check too many."""
    random = torch.Generator().manual_seed(m)
    n, batch, count = 2, 3, 2
    chance = torch.rand(n, batch, count, generator=random, dtype=f64) ** 3
    chance[0, 1, 1] = 0  # drawn never
    chance *= batch / chance.sum()
    found = torch.zeros_like(chance)
    for low, high in itertools.pairwise(firsts_of(m, chance)):
        first = torch.tensor([(low + high) / 2], dtype=f64)
        for b in range(batch):
            for left, right in itertools.pairwise(cuts_of(float(first), m, chance, b)):
                start = torch.full((batch,), (left + right) / 2, dtype=f64)
                checks = choose_shared(chance, m, first, start)
                place = checks.sample, checks.element, checks.cell
                assert torch.allclose(checks.chance, chance[place])
                times = torch.zeros_like(chance).index_put(
                    place, torch.ones((), dtype=f64), accumulate=True
                )
                assert abs(times[:, b].sum() - m * chance[:, b].sum()) < 1
                found[:, b] += (high - low) * (right - left) * times[:, b]
    assert (found - m * chance).abs().max() < 1e-12


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 2), (1, 3), (2, 1)])
def test_exact_over_samples_and_checks_of_a_batch(name, n, m):
    """All samples of both elements, all beginnings, all shifts, with an arbitrary state."""
    probs = LAWS[name]
    if n == 2 and name != "2 bits":
        return  # 324 pairs of tuples, in half a minute
    estimator, law = arbitrary(n, m, probs), law_of(probs)
    cells = cells_of(coordinates(law))
    size = estimator.memory.read(cells, f64, NOT_PLAIN).size
    larger = estimator.pool.read(f64)
    own = [tuples(row, n) for row in probs]
    mean = torch.zeros_like(probs)
    for pair in itertools.product(*own):
        samples = torch.stack([x for x, _ in pair], 1)  # (n, 2, *event)
        mass = pair[0][1] * pair[1][1]
        groups = groups_of(f(samples, SCALES))
        chance = shared_chances(cells, cells.flat(samples), size, larger[groups])
        for low, high in itertools.pairwise(firsts_of(m, chance)):
            first = torch.tensor([(low + high) / 2], dtype=f64)
            for b in range(2):
                for left, right in itertools.pairwise(cuts_of(float(first), m, chance, b)):
                    start = torch.full((2,), (left + right) / 2, dtype=f64)
                    drawn = Drawn(samples.clone(), Random(NOT_PLAIN, None, start, first))
                    estimator.draw_samples = lambda law, generator, drawn=drawn: drawn
                    grad = estimator.estimate(f, law, inputs=SCALES).grad
                    mean[b] += mass * (high - low) * (right - left) * grad[b]
    truth = dbsurf.Exact().estimate(f, law, inputs=SCALES).grad
    assert (mean - truth).abs().max() < 1e-10


def tuples(probs: Tensor, n: int) -> list[tuple[Tensor, float]]:
    """The n samples of one element with their probabilities."""
    if probs.ndim == 2:  # one coordinate, one sample
        each = torch.eye(3, dtype=f64)
        return [(x.reshape(1, 1, 3), p) for x, p in zip(each, probs[0].tolist(), strict=True)]
    if n == 1:
        states = torch.cartesian_prod(*[torch.arange(2)] * 2).to(f64)
        mass = torch.where(states == 1, probs, 1 - probs).prod(-1).tolist()
        return [(x.unsqueeze(0), p) for x, p in zip(states, mass, strict=True)]
    found = []
    for paths in itertools.product(itertools.product((0, 1), repeat=2), repeat=2):  # by bit
        mass = 1.0
        for (one, two), p in zip(paths, probs.tolist(), strict=True):
            both = max(0.0, 2 * p - 1)  # two points half a turn apart
            mass *= {0: 1 - 2 * p + both, 1: p - both, 2: both}[one + two]
        if mass > 0:
            found.append((torch.tensor(paths, dtype=f64).T, mass))
    return found


@pytest.mark.parametrize("name", LAWS)
def test_the_weight_of_a_check_has_the_bound_that_it_has_without_a_pool(name):
    probs, m = LAWS[name], 2
    random = torch.Generator().manual_seed(3)
    law = coordinates(law_of(probs))
    cells = cells_of(law)
    samples = cells.flat(law.draw(dbsurf.samplers.IID(), 3, random))
    weight = cells.weight(samples).expand_as(samples)
    total = weight.sum(-1).mean(0)  # (B,)
    entries = int(cells.entries(samples).max()) + 1
    for _ in range(50):
        draw = lambda *shape: 10 ** (8 * torch.randn(*shape, generator=random, dtype=f64))  # noqa: E731
        chance = shared_chances(cells, samples, draw(entries), draw(3, 2))
        first, start = (torch.rand(k, generator=random, dtype=f64) for k in (1, 2))
        checks = choose_shared(chance, m, first, start)
        own = weight[checks.sample, checks.element, checks.cell] / (3 * m * checks.chance)
        assert (own <= total[checks.element] / (m * MIX) * (1 + 1e-9)).all()
        assert (own > 0).all()


def test_groups_have_equal_numbers_by_rank():
    values = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    groups = groups_of(values)
    assert torch.equal(groups.flatten().bincount(), torch.full((BINS,), 6))
    assert values[groups == 2].max() < values[groups == 3].min()
    assert groups_of(torch.zeros(1, 1)).tolist() == [[0]]
    assert groups_of(torch.zeros(2, 0)).shape == (2, 0)


# --- heavy tails ----------------------------------------------------------------------------------


def tailed() -> tuple[Independent, Tensor]:
    """Fifty elements, of which one in ten has a hundred times the effects."""
    random = torch.Generator().manual_seed(1)
    scale = torch.where(torch.arange(50) % 10 == 0, 10.0, 0.1)
    return Independent(Bernoulli(logits=torch.randn(50, 12, generator=random)), 1), scale


def bent(x: Tensor, scale: Tensor) -> Tensor:
    return scale * (torch.relu(x @ WEIGHT - 1).sum(-1) + 5)


def test_a_batch_with_heavy_tails_has_less_variance_and_the_same_mean():
    law, scale = tailed()
    truth = dbsurf.Exact().estimate(bent, law, inputs=scale).grad
    variances = {}
    for pooled in (False, True):
        torch.manual_seed(0)
        estimator = dbsurf.SpotCheck(2, pooled=pooled)
        for _ in range(200):
            estimator.estimate(bent, law, inputs=scale)
        estimator.eval()
        found = torch.stack(
            [estimator.estimate(bent, law, inputs=scale).grad for _ in range(1_500)]
        )
        error = (found.mean(0) - truth) / (found.var(0) / len(found)).sqrt()
        assert error.abs().max() < 5.2  # fails for a right mean with probability 1e-4
        variances[pooled] = found.var(0).sum().item()
    assert variances[True] < 0.7 * variances[False]


# --- how it is called -----------------------------------------------------------------------------


def trained(estimator: dbsurf.SpotCheck, steps: range, **options) -> Tensor:
    law, scale = tailed()
    logits = law.base_dist.logits.clone().requires_grad_()
    for step in steps:
        logits.grad = None
        seed = torch.Generator().manual_seed(step)
        q = Independent(Bernoulli(logits=logits), 1)
        estimator(bent, q, inputs=scale, generator=seed, **options).sum().backward()
    return logits.grad


def test_training_is_resumed_bit_for_bit():
    whole = trained(dbsurf.SpotCheck(2, pooled=True), range(60))
    first, blob = dbsurf.SpotCheck(2, pooled=True), io.BytesIO()
    trained(first, range(45))
    torch.save(first.state_dict(), blob)
    blob.seek(0)
    second = dbsurf.SpotCheck(2, pooled=True)
    second.load_state_dict(torch.load(blob, weights_only=True))
    assert torch.equal(trained(second, range(45, 60)), whole)


def test_chunks_and_folds_change_nothing():
    whole = trained(dbsurf.SpotCheck(2, pooled=True), range(45))
    for options in ({"chunk": 1}, {"fold": True}, {"fold": True, "chunk": 1}):
        torch.testing.assert_close(
            trained(dbsurf.SpotCheck(2, pooled=True), range(45), **options), whole
        )


def test_a_batch_of_two_axes_is_that_batch_in_one():
    law, scale = tailed()
    grid = Independent(Bernoulli(logits=law.base_dist.logits.reshape(5, 10, 12)), 1)
    both = dbsurf.SpotCheck(2, pooled=True), dbsurf.SpotCheck(2, pooled=True)
    for step in range(45):
        seeds = [torch.Generator().manual_seed(step) for _ in both]
        one = both[0].estimate(bent, law, inputs=scale, generator=seeds[0])
        two = both[1].estimate(bent, grid, inputs=scale.reshape(5, 10), generator=seeds[1])
    torch.testing.assert_close(two.grad.reshape(50, 12), one.grad)


def test_aux_is_that_of_the_samples():
    law, scale = tailed()

    def with_aux(x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        return bent(x, scale), x.detach().clone()

    estimator = dbsurf.SpotCheck(2, checks=3, pooled=True)
    for _ in range(45):  # of both forms
        found = estimator.estimate(with_aux, law, inputs=scale, has_aux=True)
        assert torch.equal(found.aux, found.samples)


def test_a_baseline_changes_nothing():
    law, scale = tailed()
    both = [dbsurf.SpotCheck(2, pooled=True) for _ in range(2)]
    offsets = (None, torch.linspace(-9, 9, 50))
    for step in range(45):
        found = [
            one.estimate(
                bent, law, inputs=scale, baseline=b, generator=torch.Generator().manual_seed(step)
            )
            for one, b in zip(both, offsets, strict=True)
        ]
        torch.testing.assert_close(found[0].grad, found[1].grad, rtol=1e-3, atol=1e-3)


def test_one_element_and_none():
    estimator = dbsurf.SpotCheck(2, pooled=True)
    one = Independent(Bernoulli(logits=torch.zeros(12)), 1)
    for _ in range(45):
        found = estimator.estimate(bent, one, inputs=torch.tensor(2.0))
        assert torch.isfinite(found.grad).all()
    state = copy.deepcopy(estimator.state_dict())
    none = Independent(Bernoulli(logits=torch.zeros(0, 12)), 1)
    assert estimator.estimate(bent, none, inputs=torch.zeros(0)).grad.shape == (0, 12)
    assert all(torch.equal(a, b) for a, b in zip(state.values(), estimator.buffers(), strict=True))
    sure = Independent(Bernoulli(logits=torch.full((3, 12), 200.0)), 1)
    assert (estimator.estimate(bent, sure, inputs=torch.ones(3)).grad == 0).all()


def test_transforms_are_right_too():
    law, scale = tailed()
    estimator = dbsurf.SpotCheck(2, pooled=True, size=12).eval()

    def loss(logits: Tensor, scale: Tensor) -> Tensor:
        return estimator(bent, Independent(Bernoulli(logits=logits), 1), inputs=scale).sum()

    parts = law.base_dist.logits.reshape(5, 10, 12), scale.reshape(5, 10)
    for one, own in zip(*parts, strict=True):
        leaf = one.clone().requires_grad_()
        torch.manual_seed(0)
        loss(leaf, own).backward()
        torch.manual_seed(0)
        torch.testing.assert_close(torch.func.grad(loss)(one, own), leaf.grad)
    each = torch.func.vmap(torch.func.grad(loss), randomness="different")
    found = torch.stack([each(*parts).reshape(50, 12) for _ in range(400)])
    truth = dbsurf.Exact().estimate(bent, law, inputs=scale).grad
    error = (found.mean(0) - truth) / (found.var(0) / len(found)).sqrt()
    assert error.abs().max() < 5.2  # fails for a right mean with probability 1e-4


def test_under_autocast_only_f_is_in_half_precision():
    law, scale = tailed()
    estimator, dtypes = dbsurf.SpotCheck(2, pooled=True), set()

    def f(x: Tensor, scale: Tensor) -> Tensor:
        product = x @ torch.ones(12, 1)
        dtypes.add(product.dtype)
        return product.squeeze(-1) * scale

    with torch.autocast("cpu", torch.bfloat16):
        found = estimator.estimate(f, law, inputs=scale)
    assert dtypes == {torch.bfloat16}
    assert found.grad.dtype == torch.float32


def test_several_laws_share_their_checks_too():
    law, scale = tailed()
    one_hot = Independent(OneHotCategorical(logits=torch.zeros(50, 2, 3)), 1)
    estimator = dbsurf.SpotCheck(2, pooled=True)

    def f(parts: dict[str, Tensor], scale: Tensor) -> Tensor:
        return bent(parts["bits"], scale) * (1 + parts["classes"][..., 0, 0])

    for _ in range(45):
        found = estimator.estimate(f, {"bits": law, "classes": one_hot}, inputs=scale)
    assert found.grad["bits"].shape == (50, 12)
    assert found.grad["classes"].shape == (50, 2, 3)
    assert estimator.pool.sums.sum() > 0


def test_a_draw_that_is_not_finite_teaches_nothing():
    law, scale = tailed()
    estimator = dbsurf.SpotCheck(2, pooled=True, validate=False)
    for _ in range(5):
        estimator.estimate(bent, law, inputs=scale)
    before = [buffer.clone() for buffer in estimator.buffers()]
    for bad in (torch.nan, torch.inf):
        estimator.estimate(lambda x, s, bad=bad: bent(x, s) * bad, law, inputs=scale)
    assert all(torch.equal(a, b) for a, b in zip(before, estimator.buffers(), strict=True))


def test_bad_input():
    law, scale = tailed()
    with pytest.raises(ValueError, match="pooled must be True or False, got 1"):
        dbsurf.SpotCheck(2, pooled=1)
    with pytest.raises(ValueError, match="inputs must be what f needs to know of a batch element"):
        dbsurf.SpotCheck(2, pooled=True).estimate(lambda x: bent(x, scale), law)
    assert repr(dbsurf.SpotCheck(2, pooled=True)).startswith(
        "SpotCheck(\n  n=2, checks=2, pooled=True"
    )
