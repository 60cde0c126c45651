"""How long a sweep would take, from the speed of short trials."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from dbsurf.experiments.registry import experiment
from dbsurf.runs.folder import read_summary
from dbsurf.sweep.run import Run, placed, with_fields
from dbsurf.sweep.work import work

SHORT, LONG = 20, 60  # steps of the two trials; both evaluate every SHORT steps
FEW = 500  # images, at the most, of a trial's evaluation at its end


@dataclass(frozen=True)
class Speed:
    """What one run was seen to take, in seconds.

    Attributes:
        run: which was tried.
        step: of training, with its n.
        evaluation: during training.
        ends: before the first step and after the last, evaluations left out.
    """

    run: Run
    step: float
    evaluation: float
    ends: float

    def seconds(self, run: Run) -> float:
        """For ``run``: steps scaled with their evaluations of f, that is, with n."""
        assert run.steps is not None
        scale = getattr(run.options, "n", 1) / getattr(self.run.options, "n", 1)
        every = getattr(run.options, "evaluate_every", 0) or run.steps
        evaluations = 1 + math.ceil(run.steps / every)
        return self.ends + run.steps * scale * self.step + evaluations * self.evaluation


def measure(run: Run, executor: Executor) -> Speed:
    """Try a run for a few dozen steps, in a folder that is then thrown away.

    Two lengths tell training, evaluations and the rest apart; a single step goes before them,
    which pays for what a process does only once.
    """
    wall, seconds = {}, {}
    with tempfile.TemporaryDirectory(prefix="dbsurf-trial-") as folder:
        for steps in (1, SHORT, LONG):
            options = with_fields(
                run.options,
                steps=steps,
                evaluate_every=SHORT,
                checkpoint_every=LONG,
                final_images=FEW,
                bound_images=FEW // 10,
                measure_variance=False,
            )
            trial = placed(experiment(run.experiment), options, Path(folder), run.label)
            before = time.perf_counter()
            outcome = executor.submit(work, trial, "trial").result()
            wall[steps] = time.perf_counter() - before
            if outcome.state != "done":
                raise ValueError(f"the trial of {run.label} failed: {outcome.message}")
            summary = read_summary(trial.folder)
            assert summary is not None
            seconds[steps] = float(summary["seconds"])
    step = seconds[LONG] / LONG
    between = (LONG - SHORT) // SHORT
    evaluation = max(0.0, (wall[LONG] - wall[SHORT] - (LONG - SHORT) * step) / between)
    ends = max(0.0, wall[LONG] - LONG * step - (1 + LONG // SHORT) * evaluation)
    return Speed(run, step, evaluation, ends)


def estimate(runs: Sequence[Run], workers: int, speed: Speed) -> float:
    """Seconds for all ``runs`` from their first step, on so many workers."""
    each = [speed.seconds(run) for run in runs]
    return max(sum(each) / workers, max(each))
