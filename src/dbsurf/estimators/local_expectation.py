"""Local expectations: exact over one coordinate at a time, the others sampled."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf.distributions import Bits, ByLogits, Combination
from dbsurf.gradient.declaration import WITH_LOGITS, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw, Drawn, needs_own_samples
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


@register
class LocalExpectation(Estimator[ByLogits]):
    r"""The sum over all values of each coordinate, at n samples of the other coordinates.

    $$g_{kv} = \frac1n\sum_i p_{kv}\Bigl(f(x_i^{k \to v})
      - \sum_w p_{kw} f(x_i^{k \to w})\Bigr)$$

    $x^{k \to v}$ is x with its k-th coordinate set to v. For bits that is
    $p_k(1 - p_k)$ times the mean difference $f(x^{k \to 1}) - f(x^{k \to 0})$. The value is the
    mean of the inner sums over samples and coordinates, an unbiased estimate of E[f].

    Bias: none. Evaluations of f: $n (1 + d(m-1))$ for d coordinates of m values in an event;
    f gets them as one batch along the first axis. Needs no gradient of f. n >= 1. Bernoulli,
    categorical and other finite laws with logits.

    Args:
        n: number of independent samples whose neighbours are evaluated.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.LocalExpectation(1)
        >>> E(lambda x: 4 * x.square().sum(-1), Independent(Bernoulli(logits=theta), 1)).backward()
        >>> theta.grad
        tensor([1., 1., 1.])

    Reference:
        Titsias and Lázaro-Gredilla, "Local expectation gradients for black box variational
        inference", NeurIPS 2015.
    """

    accepts = WITH_LOGITS
    needs_call = True
    variants = (
        Variant(
            "local expectation",
            "#9E9D24",
            "-.",
            choose="when f is cheap and has few coordinates",
            cost="n * (1 + d * (m - 1))",
        ),
    )

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, IID(), validate=validate)

    @property
    def evaluations(self) -> None:
        return None

    def draw_samples(self, law: ByLogits, generator: torch.Generator | None) -> Drawn:
        """All points at which f is evaluated, and the place of each coordinate's values in them."""
        index = law.encode(law.draw(self.sampler, self.n, generator))  # (n, *coords)
        batch, n, values = law.batch_shape, index.shape[0], law.table().shape[-1]
        size = index.shape[1 + len(batch) :].numel()
        check_coordinates(self, size)
        flat = index.reshape(n, *batch, size)
        # The other values of each coordinate, as what is added to its own, modulo their number.
        steps = torch.zeros(size, values - 1, size, dtype=flat.dtype, device=flat.device)
        for k in range(size):
            steps[k, :, k] = torch.arange(1, values, device=flat.device)
        steps = steps.reshape(1, size * (values - 1), *(1,) * len(batch), size)
        moved = (flat.unsqueeze(1) + steps) % values  # (n, d (m-1), *batch, d)
        points = torch.cat([flat, moved.flatten(0, 1)])
        # f of coordinate k at value v, in sample i: the sample itself where v is its own value.
        value = torch.arange(values, device=flat.device).reshape(-1, *(1,) * flat.ndim)
        step = (value - flat) % values  # (m, n, *batch, d)
        sample = torch.arange(n, device=flat.device).reshape(-1, *(1,) * (flat.ndim - 1))
        coordinate = torch.arange(size, device=flat.device)
        place = n + (sample * size + coordinate) * (values - 1) + step - 1
        place = torch.where(step == 0, sample, place)
        points = points.reshape(points.shape[0], *index.shape[1:])
        return Drawn(law.decode(points, generator), place)

    def average(self, f_values: Tensor, draw: Draw[ByLogits]) -> Tensor:
        found, table = self._values(f_values, draw)
        return (found * table.to(found.dtype)).sum(0).mean((0, -1))

    def combine(self, draw: Draw[ByLogits]) -> Combination:
        law = draw.law
        found, table = self._values(draw.f_values, draw)  # (m, n, *batch, d), (m, 1, *batch, d)
        # Differences to the likeliest value: exact where its probability rounds to 1.
        likely = table.argmax(0, keepdim=True).expand(1, *found.shape[1:])
        found = (found - found.gather(0, likely)).to(table.dtype)
        local = (table * (found - (table * found).sum(0))).mean(1)  # (m, *batch, d)
        gradient = local[1] if isinstance(law, Bits) else local.movedim(0, -1)
        return Combination(None, offset=gradient.reshape(law.probs.shape))

    def _values(self, f_values: Tensor, draw: Draw[ByLogits]) -> tuple[Tensor, Tensor]:
        """f for every value of every coordinate ``(m, n, *batch, d)``, and their probabilities."""
        place, law = draw.hidden, draw.law
        if place is None:
            raise needs_own_samples(self)
        values, n, *batch, size = place.shape
        wide = f_values.unsqueeze(-1).expand(*f_values.shape, size)
        found = wide.gather(0, place.reshape(values * n, *batch, size)).reshape(place.shape)
        table = law.table().movedim(-1, 0)  # (m, *coords)
        return found, table.reshape(values, 1, *batch, size)


@register
class IndeCateR(LocalExpectation):
    r"""`LocalExpectation` with samples of its own for every coordinate.

    The other coordinates are drawn anew for each coordinate k, so that the noise of the
    coordinates is independent.

    Bias: none. Evaluations of f: $n\,d\,m$ for d coordinates of m values in an event; f gets them
    as one batch along the first axis. Needs no gradient of f. n >= 1. Bernoulli, categorical and
    other finite laws with logits.

    Args:
        n: number of independent samples for each coordinate.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Categorical, Independent
        >>> theta = torch.zeros(2, 3, requires_grad=True)
        >>> E = dbsurf.IndeCateR(1)
        >>> E(lambda x: x.float().sum(-1), Independent(Categorical(logits=theta), 1)).backward()
        >>> theta.grad[0]
        tensor([-0.3333,  0.0000,  0.3333])

    Reference:
        De Smet, Sansone and Zuidberg Dos Martires, "Differentiable sampling of categorical
        distributions using the CatLog-derivative trick", NeurIPS 2023.
    """

    variants = (
        Variant(
            "IndeCateR",
            "#6D4C41",
            choose="as `LocalExpectation`, with independent noise for each coordinate",
            cost="n * d * m",
        ),
    )

    def draw_samples(self, law: ByLogits, generator: torch.Generator | None) -> Drawn:
        """All points at which f is evaluated, and the place of each coordinate's values in them."""
        batch_dims = len(law.batch_shape)
        coords = law.probs.shape if isinstance(law, Bits) else law.probs.shape[:-1]
        size, values = coords[batch_dims:].numel(), law.table().shape[-1]
        check_coordinates(self, size)
        drawn = [law.draw(self.sampler, self.n, generator) for _ in range(size)]
        index = torch.stack([law.encode(samples) for samples in drawn])  # (d, n, *coords)
        flat = index.reshape(*index.shape[: 2 + batch_dims], size)
        n = flat.shape[1]
        points = flat.expand(values, *flat.shape).clone()  # (m, d, n, *batch, d)
        for k in range(size):
            for v in range(values):
                points[v, k, ..., k] = v
        place = torch.arange(values * size * n, device=flat.device).reshape(values, size, n)
        place = place.movedim(1, -1).reshape(values, n, *(1,) * batch_dims, size)
        place = place.expand(values, n, *law.batch_shape, size)
        return Drawn(law.decode(points.reshape(values * size * n, *coords), generator), place)


def check_coordinates(owner: object, size: int) -> None:
    """Check that there is a coordinate whose values can be changed."""
    if size == 0:
        name = type(owner).__name__
        raise ValueError(f"dist must have at least one coordinate for {name}, got none")
