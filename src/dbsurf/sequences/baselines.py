"""Group baselines: what is subtracted from f(x_i), made from the group or from elsewhere.

Each function gives a tensor for ``baseline=`` of `dbsurf.surrogate`, `sequence_loss` or
`trajectory_loss`. Whether the gradient stays unbiased depends on how the group was drawn:

| baseline | independent sequences | dependent inside a group (`Systematic`, ...) |
| --- | --- | --- |
| none, or known from elsewhere (`RunningMean`) | unbiased | unbiased |
| `leave_one_out` | unbiased | biased |
| `other_groups` | unbiased | unbiased |
| `peer_mean`, `prefix_mean` | unbiased | unbiased |
| `group_mean` | (1 - 1/n) times the gradient | biased |
| `standardised` | biased, another objective | biased |
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dbsurf import checks
from dbsurf.sequences.codes import count, described, group_count


def leave_one_out(f_values: Tensor) -> Tensor:
    """The mean of f over the other n - 1 sequences.

    Unbiased for independent sequences. Biased for dependent ones: f(x_j) then is correlated with
    the score of x_i.

    Args:
        f_values: ``(n, *batch)``, n >= 2.
    """
    n = _group_size(f_values, 2)
    f_values = f_values.detach()
    return (f_values.sum(0) - f_values) / (n - 1)


def other_groups(f_values: Tensor, groups: int = 2) -> Tensor:
    """The mean of f over the groups that a sequence does not belong to.

    Unbiased whatever the dependence inside a group, because groups are drawn independently of each
    other (``groups=`` of `Systematic` and `Arithmetic`).

    Args:
        f_values: ``(n, *batch)``.
        groups: number of groups, at least 2 and a divisor of n; consecutive sequences are one.
    """
    n = _group_size(f_values, 2)
    if group_count(n, groups) < 2:
        raise ValueError(f"groups must be at least 2 for other_groups, got {groups}")
    f_values = f_values.detach()
    sums = f_values.view(groups, n // groups, *f_values.shape[1:]).sum(1)  # (groups, *batch)
    others = (sums.sum(0) - sums) / (n - n // groups)
    return others.repeat_interleave(n // groups, 0)


def peer_mean(f_values: Tensor, peers: Tensor, otherwise: Tensor | float = 0.0) -> Tensor:
    r"""For each token the mean of f over the sequences that this token is independent of.

    Unbiased for every group of `Codes`. Let $F_t$ be everything that was drawn before step t. The
    peers of token t of sequence i are known then, and given $F_t$ the token is independent of
    their f-values, so $E[b_{i,t} \nabla \log p(x_{i,t}) \mid F_t] = E[b_{i,t} \mid F_t] \cdot 0$.
    With independent sequences it is the leave-one-out baseline.

    Args:
        f_values: ``(n, *batch)``, or rewards to go ``(n, *batch, T)``.
        peers: ``[i, j, *batch, t]``, bool: `Codes.peers`.
        otherwise: the baseline of a token that has no peers, a number or a tensor that fits
            ``(*batch, T)``; it must not depend on the group.

    Returns:
        ``(n, *batch, T)``.
    """
    f_values = _beside(f_values, peers)
    return torch.stack([_mean_over(mask, f_values, otherwise) for mask in peers])


def prefix_mean(
    f_values: Tensor,
    peers: Tensor,
    tokens: Tensor,
    *,
    strength: float = 4.0,
    otherwise: Tensor | float = 0.0,
) -> Tensor:
    r"""For each token the mean of f over peers with the same prefix, shrunk to that of all peers.

    A sequence that has the same tokens before step t predicts f better than the rest of the group.
    The baseline starts as the mean over the peers of the first token and follows the prefix:
    $b_{i,t} = (\sum_j f_j + \kappa b_{i,t-1}) / (m + \kappa)$ over the m peers j of token t that
    share the tokens before it. Unbiased for every group of `Codes` and every $\kappa$, for the same
    reason as `peer_mean`: which peers share the prefix is known before the token is drawn.

    It helps as far as sequences share prefixes and the prefix decides f; where f is decided at the
    end it is a little noisier than `leave_one_out`.

    Args:
        f_values: ``(n, *batch)``, or rewards to go ``(n, *batch, T)``.
        peers: ``[i, j, *batch, t]``, bool: `Codes.peers`.
        tokens: ``(n, *batch, T)``.
        strength: $\kappa > 0$, the weight of the shorter prefix in sequences.
        otherwise: the baseline where the first token has no peers, a number or a tensor that fits
            ``(*batch, 1)``; it must not depend on the group.

    Returns:
        ``(n, *batch, T)``.
    """
    if isinstance(strength, bool) or not isinstance(strength, (int, float)) or not strength > 0:
        raise ValueError(f"strength must be a number > 0, got {strength!r}")
    f_values = _beside(f_values, peers)
    if not isinstance(tokens, Tensor) or tokens.shape != peers.shape[1:]:
        raise ValueError(
            f"tokens must have shape {tuple(peers.shape[1:])} (n, *batch, T) as peers have, "
            f"got {described(tokens)}"
        )
    rows = []
    for mask, own in zip(peers, tokens, strict=True):
        differs = (tokens != own).cumsum(-1) > 0  # (n, *batch, T), up to and with step t
        same = ~differs.roll(1, -1)  # before step t
        same[..., 0] = True
        mask = mask & same
        number = mask.sum(0)  # (*batch, T)
        total = (mask * f_values).sum(0)
        level = _mean_over(mask[..., :1], f_values[..., :1], otherwise).squeeze(-1)
        levels = [level]
        for t in range(1, tokens.shape[-1]):
            level = (total[..., t] + strength * level) / (number[..., t] + strength)
            levels.append(level)
        rows.append(torch.stack(levels, -1))
    return torch.stack(rows)


def group_mean(f_values: Tensor) -> Tensor:
    """The mean of f over the whole group, the sequence itself included. Biased.

    For independent sequences the expectation is (1 - 1/n) times the gradient: the direction is
    right and the step is shorter. For dependent ones the bias of `leave_one_out` comes on top.

    Args:
        f_values: ``(n, *batch)``.
    """
    _group_size(f_values, 1)
    return f_values.detach().mean(0).expand_as(f_values)


def standardised(f_values: Tensor) -> Tensor:
    r"""The baseline that makes the advantage $(f_i - \bar f)/\mathrm{std}(f)$. Biased.

    Division by the group's own standard deviation weighs prompts: those whose f-values hardly
    vary get the largest weight. For rewards of 0 and 1 with success probability q and large n it
    ascends $2 \arcsin \sqrt q$ instead of q. A group whose f-values are all equal has no signal:
    its advantages are 0.

    Args:
        f_values: ``(n, *batch)``, n >= 2. The standard deviation has n - 1 below the line.
    """
    _group_size(f_values, 2)
    f_values = f_values.detach()
    centred = f_values - f_values.mean(0)
    spread = f_values.std(0)
    # All values equal: the advantages are 0. (The mean of equal numbers may be rounded.)
    equal = (f_values == f_values[0]).all(0)
    advantage = torch.where(equal, 0, centred / torch.where(equal, 1, spread))
    return f_values - advantage


class RunningMean(nn.Module):
    """A running mean of f for each prompt: an unbiased baseline for every group.

    Unbiased because it is read before it learns from the group: call it first and `update` after
    the loss is made. Its state is saved and loaded with the module's ``state_dict``.

    Args:
        prompts: number of prompts.
        decay: weight of the past at each update of a prompt, in [0, 1).

    Examples:
        >>> values = RunningMean(prompts=10)
        >>> which = torch.tensor([3, 7])  # the prompts of this batch
        >>> values(which)
        tensor([0., 0.])
        >>> values.update(which, torch.tensor([[1.0, 0.0], [1.0, 1.0]]))  # (n, batch)
        >>> values(which)
        tensor([1.0000, 0.5000])
    """

    total: Tensor
    weight: Tensor

    def __init__(self, prompts: int, decay: float = 0.9):
        super().__init__()
        size = count(prompts, "prompts", "RunningMean")
        if isinstance(decay, bool) or not isinstance(decay, (int, float)) or not 0 <= decay < 1:
            raise ValueError(f"decay must be a number in [0, 1), got {decay!r}")
        self.decay = decay
        self.register_buffer("total", torch.zeros(size))
        self.register_buffer("weight", torch.zeros(size))

    def forward(self, prompts: Tensor) -> Tensor:
        """The mean for each prompt; for one not seen before, the mean of those that were.

        Args:
            prompts: numbers of prompts ``(*batch)``, int64.
        """
        seen = self.weight > 0
        means = self.total / torch.where(seen, self.weight, 1)
        overall = means.sum() / seen.sum().clamp(min=1)
        return torch.where(seen, means, overall)[self._checked(prompts)]

    @torch.no_grad()
    def update(self, prompts: Tensor, f_values: Tensor) -> None:
        """Learn from the f-values of a group.

        Args:
            prompts: numbers of prompts ``(*batch)``, int64; one may occur several times.
            f_values: ``(n, *batch)``.
        """
        prompts = self._checked(prompts)
        if not isinstance(f_values, Tensor) or f_values.shape[1:] != prompts.shape:
            raise ValueError(
                f"f_values must have shape (n, *batch) with batch {tuple(prompts.shape)} as in "
                f"prompts, got {described(f_values)}"
            )
        _group_size(f_values, 1)
        checks.finite_tensor(f_values, "f_values must be finite", optional=False)
        means = f_values.mean(0).reshape(-1).to(self.total)
        index = prompts.reshape(-1)
        times = torch.zeros_like(self.weight).index_add_(0, index, torch.ones_like(means))
        sums = torch.zeros_like(self.total).index_add_(0, index, means)
        touched = times > 0
        kept = torch.where(touched, self.decay, 1.0)
        new = torch.where(touched, 1 - self.decay, 0.0)
        self.total.mul_(kept).add_(new * sums / times.clamp(min=1))
        self.weight.mul_(kept).add_(new)

    def _checked(self, prompts: Tensor) -> Tensor:
        size, whole = len(self.weight), isinstance(prompts, Tensor) and prompts.dtype == torch.int64
        if whole and prompts.numel():
            whole = 0 <= int(prompts.min()) <= int(prompts.max()) < size
        if not whole:
            raise ValueError(
                f"prompts must be int64 numbers from 0 to {size - 1}, got {described(prompts)}"
            )
        return prompts


def _mean_over(mask: Tensor, f_values: Tensor, otherwise: Tensor | float) -> Tensor:
    """The mean of f over the sequences of a mask, ``(*batch, T)``; ``otherwise`` over none."""
    number = mask.sum(0)
    total = (mask * f_values).sum(0)
    return torch.where(number > 0, total / number.clamp(min=1), otherwise)


def _beside(f_values: Tensor, peers: Tensor) -> Tensor:
    """The f-values with a last axis for the steps, once they and the peers fit."""
    n = _group_size(f_values, 1)
    f_values = f_values.detach()
    if not isinstance(peers, Tensor):
        raise ValueError(
            "peers must be a bool tensor [i, j, *batch, t], got "
            f"{described(peers)}; a group drawn here or made by Group.from_samples has it"
        )
    if f_values.ndim == peers.ndim - 2:
        f_values = f_values.unsqueeze(-1)
    fits = f_values.ndim == peers.ndim - 1 and f_values.shape[:-1] == peers.shape[1:-1]
    fits = fits and f_values.shape[-1] in (1, peers.shape[-1]) and len(peers) == n
    if not fits or peers.dtype != torch.bool:
        raise ValueError(
            "peers must be a bool tensor [i, j, *batch, t] that fits f_values (n, *batch) or "
            f"(n, *batch, T), got peers {described(peers)} and f_values {described(f_values)}"
        )
    return f_values


def _group_size(f_values: Tensor, smallest: int) -> int:
    """The n of f-values ``(n, *batch)``."""
    if not isinstance(f_values, Tensor) or not f_values.is_floating_point() or not f_values.ndim:
        raise ValueError(
            f"f_values must be a floating-point tensor (n, *batch), got {described(f_values)}"
        )
    if len(f_values) < smallest:
        raise ValueError(
            f"f_values must have n >= {smallest} along their first axis, got {len(f_values)}"
        )
    return len(f_values)
