"""Label sequences: Markov chains and linear-chain conditional random fields."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import constraints

from dbsurf.distributions.base import at_least_float32
from dbsurf.distributions.structured import (
    LOWEST,
    StructuredDistribution,
    Uniforms,
    check_below_infinity,
    check_logits,
    check_mask,
    finite,
    gumbel,
    invert_at,
)


class _Labels(constraints.Constraint):
    """Integers from 0 to S - 1."""

    is_discrete = True
    event_dim = 1

    def __init__(self, states: int) -> None:
        self.states = states
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        return ((value >= 0) & (value < self.states) & (value % 1 == 0)).all(-1)


class MarkovChain(StructuredDistribution):
    r"""A sequence of T states, each from 0 to S - 1, with logits for neighbours.

    $$p(x) \propto \exp\Bigl(a(x_1) + \sum_{t=1}^T e_t(x_t) + \sum_{t=2}^T b_t(x_{t-1}, x_t)\Bigr)$$

    with a ``initial``, e ``emission`` and b ``transition``: a linear-chain conditional random
    field. If a and the rows of b are log-probabilities and e is 0 this is a Markov chain, and if e
    holds log-likelihoods of observations it is the posterior of a hidden Markov model. Samples are
    drawn by filtering forward and drawing backward. Sums are in the logarithm, so that logits of
    +-60 do no harm.

    The statistics are indicators of the states, then of the pairs of neighbours, in one vector of
    m = TS + (T - 1)SS entries (see `split`).

    Args:
        emission: e, ``(*batch, T, S)``; zeros of that shape for a chain without observations.
        transition: b, from the state before (rows) to the state after (columns). Any shape that
            broadcasts to ``(*batch, T - 1, S, S)``: ``(S, S)`` if it is the same at all steps.
        initial: a, a shape that broadcasts to ``(*batch, S)``; None for 0.
        mask: True where there is a step, a shape that broadcasts to ``(*batch, T)``; None if all
            sequences have length T. The steps of a sequence come first. Samples are 0 after them.

    Examples:
        >>> import torch
        >>> from dbsurf.distributions import MarkovChain
        >>> stay = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> seen = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
        >>> law = MarkovChain(seen, stay)
        >>> law.sample((4,)).shape
        torch.Size([4, 3])
        >>> law.marginals
        tensor([[0.8808, 0.1192],
                [0.6760, 0.3240],
                [0.5813, 0.4187]])
        >>> law.mode
        tensor([0, 0, 0])

    References:
        J. Lafferty, A. McCallum and F. Pereira, Conditional random fields, ICML 2001.
    """

    arg_constraints = {
        "emission": constraints.independent(constraints.real, 2),
        "transition": constraints.independent(constraints.real, 3),
        "initial": constraints.dependent,
        "mask": constraints.dependent,
    }
    batched = {"emission": 2, "transition": 3, "initial": 1, "mask": 1}
    has_enumerate_support = True
    over_vectors = False

    emission: Tensor
    transition: Tensor
    initial: Tensor | None
    mask: Tensor | None

    def __init__(
        self,
        emission: Tensor,
        transition: Tensor,
        initial: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        check_logits(emission, "emission", axes=2)
        steps, states = emission.shape[-2:]
        self.steps, self.states = steps, states
        inner = {
            "emission": (emission, (steps, states)),
            "transition": (transition, (steps - 1, states, states)),
            "initial": (initial, (states,)),
            "mask": (mask, (steps,)),
        }
        batches: list[torch.Size] = []
        for name, (value, shape) in inner.items():
            if value is None:
                continue
            if name == "mask":
                check_mask(value)
            else:
                check_logits(value, name, axes=0)
            batches.append(_batch_of(value, name, shape))
        batch = _broadcast(batches)
        for name, (value, shape) in inner.items():
            given = None if value is None else value.expand(batch + shape)
            setattr(self, name, given)
        # Before it was expanded, so that a shared matrix is not copied for every step.
        self._transition = transition
        if self._start(batch, torch.Size((steps,)), validate_args):
            self._check_values()

    def _check_values(self) -> None:
        if self.mask is not None:
            late = self.mask[..., 1:] & ~self.mask[..., :-1]
            wrong = ~self.mask[..., 0] | late.any(-1)
            if wrong.any():
                raise ValueError(
                    "mask must be True for the first steps of a sequence, at least one, and False "
                    f"for the rest, got {int(wrong.sum())} of {wrong.numel()} that are not so"
                )
        names = ("emission", "transition") + (() if self.initial is None else ("initial",))
        forbidden = False
        for name in names:
            value: Tensor = getattr(self, name)
            check_below_infinity(value, name)
            forbidden = forbidden or bool((value == -math.inf).any())
        if forbidden and (self.log_partition.detach() < LOWEST / 10).any():
            raise ValueError(
                "emission, transition and initial must allow at least one sequence, got only "
                "sequences with a logit of -inf"
            )

    @property
    def support(self) -> constraints.Constraint:
        return _Labels(self.states)

    # --- logits and statistics as one vector ------------------------------------------------------

    @property
    def logits(self) -> Tensor:  # type: ignore[override]
        """Logits of states and of pairs, ``(*batch, m)``; 0 after the end of a sequence."""
        emission, transition = self._emission(), self.transition
        if self.mask is not None:
            emission = torch.where(self.mask[..., None], emission, 0.0)
            transition = torch.where(self.mask[..., 1:, None, None], transition, 0.0)
        return torch.cat([emission.flatten(-2), transition.flatten(-3)], -1)

    def _emission(self) -> Tensor:
        """Logits of states with those of the first one added, ``(*batch, T, S)``."""
        emission = at_least_float32(self.emission)
        if self.initial is None:
            return emission
        first = emission[..., :1, :] + self.initial.unsqueeze(-2)
        return torch.cat([first, emission[..., 1:, :]], -2)

    def _moves(self) -> Tensor:
        """Finite logits of pairs, ``(*batch, T - 1, S, S)``, a shared matrix not copied."""
        return finite(self._transition).expand(self.transition.shape)

    def split(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """A vector ``(..., m)`` as states ``(..., T, S)`` and pairs ``(..., T - 1, S, S)``."""
        one, two = vector.split([self.steps * self.states, self._pairs], -1)
        steps, states = self.steps, self.states
        return one.unflatten(-1, (steps, states)), two.reshape(
            *vector.shape[:-1], steps - 1, states, states
        )

    @property
    def _pairs(self) -> int:
        return (self.steps - 1) * self.states**2

    def statistics(self, value: Tensor) -> Tensor:
        one = torch.nn.functional.one_hot(value, self.states).to(self.emission.dtype)
        if self.mask is not None:
            one = one * self.mask[..., None]
        two = one[..., :-1, :, None] * one[..., 1:, None, :]  # (..., T - 1, S, S)
        return torch.cat([one.flatten(-2), two.flatten(-3)], -1)

    # --- the law --------------------------------------------------------------------------------

    def log_partition_at(self, logits: Tensor) -> Tensor:
        forward, scales = self._filter(*self.split(finite(logits)))
        return forward[-1].logsumexp(-1) + scales.sum(-1)

    @property
    def log_partition(self) -> Tensor:
        forward, scales = self._filter(finite(self._emission()), self._moves())
        return forward[-1].logsumexp(-1) + scales.sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        # Step by step less what the filter took out there: no difference of large numbers.
        if self._validate_args:
            self._validate_sample(value)
        one = self._emission()
        forward, scales = self._filter(finite(one), self._moves())
        shape = torch.broadcast_shapes(value.shape, scales.shape)
        value = value.expand(shape)  # (..., *batch, T)
        lead = shape[: len(shape) - scales.ndim]
        terms = one.expand(*lead, *one.shape).gather(-1, value.unsqueeze(-1))[..., 0]
        rows = self.transition.expand(*lead, *self.transition.shape)
        index = value[..., :-1, None, None].expand(*value[..., 1:].shape, 1, self.states)
        row = rows.gather(-2, index)[..., 0, :]  # (..., *batch, T - 1, S)
        moves = row.gather(-1, value[..., 1:, None])[..., 0]
        terms = terms + torch.nn.functional.pad(moves, (1, 0)) - scales
        if self.mask is not None:
            terms = torch.where(self.mask, terms, 0.0)
        return terms.sum(-1) - forward[-1].logsumexp(-1)

    @property
    def marginals(self) -> Tensor:
        """P(x_t = s), ``(*batch, T, S)``; 0 after the end of a sequence."""
        return self.split(self.mean_statistics)[0]

    @property
    def pair_marginals(self) -> Tensor:
        """P(x_t = r, x_{t+1} = s), ``(*batch, T - 1, S, S)``; 0 after the end of a sequence."""
        return self.split(self.mean_statistics)[1]

    def entropy(self) -> Tensor:
        # From the marginals alone, H(first) + the sum of H(pair) - H(its first state): exact where
        # the logits are large, too.
        one, two = self.split(self.mean_statistics)
        single, pair = _information(one).sum(-1), _information(two).sum((-1, -2))
        before = single[..., :-1]
        if self.mask is not None:
            before = torch.where(self.mask[..., 1:], before, 0.0)
        return single[..., 0] + (pair - before).sum(-1)

    @property
    def mode(self) -> Tensor:
        """The most probable sequence (Viterbi)."""
        with torch.no_grad():
            one, two = finite(self._emission()), self._moves()
            best, origins = one[..., 0, :], []
            for t in range(1, self.steps):
                score = best.unsqueeze(-1) + two[..., t - 1, :, :]  # (*batch, S before, S)
                top, origin = score.max(-2)
                best = self._where(t, top + one[..., t, :], best)
                origins.append(origin)
            last = best.argmax(-1)  # (*batch,)
            path = [self._padded(self.steps - 1, last)]
            for t in reversed(range(1, self.steps)):
                before = origins[t - 1].gather(-1, last.unsqueeze(-1))[..., 0]
                last = before if self.mask is None else torch.where(self.mask[..., t], before, last)
                path.append(self._padded(t - 1, last))
        return torch.stack(path[::-1], -1)

    def support_size(self) -> float:
        return float(self.states) ** self.steps

    def enumerate_support(self, expand: bool = True) -> Tensor:
        self._check_enumerable()
        if self.mask is not None and not self.mask.all():
            raise ValueError(
                "mask must be True everywhere to enumerate the support, got lengths "
                f"{self.mask.sum(-1).tolist()}"
            )
        digit = self.states ** torch.arange(self.steps - 1, -1, -1, device=self.device)
        number = torch.arange(self.states**self.steps, device=self.device)
        return self._enumerated(number.unsqueeze(-1) // digit % self.states, expand)

    # --- forward filtering, backward sampling ----------------------------------------------------

    def _filter(self, emission: Tensor, transition: Tensor) -> tuple[list[Tensor], Tensor]:
        """Logarithms of forward sums, T tensors ``(*batch, S)``, and what was taken out of each.

        What is taken out, ``(*batch, T)``, is the largest entry: a constant, without a gradient.
        """
        forward: list[Tensor] = []
        scales: list[Tensor] = []
        moves = transition.unbind(-3)
        for t, now in enumerate(emission.unbind(-2)):
            if t:
                now = now + (forward[-1].unsqueeze(-1) + moves[t - 1]).logsumexp(-2)
            scale = now.detach().amax(-1, keepdim=True)
            now = now - scale
            if t and self.mask is not None:
                now = self._where(t, now, forward[-1])
                scale = torch.where(self.mask[..., t, None], scale, 0.0)
            forward.append(now)
            scales.append(scale)
        return forward, torch.cat(scales, -1)

    def _where(self, t: int, inside: Tensor, outside: Tensor) -> Tensor:
        """``inside`` for sequences that have a step t."""
        return (
            inside if self.mask is None else torch.where(self.mask[..., t, None], inside, outside)
        )

    def _padded(self, t: int, state: Tensor) -> Tensor:
        return state if self.mask is None else torch.where(self.mask[..., t], state, 0)

    def _draw(self, n: int, generator: torch.Generator | None) -> Tensor:
        transition = self._moves()
        forward, _ = self._filter(finite(self._emission()), transition)
        table = torch.stack(forward).unsqueeze(1)  # (T, 1, *batch, S)
        shape = (self.steps, n, *table.shape[2:])
        noisy = gumbel(shape, table, generator).add_(table).unbind(0)
        return self._backward(n, transition, lambda t, move: (noisy[t] + move).argmax(-1))

    def draw_group(self, n: int, uniforms: Uniforms) -> Tensor:
        transition = self._moves()
        forward, _ = self._filter(finite(self._emission()), transition)

        def pick(t: int, move: Tensor | float) -> Tensor:
            weights = (forward[t] + move).softmax(-1)
            return invert_at(weights, uniforms(forward[t][..., 0]))

        return self._backward(n, transition, pick)

    def _backward(
        self, n: int, transition: Tensor, pick: Callable[[int, Tensor | float], Tensor]
    ) -> Tensor:
        """n sequences from the last step to the first.

        ``pick(t, move)`` draws the states ``(n, *batch)`` of step t; move are logits of the way
        from each state to what comes after it, ``(n, *batch, S)``, and 0 for the last step.
        """
        # (*batch, S after, S before): the logits of what comes before a state are a row.
        moves = transition.transpose(-1, -2).unbind(-3)
        state = pick(self.steps - 1, 0.0).unsqueeze(-1)  # (n, *batch, 1)
        path = [state]
        for t in reversed(range(self.steps - 1)):
            rows = moves[t].expand(n, *moves[t].shape)
            index = state.unsqueeze(-1).expand(*state.shape, self.states)
            move = rows.gather(-2, index).squeeze(-2)  # (n, *batch, S)
            if self.mask is not None:
                move = torch.where(self.mask[..., t + 1, None], move, 0.0)
            state = pick(t, move).unsqueeze(-1)
            path.append(state)
        states = torch.cat(path[::-1], -1)  # (n, *batch, T)
        return states if self.mask is None else torch.where(self.mask, states, 0)


def _information(mass: Tensor) -> Tensor:
    """-p log p, and 0 with a gradient of 0 where p = 0."""
    possible = mass > 0
    return torch.where(possible, -mass * torch.where(possible, mass, 1.0).log(), 0.0)


def _batch_of(value: Tensor, name: str, shape: tuple[int, ...]) -> torch.Size:
    """The batch shape of a parameter that should broadcast to ``(*batch, *shape)``."""
    own = value.shape[max(0, value.ndim - len(shape)) :]
    fits = all(
        size in (1, full) for size, full in zip(reversed(own), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(
            f"{name} must broadcast to (*batch, {', '.join(map(str, shape))}), got shape "
            f"{tuple(value.shape)}"
        )
    return value.shape[: max(0, value.ndim - len(shape))]


def _broadcast(batches: list[torch.Size]) -> torch.Size:
    axes = max(map(len, batches))
    sizes = zip(*((1,) * (axes - len(batch)) + tuple(batch) for batch in batches), strict=True)
    if any(len(set(size) - {1}) > 1 for size in sizes):
        raise ValueError(
            "emission, transition, initial and mask must have batch axes that broadcast, got "
            + ", ".join(str(tuple(batch)) for batch in batches)
        )
    return torch.Size(torch.broadcast_shapes(*batches))
