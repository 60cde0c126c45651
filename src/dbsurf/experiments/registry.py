"""The experiments by name, for whatever runs or reads any of them.

An experiment is a module with ``Options``, a frozen dataclass whose ``config()`` says what a run
computes and whose ``folder()`` says where; ``PRESETS``, whole `Options` by name; and
``run(options)``, which does the run or goes on with a broken one. A finished run's folder has a
``summary.json`` with ``experiment``, ``configuration`` and ``seconds``; one that trains has
``metrics.csv`` with a column ``step``.
"""

from __future__ import annotations

import importlib
from types import ModuleType

EXPERIMENTS = {
    "toy": "dbsurf.experiments.toy.command",
    "vae": "dbsurf.experiments.vae",
    "nas": "dbsurf.experiments.nas",
}


def experiment(name: str) -> ModuleType:
    """The module of an experiment.

    Example:
        >>> experiment("vae").PRESETS["paper"].steps
        1000000
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}, got {name!r}")
    return importlib.import_module(EXPERIMENTS[name])
