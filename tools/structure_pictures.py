"""The pictures of docs/structure.md: one for each law, with its marginals and some samples.

Run with `python tools/structure_pictures.py`; needs matplotlib.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import torch
from torch import Tensor

from dbsurf.distributions import (
    KSubset,
    MarkovChain,
    PlackettLuce,
    SpanningTree,
    complete_graph,
)

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "structure"
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#777777"
COLOURS = (ORANGE, "#009E73", "#CC79A7")


def figure(title: str, widths: tuple[int, ...]) -> tuple[Any, Any]:
    drawn, axes = plt.subplots(
        1, len(widths), figsize=(7, 2.2), width_ratios=widths, layout="constrained"
    )
    drawn.suptitle(title, fontsize=10)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    return drawn, axes


def save(drawn: Any, name: str) -> None:
    drawn.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    plt.close(drawn)


def subsets() -> None:
    law = KSubset(torch.linspace(2, -2, 12), k=4)
    drawn, (left, right) = figure("KSubset: 4 of 12 items", (1, 1))
    left.bar(range(12), law.marginals, color=BLUE)
    left.set(xlabel="item", ylabel="P(chosen)", ylim=(0, 1), xticks=range(0, 12, 2))
    right.imshow(law.sample((8,)), cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
    right.set(xlabel="item", ylabel="sample", xticks=range(0, 12, 2), yticks=range(0, 8, 2))
    save(drawn, "k_subset")


def chains() -> None:
    emission = torch.zeros(14, 4)
    emission[torch.arange(14), torch.tensor([0, 0, 0, 1, 1, 1, 3, 3, 3, 2, 2, 2, 2, 0])] = 1.5
    law = MarkovChain(emission, 2.0 * torch.eye(4))
    drawn, (left, right) = figure("MarkovChain: 14 steps, 4 labels", (1, 1))
    for ax in (left, right):
        ax.set(xlabel="step", ylabel="label", xticks=range(0, 14, 2), yticks=range(4))
    left.imshow(law.marginals.mT, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower")
    left.set_title("marginals", fontsize=8)
    for place, (path, colour) in enumerate(zip(law.sample((3,)), COLOURS, strict=True)):
        right.step(range(14), path + 0.1 * (place - 1), where="mid", color=colour, lw=1.2)
    right.step(range(14), law.mode, where="mid", color="black", lw=1, ls=":")
    right.set_ylim(-0.5, 3.5)
    right.set_title("three samples; dotted: the mode", fontsize=8)
    save(drawn, "markov_chain")


def trees() -> None:
    angle = torch.arange(7) * (2 * math.pi / 7) + math.pi / 2
    place = torch.stack([angle.cos(), angle.sin()], -1)
    edges = complete_graph(7)
    length = (place[edges[:, 0]] - place[edges[:, 1]]).norm(dim=-1)
    law = SpanningTree(-1.5 * length, edges)
    drawn, axes = figure("SpanningTree: short edges are likely", (1, 1, 1, 1))
    for ax, weight, title in zip(
        axes,
        [law.marginals, *law.sample((3,))],
        ["marginals", "a sample", "a sample", "a sample"],
        strict=True,
    ):
        draw_edges(ax, place, edges, weight)
        ax.set_title(title, fontsize=8)
    save(drawn, "spanning_tree")


def draw_edges(ax: Any, place: Tensor, edges: Tensor, weight: Tensor) -> None:
    for (one, two), width in zip(edges.tolist(), weight.tolist(), strict=True):
        if width > 0:
            ax.plot(*place[[one, two]].mT, color=BLUE, lw=3 * width, zorder=1)
    ax.scatter(*place.mT, color="white", edgecolor=GREY, s=40, zorder=2)
    ax.set_aspect("equal")
    ax.axis("off")


def rankings() -> None:
    law = PlackettLuce(torch.linspace(2, -2, 8))
    drawn, (left, right) = figure("PlackettLuce: rankings of 8 items", (1, 1))
    image = left.imshow(law.precedence, cmap="Blues", vmin=0, vmax=1)
    drawn.colorbar(image, ax=left)
    left.set(xlabel="item j", ylabel="item i")
    left.set_title("P(i before j)", fontsize=8)
    for ranking, colour in zip(law.sample((3,)), COLOURS, strict=True):
        right.plot(range(1, 9), ranking, "o-", color=colour, ms=3, lw=1)
    right.set(xlabel="rank", ylabel="item", xticks=range(1, 9), yticks=range(0, 8, 2))
    right.set_title("three samples", fontsize=8)
    save(drawn, "plackett_luce")


def main() -> None:
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "structure"  # the same file from every run
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for draw in (subsets, chains, trees, rankings):
        draw()


if __name__ == "__main__":
    main()
