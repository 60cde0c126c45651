r"""Advantages for trainers of language models: flat rows, groups of any size, a mask of tokens.

A trainer has one row for each completion. _Rows with the same number in ``group`` are completions
of the same prompt. `advantages` subtracts a baseline from the rewards:

| baseline | bias, for independent rows | what it is |
| --- | --- | --- |
| None, a tensor known before the rows were drawn | none | |
| a `RunningMean` | none | the mean of earlier rewards of the prompt, read before it is updated |
| ``"leave-one-out"`` | none | the mean of the other rows of the prompt |
| ``"prefix-mean"`` | none | for each token, the mean of other rows that share the tokens so far |
| ``"shrinkage"`` | none | leave-one-out, shrunk towards the mean of the other prompts |
| ``"optimal"`` | none | leave-one-out, weighted by the squared scores of the other rows |
| ``"group-mean"`` | **biased** | 1 - 1/n times the gradient: prompts with few rows count less |
| ``"standardised"`` | **biased** | ascends another objective, see `standardised` |

A baseline adds no bias if it is independent of the row's own tokens. So every unbiased one leaves
the row itself out, in the mean as well as in the weights. A weighted mean that contains the row
itself is biased by much more than the group mean: with one token, success probability 0.3 and
n = 4, the "optimal" baseline with the own row gives 0.67 times the gradient.

_Rows of one prompt must be independent of each other. For a dependent group (`Systematic` and
others), use `peer_mean` or `prefix_mean` with the group's ``peers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.sequences import baselines
from dbsurf.sequences.codes import check_mask, check_tokens, described, is_real

Name = Literal["leave-one-out", "prefix-mean", "shrinkage", "optimal", "group-mean", "standardised"]


def advantages(
    rewards: Any,
    group: Any,
    mask: Tensor | None = None,
    *,
    baseline: Name | baselines.RunningMean | Tensor | float | None = "leave-one-out",
    tokens: Tensor | None = None,
    energy: Tensor | None = None,
    otherwise: float | None = None,
) -> Tensor:
    r"""Rewards minus a baseline, for flat rows with groups of any size.

    The gradient that a trainer makes of them is
    $\sum_i \sum_t A_{i,t} \nabla \log p(x_{i,t} \mid x_{i,<t})$, divided by the number of rows. It
    is the gradient of the mean reward if the baseline is unbiased, see the table at the top of
    this module. Division by a length or by the number of tokens of the batch is another objective.

    Args:
        rewards: one number for each row, ``(rows,)``: a tensor, an array or a list.
        group: the prompt of each row, ``(rows,)`` integers, in any order.
        mask: ``(rows, T)``, bool, True for tokens of the completion. With it the result has one
            advantage for each token, 0 outside the mask.
        baseline: a name of the table, a `RunningMean`, None for 0, or a number or tensor that fits
            ``(rows,)`` or ``(rows, T)`` and does not depend on the rows.
        tokens: ``(rows, T)``, for ``"prefix-mean"``.
        energy: squared scores, ``(rows,)`` or ``(rows, T)``, for ``"optimal"``; see
            `squared_scores`.
        otherwise: the baseline of a row that is alone with its prompt, where the baseline needs
            others. None raises an error instead.

    Returns:
        ``(rows,)`` without a mask, ``(rows, T)`` with one.

    Examples:
        >>> from dbsurf import sequences
        >>> rewards = [1.0, 0.0, 0.0, 1.0, 1.0]
        >>> prompt = [7, 7, 7, 3, 3]  # three completions of one prompt, two of another
        >>> sequences.advantages(rewards, prompt)
        tensor([ 1.0000, -0.5000, -0.5000,  0.0000,  0.0000])
    """
    rows = _Rows.checked(rewards, group, mask, tokens, energy, otherwise)
    if isinstance(baseline, str):
        if baseline not in BASELINES:
            raise ValueError(
                f"baseline must be one of {', '.join(map(repr, BASELINES))}, a RunningMean, a "
                f"tensor, a number or None, got {baseline!r}"
            )
        found = BASELINES[baseline](rows)
    elif isinstance(baseline, baselines.RunningMean):
        # (Read first: a mean that contains the row itself is biased.)
        numbers = torch.as_tensor(group, device=baseline.total.device)
        found = baseline(numbers).to(rows.rewards)
        baseline.update(numbers, rows.rewards.unsqueeze(0))
    else:
        found = _given(baseline, rows)
    if mask is None:
        if found.ndim > 1:
            raise ValueError(
                "mask must be given for a baseline with one value a token, got None for a baseline "
                f"of shape {tuple(found.shape)}"
            )
        return rows.rewards - found
    by_token = rows.rewards.unsqueeze(-1) - (found if found.ndim > 1 else found.unsqueeze(-1))
    return by_token.expand(mask.shape).masked_fill(~mask, 0)


def squared_scores(logits: Tensor, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""$\sum_{s \le t} \|\partial \log p(x_s) / \partial \mathrm{logits}\|^2$ for each token t.

    One term is $1 - 2 p(x_s) + \sum_v p(v)^2$. It stands for the squared gradient with respect to
    the parameters, which no trainer computes for each row. The weights of ``"optimal"``.

    Args:
        logits: ``(rows, T, vocabulary)``.
        tokens: ``(rows, T)``, int64.
        mask: ``(rows, T)``, bool; tokens outside count as 0.

    Returns:
        ``(rows, T)``, detached.
    """
    check_tokens(logits, tokens)
    if tokens.ndim < 1:
        raise ValueError(f"tokens must have shape (rows, T), got {described(tokens)}")
    if mask is not None:
        check_mask(mask, tokens.shape, f"of the shape of tokens {tuple(tokens.shape)}")
    with torch.no_grad():
        probs = logits.softmax(-1)
        own = probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        steps = 1 - 2 * own + probs.square().sum(-1)
        if mask is not None:
            steps = steps.masked_fill(~mask, 0)
        return steps.cumsum(-1)


def as_tensor(values: Any, name: str) -> Tensor:
    """Numbers of a tensor, an array or a list."""
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"{name} must be numbers: a tensor, an array or a list, got {described(values)}"
        ) from None


@dataclass(frozen=True)
class _Rows:
    """What a baseline is made from.

    Attributes:
        rewards: ``(rows,)``.
        prompt: the prompt of each row as a number from 0 on, ``(rows,)``.
        number: rows of each prompt, ``(prompts,)``.
        mask: ``(rows, T)`` or None.
        tokens: ``(rows, T)`` or None.
        energy: ``(rows,)`` or ``(rows, T)`` or None.
        otherwise: the baseline of a row that is alone, or None.
    """

    rewards: Tensor
    prompt: Tensor
    number: Tensor
    mask: Tensor | None
    tokens: Tensor | None
    energy: Tensor | None
    otherwise: float | None

    @staticmethod
    def checked(
        rewards: Any,
        group: Any,
        mask: Tensor | None,
        tokens: Tensor | None,
        energy: Tensor | None,
        otherwise: float | None,
    ) -> _Rows:
        """The rows, if all of them have the right form."""
        rewards, group = as_tensor(rewards, "rewards").detach(), as_tensor(group, "group")
        if rewards.ndim != 1 or not len(rewards) or rewards.is_complex():
            raise ValueError(
                f"rewards must be flat real numbers, (rows,), got {described(rewards)}"
            )
        if not rewards.is_floating_point():
            rewards = rewards.to(torch.get_default_dtype())
        bad = int((~torch.isfinite(rewards)).sum())
        if bad:
            raise ValueError(
                f"rewards must be finite, got {bad} of {len(rewards)} that are NaN or infinite; "
                "leave out the rows without a reward"
            )
        whole = not (group.is_floating_point() or group.is_complex() or group.dtype == torch.bool)
        if group.shape != rewards.shape or not whole:
            raise ValueError(
                f"group must have one integer for each of {len(rewards)} rows, the row's prompt, "
                f"got {described(group)}"
            )
        for name, rows in (("mask", mask), ("tokens", tokens)):
            table = isinstance(rows, Tensor) and rows.ndim == 2 and len(rows) == len(rewards)
            if rows is not None and (not table or (name == "mask" and rows.dtype != torch.bool)):
                raise ValueError(
                    f"{name} must be {'a bool' if name == 'mask' else 'a'} tensor of shape "
                    f"({len(rewards)}, T), got {described(rows)}"
                )
        if otherwise is not None and not checks.is_finite_number(otherwise):
            raise ValueError(f"otherwise must be a finite number or None, got {otherwise!r}")
        _, prompt, number = torch.unique(group, return_inverse=True, return_counts=True)
        prompt, number = prompt.to(rewards.device), number.to(rewards.device)
        return _Rows(rewards, prompt, number, mask, tokens, energy, otherwise)

    def sums(self, values: Tensor) -> Tensor:
        """Sums over the rows of each prompt, ``(prompts, ...)``."""
        shape = (len(self.number), *values.shape[1:])
        return values.new_zeros(shape).index_add_(0, self.prompt, values)

    def others(self, owner: str) -> Tensor:
        """How many other rows the prompt of each row has; 0 is an error without ``otherwise``."""
        others = self.number[self.prompt] - 1
        if self.otherwise is None and bool((others == 0).any()):
            raise ValueError(
                f"every prompt must have at least 2 rows for {owner}, got "
                f"{int((others == 0).sum())} rows that are alone; otherwise= is their baseline"
            )
        return others

    def members(self) -> Iterator[Tensor]:
        """The rows of one prompt after the other."""
        yield from self.prompt.argsort(stable=True).split(self.number.tolist())


# --- the baselines, each ``(rows,)`` or ``(rows, T)`` ---------------------------------------------


def _leave_one_out(rows: _Rows) -> Tensor:
    others = rows.others('"leave-one-out"')
    total = rows.sums(rows.rewards)[rows.prompt] - rows.rewards
    return torch.where(others > 0, total / others.clamp(min=1), rows.otherwise or 0.0)


def _prefix_mean(rows: _Rows) -> Tensor:
    rows.others('"prefix-mean"')
    if rows.tokens is None or rows.mask is None or rows.tokens.shape != rows.mask.shape:
        raise ValueError(
            'tokens and mask must be given with one shape (rows, T) for "prefix-mean", got '
            f"{described(rows.tokens)} and {described(rows.mask)}"
        )
    # A row that has ended differs from one that goes on, whatever its padding is.
    tokens = rows.tokens.masked_fill(~rows.mask, -1)
    found = rows.rewards.new_zeros(tokens.shape)
    for members in rows.members():
        n = len(members)
        others = ~torch.eye(n, dtype=torch.bool, device=tokens.device)
        peers = others.unsqueeze(-1).expand(n, n, tokens.shape[-1])
        found[members] = baselines.prefix_mean(
            rows.rewards[members], peers, tokens[members], otherwise=rows.otherwise or 0.0
        )
    return found


def _shrinkage(rows: _Rows) -> Tensor:
    r"""$(1 - \lambda) m + \lambda M$, the other rows of the prompt and the other prompts.

    m is the mean of k other rows, with error variance $\sigma^2 / k$. M is the mean over the other
    prompts' means, with error variance $\tau^2 + s^2 / (P - 1)$: $\tau^2$ between prompts, $s^2$
    the variance of the means. $\lambda = v_m / (v_m + v_M)$ is the best weight if these were known.
    They are estimated from the other prompts alone, so the row itself is in none of them. Where
    they cannot be (fewer than two other prompts) $\lambda$ is 0.
    """
    count = len(rows.number)
    number = rows.number.to(rows.rewards.dtype)  # (prompts,)
    means = rows.sums(rows.rewards) / number
    spread = rows.sums((rows.rewards - means[rows.prompt]).square())  # within a prompt
    if count < 2:
        return _leave_one_out(rows)
    # Over all prompts but p, for every p.
    centre = (means.sum() - means) / (count - 1)
    freedom = (number - 1).sum() - (number - 1)
    within = (spread.sum() - spread).clamp(min=0) / freedom.clamp(min=1)
    inverse = 1 / number
    k = number[rows.prompt] - 1
    if count > 2:
        # (The mean over all prompts is subtracted first: the difference loses fewer digits.)
        centred = means - means.mean()
        squares, total = centred.square(), centred.sum()
        left = (squares.sum() - squares) - (total - centred).square() / (count - 1)
        between_means = left.clamp(min=0) / (count - 2)
        noise = within * (inverse.sum() - inverse) / (count - 1)
        between = (between_means - noise).clamp(min=0)
        of_centre = between + between_means / (count - 1)  # (prompts,)
        of_mean = within[rows.prompt] / k.clamp(min=1)
        whole = of_mean + of_centre[rows.prompt]
        known = (freedom > 0)[rows.prompt] & (whole > 0)
        weight = torch.where(known, of_mean / torch.where(known, whole, 1), 0)
    else:
        weight = torch.zeros_like(rows.rewards)
    own = (rows.sums(rows.rewards)[rows.prompt] - rows.rewards) / k.clamp(min=1)
    weight = torch.where(k > 0, weight, 1)  # alone with its prompt: the other prompts are all
    return torch.lerp(own, centre[rows.prompt], weight)


def _optimal(rows: _Rows) -> Tensor:
    r"""$\sum_{j \ne i} w_j r_j / \sum_{j \ne i} w_j$, w the squared scores; leave-one-out at w = 0.

    The baseline that minimises the sum of the variances is $E[w r] / E[w]$.
    """
    plain = _leave_one_out(rows)
    energy = rows.energy
    fits = energy is not None and is_real(energy) and energy.ndim in (1, 2)
    if energy is None or not fits or len(energy) != len(rows.rewards):
        raise ValueError(
            f"energy must have shape ({len(rows.rewards)},) or ({len(rows.rewards)}, T) for "
            f'"optimal", got {described(energy)}'
        )
    energy = energy.detach().to(rows.rewards.dtype)
    if bool((energy < 0).any()) or not bool(torch.isfinite(energy).all()):
        raise ValueError("energy must be finite and >= 0, got values that are not")
    by_row = energy if energy.ndim == 2 else energy.unsqueeze(-1)  # (rows, T or 1)
    weighted = by_row * rows.rewards.unsqueeze(-1)
    found = torch.zeros_like(by_row)
    for members in rows.members():  # (sums over others: a difference could cancel to rounding)
        others = 1 - torch.eye(len(members), dtype=by_row.dtype, device=by_row.device)
        total = others @ by_row[members]
        mean = (others @ weighted[members]) / torch.where(total > 0, total, 1)
        found[members] = torch.where(total > 0, mean, plain[members].unsqueeze(-1))
    return found if energy.ndim == 2 else found.squeeze(-1)


def _group_mean(rows: _Rows) -> Tensor:
    return (rows.sums(rows.rewards) / rows.number)[rows.prompt]


def _standardised(rows: _Rows) -> Tensor:
    rows.others('"standardised"')
    found = torch.empty_like(rows.rewards)
    for members in rows.members():
        values = rows.rewards[members]
        alone = torch.full_like(values, rows.otherwise or 0.0)
        found[members] = baselines.standardised(values) if len(values) > 1 else alone
    return found


BASELINES: dict[str, Callable[[_Rows], Tensor]] = {
    "leave-one-out": _leave_one_out,
    "prefix-mean": _prefix_mean,
    "shrinkage": _shrinkage,
    "optimal": _optimal,
    "group-mean": _group_mean,
    "standardised": _standardised,
}


def _given(baseline: object, rows: _Rows) -> Tensor:
    """The caller's own baseline, ``(rows,)`` or ``(rows, T)``."""
    if baseline is None:
        return torch.zeros_like(rows.rewards)
    if checks.is_finite_number(baseline):
        return torch.full_like(rows.rewards, float(baseline))  # type: ignore[arg-type]
    shapes = [tuple(rows.rewards.shape)]
    if rows.mask is not None:
        shapes.append(tuple(rows.mask.shape))
    if not isinstance(baseline, Tensor) or tuple(baseline.shape) not in shapes:
        words = " or ".join(map(str, shapes))
        raise ValueError(
            f"baseline must be a name, a RunningMean, a finite number, None or a tensor of shape "
            f"{words}, got {described(baseline)}"
        )
    return baseline.detach().to(rows.rewards)
