"""An ELBO for Pyro whose discrete sites have any estimator's gradient. Tested with Pyro 1.9."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.infer import ELBO as PyroELBO
from pyro.poutine import Trace
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Independent, OneHotCategorical

from dbsurf.estimators import LOORF, Estimator
from dbsurf.gradient.declaration import GradF
from dbsurf.gradient.surrogate import surrogate

PARTICLES = "_dbsurf_particles"
BY_LOGITS = (Bernoulli, Categorical, OneHotCategorical)


class ELBO(PyroELBO):  # type: ignore[misc]
    r"""Minus the ELBO, whose backward has an estimator's gradient for the guide's discrete sites.

    Use it as any loss of Pyro: ``SVI(model, guide, optim, loss=ELBO(dbsurf.LOORF(8)))``. The model
    and the guide are run once for all n samples, vectorised, as with ``vectorize_particles=True``.

    - *Discrete sites* of the guide (Bernoulli, Categorical, OneHotCategorical, and what else the
      estimator accepts) are drawn by the estimator, several of one kind as one law. They are not
      enumerated: leave out ``config_enumerate``. Their log-probability in the ELBO has no gradient
      of its own, because that has mean 0.
    - *Continuous sites* must be reparameterised. Those before the first discrete site have one
      value for all n samples, those behind it have n.
    - *Plates* that all discrete sites share are the batch: each element has its own f, made of the
      terms inside the plate. Terms outside are added for every element, as in `Trace_ELBO`.
      Subsampling, scales and masks are those of Pyro.
    - *Discrete sites that depend on earlier ones* need `LOORF`: n samples of all sites together, so
      n evaluations, and the mean of the others as baseline. Dependence is found by itself; every
      other estimator raises an error, because it needs the law before the samples.

    Bias: that of the estimator. Evaluations of the model: those of the estimator.

    Args:
        estimator: an estimator of dbsurf. If it learns, keep it and save its ``state_dict``.
        context: a function of the arguments of the model that returns features for each element of
            the plates that all discrete sites share, ``(*batch, features)``, for estimators that
            learn. With a subsampled plate it would have to know the subsample.
        max_plate_nesting: the largest number of nested plates; found by a run if not given.

    Examples:
        >>> import pyro, torch, dbsurf
        >>> import pyro.distributions as dist
        >>> def model(data):
        ...     with pyro.plate("data", len(data)):
        ...         z = pyro.sample("z", dist.Bernoulli(0.5))
        ...         pyro.sample("x", dist.Normal(2 * z, 1.0), obs=data)
        >>> def guide(data):
        ...     logits = pyro.param("logits", torch.zeros(len(data)))
        ...     with pyro.plate("data", len(data)):
        ...         pyro.sample("z", dist.Bernoulli(logits=logits))
        >>> loss = ELBO(dbsurf.MDsurf(4))
        >>> svi = pyro.infer.SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), loss=loss)
        >>> type(svi.step(torch.randn(5)))
        <class 'float'>
    """

    def __init__(
        self,
        estimator: Estimator,
        *,
        context: Callable[..., Tensor] | None = None,
        max_plate_nesting: float = math.inf,
    ) -> None:
        if not isinstance(estimator, Estimator):
            raise ValueError(f"estimator must be one of dbsurf, got {type(estimator).__name__}")
        if context is not None and not callable(context):
            raise ValueError(
                "context must be a function of the arguments of the model, got "
                f"{type(context).__name__}"
            )
        super().__init__(max_plate_nesting=max_plate_nesting)
        self.estimator, self.context = estimator, context
        self.dependent = False  # whether a discrete site was found to depend on an earlier one

    # --- what Pyro calls ------------------------------------------------------------------------

    def differentiable_loss(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Minus the ELBO as a tensor with a graph."""
        if self.max_plate_nesting == math.inf:
            self._guess_max_plate_nesting(model, guide, args, kwargs)
        with poutine.block():  # (Its sites are not those of the run that counts.)
            first = poutine.trace(guide).get_trace(*args, **kwargs)
        sites = _discrete_sites(first)
        run = Run(model, guide, args, kwargs, int(self.max_plate_nesting), first, sites)
        if self.dependent:
            return self._of_dependent_sites(run)
        if not sites:
            count = max(1, self.estimator.n)
            return -run.terms(count, {}).total().mean()
        try:
            return self._of_independent_sites(run)
        except Dependence as found:
            if not isinstance(self.estimator, LOORF):
                raise ValueError(
                    f"discrete sites of the guide must be independent of each other for "
                    f"{type(self.estimator).__name__}, got {found.args[0]!r}, which depends on an "
                    "earlier site; use LOORF"
                ) from None
            self.dependent = True
            return self._of_dependent_sites(run)

    def loss(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> float:
        """Minus the ELBO; the estimator does not learn."""
        training = self.estimator.training
        self.estimator.eval()
        with torch.no_grad():
            value = self.differentiable_loss(model, guide, *args, **kwargs).item()
        self.estimator.train(training)
        return float(value)

    def loss_and_grads(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> float:
        """Minus the ELBO, and the gradients of all parameters."""
        loss = self.differentiable_loss(model, guide, *args, **kwargs)
        if loss.requires_grad:
            loss.backward(retain_graph=self.retain_graph)  # type: ignore[no-untyped-call]
        return float(loss.item())

    def _get_trace(self, model: Any, guide: Any, args: Any, kwargs: Any) -> tuple[Trace, Trace]:
        return traces(model, guide, args, kwargs)

    # --- the two cases --------------------------------------------------------------------------

    def _of_independent_sites(self, run: Run) -> Tensor:
        joined = Joined.of(run.sites, run.batch_dims)
        outside: list[tuple[Tensor, Tensor]] = []

        def f(samples: Any) -> Tensor:
            values = joined.values(samples, run.nesting)
            count = len(next(iter(values.values())))
            local, *outer = run.terms(count, values, fixed=True).by_batch()
            outside.append((outer[0], outer[1]))
            return -(local + outer[0])

        relaxed = bool(self.estimator.grad_f & (GradF.MEAN | GradF.RELAXED))
        # Between 0 and 1 a Bernoulli law has a density for no one but the estimator.
        validate = Distribution._validate_args and not relaxed
        with pyro.validation_enabled(validate):
            features = None if self.context is None else self.context(*run.args, **run.kwargs)
            value = self.estimator(f, joined.law, context=features)
        return _counted_once(value, *outside[-1])

    def _of_dependent_sites(self, run: Run) -> Tensor:
        terms = run.terms(self.estimator.n, {})
        local, outer, once = terms.by_batch()
        return _counted_once(surrogate(terms.scores(), -(local + outer)), outer, once)


def _counted_once(value: Tensor, outer: Tensor, once: Tensor) -> Tensor:
    """The loss: terms outside the batch, which every element's value has, counted once."""
    return value.sum() + outer.mean(0).expand_as(value).sum() - once


def traces(model: Any, guide: Any, args: Any, kwargs: Any) -> tuple[Trace, Trace]:
    """One run of the guide and one of the model with its values, with log-probabilities."""
    guided = poutine.trace(guide).get_trace(*args, **kwargs)
    modelled = poutine.trace(poutine.replay(model, trace=guided)).get_trace(*args, **kwargs)
    modelled.compute_log_prob()
    guided.compute_log_prob()
    return modelled, guided


class Dependence(Exception):
    """A discrete site has another law than in the first run of the guide."""


@dataclass
class Run:
    """A model and a guide, and what the first run of the guide showed.

    Attributes:
        nesting: the largest number of nested plates; samples are the dimension left of them.
        first: the trace of the guide.
        sites: its discrete sites by name.
    """

    model: Callable[..., Any]
    guide: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    nesting: int
    first: Trace
    sites: dict[str, Any]

    @property
    def batch_dims(self) -> list[int]:
        """The dimensions of the plates that all discrete sites are in, from the left, negative."""
        stacks = [_dims(site) for site in self.sites.values()]
        return sorted(set.intersection(*stacks)) if stacks else []

    def terms(self, count: int, values: dict[str, Tensor], *, fixed: bool = False) -> Terms:
        """Run guide and model with ``count`` samples, discrete ones as given or drawn."""
        shared = Trace()
        behind = False  # the first discrete site
        for name, site in self.first.nodes.items():
            if site["type"] != "sample" or site["is_observed"]:
                continue
            if name in values:
                behind = True
                shared.add_node(name, **(site | {"value": values[name]}))
            elif _is_subsample(site) or (values and not behind):
                shared.add_node(name, **site)

        with pyro.plate(PARTICLES, count, dim=-self.nesting - 1):
            replayed = poutine.replay(self.guide, trace=shared)
            model, guide = traces(self.model, replayed, self.args, self.kwargs)
        missing = [
            name
            for name, site in model.nodes.items()
            if site["type"] == "sample"
            and not site["is_observed"]
            and not _is_subsample(site)
            and name not in guide
        ]
        if missing:
            raise ValueError(
                f"every latent site of the model must be in the guide, got {missing[0]!r} in the "
                "model alone"
            )
        return Terms(self, model, guide, count, fixed)


@dataclass
class Terms:
    """The log-probabilities of one run with samples."""

    run: Run
    model: Trace
    guide: Trace
    count: int
    fixed: bool

    def __post_init__(self) -> None:
        self.parts: list[tuple[set[int], Tensor]] = []
        for site in self.model.nodes.values():
            if site["type"] == "sample":
                self.parts.append((_dims(site), self._wide(site["log_prob"])))
        for name, site in self.guide.nodes.items():
            if site["type"] == "sample" and not _is_subsample(site):
                term = self._discrete(name, site) if name in self.run.sites else site["log_prob"]
                self.parts.append((_dims(site), -self._wide(term)))

    def _discrete(self, name: str, site: Any) -> Tensor:
        """log q of a discrete site: a function of the sample alone, not of the parameters."""
        found: Tensor = site["log_prob"].detach()
        law = self.run.sites[name]["fn"]
        if not self.fixed:
            return found
        fixed = _with_logits(law, _logits(law).detach()) if _by_logits(law) else law
        term: Tensor = scale_and_mask(fixed.log_prob(site["value"]), site["scale"], site["mask"])
        if not torch.allclose(found, term.detach().expand_as(found), rtol=1e-4, atol=1e-5):
            raise Dependence(name)
        return term if _by_logits(law) else found

    def scores(self) -> Tensor:
        """log q of all discrete sites with their graph, ``(n, *batch)``."""
        found = []
        for name in self.run.sites:
            site = self.guide.nodes[name]
            found.append(self._to_batch(self._wide(site["log_prob"])))
        return torch.stack(torch.broadcast_tensors(*found)).sum(0)

    def by_batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """Terms inside the plates of the batch ``(n, *batch)``, those outside of one, their mean.

        Those outside fit ``(n, *batch)``, once for every element that they may depend on, without
        a graph. Their mean over the samples has one, and counts them once.
        """
        ones = (1,) * len(self.run.batch_dims)
        local, outer = torch.zeros(self.count, *ones), torch.zeros(self.count, *ones)
        once = torch.zeros(())
        for dims, term in self.parts:
            part = self._to_batch(term)
            if set(self.run.batch_dims) <= dims:
                local = local + part
            else:
                outer, once = outer + part.detach(), once + part.mean(0).sum()
        return local, outer, once

    def total(self) -> Tensor:
        """The ELBO of every sample, ``(n,)``."""
        return sum((term.flatten(1).sum(1) for _, term in self.parts), torch.zeros(self.count))

    def _wide(self, term: Tensor) -> Tensor:
        """A log-probability with all dimensions, ``(n, plates...)``."""
        missing = self.run.nesting + 1 - term.ndim
        wide = term.reshape((1,) * missing + tuple(term.shape))
        return wide.expand(self.count, *wide.shape[1:])

    def _to_batch(self, term: Tensor) -> Tensor:
        """The sum over all dimensions but the samples' and the batch's."""
        others = [d for d in range(-self.run.nesting, 0) if d not in self.run.batch_dims]
        return term.sum(others) if others else term


@dataclass
class Joined:
    """The laws of all discrete sites as one law, and its samples as values of the sites.

    Attributes:
        law: one distribution, or a dict of them if they are of different kinds.
        sites: the discrete sites.
        batch_dims: dimensions of the plates that are the batch.
        joint: whether the laws were joined to one.
    """

    law: Any
    sites: dict[str, Any]
    batch_dims: list[int]
    joint: bool

    @staticmethod
    def of(sites: dict[str, Any], batch_dims: list[int]) -> Joined:
        laws = {name: site["fn"] for name, site in sites.items()}
        kinds: set[Any] = {_kind(law) for law in laws.values()}
        sizes = {_logits(law).shape[-1] for law in laws.values() if _classes(law)}
        if kinds <= set(BY_LOGITS) and len(kinds) == 1 and len(sizes) <= 1:
            flat = [_flat_logits(law, batch_dims) for law in laws.values()]
            ends = 1 if kinds == {Bernoulli} else 2
            joined = torch.cat(flat, -ends)
            return Joined(Independent(kinds.pop()(logits=joined), 1), sites, batch_dims, True)
        for name, law in laws.items():
            if [-len(law.batch_shape) + i for i in range(len(law.batch_shape))] != batch_dims:
                raise ValueError(
                    "discrete sites of different kinds must be in the same plates, got "
                    f"{name!r} with batch shape {tuple(law.batch_shape)}"
                )
        return Joined(laws, sites, batch_dims, False)

    def values(self, samples: Any, nesting: int) -> dict[str, Tensor]:
        """The samples of each site in Pyro's layout, ``(n, plates..., *event)``."""
        laws = {name: site["fn"] for name, site in self.sites.items()}
        if not self.joint:
            parts = dict(samples)
        else:
            kind = _kind(next(iter(laws.values())))
            axis = -2 if kind is OneHotCategorical else -1
            counts = [_number(law, self.batch_dims) for law in laws.values()]
            pieces = samples.split(counts, axis)
            parts = {
                name: _unflattened(piece, law, self.batch_dims)
                for (name, law), piece in zip(laws.items(), pieces, strict=True)
            }
        found = {}
        for name, part in parts.items():
            missing = nesting - len(laws[name].batch_shape)
            shape = (part.shape[0], *(1 for _ in range(missing)), *part.shape[1:])
            found[name] = part.reshape(shape)
        return found


# --- sites and laws -------------------------------------------------------------------------------


def _is_subsample(site: Any) -> bool:
    return type(site["fn"]).__name__ == "_Subsample"


def _discrete_sites(trace: Any) -> dict[str, Any]:
    """The sites of the guide that are not reparameterised; a continuous one is an error."""
    found = {}
    for name, site in trace.nodes.items():
        if site["type"] != "sample" or site["is_observed"] or _is_subsample(site):
            continue
        law: Any = site["fn"]
        if law.has_rsample or isinstance(_base(law), pyro.distributions.Delta):
            continue
        if not law.support.is_discrete and not isinstance(_base(law), OneHotCategorical):
            raise ValueError(
                f"continuous sites must be reparameterised, got {name!r} with {type(law).__name__}"
            )
        how = (site["infer"] or {}).get("enumerate")
        if how is not None:
            raise ValueError(
                f"discrete sites must not be enumerated, got {name!r} with "
                f"{how!r}: leave out config_enumerate or use TraceEnum_ELBO"
            )
        found[name] = site
    return found


def _dims(site: Any) -> set[int]:
    """The dimensions of the vectorised plates that a site is in, without the samples'."""
    frames = site["cond_indep_stack"]
    return {frame.dim for frame in frames if frame.vectorized and frame.name != PARTICLES}


def _base(law: Distribution) -> Distribution:
    while isinstance(law, Independent):
        law = law.base_dist
    return law


def _kind(law: Distribution) -> type[Distribution] | None:
    """Bernoulli, Categorical or OneHotCategorical of torch; None for other laws."""
    return next((kind for kind in BY_LOGITS if isinstance(_base(law), kind)), None)


def _by_logits(law: Distribution) -> bool:
    return _kind(law) is not None


def _classes(law: Distribution) -> bool:
    return _kind(law) in (Categorical, OneHotCategorical)


def _logits(law: Distribution) -> Tensor:
    logits: Tensor = _base(law).logits  # type: ignore[attr-defined]
    return logits


def _with_logits(law: Distribution, logits: Tensor) -> Distribution:
    """The same law with other logits."""
    base = _kind(law)(logits=logits, validate_args=False)  # type: ignore[misc,call-arg]
    events = len(_base(law).batch_shape) - len(law.batch_shape)
    return Independent(base, events, validate_args=False)


def _order(law: Distribution, batch_dims: list[int]) -> list[int]:
    """The law's plate dimensions, those of the batch first, counted from the left."""
    length = len(law.batch_shape)
    batch = [length + dim for dim in batch_dims]
    return [*batch, *(d for d in range(length) if d not in batch)]


def _number(law: Distribution, batch_dims: list[int]) -> int:
    """How many coordinates of the law one element of the batch has."""
    shape = _base(law).batch_shape
    order = _order(law, batch_dims)
    return math.prod([shape[d] for d in order[len(batch_dims) :]]) * math.prod(
        shape[len(law.batch_shape) :]
    )


def _flat_logits(law: Distribution, batch_dims: list[int]) -> Tensor:
    """Logits ``(*batch, coordinates)``, and classes for a categorical law."""
    logits, order = _logits(law), _order(law, batch_dims)
    moved = logits.permute([*order, *range(len(order), logits.ndim)])
    classes = logits.shape[-1:] if _classes(law) else ()
    batch = moved.shape[: len(batch_dims)]
    return moved.reshape(*batch, _number(law, batch_dims), *classes)


def _unflattened(piece: Tensor, law: Distribution, batch_dims: list[int]) -> Tensor:
    """Samples ``(n, *batch, coordinates)`` in the layout of the law, ``(n, *shape)``."""
    shape, order = _base(law).batch_shape, _order(law, batch_dims)
    events = (*shape[len(order) :], *_base(law).event_shape)
    moved = piece.reshape(piece.shape[0], *(shape[d] for d in order), *events)
    back = [order.index(d) + 1 for d in range(len(order))]
    return moved.permute([0, *back, *range(len(order) + 1, moved.ndim)])
