"""A language model learns from rewards: groups of completions for a batch of prompts.

Run with `python examples/policy.py`. A small recurrent model has to count down: after the prompt
"4" it should write "4 3 2 1 0" and end. Its reward is the share of right tokens. Every step draws a
group of eight completions for each prompt. Two ways are compared at the same cost: independent
completions with a leave-one-out baseline, and systematic ones in two independent halves, whose
baseline follows the prefix. Both gradients are unbiased.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dbsurf import sequences

END, LENGTH, GROUP, BATCH = 10, 7, 8, 16  # the tokens are the digits and END


class LanguageModel(nn.Module):
    def __init__(self, width: int = 64):
        super().__init__()
        self.embedding = nn.Embedding(END + 1, width)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, END + 1)

    def forward(self, tokens: Tensor) -> Tensor:  # (*batch, T) -> (*batch, T, vocabulary)
        rows = self.embedding(tokens).flatten(0, -3)
        hidden, _ = self.cell(rows)
        return self.head(hidden).unflatten(0, tokens.shape[:-1])


def reward(prompts: Tensor, completions: Tensor) -> Tensor:
    """Share of right tokens, (n, batch); what comes after the end is END."""
    target = prompts.unsqueeze(-1) - torch.arange(LENGTH)
    return (completions == target.where(target >= 0, END)).float().mean(-1)


@torch.no_grad()
def generate(model: LanguageModel, prompts: Tensor, codes: sequences.Codes) -> Tensor:
    tokens = prompts.expand(codes.n, -1).unsqueeze(-1)  # (n, batch, 1)
    finished = torch.zeros(codes.n, len(prompts), dtype=torch.bool)
    for _ in range(LENGTH):
        logits = model(tokens)[..., -1, :]  # temperature, top-k and top-p would be done here
        new = codes.step(logits, finished=finished, pad=END)
        tokens = torch.cat([tokens, new.unsqueeze(-1)], -1)
        finished |= new == END
    return tokens  # (n, batch, 1 + LENGTH)


def train(way: str, steps: int, seed: int) -> float:
    """Train one model; returns its mean reward over the last tenth of the steps."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = LanguageModel()
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    rewards = []
    for _ in range(steps):
        prompts = torch.randint(1, 6, (BATCH,), generator=generator)
        if way == "iid, leave-one-out":
            codes: sequences.Codes = sequences.IIDGroup(GROUP, BATCH, generator=generator)
        else:
            codes = sequences.SystematicGroup(GROUP, BATCH, groups=2, generator=generator)
        tokens = generate(model, prompts, codes)
        completions = tokens[..., 1:]
        found = reward(prompts, completions)  # (n, batch)
        if way == "iid, leave-one-out":
            baseline = sequences.leave_one_out(found)
        else:
            baseline = sequences.prefix_mean(found, codes.peers, completions)
        log_probs = sequences.token_log_probs(model(tokens[..., :-1]), completions)
        before = completions.roll(1, -1) == END  # the end itself counts, what follows does not
        before[..., 0] = False
        mask = before.cumsum(-1) == 0
        loss = -sequences.sequence_loss(log_probs, found, mask=mask, baseline=baseline).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rewards.append(float(found.mean()))
    return sum(rewards[-steps // 10 :]) / len(rewards[-steps // 10 :])


def main(steps: int = 150, seeds: int = 3) -> dict[str, float]:
    found = {}
    for way in ("iid, leave-one-out", "systematic halves, prefix"):
        found[way] = sum(train(way, steps, seed) for seed in range(seeds)) / seeds
        print(f"{way:<28} mean reward {found[way]:.3f} after {steps * BATCH * GROUP} completions")
    return found


if __name__ == "__main__":
    from _command import run  # options, a sign of life, and --plot

    run(main, __doc__, what="mean reward", best="highest")
