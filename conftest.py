"""What the tests of both distributions share: one thread, one seed."""

from __future__ import annotations

import os

# Before torch is imported: some virtual machines announce half-precision instructions that kill a
# process. No test needs them.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import pytest
import torch


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(20230907)
