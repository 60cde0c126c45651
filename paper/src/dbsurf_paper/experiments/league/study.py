"""A run of the league: train, measure, converge, measure again; it continues where it was stopped.

Learned estimators are trained along while a model is trained by LOORF, each from its own random
numbers: what one of them has learned does not depend on which others take part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch

import dbsurf
from dbsurf.measure import Reference, long_run
from dbsurf_paper.experiments.league import entrants, measure, problems, vaes
from dbsurf_paper.experiments.league.entrants import BASELINE, REFERENCE, Entrant
from dbsurf_paper.experiments.league.options import Options, every
from dbsurf_paper.experiments.league.problems import Problem
from dbsurf_paper.files import read_json, remove_temporary, write_atomically, write_json
from dbsurf_paper.progress import StepBar
from dbsurf_paper.runs.checkpoint import (
    NEWEST,
    check_layout,
    load_checkpoint,
    save_checkpoint,
    tidy_checkpoints,
)
from dbsurf_paper.runs.folder import CONFIG, environment, folder_lock, write_summary
from dbsurf_paper.runs.job import read_finished
from dbsurf_paper.runs.processes import Interruption
from dbsurf_paper.runs.records import Stopwatch

PROBLEMS: dict[str, Callable[[Options], Problem]] = {
    "quadratic": problems.quadratic,
    "network": problems.network,
    "table": problems.table,
    "table-searched": problems.table_searched,
    "vae": vaes.plain,
    "categorical-vae": vaes.categorical,
    "two-layer-vae": vaes.two_layers,
}
LEARNING = 4  # evaluations with which estimators learn, or the next number below
ROWS = "rows.json"
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
    finished = read_finished(options.folder(), options.config())
    if finished is not None:
        return finished
    torch.set_num_threads(options.threads)
    study = Study(options, PROBLEMS[options.problem](options))
    with folder_lock(study.folder), study.watch.running():
        study.open()
        return study.work()


@dataclass
class Learner:
    """An estimator that learns, and the random numbers that it learns with."""

    entrant: Entrant
    estimator: dbsurf.Estimator
    generator: torch.Generator


class Study:
    """A run in progress.

    Args:
        options: the options.
        problem: the problem, before its first step.
    """

    def __init__(self, options: Options, problem: Problem) -> None:
        self.options, self.problem, self.folder = options, problem, options.folder()
        self.watch = Stopwatch()
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
        self.steps = 0  # done, those of convergence included
        self.rows: list[measure.Row] = []
        self._reference: Reference | None = None

    def _needs_reference(self) -> bool:
        biased = any(not one.smallest().unbiased for one in self.entrants)
        return biased and self.problem.exact() is None

    # --- files ----------------------------------------------------------------------------------

    def open(self) -> None:
        """Write the configuration, and continue from what there is."""
        config = self.options.config()
        remove_temporary(self.folder)
        tidy_checkpoints(self.folder)
        begun = (self.folder / NEWEST).exists() or (self.folder / ROWS).exists()
        if begun and not self.options.resume:
            raise ValueError(f"{self.folder} holds an unfinished run: --resume continues it")
        load_checkpoint(self.folder, config, self._take_over)
        if (self.folder / ROWS).exists():
            self.rows = list(read_json(self.folder / ROWS)["rows"])
        write_json(self.folder / CONFIG, config)
        write_json(self.folder / "environment.json", environment())

    def save(self) -> None:
        """Write a checkpoint."""
        with self.watch.paused():
            state = {
                "steps": self.steps,
                "seconds": self.watch.seconds,
                "problem": self.problem.state_dict(),
                "learners": {
                    label: {
                        "estimator": one.estimator.state_dict(),
                        "generator": one.generator.get_state(),
                    }
                    for label, one in self.learners.items()
                },
            }
            save_checkpoint(self.folder, self.options.config(), state)

    def _take_over(self, state: dict[str, Any]) -> None:
        total = self.joint + self.options.converge
        if type(state["steps"]) is not int or not 0 <= state["steps"] <= total:
            raise ValueError(f"steps must be an integer from 0 to {total}, got {state['steps']!r}")
        check_layout(state["problem"], self.problem.state_dict())
        self.problem.load_state_dict(state["problem"])
        for label, one in self.learners.items():
            one.estimator.load_state_dict(state["learners"][label]["estimator"])
            one.generator.set_state(state["learners"][label]["generator"])
        self.steps, self.watch.seconds = state["steps"], state["seconds"]

    # --- the work -------------------------------------------------------------------------------

    def work(self) -> dict[str, Any]:
        """All that is still to be done; returns the summary."""
        total = self.joint + (self.options.converge if self.learners else 0)
        with Interruption() as interruption:
            self.learn_until(self.joint, total, interruption)
            self.measure_all(JOINT if self.joint else NOTHING, interruption)
            self.learn_until(total, total, interruption)
            self.measure_all(CONVERGED, interruption)
            self.time_all(interruption)
        with self.watch.paused():
            rows = measure.ratios(self.rows, BASELINE)
            write_atomically(self.folder / "league.csv", pd.DataFrame(rows).to_csv(index=False))
            summary = {
                "experiment": "league",
                "configuration": self.options.config(),
                "title": self.problem.title,
                "seconds": self.watch.seconds,
                "left_out": self.left_out,
                "rows": rows,
            }
            write_summary(self.folder, summary)
        return summary

    def learn_until(self, end: int, total: int, interruption: Interruption) -> None:
        """Steps in which the model is trained, and after `joint` of them only the estimators."""
        if self.steps >= end:
            return
        with StepBar(f"{self.options.name()} learning", total, self.steps) as bar:
            while self.steps < end:
                self.step()
                done = self.steps
                asked = interruption.requested
                if asked or done == end or done % self.options.checkpoint_every == 0:
                    self.save()
                    bar.line(done, "")
                if asked:
                    raise KeyboardInterrupt(f"step {done} of {total} is saved in {self.folder}")
                if bar.due():
                    bar.show(done, "")

    def step(self) -> None:
        """One batch: the estimators learn from it, and then the model, if it is in training."""
        batch = self.problem.next_batch()
        if self.steps >= self.joint - self.along:
            for one in self.learners.values():
                place = self.problem.place_of(batch, one.generator)
                one.estimator.estimate(
                    place.f, place.law, context=place.context, generator=one.generator
                )
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

    def measure_all(self, learned: str, interruption: Interruption) -> None:
        """Measure what is not in the rows yet; each row has its own random numbers."""
        wanted = self.plan(learned)
        with StepBar(f"{self.options.name()} measuring", len(wanted)) as bar:
            for position, (entrant, count, estimator) in enumerate(wanted, start=1):
                how = learned if entrant.label in self.learners else NOTHING
                if self._row(entrant.label, count, how) is None:
                    self.rows.append(self.measure_one(entrant, count, estimator, how))
                    write_json(self.folder / ROWS, {"rows": self.rows})
                    bar.line(position, f"{entrant.label} {count} {how}")
                if interruption.requested:
                    raise KeyboardInterrupt(f"{len(self.rows)} rows are saved in {self.folder}")
                bar.show(position, f"{entrant.label}, {count} evaluations")

    def _row(self, label: str, evaluations: int, learned: str) -> measure.Row | None:
        key = (label, evaluations, learned)
        for row in self.rows:
            if (row["estimator"], row["evaluations"], row["learned"]) == key:
                return row
        return None

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
            "milliseconds": None,
            "loorf_milliseconds": None,
        }
        if not estimator.unbiased:
            row |= measure.squared_bias(found, mean, self.reference())
        return row

    def time_all(self, interruption: Interruption) -> None:
        """Time an estimate of every row that has no time yet."""
        for entrant, built in self.counts().items():
            for count, estimator in built:
                same = [
                    row
                    for row in self.rows
                    if (row["estimator"], row["evaluations"]) == (entrant.label, count)
                ]
                if all(row["milliseconds"] is not None for row in same):
                    continue
                learner = self.learners.get(entrant.label)
                if learner is not None:
                    estimator.load_state_dict(learner.estimator.state_dict())
                rounds = self.options.timings if count <= measure.MANY else 3
                found = measure.milliseconds(estimator, self.problem, count, rounds)
                for row in same:
                    row |= found
                write_json(self.folder / ROWS, {"rows": self.rows})
                if interruption.requested:
                    raise KeyboardInterrupt(f"{len(self.rows)} rows are saved in {self.folder}")

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
