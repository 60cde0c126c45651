"""Groups of sequences: n token sequences for each prompt, drawn together in any decoding loop.

A group of codes gives every sequence a uniform number for its next token. Each of those numbers,
alone and given everything that was drawn before, is uniform on [0, 1), so every sequence has
exactly the model's law; what differs between the classes is how the numbers of one group depend on
each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dbsurf.checks import transformed
from dbsurf.sequences.inverse import Interval, invert

if TYPE_CHECKING:
    from dbsurf.sequences.samples import Samples

NEVER = torch.iinfo(torch.int32).max


class Group:
    """n sequences for every element of a batch of prompts.

    Attributes:
        n: number of sequences for each prompt.
        batch_shape: shape of the batch of prompts.
        device: device of the logits.
        generator: source of randomness.
    """

    def __init__(
        self,
        n: int,
        batch: int | Sequence[int] = (),
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
    ):
        self.n = count(n, "n", type(self).__name__)
        sizes = tuple(batch) if isinstance(batch, Sequence) else (batch,)
        if not all(isinstance(size, Integral) and size >= 0 for size in sizes):
            raise ValueError(f"batch must be a size or a tuple of sizes >= 0, got {batch!r}")
        self.batch_shape = torch.Size(sizes)
        self.device = torch.device(
            device if device is not None else generator.device if generator else "cpu"
        )
        if generator is not None and generator.device.type != self.device.type:
            raise ValueError(
                f"generator must be on the device of the codes, {self.device}, "
                f"got a generator on {generator.device}"
            )
        self.generator = generator

    @staticmethod
    def from_samples(
        ids: Any, log_probs: Any = None, *, n: int | None = None, mask: Tensor | None = None
    ) -> Samples:
        """A group of independent sequences that were drawn elsewhere.

        Three forms are understood, for all arguments alike: tensors ``(n, *batch, T)``; flat rows
        with ``n``, those of one prompt after each other, as a tensor ``(batch * n, T)`` or a list
        of rows; lists ``[prompt][completion][token]``. Rows of lists may have different lengths.
        Flat rows without ``n`` are an error: they could be one large group or many small ones.

        Args:
            ids: numbers of the tokens.
            log_probs: their log-probabilities under the policy that drew them.
            n: number of completions of each prompt, for flat rows.
            mask: bool, True for tokens that belong to a completion.

        Examples:
            >>> ids = [[[5, 1, 2], [5, 2]], [[4, 2], [3, 3, 2]]]  # two prompts, two completions
            >>> group = Group.from_samples(ids)
            >>> group.tokens.shape, group.mask.sum().item()  # (n, batch, T)
            (torch.Size([2, 2, 3]), 10)
        """
        from dbsurf.sequences.samples import from_samples  # (which makes a subclass)

        return from_samples(ids, log_probs, n=n, mask=mask)

    def _random(self, *shape: int) -> Tensor:
        return torch.rand(shape, dtype=torch.float64, device=self.device, generator=self.generator)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, batch={tuple(self.batch_shape)})"


class Codes(Group, ABC):
    """n sequences for every element of a batch of prompts, drawn token by token.

    A subclass gives the points of the inverse cdf at which the next tokens are (`uniforms`) and
    says which sequences a token is independent of (`independent`).

    Args:
        n: number of sequences for each prompt.
        batch: shape of the batch of prompts.
        groups: number of groups of equal size that are independent of each other; consecutive
            sequences are one group.
        generator: source of randomness.
        device: device of the logits; the generator's if not given.

    Attributes:
        steps: number of tokens drawn so far.
    """

    def __init__(
        self,
        n: int,
        batch: int | Sequence[int] = (),
        *,
        groups: int = 1,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
    ):
        super().__init__(n, batch, generator=generator, device=device)
        self.groups = group_count(self.n, groups)
        self.steps = 0
        # The first step from which sequence j is independent of the tokens of i, [i, j, *batch].
        pairs = (self.n, self.n, *self.batch_shape)
        self._since = torch.full(pairs, NEVER, dtype=torch.int32, device=self.device)
        self.begin()

    # --- what a subclass says -------------------------------------------------------------------

    def begin(self) -> None:
        """Make the state with which the first step begins; may draw random numbers."""

    @abstractmethod
    def uniforms(self) -> Tensor:
        """Points of [0, 1) for the next tokens, ``(n, *batch)``, float64."""

    @abstractmethod
    def independent(self) -> Tensor:
        """Which sequences j the next token of sequence i does not depend on, ``[i, j, *batch]``.

        True at ``[i, j]`` if, given all tokens so far, the next token of i is independent of
        everything that j has drawn and will draw. Then f(x_j) may serve as its baseline. Once
        True it stays True.
        """

    def advance(self, found: Interval) -> None:
        """Take note of the tokens that were drawn."""

    # --- what all of them do ----------------------------------------------------------------------

    @torch.no_grad()
    def step(self, logits: Tensor, *, finished: Tensor | None = None, pad: int = 0) -> Tensor:
        """Draw the next token of every sequence.

        Temperature, top-k and top-p are done by the caller, on the logits. Memory beyond the
        logits is small: the probabilities of a few rows at a time.

        Args:
            logits: ``(n, *batch, vocabulary)``, unnormalised; -inf for tokens that cannot occur.
                The vocabulary may differ from step to step.
            finished: ``(n, *batch)``, bool: sequences that have ended. They get ``pad``, and their
                logits may be anything.
            pad: the token of a sequence that has ended.

        Returns:
            Tokens, ``(n, *batch)``, int64.
        """
        shape = torch.Size((self.n, *self.batch_shape))
        check_rows(logits, finished, shape, "n")
        found = invert(logits, self.uniforms())
        invalid = ~torch.isfinite(found.total)
        tokens = found.token
        if finished is not None:
            invalid &= ~finished
            tokens = tokens.masked_fill(finished, pad)
        if invalid.any():
            where = invalid.nonzero()[0].tolist()
            raise ValueError(
                "logits must have a finite maximum and no NaN in every row that is not finished, "
                f"got {int(invalid.sum())} rows without a law, the first at {where} (n, *batch)"
            )
        new = self.independent() & (self._since == NEVER)
        self._since.masked_fill_(new, self.steps)
        self.advance(found._replace(token=tokens))
        self.steps += 1
        return tokens

    @property
    def peers(self) -> Tensor:
        """Who may serve as a baseline for which token, ``[i, j, *batch, t]``, bool.

        True where, given everything drawn before step t, token t of sequence i is independent of
        sequence j, now and later (`peer_mean` makes the baseline of it).
        """
        if not self.steps:
            raise ValueError("peers must be asked for after a step, got codes without a step")
        return self._since.unsqueeze(-1) <= torch.arange(self.steps, device=self.device)


class Branching(Codes):
    """Codes that depend on each other only as long as their sequences are the same.

    The sequences of a group that have drawn the same tokens so far are one *branch*. A step draws
    fresh random numbers: jointly inside a branch, independently between branches. So sequences
    that have parted are independent of each other from there on, given where they parted, and a
    sequence that is alone in its branch goes on as an independent sample. Precision cannot run out
    with the length, because no number is used twice.
    """

    def begin(self) -> None:
        self.together = same_entries(self.first_branches(), self.batch_shape)

    def first_branches(self) -> Tensor:
        """Which sequences depend on each other at the first step: equal numbers, ``(n,)``."""
        return torch.arange(self.n, device=self.device) * self.groups // self.n

    def independent(self) -> Tensor:
        return ~self.together

    def advance(self, found: Interval) -> None:
        self.together = self.together & (found.token[:, None] == found.token)


class IIDGroup(Branching):
    """Independent sequences: what n calls of ``torch.multinomial`` would draw.

    The arguments are those of `Codes`; ``groups`` changes nothing.
    """

    def first_branches(self) -> Tensor:
        return torch.arange(self.n, device=self.device)

    def uniforms(self) -> Tensor:
        return self._random(self.n, *self.batch_shape)


class SystematicGroup(Branching):
    r"""Systematic points in every branch: each next token occurs as often as it should.

    m sequences that share their tokens so far draw their next tokens at the points
    $(u + 0)/m, (u + 1)/m, \dots, (u + m - 1)/m$ of the inverse cdf, u uniform, in random order.
    Every token is then drawn $\lfloor m p \rfloor$ or $\lceil m p \rceil$ times. Each sequence
    alone has exactly the model's law: a systematic point of random rank is uniform on [0, 1).

    Sequences of one group are dependent, so a leave-one-out baseline is biased (see the page
    "Policies and sequences"). Groups are independent of each other: with ``groups=2`` each half
    has the mean of the other as an unbiased baseline (`other_groups`).

    The arguments are those of `Codes`.

    Examples:
        >>> generator = torch.Generator().manual_seed(0)
        >>> codes = SystematicGroup(4, batch=2, generator=generator)
        >>> logits = torch.zeros(4, 2, 4)  # n, batch, vocabulary
        >>> codes.step(logits).sort(0).values[:, 0]  # four samples of four equal tokens
        tensor([0, 1, 2, 3])
    """

    def uniforms(self) -> Tensor:
        offset = self._random(self.n, *self.batch_shape)
        keys = self._random(self.n, *self.batch_shape)
        return systematic_points(self.together, offset, keys)


class AntitheticGroup(Branching):
    """Antithetic pairs: u for one sequence and 1 - u for the other, as long as they agree.

    Sequences 2k and 2k + 1 are a pair; pairs are independent of each other. Where the two of a
    pair part, each goes on by itself. The arguments are those of `Codes`; n, and the size of a
    group, must be even.
    """

    def begin(self) -> None:
        if self.n // self.groups % 2:
            size = self.n // self.groups
            raise ValueError(f"n must be even for AntitheticGroup in every group, got {size}")
        super().begin()

    def first_branches(self) -> Tensor:
        return torch.arange(self.n, device=self.device) // 2

    def uniforms(self) -> Tensor:
        return antithetic_points(self.together, self._random(self.n, *self.batch_shape))


def systematic_points(together: Tensor, offset: Tensor, keys: Tensor) -> Tensor:
    """Systematic points in random order for every branch.

    Args:
        together: which sequences are in one branch, ``(n, n, *batch)``.
        offset: uniform numbers ``(n, *batch)``; those of the first sequence of a branch are used.
        keys: uniform numbers ``(n, *batch)``; their order is the order of the points in a branch.
    """
    size = together.sum(1)
    rank = (together & (keys < keys[:, None])).sum(1)  # [i, j]: j is before i
    return (_of_the_first(offset, together) + rank) / size


def antithetic_points(together: Tensor, offset: Tensor) -> Tensor:
    """u for the first sequence of a branch of one or two, 1 - u for the second."""
    position = torch.arange(len(offset), device=offset.device)
    position = position.view(-1, *(1 for _ in offset.shape[1:]))
    first = together.int().argmax(1)
    point = _of_the_first(offset, together)
    # 1 - 0 is 1, which is no point of [0, 1); its own position keeps the law.
    return torch.where((position != first) & (point > 0), 1 - point, point)


def same_entries(numbers: Tensor, batch_shape: torch.Size) -> Tensor:
    """Whether entries i and j are equal, the same for every prompt, ``(n, n, *batch)``."""
    same = numbers[:, None] == numbers
    return same.view(*same.shape, *(1 for _ in batch_shape)).expand(*same.shape, *batch_shape)


def _of_the_first(values: Tensor, together: Tensor) -> Tensor:
    """For each sequence the value of the first one of its branch."""
    return values.gather(0, together.int().argmax(1))


def check_rows(logits: object, finished: Tensor | None, shape: torch.Size, first: str) -> None:
    """Check shapes and dtypes of what a step gets; ``first`` names the first axis."""
    fits = isinstance(logits, Tensor) and logits.ndim and logits.shape[:-1] == shape
    if not isinstance(logits, Tensor) or not fits or not logits.shape[-1]:
        sizes = ", ".join(map(str, shape))
        raise ValueError(
            f"logits must have shape ({sizes}, vocabulary), that is ({first}, *batch, vocabulary), "
            f"got {described(logits)}"
        )
    if not logits.is_floating_point():
        raise ValueError(f"logits must be floating-point, got {logits.dtype}")
    if finished is not None:
        check_mask(finished, shape, f"of shape {tuple(shape)} ({first}, *batch)", "finished")


def count(value: object, name: str, owner: str) -> int:
    """Return ``value`` if it is an integer >= 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1 for {owner}, got {value!r}")
    return int(value)


def group_count(n: int, groups: object) -> int:
    """Return ``groups`` if n sequences can be split into so many of equal size."""
    number = count(groups, "groups", "a group of sequences")
    if n % number:
        raise ValueError(f"groups must divide n = {n}, got {number}")
    return number


def check_mask(mask: object, shape: torch.Size, wanted: str, name: str = "mask") -> None:
    """Check that a mask is a bool tensor of that shape, which ``wanted`` has in words."""
    if not isinstance(mask, Tensor) or mask.shape != shape or mask.dtype != torch.bool:
        raise ValueError(f"{name} must be a bool tensor {wanted}, got {described(mask)}")


def check_tokens(logits: Tensor, tokens: Tensor) -> None:
    """Check that tokens ``(*shape)`` are numbers of the vocabulary of ``(*shape, vocabulary)``."""
    tensors = isinstance(logits, Tensor) and isinstance(tokens, Tensor)
    if not tensors or not logits.ndim or logits.shape[:-1] != tokens.shape:
        raise ValueError(
            "tokens must have the shape of logits without the vocabulary, got tokens "
            f"{described(tokens)} and logits {described(logits)}"
        )
    if not logits.is_floating_point() or tokens.dtype != torch.int64:
        raise ValueError(
            "logits must be floating-point and tokens int64, got logits "
            f"{described(logits)} and tokens {described(tokens)}"
        )
    if tokens.numel() and not transformed():
        low, high = map(int, torch.aminmax(tokens))
        if low < 0 or high >= logits.shape[-1]:
            raise ValueError(
                f"tokens must be numbers from 0 to {logits.shape[-1] - 1}, the vocabulary of "
                f"logits, got {low} to {high}; gather only what the mask has, or clamp"
            )


def is_real(value: object) -> bool:
    """Whether ``value`` is a tensor of floating-point numbers."""
    return isinstance(value, Tensor) and value.is_floating_point()


def described(value: object) -> str:
    """Type and shape of what was got, for error messages."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return type(value).__name__
