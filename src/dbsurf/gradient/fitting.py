"""For control variates that learn: steps of Adam, and running regressions.

All keep their whole state as buffers of the estimator that owns them: whatever saves a module saves
it, a run is resumed bit for bit, and the user's own optimiser does not see it. A draw that is not
finite leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from dbsurf import checks


class Fitted(nn.Module):
    """Named tensors that are fitted by Adam, all in one flat buffer.

    Args:
        start: the values at first, by name.
        lr: the learning rate.
    """

    values: Tensor
    mean: Tensor
    square: Tensor
    steps: Tensor

    def __init__(self, start: Mapping[str, Tensor], lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.shapes = {name: tensor.shape for name, tensor in start.items()}
        flat = torch.cat([tensor.flatten() for tensor in start.values()])
        self.register_buffer("values", flat)
        self.register_buffer("mean", torch.zeros_like(flat))  # of gradients
        self.register_buffer("square", torch.zeros_like(flat))
        self.register_buffer("steps", torch.zeros(()))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name: views of the buffer, which the next step changes."""
        sizes = [shape.numel() for shape in self.shapes.values()]
        parts = zip(self.shapes.items(), self.values.split(sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}

    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step along gradients of the loss, one for each tensor."""
        flat = torch.cat([gradient.flatten().to(self.values.dtype) for gradient in gradients])
        # A square that overflows would stop its entry for good.
        if bool(torch.isfinite(flat.dot(flat))):
            adam_step(self.values, flat, self.mean, self.square, self.steps, self.lr)


class Moments(nn.Module):
    """Adam's memory for parameters that belong to somebody else.

    The parameters do not require a gradient, so that an optimiser that was given all parameters of
    a model leaves them alone.

    Args:
        parameters: the parameters that are fitted.
        lr: the learning rate.
    """

    mean: Tensor
    square: Tensor
    steps: Tensor

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float) -> None:
        super().__init__()
        self.lr = lr
        self._fitted = [parameter.requires_grad_(False) for parameter in parameters]
        flat = torch.cat([parameter.detach().flatten() for parameter in self._fitted])
        self.register_buffer("mean", torch.zeros_like(flat))
        self.register_buffer("square", torch.zeros_like(flat))
        self.register_buffer("steps", torch.zeros(()))

    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step along gradients of the loss, one for each parameter."""
        flat = torch.cat([gradient.flatten().to(self.mean.dtype) for gradient in gradients])
        if not bool(torch.isfinite(flat.dot(flat))):
            return
        values = torch.cat([parameter.flatten() for parameter in self._fitted])
        adam_step(values, flat, self.mean, self.square, self.steps, self.lr)
        sizes = [parameter.numel() for parameter in self._fitted]
        for parameter, new in zip(self._fitted, values.split(sizes), strict=True):
            parameter.copy_(new.view_as(parameter))


def adam_step(
    values: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, steps: Tensor, lr: float
) -> None:
    """One step of Adam on a flat tensor and its two moments, in place."""
    count = steps.float()  # (what the fused step takes)
    adam(
        [values],
        [gradient],
        [mean],
        [square],
        [],
        [count],
        fused=True,
        amsgrad=False,
        beta1=0.9,
        beta2=0.99,
        lr=lr,
        weight_decay=0.0,
        eps=1e-8,
        maximize=False,
    )
    steps.copy_(count)


class RunningRatio(nn.Module):
    """A regression coefficient <a, b> / <b, b> from decayed sums, clamped to an interval.

    An estimator reads it before it draws its samples, so that it adds no bias. If b explains
    nothing of a, the coefficient goes to 0: a control variate that does not help is switched off.

    Args:
        largest: the upper end of the interval.
        decay: factor on the sums at each update.
        smallest: the lower end of the interval.
        size: number of coefficients, one for each entry of the last axis; None for one shared.
    """

    overlap: Tensor
    energy: Tensor

    def __init__(
        self,
        largest: float,
        decay: float = 0.99,
        *,
        smallest: float = 0.0,
        size: int | None = None,
    ) -> None:
        super().__init__()
        self.smallest, self.largest, self.decay = smallest, largest, decay
        shape = () if size is None else (size,)
        self.register_buffer("overlap", torch.zeros(shape))
        self.register_buffer("energy", torch.zeros(shape))

    def forward(self) -> Tensor:
        """The coefficient that the next call will use; 0 before the first update."""
        return ratio(self.overlap, self.energy).clamp(self.smallest, self.largest)

    def update(self, a: Tensor, b: Tensor) -> None:
        """Add one draw to the sums."""
        axes = tuple(range(a.ndim - self.overlap.ndim))
        overlap = (1 - self.decay) * (a * b).mean(axes).to(self.overlap.dtype)
        energy = (1 - self.decay) * b.square().mean(axes).to(self.energy.dtype)
        # Two finite sums may have a quotient that is not.
        after = ratio(self.decay * self.overlap + overlap, self.decay * self.energy + energy)
        overlap = torch.where(torch.isfinite(after), overlap, torch.nan)
        mix(self.decay, [self.overlap, self.energy], [overlap, energy])


class RunningCovariance(nn.Module):
    """Covariances between the samples of a batch element, from decayed sums.

    An estimator reads regression coefficients from it before it draws its samples, so that they add
    no bias.

    Args:
        size: number of quantities.
        decay: factor on the sums at each update.
    """

    sums: Tensor
    weight: Tensor

    def __init__(self, size: int, decay: float = 0.99) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("sums", torch.zeros(size, size))
        self.register_buffer("weight", torch.zeros(()))  # decayed number of updates

    def forward(self) -> Tensor:
        """The covariances ``(size, size)`` over the last calls; 0 before the first update."""
        return self.sums / torch.where(self.weight > 0, self.weight, 1)

    def update(self, values: Tensor) -> None:
        """Add one draw, ``(size, n, batch)``."""
        _, n, batch = values.shape
        centred = (values - values.mean(1, keepdim=True)).flatten(1)
        new = centred @ centred.T / ((n - 1) * batch)
        mix(self.decay, [self.sums, self.weight], [new, torch.ones_like(self.weight)], whole=True)


class RunningRegression(nn.Module):
    """Regression of f on features, within the draws of a batch element, from decayed sums.

    It is a ridge regression: a ridge of r acts like r further observations that say that the
    coefficients are 0. The coefficients are computed again when there are a twentieth more
    observations than before, so that the cost of solving does not count in the long run.

    Args:
        groups: number of features and ridge of each group of features.
        decay: factor on the sums at each update.
    """

    gram: Tensor
    overlap: Tensor
    weight: Tensor
    unused: Tensor
    coefficients: Tensor

    def __init__(self, groups: Sequence[tuple[int, float]], decay: float) -> None:
        super().__init__()
        self.groups, self.decay = list(groups), decay
        size = sum(count for count, _ in groups)
        self.register_buffer("gram", torch.zeros(size, size))
        self.register_buffer("overlap", torch.zeros(size))
        self.register_buffer("weight", torch.zeros(()))  # decayed number of observations
        self.register_buffer("unused", torch.zeros(()))  # how many came after the last solution
        self.register_buffer("coefficients", torch.zeros(size))

    def update(
        self, features: Tensor, values: Tensor, further: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Add one draw: features ``(n, batch, size)``, values ``(n, batch)``.

        Args:
            features: what the values depend on.
            values: the values.
            further: rows ``(rows, size)`` and numbers ``(rows,)`` that the coefficients should
                lead to, without a mean that is subtracted.
        """
        n, batch = values.shape
        x = (features - features.mean(0)).flatten(0, 1)
        y = (values - values.mean(0)).flatten()
        if further is not None:
            x, y = torch.cat([x, further[0]]), torch.cat([y, further[1]])
        count = torch.full_like(self.weight, (n - 1) * batch)
        states = [self.gram, self.overlap, self.weight]
        kept = mix(self.decay, states, [x.mT @ x, x.mT @ y, count], whole=True)
        self.unused.add_(torch.where(kept, count, 0))
        if self.unused >= self.weight / 20:
            self._solve()

    def _solve(self) -> None:
        variance = self.gram.diagonal() / torch.where(self.weight > 0, self.weight, 1)
        parts = variance.split([count for count, _ in self.groups])
        ridges = []
        for part, (_, ridge) in zip(parts, self.groups, strict=True):
            # Features that never vary get the coefficient 0, whatever is added here.
            mean = part.mean()
            ridges.append((ridge * torch.where(mean > 0, mean, 1)).expand_as(part))
        factor, failed = torch.linalg.cholesky_ex(self.gram + torch.cat(ridges).diag())
        if not failed:
            found = torch.cholesky_solve(self.overlap.unsqueeze(-1), factor)[:, 0]
            self.coefficients.copy_(found)
        self.unused.zero_()


class RunningLevel(nn.Module):
    r"""A baseline for n values: the mean of the others, shrunk to a level from earlier calls.

    The mean of the n - 1 others has the squared error $\sigma^2/(n-1)$, the level (the decayed
    mean, and a regression on features where there are some) has $\delta^2$. Both errors come from
    decayed sums, and the others' mean gets the share $\delta^2/(\delta^2 + \sigma^2/(n-1))$: 1
    before anything is known, 0 where the mean never changes.

    Args:
        features: number of features of a batch element.
        decay: factor on the sums at each update.
    """

    sums: Tensor
    errors: Tensor

    def __init__(self, features: int = 0, decay: float = 0.99) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("sums", torch.zeros(2))  # of levels, and how many there are
        self.register_buffer("errors", torch.zeros(2))  # of delta^2 and sigma^2, as far as known
        self.regression = RunningRegression([(features, 1.0)], decay) if features else None

    def forward(self, n: int, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """The level, ``(batch,)`` or a scalar, and the share of the others' mean."""
        total, count = self.sums.unbind()
        level = total / torch.where(count > 0, count, 1)
        if self.regression is not None and features is not None:
            level = level + features.to(level.dtype) @ self.regression.coefficients
        wrong, noise = self.errors.clamp(min=0).unbind()
        both = wrong + noise / (n - 1)
        return level, torch.where(both > 0, wrong / torch.where(both > 0, both, 1), 1)

    def update(self, values: Tensor, level: Tensor, features: Tensor | None) -> None:
        """Add one draw: values ``(n, batch)``, and the level that was used for them."""
        n = values.shape[0]
        mean, noise = values.mean(0), values.var(0).mean()
        # The first call has used no level: it says nothing about one.
        known = (self.sums[1] > 0).to(noise.dtype)
        wrong = (mean - level).square().mean() - noise / n
        if self.regression is not None and features is not None:
            self.regression.update(features.unsqueeze(1).to(mean.dtype), mean.unsqueeze(1))
            mean = mean - features.to(mean.dtype) @ self.regression.coefficients.to(mean.dtype)
        new = torch.stack([mean.mean(), torch.ones_like(noise)])
        errors = known * torch.stack([wrong, noise])
        mix(self.decay, [self.sums, self.errors], [new, errors], whole=True)


def mix(
    decay: float | Tensor,
    states: Sequence[Tensor],
    news: Sequence[Tensor],
    *,
    whole: bool = False,
    when: Tensor | None = None,
) -> Tensor:
    """state = decay * state + new, for entries that stay finite in all states.

    What is finite in the draw's precision may not be in the state's, so the sums are looked at
    after the cast.

    Args:
        decay: factor on the states.
        states: updated in place; of one shape unless ``whole``.
        news: what is added.
        whole: update everything or nothing, instead of each entry by itself.
        when: whether to update at all, a boolean tensor; None for yes.

    Returns:
        What was updated: a boolean for each entry, or one for all.
    """
    both = zip(states, news, strict=True)
    mixed = [(decay * state).add_(new.to(state.dtype)) for state, new in both]
    kept = all_finite(mixed) if whole else torch.stack([*map(torch.isfinite, mixed)]).all(0)
    kept = kept if when is None else kept & when
    if not (whole and checks.in_sight(kept)):
        mixed = [torch.where(kept, *pair) for pair in zip(mixed, states, strict=True)]
    elif not kept:
        return kept
    for state, one in zip(states, mixed, strict=True):
        state.copy_(one)
    return kept


def all_finite(tensors: Sequence[Tensor]) -> Tensor:
    """Whether no entry is NaN or infinite, a boolean."""
    if checks.in_sight(tensors[0]):
        # A sum takes a tenth of the time. (Finite entries may have an infinite one.)
        sound = torch.isfinite(torch.stack([one.sum() for one in tensors]).sum())
        if sound:
            return sound
    return torch.stack([torch.isfinite(one).all() for one in tensors]).all()


def ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is not positive: what does not vary explains nothing."""
    return torch.where(b > 0, a / b, 0)
