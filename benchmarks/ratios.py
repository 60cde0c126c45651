"""Ratios of running times, measured side by side: interleaved, one thread, medians."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import torch


def medians(functions: dict[str, Callable[[], object]], seconds: float = 2.0) -> dict[str, float]:
    """Median time of each function in seconds; they take turns and so see the same machine."""
    torch.set_num_threads(1)
    for function in functions.values():
        for _ in range(3):
            function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    shuffled = random.Random(0)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 15:
        # In an order drawn anew each round: what runs before leaves its caches and free memory.
        for name, function in shuffled.sample(list(functions.items()), len(functions)):
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def report(name: str, ratio: float, target: float) -> bool:
    """Print one line ``name ratio target ok|short``; a ratio at most its target is ok."""
    ok = ratio <= target
    print(f"{name:<58} {ratio:6.2f} {target:6.2f} {'ok' if ok else 'short'}", flush=True)
    return ok
