"""Completions of a Hugging Face causal model, drawn in groups.

Tested with transformers 5.23. Nothing of transformers is imported but its logits processors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from dbsurf import checks
from dbsurf.sequences import Codes, StochasticBeam, token_log_probs
from dbsurf.sequences.codes import count

Processor = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Completions:
    """n completions for every prompt.

    Attributes:
        ids: tokens ``(n, batch, T)``; ``pad`` behind the end of a completion.
        mask: ``(n, batch, T)``, bool: tokens of the completion, its end token included.
        log_probs: of the tokens, ``(n, batch, T)``, detached, 0 outside the mask: under the law
            that they were drawn from, so after temperature, top-k and top-p.
        weights: ``(n, batch)``; the sum of weights times f estimates E[f]. 1/n for independent,
            systematic and antithetic groups; those of `without_replacement_loss` for a beam, 0
            where the model has fewer different completions than n.
        group: the group that drew them; its ``peers`` or ``threshold`` is for baselines and losses.
        prompts: ``(batch, P)``, left-padded.
        prompt_mask: ``(batch, P)``, bool.
        processors: what was applied to the logits.
    """

    ids: Tensor
    mask: Tensor
    log_probs: Tensor
    weights: Tensor
    group: Codes | StochasticBeam
    prompts: Tensor
    prompt_mask: Tensor
    processors: Sequence[Processor]

    def rows(self, tensor: Tensor) -> Tensor:
        """``(n, batch, ...)`` as rows ``(batch * n, ...)``, those of a prompt side by side."""
        return tensor.movedim(0, 1).flatten(0, 1)


def generate(
    model: nn.Module,
    input_ids: Tensor,
    group: Codes | StochasticBeam,
    *,
    max_new_tokens: int,
    attention_mask: Tensor | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    processors: Sequence[Processor] = (),
    eos_token_id: int | Sequence[int] | None = None,
    pad_token_id: int | None = None,
) -> Completions:
    """Draw n completions for every prompt with a group of `dbsurf.sequences`.

    The prompts are computed once and their cache is repeated for the n completions; where a beam
    continues another sequence, the cache follows it. The group sees the logits *after* all
    processors: a group inside a processor of ``model.generate`` would see them before temperature,
    top-k and top-p, and would sample another policy. The model is in evaluation mode meanwhile.

    Args:
        model: a causal language model of transformers with a key-value cache.
        input_ids: prompts ``(batch, P)``, padded on the left.
        group: a new group with this batch, such as
            ``SystematicGroup(8, len(input_ids), groups=2)``.
        max_new_tokens: the largest number of tokens of a completion.
        attention_mask: ``(batch, P)``, 0 for padding; all ones if not given.
        temperature: the logits are divided by it.
        top_k: keep only the k most likely tokens.
        top_p: keep only the most likely tokens that together have this probability.
        processors: further functions of the tokens so far ``(rows, length)`` and the logits
            ``(rows, vocabulary)``, applied before temperature.
        eos_token_id: tokens that end a completion; the model's own if not given.
        pad_token_id: token behind the end; the model's own, or else 0.

    Examples:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from dbsurf.sequences import SystematicGroup
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1))
        >>> prompts = torch.tensor([[3, 4], [5, 6]])
        >>> group = SystematicGroup(4, 2)
        >>> found = generate(model, prompts, group, max_new_tokens=3, eos_token_id=1)
        >>> found.ids.shape[:2]  # (n, batch)
        torch.Size([4, 2])
    """
    prompt_mask = _check_prompts(input_ids, attention_mask, group)
    config = getattr(model, "generation_config", None)
    ends = eos_token_id if eos_token_id is not None else getattr(config, "eos_token_id", None)
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    pad = pad_token_id if pad_token_id is not None else getattr(config, "pad_token_id", None)
    pad = 0 if pad is None else pad
    count(max_new_tokens, "max_new_tokens", "generate")
    every = [*processors, *_warpers(temperature, top_k, top_p)]
    with torch.no_grad(), _evaluating(model):
        loop = _Loop(model, input_ids, prompt_mask, group, every, ends, pad)
        for _ in range(max_new_tokens):
            loop.step()
            if bool(loop.finished.all()):
                break
    n = group.n
    ids, mask = torch.stack(loop.tokens, -1)[:n], torch.stack(loop.inside, -1)[:n]
    log_probs = torch.stack(loop.log_probs, -1)[:n]
    weights = _weights(group, log_probs)
    return Completions(ids, mask, log_probs, weights, group, input_ids, prompt_mask, every)


def completion_log_probs(model: nn.Module, completions: Completions) -> Tensor:
    """Log-probabilities of the tokens, ``(n, batch, T)``, with the gradient to the model.

    They are those of the law that the completions were drawn from: the same temperature, top-k,
    top-p and processors are applied, and dropout is off. 0 outside the mask. After the model has
    changed, a token may have left the top-k or top-p: its log-probability is then -inf.
    """
    ids, mask, n = completions.ids, completions.mask, len(completions.ids)
    width, length = completions.prompts.shape[-1], ids.shape[-1]
    prompts = completions.prompts.repeat_interleave(n, 0)  # (batch * n, P)
    whole = torch.cat([prompts, completions.rows(ids)], -1)
    attention = torch.cat(
        [completions.prompt_mask.repeat_interleave(n, 0), completions.rows(mask)], -1
    )
    options = _positions(model, attention)
    with _evaluating(model):
        output = model(input_ids=whole, attention_mask=attention.long(), use_cache=False, **options)
    logits = output.logits[:, width - 1 : -1].float()
    steps = [
        _processed(completions.processors, whole[:, : width + t], logits[:, t])
        for t in range(length)
    ]
    found = token_log_probs(torch.stack(steps, 1), completions.rows(ids))
    # (Behind its end, a completion's padding may have probability 0.)
    found = found.masked_fill(~completions.rows(mask), 0)
    return found.view(-1, n, length).movedim(1, 0)


class _Loop:
    """The state of a decoding loop. Tensors are ``(m, batch)``; the model's rows are prompt-major.

    m is n, or n + 1 for a beam.
    """

    def __init__(
        self,
        model: nn.Module,
        prompts: Tensor,
        prompt_mask: Tensor,
        group: Codes | StochasticBeam,
        processors: Sequence[Processor],
        ends: list[int],
        pad: int,
    ):
        self.model, self.group, self.processors, self.pad = model, group, processors, pad
        self.ends = torch.tensor(ends, device=prompts.device, dtype=torch.int64)
        self.batch = len(prompts)
        self.number = group.n + 1 if isinstance(group, StochasticBeam) else group.n
        output = model(
            input_ids=prompts,
            attention_mask=prompt_mask.long(),
            use_cache=True,
            **_positions(model, prompt_mask),
        )
        self.cache = output.past_key_values
        if self.cache is None or not hasattr(self.cache, "batch_repeat_interleave"):
            raise ValueError(
                "model must return a key-value cache of transformers, got "
                f"{type(self.cache).__name__}"
            )
        self.cache.batch_repeat_interleave(self.number)
        self.whole = prompts.repeat_interleave(self.number, 0)  # (batch * m, length)
        self.attention = prompt_mask.repeat_interleave(self.number, 0)
        self.logits = output.logits[:, -1].repeat_interleave(self.number, 0)
        shape = (self.number, self.batch)
        self.finished = torch.zeros(shape, dtype=torch.bool, device=prompts.device)
        self.tokens: list[Tensor] = []
        self.inside: list[Tensor] = []
        self.log_probs: list[Tensor] = []

    def step(self) -> None:
        """Draw one token for every completion, and compute the logits behind it if needed."""
        if self.tokens:
            self._advance()
        scores = _processed(self.processors, self.whole, self.logits.float())
        logits = scores.view(self.batch, self.number, -1).movedim(1, 0)  # (m, batch, vocabulary)
        if isinstance(self.group, StochasticBeam):
            parents, tokens, _ = self.group.step(logits, finished=self.finished, pad=self.pad)
            logits = logits.gather(0, parents.unsqueeze(-1).expand_as(logits))
            self._reorder(parents)
        else:
            tokens = self.group.step(logits, finished=self.finished, pad=self.pad)
        inside = ~self.finished
        self.tokens.append(tokens)
        self.inside.append(inside)
        self.log_probs.append(token_log_probs(logits, tokens).masked_fill(~inside, 0))
        self.finished = self.finished | torch.isin(tokens, self.ends)

    def _advance(self) -> None:
        """Run the model on the tokens that were drawn last."""
        last = self.tokens[-1].movedim(0, 1).reshape(-1, 1)  # (batch * m, 1)
        inside = self.inside[-1].movedim(0, 1).reshape(-1, 1)
        self.whole = torch.cat([self.whole, last], -1)
        self.attention = torch.cat([self.attention, inside], -1)
        positions = _positions(self.model, self.attention)
        output = self.model(
            input_ids=last,
            attention_mask=self.attention.long(),
            past_key_values=self.cache,
            use_cache=True,
            **{name: value[:, -1:] for name, value in positions.items()},
        )
        self.cache, self.logits = output.past_key_values, output.logits[:, -1]

    def _reorder(self, parents: Tensor) -> None:
        """Let everything follow the sequences that a beam continues."""
        offset = torch.arange(self.batch, device=parents.device) * self.number
        rows = (parents + offset).movedim(0, 1).reshape(-1)  # (batch * m,)
        self.cache.reorder_cache(rows)
        self.whole, self.attention = self.whole[rows], self.attention[rows]
        self.finished = self.finished.gather(0, parents)
        for kept in (self.tokens, self.inside, self.log_probs):
            kept[:] = [column.gather(0, parents) for column in kept]


def _processed(processors: Sequence[Processor], ids: Tensor, logits: Tensor) -> Tensor:
    for processor in processors:
        logits = processor(ids, logits)
    return logits


def _warpers(temperature: float, top_k: int | None, top_p: float | None) -> LogitsProcessorList:
    """Temperature, top-k and top-p, in the order of ``model.generate``."""
    checks.positive(temperature, "temperature")
    found = LogitsProcessorList()
    if temperature != 1:
        found.append(TemperatureLogitsWarper(float(temperature)))
    if top_k is not None:
        found.append(TopKLogitsWarper(count(top_k, "top_k", "generate")))
    if top_p is not None:
        if not checks.is_finite_number(top_p) or not 0 < top_p <= 1:
            raise ValueError(f"top_p must be a number in (0, 1] or None, got {top_p!r}")
        found.append(TopPLogitsWarper(float(top_p)))
    return found


def _positions(model: nn.Module, attention: Tensor) -> dict[str, Tensor]:
    """Positions that start behind the padding, for models that take them."""
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return {}
    return {"position_ids": (attention.long().cumsum(-1) - 1).clamp(min=0)}


def _weights(group: Codes | StochasticBeam, log_probs: Tensor) -> Tensor:
    """The weight of each completion, ``(n, batch)``."""
    if isinstance(group, Codes):
        return torch.full_like(log_probs[..., 0], 1 / group.n)
    logs = group.log_probs[: group.n]  # -inf for a sequence that does not exist
    chance = -torch.expm1(-torch.exp(logs - group.threshold))
    probs = logs.exp()
    return torch.where(probs > 0, probs / chance, 0).to(log_probs.dtype)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Turn dropout off: completions are drawn from the law that is scored later."""
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _check_prompts(ids: Any, mask: Tensor | None, group: Any) -> Tensor:
    """The mask of the prompts as bool, if prompts and group fit each other."""
    if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.dtype != torch.int64 or not ids.numel():
        got = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise ValueError(f"input_ids must be int64 tokens (batch, length), got {got}")
    if not isinstance(group, (Codes, StochasticBeam)):
        raise ValueError(f"group must be one of dbsurf.sequences, got {type(group).__name__}")
    if group.batch_shape != (len(ids),):
        raise ValueError(
            f"group must have one batch of {len(ids)} prompts as input_ids, got "
            f"{tuple(group.batch_shape)}"
        )
    if getattr(group, "steps", 0) or (isinstance(group, StochasticBeam) and group.log_probs.any()):
        raise ValueError("group must be new, got one that has drawn tokens already")
    if mask is None:
        return torch.ones_like(ids, dtype=torch.bool)
    if mask.shape != ids.shape or not bool(mask.bool()[:, -1].all()):
        raise ValueError(
            "attention_mask must have the shape of input_ids and end with 1 in every row (padding "
            f"on the left), got shape {tuple(mask.shape)}"
        )
    return mask.bool()
