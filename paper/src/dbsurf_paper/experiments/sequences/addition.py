"""A character-level transformer that adds two numbers: the policy of the training study."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from dbsurf.sequences import Codes, StochasticBeam, token_log_probs

CHARACTERS = "0123456789+="
PLUS, EQUALS = 10, 11
PROMPT, ANSWER = 6, 3  # "12+34=" and "046"


def prompts_and_answers() -> tuple[Tensor, Tensor]:
    """All 10,000 sums of two two-digit numbers: prompts ``(10000, 6)``, answers ``(10000, 3)``."""
    first, second = torch.cartesian_prod(torch.arange(100), torch.arange(100)).unbind(1)
    total = first + second
    plus, equals = torch.full_like(first, PLUS), torch.full_like(first, EQUALS)
    prompts = [first // 10, first % 10, plus, second // 10, second % 10, equals]
    answers = [total // 100, total // 10 % 10, total % 10]
    return torch.stack(prompts, 1), torch.stack(answers, 1)


class Transformer(nn.Module):
    """A small decoder: two layers of width 64, learned positions."""

    mask: Tensor

    def __init__(self, layers: int = 2, width: int = 64, heads: int = 4):
        super().__init__()
        self.tokens = nn.Embedding(len(CHARACTERS), width)
        self.positions = nn.Parameter(0.02 * torch.randn(PROMPT + ANSWER, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)  # answers are digits
        mask = nn.Transformer.generate_square_subsequent_mask(PROMPT + ANSWER)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits ``(rows, T, 10)`` of the digit after each token of ``(rows, T)``."""
        length = tokens.shape[1]
        hidden = self.tokens(tokens) + self.positions[:length]
        hidden = self.layers(hidden, mask=self.mask[:length, :length], is_causal=True)
        logits: Tensor = self.head(self.norm(hidden))
        return logits


def answer_log_probs(model: Transformer, prompts: Tensor, answers: Tensor) -> Tensor:
    """Log-probabilities of the digits of answers ``(rows, 3)``, ``(rows, 3)``."""
    tokens = torch.cat([prompts, answers[:, :-1]], 1)
    return token_log_probs(model(tokens)[:, PROMPT - 1 :], answers)


@torch.no_grad()
def success(model: Transformer, prompts: Tensor, answers: Tensor) -> Tensor:
    """The exact expected reward of each prompt: the probability of its right answer."""
    return answer_log_probs(model, prompts, answers).sum(1).exp()


@torch.no_grad()
def complete(
    model: Transformer, prompts: Tensor, codes: Codes, *, distinct: bool = False
) -> Tensor:
    """A group of answers ``(n, batch, 3)`` for each of the prompts ``(batch, 6)``."""
    tokens = prompts.expand(codes.n, *prompts.shape)
    for _ in range(ANSWER):
        new = codes.step(next_logits(model, tokens, distinct))
        tokens = torch.cat([tokens, new.unsqueeze(-1)], -1)
    return tokens[..., PROMPT:]


@torch.no_grad()
def complete_beam(
    model: Transformer, prompts: Tensor, beam: StochasticBeam, *, distinct: bool = False
) -> Tensor:
    """n different answers ``(n, batch, 3)`` for each of the prompts ``(batch, 6)``."""
    tokens = prompts.expand(beam.n + 1, *prompts.shape)
    for _ in range(ANSWER):
        parents, new, _ = beam.step(next_logits(model, tokens, distinct))
        kept = tokens.gather(0, parents.unsqueeze(-1).expand_as(tokens))
        tokens = torch.cat([kept, new.unsqueeze(-1)], -1)
    return tokens[: beam.n, :, PROMPT:]


def next_logits(model: Transformer, tokens: Tensor, distinct: bool) -> Tensor:
    """Logits ``(n, batch, 10)`` of the digit after tokens ``(n, batch, T)``.

    With ``distinct`` the model runs once for equal rows. That is faster if many are equal, and
    rounds differently.
    """
    rows = tokens.reshape(-1, tokens.shape[-1])
    place = None
    if distinct:
        rows, place = rows.unique(dim=0, return_inverse=True)
    logits: Tensor = model(rows)[:, -1]
    if place is not None:
        logits = logits[place]
    return logits.view(*tokens.shape[:2], -1)


def pretrain(steps: int, generator: torch.Generator, known: Tensor) -> Transformer:
    """A transformer trained by likelihood on the sums ``known``; it is far from perfect.

    Args:
        steps: number of steps of 128 sums.
        generator: source of randomness, of the weights too.
        known: numbers of the sums that are shown.
    """
    prompts, answers = prompts_and_answers()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        model = Transformer()
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3)
    for _ in range(steps):
        rows = known[torch.randint(len(known), (128,), generator=generator)]
        tokens = torch.cat([prompts[rows], answers[rows, :-1]], 1)
        logits = model(tokens)[:, PROMPT - 1 :]
        loss = functional.cross_entropy(logits.flatten(0, 1), answers[rows].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model
