"""Rankings: items are chosen one after another, each with a softmax over those that are left."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor
from torch.distributions import constraints

from dbsurf.distributions.structured import (
    LOWEST,
    Structure,
    Uniforms,
    check_integer,
    check_logits,
    check_mask,
    finite,
    gumbel,
    gumbel_of,
)

MOST_ITEMS = 14  # the entropy is a sum over all subsets of the items


class _Ranking(constraints.Constraint):
    """Distinct items, those that exist first."""

    is_discrete = True
    event_dim = 1

    def __init__(self, law: PlackettLuce) -> None:
        self.law = law
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        inside = ((value >= 0) & (value < self.law.items)).all(-1)
        ordered = value.sort(-1).values
        distinct = (ordered[..., 1:] != ordered[..., :-1]).all(-1)
        if self.law.mask is None:
            return inside & distinct
        item = value.clamp(0, self.law.items - 1)
        mask = self.law.mask.expand(*item.shape[:-1], self.law.items)
        return inside & distinct & (mask.gather(-1, item) == self.law._ranked()).all(-1)


class PlackettLuce(Structure):
    r"""A ranking of the best k of d items: item numbers, the best first.

    $$p(x) = \prod_{j=1}^k \frac{\exp \theta_{x_j}}
    {\sum_{i \notin \{x_1, \dots, x_{j-1}\}} \exp \theta_i}$$

    A sample is the order of the logits plus Gumbel noise. The law has no log-partition over
    statistics of the ranking that is easy to compute, so it has no `marginals`; `precedence` has
    the probabilities that one item comes before another.

    Args:
        logits: $\theta$, ``(*batch, d)``, finite where ``mask`` is True.
        k: length of the ranking, 1 <= k <= d; None for d.
        mask: True where there is an item, a shape that broadcasts to ``(*batch, d)``; None if
            there are always d. If fewer than k items exist, all of them are ranked, and the rest
            of the sample has items that do not exist, without effect on the probability.

    Examples:
        >>> import torch
        >>> from dbsurf.distributions import PlackettLuce
        >>> law = PlackettLuce(torch.tensor([2.0, 0.0, 1.0, -1.0]), k=2)
        >>> law.mode
        tensor([0, 2])
        >>> law.log_prob(torch.tensor([0, 2])).exp()
        tensor(0.4284)
        >>> law.precedence[0, 1]
        tensor(0.8808)
        >>> law.sample((3,)).shape
        torch.Size([3, 2])

    References:
        R. L. Plackett, The analysis of permutations, Applied Statistics 24 (1975).
    """

    arg_constraints = {
        "logits": constraints.independent(constraints.real, 1),
        "k": constraints.dependent,
        "mask": constraints.dependent,
    }
    batched = {"logits": 1, "mask": 1}
    has_enumerate_support = True

    mask: Tensor | None

    def __init__(
        self,
        logits: Tensor,
        k: int | None = None,
        *,
        mask: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        check_logits(logits, "logits", axes=1)
        self.items = logits.shape[-1]
        self.logits, self.mask = logits, None
        self.k = self.items
        if k is not None:
            self.k = check_integer(k, "k", 1, self.items, "the number of items")
        if mask is not None:
            self._take_mask(mask)
        if self._start(self.logits.shape[:-1], torch.Size((self.k,)), validate_args):
            self._check_values()

    def _take_mask(self, mask: object) -> None:
        mask = check_mask(mask)
        pairs = zip(reversed(mask.shape), reversed(self.logits.shape), strict=False)
        if mask.ndim == 0 or any(size != full and 1 not in (size, full) for size, full in pairs):
            raise ValueError(
                f"mask must broadcast to {tuple(self.logits.shape)}, the shape of logits, got "
                f"shape {tuple(mask.shape)}"
            )
        shape = torch.broadcast_shapes(mask.shape, self.logits.shape)
        self.logits, self.mask = self.logits.expand(shape), mask.expand(shape)

    def _check_values(self) -> None:
        bad = ~torch.isfinite(self.logits)
        if self.mask is not None:
            bad = bad & self.mask
            if not self.mask.any(-1).all():
                raise ValueError(
                    "mask must be True for at least one item of every batch element, got one "
                    "without any"
                )
        if bad.any():
            raise ValueError(
                "logits must be finite for all items that exist (see mask), got "
                f"{int(bad.sum())} of {bad.numel()} that are not"
            )

    @property
    def support(self) -> constraints.Constraint:
        return _Ranking(self)

    def _scores(self) -> Tensor:
        """The logits, ``(*batch, d)``, with the lowest one for items that do not exist."""
        scores = finite(self.logits)
        return scores if self.mask is None else torch.where(self.mask, scores, LOWEST)

    def _ranked(self) -> Tensor:
        """Which places of a ranking are taken by items that exist, ``(*batch, k)``."""
        assert self.mask is not None
        place = torch.arange(self.k, device=self.device)
        return place < self.mask.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        scores = self._scores()
        shape = torch.broadcast_shapes(value.shape[:-1], self.batch_shape)
        value = value.expand(*shape, self.k)
        scores = scores.expand(*shape, self.items)
        chosen = scores.gather(-1, value)  # (..., *batch, k)
        taken = torch.zeros(scores.shape, dtype=torch.bool, device=self.device)
        taken = taken.scatter(-1, value, True)
        rest = torch.where(taken, LOWEST, scores).logsumexp(-1, keepdim=True)
        # The sum over what is left at each place, from the last place to the first.
        left = torch.cat([chosen, rest], -1).flip(-1).logcumsumexp(-1).flip(-1)[..., :-1]
        terms = chosen - left
        if self.mask is not None:
            terms = torch.where(self._ranked(), terms, 0.0)
        return terms.sum(-1)

    @property
    def mode(self) -> Tensor:
        return self._best(self._scores().detach())

    def _best(self, scores: Tensor) -> Tensor:
        """The items of the k largest scores, the largest first, equal ones by their number."""
        order: Tensor = scores.sort(stable=True, dim=-1, descending=True).indices
        return order[..., : self.k]

    @property
    def precedence(self) -> Tensor:
        r"""P(item i comes before item j) $= \sigma(\theta_i - \theta_j)$, ``(*batch, d, d)``.

        In the ranking of all items, of which a sample has the first k.
        """
        scores = self._scores()
        return torch.sigmoid(scores.unsqueeze(-1) - scores.unsqueeze(-2))

    def entropy(self) -> Tensor:
        """The entropy, by a sum over all subsets of at most 14 items.

        It is the sum over places of the mean entropy of the next choice, which depends on the
        *set* of the items chosen before, and not on their order.
        """
        if self.items > MOST_ITEMS:
            raise ValueError(
                f"logits must be of at most {MOST_ITEMS} items for the entropy, got {self.items}; "
                "the mean of -log_prob over samples estimates it"
            )
        scores = self._scores()
        item = torch.arange(self.items, device=self.device)
        subset = torch.arange(2**self.items, device=self.device)
        inside = (subset.unsqueeze(-1) >> item) & 1 == 1  # (subsets, d)
        sizes = inside.sum(-1)
        exist = None if self.mask is None else self.mask.sum(-1)
        entropy = scores.new_zeros(self.batch_shape)
        prob = scores.new_zeros(*self.batch_shape, len(subset))
        prob[..., 0] = 1.0
        for size in range(self.k):
            here = (sizes == size).nonzero()[:, 0]  # (subsets of this size,)
            left = torch.where(inside[here], LOWEST, scores.unsqueeze(-2))
            log_choice = left - left.logsumexp(-1, keepdim=True)  # (*batch, subsets, d)
            choice = log_choice.exp()
            if exist is not None:
                choice = torch.where((exist > size)[..., None, None], choice, 0.0)
            weight = prob[..., here]
            entropy = entropy - (weight * (choice * log_choice).sum(-1)).sum(-1)
            one, new = (~inside[here]).nonzero(as_tuple=True)
            target = here[one] | (1 << new)
            prob = prob.index_add(-1, target, weight[..., one] * choice[..., one, new])
        return entropy

    def support_size(self) -> float:
        return float(math.perm(self.items, self.k))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        self._check_enumerable()
        if self.mask is not None and not self.mask.all():
            raise ValueError(
                "mask must be True everywhere to enumerate the support, got numbers of items "
                f"{self.mask.sum(-1).tolist()}"
            )
        rows = list(itertools.permutations(range(self.items), self.k))
        return self._enumerated(torch.tensor(rows, device=self.device), expand)

    def _draw(self, n: int, generator: torch.Generator | None) -> Tensor:
        scores = self._scores()
        return self._largest(scores + gumbel((n, *scores.shape), scores, generator))

    def draw_group(self, n: int, uniforms: Uniforms) -> Tensor:
        scores = self._scores()
        return self._largest(scores + gumbel_of(uniforms(scores)))

    def _largest(self, noisy: Tensor) -> Tensor:
        """The ranking of noisy scores."""
        if self.mask is None and self.k < self.items:
            return noisy.topk(self.k, -1).indices
        return self._best(noisy)
