"""Cost of drawing the next token of a group of sequences, over what torch itself needs.

Run with `python benchmarks/sequences.py`. Each line is `name ratio target ok|short`; the ratios of
a shape come from one interleaved run on one thread. Time is over `torch.multinomial` on
probabilities that are already there; memory is by how much the process grows during a step, over
the same for `torch.softmax` and `torch.multinomial`. Exits with status 1 if any is short.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import torch
from ratios import medians, report

from dbsurf.sequences import (
    AntitheticGroup,
    ArithmeticGroup,
    Codes,
    IIDGroup,
    StochasticBeam,
    SystematicGroup,
)

N, BATCH, VOCABULARY = 8, 64, 32_000
KINDS: dict[str, type[Codes]] = {
    "iid": IIDGroup,
    "systematic": SystematicGroup,
    "antithetic": AntitheticGroup,
    "arithmetic": ArithmeticGroup,
}


def peak(function: Callable[[], object]) -> int:
    """By how many bytes the process grows while the function runs (Linux)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from what is held now
    before = _status("VmRSS")
    function()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def main() -> bool:
    logits = 3 * torch.randn(N, BATCH, VOCABULARY)
    probs = logits.softmax(-1).view(-1, VOCABULARY)
    groups = {name: kind(N, BATCH) for name, kind in KINDS.items()}
    beam = StochasticBeam(N - 1, BATCH)  # the model runs n sequences
    steps = {name: (lambda codes=codes: codes.step(logits)) for name, codes in groups.items()} | {
        "without replacement": lambda: beam.step(logits)
    }
    time = medians({"multinomial": lambda: torch.multinomial(probs, 1), **steps}, seconds=20)
    label = f"{N}x{BATCH}x{VOCABULARY}"
    results = [
        report(f"{name} {label} / torch.multinomial", time[name] / time["multinomial"], 1.3)
        for name in steps
    ]
    usual = peak(lambda: torch.multinomial(logits.softmax(-1).view(-1, VOCABULARY), 1))
    results += [
        report(f"{name} {label} memory / softmax and multinomial", peak(step) / usual, 1.0)
        for name, step in steps.items()
    ]
    print(f"torch.multinomial: {1e3 * time['multinomial']:.0f} ms, {usual / 2**20:.0f} MiB")
    return all(results)


if __name__ == "__main__":
    torch.manual_seed(0)
    raise SystemExit(0 if main() else 1)
