"""Where to compute, with how many threads, and in which precision.

Half precision on a CPU is tried in a child process first. Some virtual machines report
instructions (AMX, AVX512-FP16) that programs cannot use there. Torch's CPU library uses them, and
the process is killed by an illegal instruction at its first half-precision product.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Device = Literal["auto", "cpu", "cuda", "mps"]


def choose_device(name: str) -> torch.device:
    """The device by its name; "auto" is the fastest one of this machine."""
    present = {"cpu": True, "cuda": torch.cuda.is_available()}
    present["mps"] = torch.backends.mps.is_available()
    if name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if present[kind])
    if not present[name]:
        raise ValueError(f"device must be one that this machine has, got {name}")
    return torch.device(name)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use so many processor threads inside, 0 for as many as there are already."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


SETTING = "ONEDNN_MAX_CPU_ISA"  # environment variable: the newest instructions torch may use
LOWER = ("AVX512_CORE", "AVX2")  # values without half-precision instructions

#: A convolution and a product with their backward, as training does them.
PROBE = """
import torch
torch.set_num_threads(1)
with torch.autocast("cpu", torch.bfloat16):
    images = torch.randn(8, 16, 16, 16, requires_grad=True)
    kernel = torch.randn(16, 16, 3, 3, requires_grad=True)
    weights = torch.randn(16 * 16 * 16, 32, requires_grad=True)
    found = torch.nn.functional.conv2d(images, kernel, padding=1).flatten(1) @ weights
    found.sum().backward()
"""


def check_precision(precision: str, device: torch.device) -> None:
    """Raise if training in ``precision`` would kill this process; say what 16-mixed is on a CPU.

    Args:
        precision: "32", "16-mixed" or "bf16-mixed".
        device: where to train; only a CPU is tried.
    """
    if precision == "32" or device.type != "cpu":
        return
    if precision == "16-mixed":
        print("dbsurf: on a CPU, 16-mixed computes in bfloat16", file=sys.stderr)
    reason = half_precision_failure()
    if reason is None:
        return
    lower = next((value for value in LOWER if half_precision_failure(value) is None), None)
    cure = "--precision 32 works" if lower is None else f"set {SETTING}={lower} and start again"
    raise ValueError(f"precision {precision} does not work on this processor ({reason}): {cure}")


@functools.cache
def half_precision_failure(instructions: str | None = None) -> str | None:
    """How a child process that computes in half precision fails; None if it does not.

    Args:
        instructions: value of `SETTING` for the child; None leaves it as it is here.
    """
    changed = {} if instructions is None else {SETTING: instructions}
    child = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, **changed},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if child.returncode == 0:
        return None
    if child.returncode < 0:
        return signal.strsignal(-child.returncode) or f"signal {-child.returncode}"
    last = child.stderr.strip().splitlines()[-1:]
    return last[0] if last else f"status {child.returncode}"
