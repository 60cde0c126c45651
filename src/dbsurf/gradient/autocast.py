"""Estimators compute in full precision, whatever autocast their caller has turned on for f."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

import torch

AUTOCAST = ("cpu", "cuda")  # devices whose autocast is looked at


def autocast_now() -> list[tuple[str, torch.dtype]]:
    """The devices whose autocast is on, with its dtype."""
    return [
        (device, torch.get_autocast_dtype(device))
        for device in AUTOCAST
        if torch.is_autocast_enabled(device)
    ]


def full_precision(
    autocast: Sequence[tuple[str, torch.dtype]],
) -> AbstractContextManager[object]:
    """Turn autocast off: sums over samples and control variates need all digits."""
    stack = ExitStack()
    for device, _ in autocast:
        stack.enter_context(torch.autocast(device, enabled=False))
    return stack
