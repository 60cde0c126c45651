"""A small autoregressive law whose strings can all be written down, and rewards over them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor, nn

from dbsurf.sequences import token_log_probs

VOCABULARY = 4


class Network(nn.Module):
    """A tiny recurrent network: the law's parameters are its weights."""

    def __init__(self, width: int = 6):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY + 1, 3)  # the last is the start
        self.cell = nn.GRU(3, width, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits ``(rows, T, vocabulary)`` of every token of ``(rows, T)`` given those before."""
        start = torch.full_like(tokens[:, :1], VOCABULARY)
        shifted = torch.cat([start, tokens[:, :-1]], 1)
        hidden, _ = self.cell(self.embedding(shifted))
        logits: Tensor = self.head(hidden)
        return logits


class Law:
    """All strings of four tokens and a short length, with probabilities and scores.

    Args:
        seed: seed of the network's weights.
        sharpness: factor on the network's last layer; a larger one lowers the entropy.
        length: length of the strings; 5 makes 1,024 strings.
    """

    def __init__(self, seed: int, sharpness: float, length: int = 5):
        self.length = length
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = Network().double()
        with torch.no_grad():
            for name, weights in self.network.named_parameters():
                weights.mul_(sharpness if name.startswith("head") else 2.0)
        digits = itertools.product(range(VOCABULARY), repeat=length)
        self.strings = torch.tensor(list(digits))  # (strings, T), in lexicographic order

    @cached_property
    def conditionals(self) -> list[Tensor]:
        """For each t the probabilities of the next token, ``(vocabulary**t, vocabulary)``."""
        with torch.no_grad():
            probs = self.network(self.strings).softmax(-1)  # (strings, T, vocabulary)
        return [probs[:: VOCABULARY ** (self.length - t), t] for t in range(self.length)]

    @cached_property
    def probs(self) -> Tensor:
        """Probabilities of the strings, ``(strings,)``."""
        result = torch.ones(1, dtype=torch.float64)
        for rows in self.conditionals:
            result = (result[:, None] * rows).flatten()
        return result

    @property
    def entropy(self) -> float:
        """Entropy in bits; of four tokens and length five at most 10."""
        return float(-(self.probs * self.probs.log2()).sum())

    @cached_property
    def token_scores(self) -> Tensor:
        r"""$\nabla_\theta \log p(x_t \mid x_{<t})$, ``(strings, T, parameters)``."""
        weights = dict(self.network.named_parameters())

        def log_probs(weights: dict[str, Tensor], string: Tensor) -> Tensor:
            logits = torch.func.functional_call(self.network, weights, (string[None],))
            return token_log_probs(logits[0], string)

        jacobian = torch.func.jacrev(log_probs)
        rows = [
            torch.cat([part.flatten(1) for part in jacobian(weights, string).values()], 1)
            for string in self.strings
        ]
        return torch.stack(rows).detach()

    @cached_property
    def scores(self) -> Tensor:
        """Scores of whole strings, ``(strings, parameters)``."""
        return self.token_scores.sum(1)


#: A reward of every string of a law, ``(strings,)``.
Reward = Callable[[Law], Tensor]


def smooth(law: Law) -> Tensor:
    """A smooth function of all tokens alike."""
    return torch.sin(law.strings.double().mean(-1))


def prefix(law: Law) -> Tensor:
    """1 if the second token is larger than the first."""
    return (law.strings[:, 0] < law.strings[:, 1]).double()


def parity(law: Law) -> Tensor:
    """1 if the sum of the tokens is odd."""
    return (law.strings.sum(-1) % 2).double()


def rare(law: Law) -> Tensor:
    """1 for one string only, the one whose probability is nearest to 1 %."""
    right = (law.probs.log() - torch.tensor(0.01).log()).abs().argmin()
    return (torch.arange(len(law.probs)) == right).double()


REWARDS: dict[str, Reward] = {"smooth": smooth, "prefix": prefix, "parity": parity, "rare": rare}


def decided_at(position: int) -> Reward:
    """A reward that looks at one token only, the one at ``position`` (from 0)."""
    values = torch.tensor([0.2, 1.0, 0.5, 0.0], dtype=torch.float64)
    return lambda law: values[law.strings[:, position]]
