"""What the tests of both distributions share: one thread, one seed, and what is not imported."""

from __future__ import annotations

import os
from importlib.util import find_spec

# Before torch is imported: some virtual machines announce half-precision instructions that kill a
# process. No test needs them.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
# One thread from the start: the tests use a process for each core, and a process that has started
# threads of OpenMP cannot be forked, as tests of killed runs do.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

# Not imported where the extra ``integrations`` is not installed.
NEEDS = {"language.py": "transformers", "trl.py": "trl", "pyro.py": "pyro"}
collect_ignore = [
    f"src/dbsurf/integrations/{file}" for file, needed in NEEDS.items() if find_spec(needed) is None
]


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(20230907)
