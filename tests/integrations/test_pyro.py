"""The ELBO for Pyro: exact where it can be, beside Pyro's own losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import dbsurf

pyro = pytest.importorskip("pyro", reason="needs dbsurf[integrations]")
import pyro.distributions as dist  # noqa: E402
from pyro import poutine  # noqa: E402
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate  # noqa: E402

from dbsurf.integrations.pyro import ELBO  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
DATA = torch.tensor([0.3, -1.0, 2.5, 1.9, 0.1])


@pytest.fixture(autouse=True)
def clean():
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    pyro.enable_validation(True)
    yield
    pyro.clear_param_store()
    pyro.enable_validation(False)


def start(name: str, *shape: int) -> Tensor:
    value = torch.linspace(-1, 1, max(1, torch.Size(shape).numel())).reshape(shape)
    return pyro.param(name, value.clone())


def grads(loss: Any, model: Callable[..., Any], guide: Callable[..., Any], *args: Any) -> Any:
    """Loss and gradients of all parameters."""
    with poutine.trace(param_only=True) as seen:
        value = loss.loss_and_grads(model, guide, *args)
    found = {}
    for name, site in seen.trace.nodes.items():
        parameter = site["value"].unconstrained()
        found[name] = (
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        )
        parameter.grad = None
    return value, found


def assert_exact(model: Callable[..., Any], guide: Callable[..., Any], *args: Any) -> None:
    """With `Exact` the loss and all gradients are those of full enumeration."""
    value, found = grads(ELBO(dbsurf.Exact()), model, guide, *args)
    enumerated = TraceEnum_ELBO(max_plate_nesting=2)
    exact, expected = grads(enumerated, model, config_enumerate(guide), *args)
    assert value == pytest.approx(exact, rel=1e-4)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-4)


# --- models ---------------------------------------------------------------------------------------


def local_model(data: Tensor) -> None:
    """One bit for each observation, and parameters outside the plate."""
    weight = start("weight", 1)
    with pyro.plate("data", len(data)):
        z = pyro.sample("z", dist.Bernoulli(0.3))
        pyro.sample("x", dist.Normal(2 * z + weight, 1.0), obs=data)


def local_guide(data: Tensor) -> None:
    logits = start("logits", len(data))
    with pyro.plate("data", len(data)):
        pyro.sample("z", dist.Bernoulli(logits=logits))


def mixed_model(data: Tensor) -> None:
    """A category and a bit for each observation: two sites of different kinds."""
    means = start("means", 3)
    with pyro.plate("data", len(data)):
        k = pyro.sample("k", dist.Categorical(torch.tensor([0.2, 0.3, 0.5])))
        z = pyro.sample("z", dist.Bernoulli(0.4))
        mean = pyro.ops.indexing.Vindex(means)[k.long()]
        pyro.sample("x", dist.Normal(mean + z, 1.0), obs=data)


def mixed_guide(data: Tensor) -> None:
    k, z = start("k_logits", len(data), 3), start("z_logits", len(data))
    with pyro.plate("data", len(data)):
        pyro.sample("k", dist.Categorical(logits=k))
        pyro.sample("z", dist.Bernoulli(logits=z))


def nested_model(data: Tensor) -> None:
    """A bit for each observation and two more in an inner plate, which has the dimension left."""
    weight = start("weight", 2)
    with pyro.plate("data", len(data), dim=-1):
        z = pyro.sample("z", dist.Bernoulli(0.3))
        with pyro.plate("inner", 2, dim=-2):
            y = pyro.sample("y", dist.Bernoulli(0.6))
            mean = z + weight.unsqueeze(-1) * y
            pyro.sample("x", dist.Normal(mean, 1.0), obs=data.expand(2, -1))


def nested_guide(data: Tensor) -> None:
    with pyro.plate("data", len(data), dim=-1):
        pyro.sample("z", dist.Bernoulli(logits=start("z_logits", len(data))))
        with pyro.plate("inner", 2, dim=-2):
            pyro.sample("y", dist.Bernoulli(logits=start("y_logits", 2, len(data))))


def masked_model(data: Tensor) -> None:
    with poutine.mask(mask=torch.tensor([True, True, False, True, False])):
        local_model(data)


def masked_guide(data: Tensor) -> None:
    with poutine.mask(mask=torch.tensor([True, True, False, True, False])):
        local_guide(data)


def event_model(data: Tensor) -> None:
    """Three bits in one event, no plate around them."""
    z = pyro.sample("z", dist.Bernoulli(torch.full((3,), 0.3)).to_event(1))
    with pyro.plate("data", len(data)):
        pyro.sample("x", dist.Normal((z * start("weight", 3)).sum(-1), 1.0), obs=data)


def event_guide(data: Tensor) -> None:
    pyro.sample("z", dist.Bernoulli(logits=start("logits", 3)).to_event(1))


def global_model(data: Tensor) -> None:
    """A bit for all and a bit for each: the common plates are none."""
    g = pyro.sample("g", dist.Bernoulli(0.5))
    with pyro.plate("data", len(data)):
        z = pyro.sample("z", dist.Bernoulli(0.3))
        pyro.sample("x", dist.Normal(2 * z - g, 1.0), obs=data)


def global_guide(data: Tensor) -> None:
    pyro.sample("g", dist.Bernoulli(logits=start("g_logits")))
    with pyro.plate("data", len(data)):
        pyro.sample("z", dist.Bernoulli(logits=start("z_logits", len(data))))


@pytest.mark.parametrize(
    ("model", "guide"),
    [
        (local_model, local_guide),
        (mixed_model, mixed_guide),
        (nested_model, nested_guide),
        (masked_model, masked_guide),
        (global_model, global_guide),
    ],
)
def test_exact_is_the_enumerated_elbo(model, guide):
    assert_exact(model, guide, DATA)


def test_bits_in_one_event():
    """Pyro cannot enumerate them, so this does."""
    value, found = grads(ELBO(dbsurf.Exact()), event_model, event_guide, DATA)
    logits = pyro.param("logits").detach().clone().requires_grad_()
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3)
    q = dist.Bernoulli(logits=logits).to_event(1).log_prob(states)
    prior = dist.Bernoulli(torch.full((3,), 0.3)).to_event(1).log_prob(states)
    means = states @ pyro.param("weight").detach()
    seen = dist.Normal(means.unsqueeze(-1), 1.0).log_prob(DATA).sum(-1)
    expected = -(q.exp() * (prior + seen - q)).sum()
    (gradient,) = torch.autograd.grad(expected, logits)
    assert value == pytest.approx(expected.item(), rel=1e-4)
    torch.testing.assert_close(found["logits"], gradient, rtol=1e-3, atol=1e-4)


def test_subsampled_plates_are_the_same_in_guide_and_model():
    seen: list[Tensor] = []

    def model(data: Tensor) -> None:
        with pyro.plate("data", len(data), subsample_size=2) as index:
            seen.append(index)
            z = pyro.sample("z", dist.Bernoulli(0.3))
            pyro.sample("x", dist.Normal(2 * z, 1.0), obs=data[index])

    def guide(data: Tensor) -> None:
        logits = start("logits", len(data))
        with pyro.plate("data", len(data), subsample_size=2) as index:
            pyro.sample("z", dist.Bernoulli(logits=logits[index]))

    loss = ELBO(dbsurf.Exact(), max_plate_nesting=1)
    for _ in range(20):
        value, found = grads(loss, model, guide, DATA)
        index = seen[-1]
        logits = pyro.param("logits").detach()[index].requires_grad_()
        q = dist.Bernoulli(logits=logits)
        by_state = []
        for z in (0.0, 1.0):
            state = torch.full((2,), z)
            terms = dist.Bernoulli(0.3).log_prob(state) - q.log_prob(state)
            terms = terms + dist.Normal(2 * z, 1.0).log_prob(DATA[index])
            by_state.append(q.log_prob(state).exp() * terms)
        expected = -2.5 * torch.stack(by_state).sum()  # scaled to all five
        (gradient,) = torch.autograd.grad(expected, logits)
        assert value == pytest.approx(expected.item(), rel=1e-4)
        torch.testing.assert_close(found["logits"][index], gradient, rtol=1e-4, atol=1e-4)


def moments(loss: Any, model: Any, guide: Any, count: int) -> tuple[Tensor, Tensor]:
    """Mean and variance of all gradients, flat."""
    rows = []
    for _ in range(count):
        _, found = grads(loss, model, guide, DATA)
        rows.append(torch.cat([found[name].flatten() for name in sorted(found)]))
    table = torch.stack(rows)
    return table.mean(0), table.var(0)


@pytest.mark.parametrize(
    "estimator",
    [
        dbsurf.LOORF(4),
        dbsurf.MDsurf(4),
        dbsurf.DisARM(4),
        dbsurf.QuadraticCV(3, rank=2),
        dbsurf.QuadraticCV(4, rank=2, uses="values"),
        dbsurf.RELAX(2),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("pair", [(local_model, local_guide), (nested_model, nested_guide)])
def test_estimators_have_the_right_mean(estimator, pair):
    """With probability 1e-3 a right one fails, and the seed is fixed."""
    _, exact = grads(ELBO(dbsurf.Exact()), *pair, DATA)
    expected = torch.cat([exact[name].flatten() for name in sorted(exact)])
    estimator = type(estimator)(**options(estimator))
    mean, variance = moments(ELBO(estimator), *pair, 150)
    z = (mean - expected) / (variance / 150).sqrt().clamp(min=1e-9)
    assert z.abs()[variance > 1e-12].max() < 4.2


def options(estimator: dbsurf.Estimator) -> dict[str, Any]:
    """A fresh copy: states of different models have different sizes."""
    found: dict[str, Any] = {"n": estimator.n}
    if isinstance(estimator, dbsurf.QuadraticCV):
        found |= {"rank": estimator.rank, "uses": estimator.uses}
    return found


def mixed_model(data: Tensor) -> None:
    with pyro.plate("data", len(data)):
        k = pyro.sample("k", dist.Categorical(torch.ones(3) / 3))
        z = pyro.sample("z", dist.Bernoulli(0.2))
        count = pyro.sample("count", dist.Binomial(2, torch.tensor(0.5)))
        pyro.sample("x", dist.Normal(k - 1 + 0.5 * count, 1 + 2 * z), obs=data)


def mixed_guide(data: Tensor) -> None:
    with pyro.plate("data", len(data)):
        logits = pyro.param("k_logits", 0.3 * torch.arange(15.0).sin().view(5, 3))
        pyro.sample("k", dist.Categorical(logits=logits))
        pyro.sample("z", dist.Bernoulli(logits=pyro.param("z_logits", torch.linspace(-1, 1, 5))))
        number = pyro.param("count_logits", torch.linspace(-0.5, 0.5, 5))
        pyro.sample("count", dist.Binomial(2, logits=number))


@pytest.mark.parametrize("context", [None, lambda data: torch.stack([data, data.square()], -1)])
def test_sites_of_different_kinds_have_the_right_mean(context):
    """A category, a bit and a count in one plate, with a control variate that learns."""
    _, exact = grads(ELBO(dbsurf.Exact()), mixed_model, mixed_guide, DATA)
    expected = torch.cat([exact[name].flatten() for name in sorted(exact)])
    loss = ELBO(dbsurf.QuadraticCV(4, rank=2, uses="values", lr=1e-2), context=context)
    mean, variance = moments(loss, mixed_model, mixed_guide, 150)
    z = (mean - expected) / (variance / 150).sqrt().clamp(min=1e-9)
    assert z.abs()[variance > 1e-12].max() < 4.2


def test_the_batch_makes_the_variance_smaller_than_a_loss_without_plates():
    ours = moments(ELBO(dbsurf.LOORF(4)), local_model, local_guide, 150)[1]
    plain = Trace_ELBO(num_particles=4, vectorize_particles=True, max_plate_nesting=1)
    theirs = moments(plain, local_model, local_guide, 150)[1]
    assert ours[:5].sum() < 0.5 * theirs[:5].sum()


def test_continuous_sites_before_and_behind():
    """w before and c behind the bit, both reparameterised: the mean of Pyro's own gradient."""

    def model(data: Tensor) -> None:
        w = pyro.sample("w", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(data)):
            z = pyro.sample("z", dist.Bernoulli(0.3))
            c = pyro.sample("c", dist.Normal(z, 1.0))
            pyro.sample("x", dist.Normal(c + w, 0.5), obs=data)

    def guide(data: Tensor) -> None:
        w = pyro.sample("w", dist.Normal(start("w_mean"), 0.5))
        with pyro.plate("data", len(data)):
            z = pyro.sample("z", dist.Bernoulli(logits=start("z_logits", len(data)) + 0.5 * w))
            pyro.sample("c", dist.Normal(start("c_mean", len(data)) + z, 0.5))

    ours, spread = moments(ELBO(dbsurf.LOORF(8)), model, guide, 500)
    theirs = Trace_ELBO(num_particles=200, vectorize_particles=True, max_plate_nesting=1)
    mean, other = moments(theirs, model, guide, 100)
    z = (ours - mean) / (spread / 500 + other / 100).sqrt()
    assert z.abs().max() < 4.2


def chain_model(data: Tensor) -> None:
    with pyro.plate("data", len(data)):
        a = pyro.sample("a", dist.Bernoulli(0.3))
        b = pyro.sample("b", dist.Bernoulli(0.2 + 0.5 * a))
        pyro.sample("x", dist.Normal(a + 2 * b, 1.0), obs=data)


def chain_guide(data: Tensor) -> None:
    a_logits, b_logits = start("a_logits", len(data)), start("b_logits", len(data))
    with pyro.plate("data", len(data)):
        a = pyro.sample("a", dist.Bernoulli(logits=a_logits))
        pyro.sample("b", dist.Bernoulli(logits=b_logits + 2 * a))


def test_sites_that_depend_on_earlier_ones_take_n_evaluations():
    calls: list[torch.Size] = []

    def counted(data: Tensor) -> None:
        chain_model(data)
        calls.append(data.shape)

    loss = ELBO(dbsurf.LOORF(6), max_plate_nesting=1)
    grads(loss, counted, chain_guide, DATA)
    assert loss.dependent
    calls.clear()
    grads(loss, counted, chain_guide, DATA)
    assert len(calls) == 1  # one run with 6 samples
    enumerated = TraceEnum_ELBO(max_plate_nesting=1)
    _, exact = grads(enumerated, chain_model, config_enumerate(chain_guide), DATA)
    expected = torch.cat([exact[name].flatten() for name in sorted(exact)])
    mean, variance = moments(loss, chain_model, chain_guide, 400)
    assert ((mean - expected) / (variance / 400).sqrt()).abs().max() < 4.2


def test_dependent_sites_need_loorf():
    with pytest.raises(ValueError, match="independent of each other for MDsurf, got 'b'"):
        grads(ELBO(dbsurf.MDsurf(6)), chain_model, chain_guide, DATA)


def test_svi_learns_and_loss_does_not_change_the_state():
    estimator = dbsurf.QuadraticCV(3, rank=2)
    loss = ELBO(estimator)
    svi = SVI(local_model, local_guide, pyro.optim.Adam({"lr": 0.05}), loss=loss)
    losses = [svi.step(DATA) for _ in range(300)]
    assert sum(losses[-50:]) < sum(losses[:50]) - 10
    before = {name: value.clone() for name, value in estimator.state_dict().items()}
    svi.evaluate_loss(DATA)
    assert all(torch.equal(value, before[n]) for n, value in estimator.state_dict().items())
    assert estimator.training


def test_without_discrete_sites_it_is_the_mean_over_samples():
    def model(data: Tensor) -> None:
        w = pyro.sample("w", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(data)):
            pyro.sample("x", dist.Normal(w, 1.0), obs=data)

    def guide(data: Tensor) -> None:
        pyro.sample("w", dist.Normal(start("mean"), 0.5))

    _, found = grads(ELBO(dbsurf.LOORF(1000)), model, guide, DATA)
    exact = 6 * pyro.param("mean").detach() - DATA.sum()  # (the prior and five observations)
    assert found["mean"] == pytest.approx(exact.item(), abs=0.3)


def test_what_is_refused():
    with pytest.raises(ValueError, match="estimator must be one of dbsurf"):
        ELBO(4)
    with pytest.raises(ValueError, match="context must be a function of the arguments"):
        ELBO(dbsurf.LOORF(4), context=torch.zeros(3))
    with pytest.raises(ValueError, match="must not be enumerated, got 'z'"):
        grads(ELBO(dbsurf.LOORF(4)), local_model, config_enumerate(local_guide), DATA)

    def no_guide(data: Tensor) -> None:
        pass

    with pytest.raises(ValueError, match="must be in the guide, got 'z'"):
        grads(ELBO(dbsurf.LOORF(4)), local_model, no_guide, DATA)

    def gamma(data: Tensor) -> None:
        with pyro.plate("data", len(data)):
            pyro.sample("z", dist.VonMises(0.0, 1.0))

    with pytest.raises(ValueError, match="must be reparameterised, got 'z'"):
        grads(ELBO(dbsurf.LOORF(4), max_plate_nesting=1), local_model, gamma, DATA)
