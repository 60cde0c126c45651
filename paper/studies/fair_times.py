"""Milliseconds of a training step of every estimator of the fair study, in one interleaved run."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

import dbsurf
from dbsurf_paper import data
from dbsurf_paper.experiments.streams import Streams
from dbsurf_paper.experiments.vae.model import DiscreteVAE
from dbsurf_paper.experiments.vae.training import Batches, Trainer, mean_image
from dbsurf_paper.runs.folder import environment
from dbsurf_paper.runs.options import named_values
from fair_runs import time_name

WARM, TURNS, STEPS_A_TURN = 20, 40, 5  # rounds before the clock counts, rounds that count
RATE = 3e-4  # of the optimiser; a step takes as long with any other


def milliseconds(forms: Collection[tuple[str, int, tuple[str, ...]]], batch: int) -> pd.DataFrame:
    """Medians of a step in turns, on one thread.

    Args:
        forms: names of estimators, numbers of samples and options.
        batch: number of images.
    """
    torch.set_num_threads(1)
    images = data.load("digits").train
    steps = {time_name(*form): _trainer(*form, images, batch).step for form in sorted(forms)}
    times: dict[str, list[float]] = {name: [] for name in steps}
    turns = random.Random(0)
    for turn in range(WARM + TURNS):
        # In an order drawn anew each round: what runs before leaves its caches and free memory.
        for name, step in turns.sample(list(steps.items()), len(steps)):
            start = time.process_time()
            for _ in range(STEPS_A_TURN):
                step()
            if turn >= WARM:
                times[name].append(1e3 * (time.process_time() - start) / STEPS_A_TURN)
    table = pd.DataFrame(
        {"estimator": name, "milliseconds": statistics.median(own)} for name, own in times.items()
    )
    table["processor"] = environment()["processor"]
    return table


def beside(path: Path, measured: pd.DataFrame) -> pd.DataFrame:
    """What was measured now, with what the file has of other processors."""
    if not path.exists():
        return measured
    known = pd.read_csv(path)
    return pd.concat([known[~known.processor.isin(measured.processor)], measured])


def _trainer(
    name: str, n: int, options: tuple[str, ...], images: npt.NDArray[np.uint8], batch: int
) -> Trainer:
    """A trainer of the paper's VAE on images that need no download.

    (On noise an estimator may do other things than on images.)
    """
    device = torch.device("cpu")
    streams = Streams.seeded(0, device)
    model = DiscreteVAE(mean_image(images), generator=streams.weights)
    batches = Batches(images, batch, streams, device)
    estimator = dbsurf.get(name, n, validate=False, **named_values(options))
    return Trainer(model, [estimator], batches, streams, RATE)
