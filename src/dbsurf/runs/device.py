"""Where to compute."""

from __future__ import annotations

from typing import Literal

import torch

Device = Literal["auto", "cpu", "cuda", "mps"]


def choose_device(name: str) -> torch.device:
    """The device by its name; auto is the fastest there is."""
    present = {"cpu": True, "cuda": torch.cuda.is_available()}
    present["mps"] = torch.backends.mps.is_available()
    if name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if present[kind])
    if not present[name]:
        raise ValueError(f"device must be one that this machine has, got {name}")
    return torch.device(name)
