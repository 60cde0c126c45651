"""A run of the league: train, measure, converge, measure again; it continues where it was stopped.

Learned estimators are trained along while a model is trained by LOORF, each from its own random
numbers: what one of them has learned does not depend on which others take part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd
import torch

import dbsurf
from dbsurf.measure import Reference, long_run
from dbsurf_paper.experiments.league import entrants, gates, measure, problems, vaes
from dbsurf_paper.experiments.league.entrants import BASELINE, REFERENCE, Entrant
from dbsurf_paper.experiments.league.options import Options, every
from dbsurf_paper.experiments.league.problems import Problem
from dbsurf_paper.files import write_atomically
from dbsurf_paper.progress import StepBar
from dbsurf_paper.runs.life import Life
from dbsurf_paper.runs.steps import Steps

PROBLEMS: dict[str, Callable[[Options], Problem]] = {
    "quadratic": problems.quadratic,
    "network": problems.network,
    "table": problems.table,
    "table-searched": problems.table_searched,
    "vae": vaes.plain,
    "categorical-vae": vaes.categorical,
    "two-layer-vae": vaes.two_layers,
    "two-layer-common": vaes.two_layers_common,
    "gates-perceptron": gates.before_perceptron,
    "gates-convolutions": gates.before_convolutions,
}
LEARNING = 4  # evaluations with which estimators learn, or the next number below
NOTHING, JOINT, CONVERGED = "-", "joint", "converged"


def run(options: Options) -> None:
    """One problem, or all of them one after the other."""
    if options.problem is not None:
        summary = complete(options)
        print(f"{options.folder()}: {len(summary['rows'])} rows of {summary['title']}")
        return
    for one in every(options):
        out = None if options.out is None else options.out / one.name()
        run(replace(one, out=out))


def complete(options: Options) -> dict[str, Any]:
    """Do or finish the run that ``options`` describe; returns its summary."""
    assert options.problem is not None
    life = Life("league", options)
    if life.summary is not None:
        return life.summary
    with life.opened():
        study = Study(options, PROBLEMS[options.problem](options), life)
        study.restore()
        return life.finish(study.work())


def measured_part(label: str, evaluations: int, learned: str) -> str:
    """The name of the part with a row of the table, without its time."""
    return f"{label}, {evaluations} evaluations, learned {learned}"


def timed_part(label: str, evaluations: int) -> str:
    """The name of the part with the time of an estimate."""
    return f"{label}, {evaluations} evaluations, time"


@dataclass
class Learner:
    """An estimator that learns, and the random numbers that it learns with."""

    entrant: Entrant
    estimator: dbsurf.Estimator
    generator: torch.Generator


class Study(Steps):
    """A run in progress.

    Args:
        options: the options.
        problem: the problem, before its first step.
        life: the run.
    """

    def __init__(self, options: Options, problem: Problem, life: Life) -> None:
        self.options, self.problem = options, problem
        place = problem.place(measure.seeded("entrance"))
        self.entrants: list[Entrant] = []
        self.left_out = entrants.every()[1]
        for entrant in entrants.chosen(options.estimators):
            why = entrants.why_not(entrant, place)
            if why is None:
                self.entrants.append(entrant)
            else:
                self.left_out[entrant.label] = why
        learning = [one for one in self.entrants if one.smallest().learns]
        reference = Entrant(REFERENCE)
        if reference not in learning and self._needs_reference():
            learning.append(reference)
        self.learners = {
            one.label: Learner(
                one, one.with_at_most(LEARNING), measure.seeded(options.seed, one.label, "learns")
            )
            for one in learning
        }
        self.joint = options.steps if problem.moves else 0  # steps of training with the model
        self.along = min(options.along or self.joint, self.joint)
        self.steps = self.evaluations = 0  # steps done, those of convergence included
        self._reference: Reference | None = None
        total = self.joint + (options.converge if self.learners else 0)
        super().__init__(life, self, total=total, checkpoint_every=options.checkpoint_every)

    def _needs_reference(self) -> bool:
        biased = any(not one.smallest().unbiased for one in self.entrants)
        return biased and self.problem.exact() is None

    def title(self) -> str:
        return f"{self.options.name()} learning"

    # --- the state of learning --------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The model, what the estimators have learned, and their random numbers."""
        learners = {
            label: {"estimator": one.estimator.state_dict(), "generator": one.generator.get_state()}
            for label, one in self.learners.items()
        }
        return {"steps": self.steps, "problem": self.problem.state_dict(), "learners": learners}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.problem.load_state_dict(state["problem"])
        for label, one in self.learners.items():
            one.estimator.load_state_dict(state["learners"][label]["estimator"])
            one.generator.set_state(state["learners"][label]["generator"])
        self.steps = state["steps"]

    def first_bad_step(self) -> int | None:
        return None  # a variance that is not finite is no result, which the summary says

    # --- the work -------------------------------------------------------------------------------

    def work(self) -> dict[str, Any]:
        """All that is still to be done; returns the results."""
        self.train(self.joint)
        rows = self.measure_all(JOINT if self.joint else NOTHING)
        self.train(self.total)
        rows += self.measure_all(CONVERGED)
        found = measure.ratios(self.timed(rows), BASELINE)
        table = pd.DataFrame(found).to_csv(index=False)
        write_atomically(self.life.folder / "league.csv", table)
        return {"title": self.problem.title, "left_out": self.left_out, "rows": found}

    def step(self) -> None:
        """One batch: the estimators learn from it, and then the model, if it is in training."""
        batch = self.problem.next_batch()
        if self.steps >= self.joint - self.along:
            for one in self.learners.values():
                place = self.problem.place_of(batch, one.generator)
                place.problem.estimate(one.estimator)
        if self.steps < self.joint:
            self.problem.step(batch)
        self.steps += 1

    def counts(self) -> dict[Entrant, list[tuple[int, dbsurf.Estimator]]]:
        """The numbers of evaluations at which each takes part, with the estimator for each.

        One whose number follows from the law, or is none of those asked for, has its smallest.
        LOORF has those of all others.
        """
        place = self.problem.place(measure.seeded("plan"))
        found = {}
        for entrant in self.entrants:
            fitting = [entrant.with_evaluations(count) for count in self.options.evaluations]
            built = [one for one in fitting if one is not None] or [entrant.smallest()]
            found[entrant] = [(entrants.evaluations_at(one, place), one) for one in built]
        base = Entrant(BASELINE)
        all_counts = sorted({count for built in found.values() for count, _ in built})
        return found | {base: [(count, base.build(count)) for count in all_counts]}

    def plan(self, learned: str) -> list[tuple[Entrant, int, dbsurf.Estimator]]:
        """What is measured at this moment: an entrant, its evaluations, the estimator."""
        found = []
        for entrant, built in self.counts().items():
            learner = self.learners.get(entrant.label)
            if (learner is None and learned == CONVERGED) or (
                learner is not None and learned == NOTHING
            ):
                continue
            if learned == CONVERGED and self.joint:
                # Beside the variance as training left it, at one number of evaluations.
                assert learner is not None
                own = learner.estimator.evaluations
                built = [(count, one) for count, one in built if count == own]
            found += [(entrant, count, one) for count, one in built]
        return found

    def measure_all(self, learned: str) -> list[measure.Row]:
        """Measure everything of a moment; each row has its own random numbers."""
        wanted, rows = self.plan(learned), []
        with StepBar(f"{self.options.name()} measuring", len(wanted)) as bar:
            for position, (entrant, count, estimator) in enumerate(wanted, start=1):
                how = learned if entrant.label in self.learners else NOTHING
                make = partial(self.measure_one, entrant, count, estimator, how)
                rows.append(self.life.keep(measured_part(entrant.label, count, how), make))
                bar.line(position, f"{entrant.label} {count} {how}")
                bar.show(position, f"{entrant.label}, {count} evaluations")
        return rows

    def measure_one(
        self, entrant: Entrant, count: int, estimator: dbsurf.Estimator, learned: str
    ) -> measure.Row:
        """Measure an estimator, with what it has learned."""
        learner, options = self.learners.get(entrant.label), self.options
        if learner is not None:
            estimator.load_state_dict(learner.estimator.state_dict())
        generator = measure.seeded(options.seed, entrant.label, count, learned)
        place = self.problem.place(generator)
        draws = measure.draws_for(count, options.draws)
        found, mean = measure.measure(estimator, place, draws, options.precision)
        row = {
            "estimator": entrant.label,
            "n": estimator.n,
            "evaluations": count,
            "learned": learned,
            "unbiased": int(estimator.unbiased),
            "needs_grad_f": int(bool(estimator.grad_f)),
            **found,
            "squared_bias": None,
            "bias_noise": None,
        }
        if not estimator.unbiased:
            row |= measure.squared_bias(found, mean, self.reference())
        return row

    def timed(self, rows: list[measure.Row]) -> list[measure.Row]:
        """The rows, each with the time of an estimate."""
        times = {}
        for entrant, built in self.counts().items():
            for count, estimator in built:
                make = partial(self.time_one, entrant, count, estimator)
                times[entrant.label, count] = self.life.keep(timed_part(entrant.label, count), make)
        return [{**row, **times[row["estimator"], row["evaluations"]]} for row in rows]

    def time_one(
        self, entrant: Entrant, count: int, estimator: dbsurf.Estimator
    ) -> dict[str, float]:
        """Time an estimate, with what the estimator has learned."""
        learner = self.learners.get(entrant.label)
        if learner is not None:
            estimator.load_state_dict(learner.estimator.state_dict())
        rounds = self.options.timings if count <= measure.MANY else 3
        return measure.milliseconds(estimator, self.problem, count, rounds)

    def reference(self) -> Reference:
        """The exact gradient; else the long-run mean of the learned estimator of least variance."""
        if self._reference is None:
            exact = self.problem.exact()
            if exact is not None:
                self._reference = Reference(exact, 0.0, "the exact gradient")
            else:
                learner = self.learners[REFERENCE]
                estimator = learner.entrant.build(7)
                estimator.load_state_dict(learner.estimator.state_dict())
                place = self.problem.place(measure.seeded(self.options.seed, "reference"))
                self._reference = long_run(estimator, place.problem, self.options.draws)
        return self._reference
