"""Hard attention trained end to end: look at one of twelve tokens, then answer.

Each token of a sequence carries a digit; one token is marked, faintly, and its digit is the answer.
The model scores the tokens with a small network, looks at exactly one of them (a one-hot sample, no
weighted average), and a second network reads the digit there. One backward does all of it: the
reader's weights get their pathwise gradient through f, the scorer's weights, upstream of the
sample, the estimator's. Beside it is what happens when only the reader learns.

    python examples/attention.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import OneHotCategorical
from torch.nn.functional import cross_entropy

import dbsurf

TOKENS, DIGITS, WIDTH, BATCH, N = 12, 5, 16, 64, 4

ESTIMATORS = {
    "LOORF": lambda: dbsurf.LOORF(N),
    "DBsurf": lambda: dbsurf.DBsurf(N),
    "MDsurf": lambda: dbsurf.MDsurf(N),
    "QuadraticCV": lambda: dbsurf.QuadraticCV(N - 1),  # and the mean: N evaluations as well
    "only the reader": lambda: dbsurf.LOORF(N),
}


class HardAttention(nn.Module):
    """A scorer that says where to look, a reader that says what is there."""

    def __init__(self, estimator: dbsurf.Estimator) -> None:
        super().__init__()
        self.scorer = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))
        self.reader = nn.Linear(WIDTH, DIGITS)
        self.estimator = estimator

    def where(self, tokens: Tensor) -> OneHotCategorical:
        """The law of the glimpse: batch (64,), event (12,)."""
        return OneHotCategorical(logits=self.scorer(tokens).squeeze(-1))

    def loss(self, tokens: Tensor, answer: Tensor) -> Tensor:
        def f(look: Tensor) -> Tensor:  # (n, 64, 12) -> (n, 64)
            seen = torch.einsum("nbt,btw->nbw", look, tokens)
            logits = self.reader(seen).movedim(-1, 1)  # (n, 5, 64)
            return cross_entropy(logits, answer.expand(len(look), -1), reduction="none")

        return self.estimator(f, self.where(tokens)).mean()

    @torch.no_grad()
    def accuracy(self, tokens: Tensor, answer: Tensor) -> float:
        """Share of right answers, looking where the score is highest."""
        place = self.where(tokens).logits.argmax(-1)
        seen = tokens[torch.arange(len(tokens)), place]
        return (self.reader(seen).argmax(-1) == answer).float().mean().item()


def sequences(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens ``(count, 12, 16)`` in noise, and the digits ``(count,)`` of the marked ones."""
    generator = torch.Generator().manual_seed(seed)
    digit = torch.randint(DIGITS, (count, TOKENS), generator=generator)
    place = torch.randint(TOKENS, (count,), generator=generator)
    tokens = 0.3 * torch.randn(count, TOKENS, WIDTH, generator=generator)
    tokens[..., :DIGITS] += nn.functional.one_hot(digit, DIGITS)
    tokens[torch.arange(count), place, -1] += 1.5  # the mark
    return tokens, digit[torch.arange(count), place]


def train(estimator: dbsurf.Estimator, steps: int, seed: int, frozen: bool = False) -> float:
    """Accuracy on fresh sequences after training; with ``frozen`` the scorer stays as it was."""
    torch.manual_seed(seed)
    model = HardAttention(estimator)
    model.scorer.requires_grad_(not frozen)
    optimiser = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=0.01)
    for step in range(steps):
        optimiser.zero_grad()
        model.loss(*sequences(BATCH, seed=1000 * seed + step)).backward()
        optimiser.step()
    return model.accuracy(*sequences(2000, seed=12345))


def main(steps: int = 80, seeds: int = 4) -> dict[str, float]:
    """Train with several estimators; returns the mean accuracies."""
    print(f"accuracy after {steps} steps, {N} glimpses each; guessing gives {1 / DIGITS:.2f}")
    found = {}
    for name, build in ESTIMATORS.items():
        frozen = name == "only the reader"
        scores = torch.tensor([train(build(), steps, seed, frozen) for seed in range(seeds)])
        found[name] = scores.mean().item()
        print(f"  {name:<16} {found[name]:.3f} ({scores.min():.3f} to {scores.max():.3f})")
    return found


if __name__ == "__main__":
    from _command import run  # options, a sign of life, and --plot

    run(main, __doc__, what="accuracy", best="highest")
