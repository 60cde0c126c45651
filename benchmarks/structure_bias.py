"""How biased is a relaxed gradient for k-subsets, and how noisy, exactly, by enumeration.

Run with `python benchmarks/structure_bias.py`. f is a random network with tanh units whose first
layer has the given slope; its gradient at a sample is multiplied with the law's covariance matrix
C (f is taken to be linear), or with (C + c c^T) / 2, c = x - E[x] (f is taken to be quadratic):
the two orders of `MarginalGradient`. For each slope 20 networks, 3 of 8 items: medians (and largest
values) of the squared bias over the squared gradient, and of the variance with four samples over
that of leave-one-out REINFORCE with four.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf.distributions import KSubset

ITEMS, CHOSEN, HIDDEN, N, NETWORKS = 8, 3, 8, 4, 20


def relaxed(slope: float, seed: int) -> list[tuple[float, float]]:
    """For both orders: squared bias over the squared gradient; variance over leave-one-out's."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    law = KSubset(normal(ITEMS), CHOSEN)
    first, second = slope * normal(ITEMS, HIDDEN), normal(HIDDEN) / HIDDEN**0.5
    x = law.enumerate_support().requires_grad_()  # (states, d)
    f = torch.tanh(x @ first) @ second
    (slopes,) = torch.autograd.grad(f.sum(), x)
    f, x = f.detach(), x.detach()
    mass, score = law.log_prob(x).exp(), law.score(x)
    exact = (mass * f) @ score
    # Leave-one-out is the mean over pairs of half the product of differences (a U-statistic).
    pair = (f[:, None] - f)[..., None] * (score[:, None] - score) / 2  # (states, states, d)
    one = torch.einsum("t,std->sd", mass, pair) - exact
    both = torch.einsum("s,t,std->", mass, mass, (pair - exact).square())
    single_part = (mass @ one.square()).sum()
    leave_one_out = 2 / (N * (N - 1)) * (2 * (N - 2) * single_part + both)
    first = slopes @ law.covariance  # the relaxed gradients at every state
    second = (first + score * (score * slopes).sum(-1, keepdim=True)) / 2
    found = []
    for single in (first, second):
        mean = mass @ single
        noise = (mass @ single.square() - mean.square()).sum() / N
        bias = (mean - exact).square().sum() / exact.square().sum()
        found.append((bias.item(), (noise / leave_one_out).item()))
    return found


def main() -> None:
    print("slope   order   squared bias         variance")
    for slope in (0.2, 1.0, 3.0):
        rows = torch.tensor([relaxed(slope, seed) for seed in range(NETWORKS)])
        for order, part in enumerate(rows.unbind(1), 1):
            middle, worst = part.median(0).values.tolist(), part.max(0).values.tolist()
            cells = [f"{m:.4f} ({w:.4f})" for m, w in zip(middle, worst, strict=True)]
            print(f"{slope:5.1f}   {order:5}   {cells[0]:<18}   {cells[1]}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
