"""A small supernet search for tests: eight pixels a side, two channels, 64 digits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dbsurf_paper import data
from dbsurf_paper.data import store
from dbsurf_paper.experiments.nas.supernet.methods import METHODS
from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions

TINY = SupernetOptions(
    dataset="digits",
    n=3,
    seeds=1,
    device="cpu",
    threads=1,
    channels=2,
    cells=1,
    image_size=8,
    images=64,
    batch=16,
    warmup_epochs=1,
    epochs=2,
    learning_rate=0.1,
    architecture_rate=0.05,
    tensorboard=False,
)


def digits(folder: Path) -> Path:
    """Make ``folder`` a data folder with the digits, read from their table once."""
    store.save("digits", data.load_arrays("digits", folder), folder)
    return folder


def searching(options: SupernetOptions, method: str, **changes: Any) -> SupernetOptions:
    """The same run by another method; options that it does not have are as by default."""
    usual = SupernetOptions()
    reads = METHODS[method].reads
    n = options.n if "n" in reads else usual.n
    estimator = options.estimator if "estimator" in reads else usual.estimator
    given = {"n": n, "estimator": estimator, "channels": 4} | changes
    return replace(options, method=method, **given)
