"""A tuple or dict of bits and categories: exact by enumeration, and better than by hand."""

from __future__ import annotations

import io
import itertools

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import dbsurf
from dbsurf.distributions import coordinates
from dbsurf.estimators import Drawn, quadratic_form
from dbsurf.estimators.quadratic import Network
from dbsurf.estimators.spotcheck.checks import chances
from dbsurf.estimators.spotcheck.estimator import Random
from dbsurf.estimators.spotcheck.joint import cells_of
from mixes import MIXES, NUMBERS, entangled, every_outcome, f64, laws


def truth(mix) -> dict[str, Tensor]:
    """The gradient for the logits of a mix that is a batch of one, without that batch."""
    exact = dbsurf.exact(entangled, laws(mix, 1)).grad
    return {name: grad[0] for name, grad in exact.items()}


def expected(grads: dict[str, Tensor], mass: Tensor) -> dict[str, Tensor]:
    return {name: torch.tensordot(mass, grad, 1) for name, grad in grads.items()}


def close(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float = 1e-10) -> None:
    assert found.keys() == wanted.keys()
    for name, grad in found.items():
        assert (grad - wanted[name]).abs().max() < tolerance, name


# --- QuadraticCV --------------------------------------------------------------------------------


def arbitrary(estimator: dbsurf.QuadraticCV) -> None:
    """Coefficients that nothing has taught: a = 0.8, b = 1.1, a bend of -2.5."""
    random = torch.Generator().manual_seed(8)
    network = estimator.network
    assert isinstance(network, Network)
    network.values.copy_(torch.randn(network.values.shape, generator=random))
    estimator.within.weight.fill_(1.0)
    estimator.within.sums.copy_(
        torch.tensor([[3.0, 0.558, 1.1], [0.558, 1.0, 0.0], [1.1, 0.0, 1.0]])
    )
    network.bend.energy.fill_(1.0)
    network.bend.overlap.fill_(-2.5)


def quadratic_is_exact(mix, uses: str, n: int) -> None:
    samples, mass = every_outcome(mix, n)
    assert mass.sum().item() == pytest.approx(1)
    count, wanted = mass.numel(), truth(mix)
    context = torch.linspace(-1, 1, 4, dtype=f64).expand(count, 4)
    estimator = dbsurf.QuadraticCV(n, uses=uses, rank=5)
    estimator.estimate(entangled, laws(mix, count), context=context)
    arbitrary(estimator)
    # as a backward pass, in training mode
    parts = laws(mix, count)
    logits = [_logits(part).requires_grad_() for part in parts.values()]
    parts = {name: _with(part, x) for (name, part), x in zip(parts.items(), logits, strict=True)}
    estimator.draw_samples = lambda law, generator: Drawn(
        {k: x.clone() for k, x in samples.items()}
    )
    estimator(entangled, parts, context=context).sum().backward()
    grads = {name: x.grad for name, x in zip(parts, logits, strict=True)}
    close(expected(grads, mass), wanted)
    arbitrary(estimator)  # (the backward pass has taught it)
    estimator.eval()
    found = estimator.estimate(entangled, laws(mix, count), context=context, samples=samples)
    close(expected(found.grad, mass), wanted)


def _logits(part) -> Tensor:
    base = part.base_dist if isinstance(part, Independent) else part
    return base.logits.detach().clone()


def _with(part, logits: Tensor):
    if isinstance(part, Independent):
        return Independent(type(part.base_dist)(logits=logits), part.reinterpreted_batch_ndims)
    return type(part)(logits=logits)


@pytest.mark.parametrize("uses", ["mean", "gradient", "values"])
@pytest.mark.parametrize("mix", MIXES)
def test_quadratic_is_exact_with_arbitrary_coefficients(mix, uses):
    quadratic_is_exact(MIXES[mix], uses, 2)


@pytest.mark.parametrize("uses", ["mean", "gradient", "values"])
def test_quadratic_is_exact_with_three_samples(uses):
    quadratic_is_exact(MIXES["3 classes before two bits"], uses, 3)


@pytest.mark.parametrize("mix", NUMBERS)
def test_quadratic_of_values_takes_category_numbers(mix):
    quadratic_is_exact(NUMBERS[mix], "values", 2)


def test_one_vector_and_its_parts_are_the_same_control_variate():
    """Two laws of bits, or the same bits as one law: the same gradient, the same learning."""
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(20, 7, dtype=f64, generator=random)

    def f(x: Tensor) -> Tensor:
        return torch.tanh(x.cumsum(-1) - 2).sum(-1)

    whole, parts = dbsurf.QuadraticCV(3, rank=4), dbsurf.QuadraticCV(3, rank=4)
    law = Independent(Bernoulli(logits=logits), 1)
    both = tuple(Independent(Bernoulli(logits=part), 1) for part in logits.split([3, 4], -1))
    for _ in range(20):
        x = law.sample((3,))
        one = whole.estimate(f, law, samples=x).grad
        two = parts.estimate(lambda x: f(torch.cat(x, -1)), both, samples=x.split([3, 4], -1)).grad
        torch.testing.assert_close(torch.cat(two, -1), one)
    for a, b in zip(whole.buffers(), parts.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_the_fit_over_a_mix_is_that_of_autograd():
    """`MixedPairs` against the sums written out, and differentiated by torch."""
    random = torch.Generator().manual_seed(1)
    sizes, classes = [3, 8], [1, 4]
    pairs = quadratic_form.MixedPairs(
        [quadratic_form.BitPairs(), quadratic_form.OneHotPairs(4)], sizes
    )
    c = torch.randn(3, 5, 11, dtype=f64, generator=random)
    dg = torch.randn(3, 5, 11, dtype=f64, generator=random)
    dh = torch.randn(3, 5, 1, dtype=f64, generator=random)
    s = torch.randn(5, 2, dtype=f64, generator=random).requires_grad_()
    u = torch.randn(11, 2, dtype=f64, generator=random).requires_grad_()

    def own(c: Tensor) -> Tensor:
        total = torch.zeros(())
        for part, w, m in zip(c.split(sizes, -1), u.split(sizes), classes, strict=True):
            t = torch.einsum("nbkc,kcr->nbkr", part.unflatten(-1, (-1, m)), w.unflatten(0, (-1, m)))
            total = total + t.square().sum(-2)
        return total

    torch.testing.assert_close(pairs.own(c, u), own(c))
    leaf = c.clone().requires_grad_()
    (slope,) = torch.autograd.grad((0.5 * s * own(leaf)).sum(), leaf, create_graph=True)
    torch.testing.assert_close(pairs.slope(c, s, u), slope)
    by_s, _ = torch.autograd.grad((dg * slope).sum(), (s, u), retain_graph=True)
    _, by_u = torch.autograd.grad(
        (dg * slope).sum() + (dh * 0.5 * s * own(c)).sum(), (s, u), retain_graph=True
    )
    found = pairs.derivatives(c, dg, dh, s, u, (dg * c).sum(0))
    torch.testing.assert_close(found[0], by_s)
    torch.testing.assert_close(found[1], by_u)


# --- SpotCheck --------------------------------------------------------------------------------


def taught_by_nothing(mix, n: int, m: int) -> dbsurf.SpotCheck:
    """Tables, sizes of errors and scale that are arbitrary, all of them at work."""
    estimator = dbsurf.SpotCheck(n, checks=m).double()
    estimator.estimate(entangled, laws(mix, 1))
    memory, random = estimator.memory, torch.Generator().manual_seed(10 * n + m)
    for name, buffer in memory.named_buffers():
        if name != "sizes":
            buffer.copy_(torch.randn(buffer.shape, generator=random, dtype=f64))
    memory.tables[1:] = 0.01 + memory.tables[1:].square()
    memory.features[1] = 50 * memory.features[1].abs()
    memory.counts.fill_(50.0)
    root = memory.scale[:, :3].clone()
    memory.scale[:, :3] = root @ root.T
    return estimator.eval()


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 2), (2, 1)])
def test_spotcheck_is_exact_over_samples_and_checks(mix, n, m):
    """What is checked is constant between the starts at which a point passes a cut."""
    parts = MIXES[mix]
    estimator = taught_by_nothing(parts, n, m)
    samples, mass = every_outcome(parts, n, systematic=True)
    law = coordinates(laws(parts, len(mass)))
    cells, known, _ = estimator.prepare(law, None, entangled)
    assert known.size.std() > 1e-3
    chance = chances(cells, cells.flat(samples), known.size)
    chance = chance if chance.shape[0] == n else (chance / n).expand(n, -1, -1)
    cumulative = chance.permute(1, 2, 0).flatten(1).cumsum(-1)
    places, starts, weights = [], [], []
    for t, row in enumerate(cumulative.tolist()):
        for low, high in itertools.pairwise(sorted({0.0, 1.0, *((m * c) % 1 for c in row[:-1])})):
            places.append(t)
            starts.append((low + high) / 2)
            weights.append(mass[t].item() * (high - low))
    weight = torch.tensor(weights, dtype=f64)
    assert weight.sum().item() == pytest.approx(1)
    drawn = {name: x[:, places] for name, x in samples.items()}
    random = Random(torch.tensor(False), None, torch.tensor(starts, dtype=f64))
    estimator.draw_samples = lambda law, generator: Drawn(
        {name: x.clone() for name, x in drawn.items()}, random
    )
    dists = laws(parts, len(weight))
    logits = [_logits(part).requires_grad_() for part in dists.values()]
    dists = {name: _with(part, x) for (name, part), x in zip(dists.items(), logits, strict=True)}
    estimator(entangled, dists).sum().backward()
    close(expected({k: x.grad for k, x in zip(dists, logits, strict=True)}, weight), truth(parts))
    close(expected(estimator.estimate(entangled, dists).grad, weight), truth(parts))


@pytest.mark.parametrize("mix", MIXES)
def test_spotcheck_of_plain_samples_is_exact(mix):
    parts = MIXES[mix]
    estimator = taught_by_nothing(parts, 1, 1)
    samples, mass = every_outcome(parts, 2)
    others = cells_of(coordinates(laws(parts, len(mass)))).flat(
        {name: x[1:] for name, x in samples.items()}
    )
    random = Random(torch.tensor(True), others, torch.full((len(mass),), 0.5, dtype=f64))
    estimator.draw_samples = lambda law, generator: Drawn(
        {name: x[:1].clone() for name, x in samples.items()}, random
    )
    found = estimator.estimate(entangled, laws(parts, len(mass))).grad
    close(expected(found, mass), truth(parts))


def test_spotcheck_says_what_its_state_was_built_for():
    q, _ = mixture(6)
    sized = dbsurf.SpotCheck(2, size=[(1, 3), 4])
    sized.estimate(smooth, q)
    with pytest.raises(ValueError, match="1 coordinates of 3 classes and 4 bits .* got 4 bits and"):
        sized.estimate(smooth, {"bits": q["bits"], "which": q["which"]})
    with pytest.raises(ValueError, match="or a list of these for several laws, got 'three'"):
        dbsurf.SpotCheck(2, size="three")


# --- what all of them have to do ----------------------------------------------------------------

MIXABLE = {
    "mean": lambda: dbsurf.QuadraticCV(3, rank=4),
    "gradient": lambda: dbsurf.QuadraticCV(4, uses="gradient", rank=4),
    "values": lambda: dbsurf.QuadraticCV(4, uses="values", rank=4),
    "spotcheck": lambda: dbsurf.SpotCheck(1, checks=3),
}


def mixture(batch: int = 40) -> tuple[dict[str, torch.distributions.Distribution], list[Tensor]]:
    """Which of three clusters an observation belongs to, and which of four bits are outliers."""
    random = torch.Generator().manual_seed(2)
    which = torch.randn(batch, 3, generator=random).requires_grad_()
    bits = torch.randn(batch, 4, generator=random).requires_grad_()
    q = {
        "which": OneHotCategorical(logits=which),
        "bits": Independent(Bernoulli(logits=bits), 1),
    }
    return q, [which, bits]


def smooth(x: dict[str, Tensor]) -> Tensor:
    centre = x["which"] @ torch.tensor([-2.0, 0.5, 3.0])
    spread = 1 + (x["bits"] * torch.tensor([1.0, 2.0, 0.5, 1.5])).sum(-1)
    return (centre - 1).square() / spread + spread.log()


@pytest.mark.parametrize("name", MIXABLE)
def test_a_mix_has_less_variance_than_leave_one_out(name):
    torch.manual_seed(0)
    estimator = MIXABLE[name]()
    for _ in range(150):
        q, _ = mixture()
        estimator(smooth, q).sum().backward()
    estimator.eval()

    def variance(E: dbsurf.Estimator) -> float:
        q, _ = mixture()
        found = [E.estimate(smooth, q).grad for _ in range(60)]
        return sum(torch.stack([g[k] for g in found]).var(0).sum().item() for k in q)

    # After 300 calls, at four evaluations: .36, .45, .46 and .60; MDsurf(4) .73, SpotCheck(2) .85.
    assert variance(estimator) < 0.8 * variance(dbsurf.LOORF(4))


@pytest.mark.parametrize("name", MIXABLE)
def test_a_tuple_is_a_dict_without_names(name):
    grads = []
    for as_dict in (True, False):
        q, logits = mixture()
        estimator, random = MIXABLE[name](), torch.Generator().manual_seed(3)
        for _ in range(3):
            q, logits = mixture()
            if as_dict:
                value = estimator(smooth, q, generator=random)
            else:
                f = lambda x: smooth({"which": x[0], "bits": x[1]})  # noqa: E731
                value = estimator(f, (q["which"], q["bits"]), generator=random)
            value.sum().backward()
        grads.append([x.grad for x in logits])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


@pytest.mark.parametrize("name", MIXABLE)
def test_a_mix_is_resumed_bit_for_bit(name):
    def train(estimator: dbsurf.Estimator, steps: range) -> list[Tensor]:
        for step in steps:
            q, logits = mixture()
            seed = torch.Generator().manual_seed(step)
            estimator(smooth, q, generator=seed).sum().backward()
        return [x.grad for x in logits]

    whole = train(MIXABLE[name](), range(8))
    first = MIXABLE[name]()
    train(first, range(5))
    blob = io.BytesIO()
    torch.save(first.state_dict(), blob)
    blob.seek(0)
    second = MIXABLE[name]()
    second.load_state_dict(torch.load(blob, weights_only=True))
    assert all(torch.equal(a, b) for a, b in zip(train(second, range(5, 8)), whole, strict=True))


@pytest.mark.parametrize("name", MIXABLE)
def test_f_may_look_at_one_part_only(name):
    """Then the other part has a gradient of mean 0, and nothing fails on the way."""
    q, (which, bits) = mixture(2000)
    estimator = MIXABLE[name]()
    for _ in range(30):
        estimator.estimate(lambda x: x["bits"].square().sum(-1), q)
    estimator(lambda x: x["bits"].square().sum(-1), q).sum().backward()
    p = torch.sigmoid(bits.detach())
    assert (bits.grad - p * (1 - p)).mean(0).abs().max() < 0.05
    assert which.grad.mean(0).abs().max() < 0.05


@pytest.mark.parametrize("name", MIXABLE)
def test_options_of_a_call_work_for_a_mix(name):
    """inputs, fold, chunk, has_aux, context, samples of the caller."""
    q, logits = mixture(6)
    data = torch.arange(6.0)

    def f(x: dict[str, Tensor], y: Tensor) -> tuple[Tensor, str]:
        assert x["which"].shape == (*y.shape, 3)
        return (x["which"][..., 0] * y + x["bits"].sum(-1)), "aux"

    estimator = MIXABLE[name]()
    value, aux = estimator(
        f, q, inputs=data, fold=True, chunk=2, has_aux=True, context=torch.ones(6, 2)
    )
    value.sum().backward()
    assert value.shape == (6,)
    assert set(aux) == {"aux"}  # one for each chunk
    assert all(torch.isfinite(x.grad).all() for x in logits)


@pytest.mark.parametrize("name", [name for name in MIXABLE if name != "mean"])
def test_draw_and_loss_work_for_a_mix(name):
    estimator = MIXABLE[name]()
    if estimator.needs_call:
        pytest.skip("it evaluates f itself")
    q, logits = mixture(6)
    x = estimator.draw(q)
    estimator.loss(x, smooth(x), q).sum().backward()
    assert all(x.grad.abs().sum() > 0 for x in logits)


def test_what_a_mix_cannot_hold():
    bits = Independent(Bernoulli(logits=torch.zeros(2, 3)), 1)
    number = Categorical(logits=torch.zeros(2, 3))
    for name in ("mean", "gradient"):
        with pytest.raises(ValueError, match="must be Bernoulli or OneHotCategorical .* got Bern"):
            MIXABLE[name]()(smooth, (bits, number))
    with pytest.raises(ValueError, match="categorical, or an integer law of torch .* got Bern"):
        MIXABLE["values"]()(smooth, (bits, dbsurf.distributions.KSubset(torch.zeros(2, 3), 1)))


@pytest.mark.parametrize("name", ["mdsurf", "quadraticcv", "spotcheck", "loorf"])
def test_a_tuple_of_one(name):
    E = dbsurf.get(name, 3)
    logits = torch.zeros(4, 3, requires_grad=True)
    one = (Independent(Bernoulli(logits=logits), 1),)
    E(lambda x: x[0].sum(-1), one).sum().backward()
    assert logits.grad.shape == (4, 3)
    assert E.estimate(lambda x: x[0].sum(-1), one).grad[0].shape == (4, 3)


@pytest.mark.parametrize("name", dbsurf.available())
def test_a_part_without_coordinates_changes_nothing(name):
    """Between two others: each estimator refuses in its own words, or has their gradient."""
    logits = [torch.zeros(3, size, requires_grad=True) for size in (1, 0, 1)]
    law = tuple(Independent(Bernoulli(logits=part), 1) for part in logits)
    estimator = dbsurf.get(name, 4)
    try:
        estimator.check(law)
    except ValueError:
        return
    value = estimator(lambda x: sum(part.square().sum(-1) for part in x), law)
    if estimator.objective == "mean" and estimator.unbiased:
        value.sum().backward()
        assert all(torch.isfinite(part.grad).all() for part in logits)
