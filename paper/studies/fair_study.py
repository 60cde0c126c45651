"""The fair study of docs/fair.md: every estimator at its own best learning rate.

Run with `python paper/studies/fair_study.py`; `--stage`, `--dataset`, `--estimator` and `--n` do a
part of it, `--again` does it even if the documentation has it, `--workers` does several runs at a
time. Stages:

- `times`: milliseconds of a training step of every estimator, one interleaved run on one thread;
  every time of the study is steps times these, so that the trainings may share a machine.
- `choose`: 10,000 steps at three learning rates, one seed, on training images without 5,000 that
  are held out; the rate with the lowest -ELBO on those is taken. If it is the lowest or the highest
  of the three, the next one beyond is tried too. For Gumbel-softmax the temperature is chosen
  first, by the same rule, at the middle rate.
- `seeds`: 10,000 steps at the chosen rate, five other seeds, all training images.
- `long`: 50,000 steps of five estimators at these rates, but at most 1e-3, three seeds, two data
  sets, and of Gumbel-softmax on one; `long-rate` has one seed where the rate is larger, to show
  what that does.
- `longest`: 200,000 steps at the paper's rate, MNIST, three estimators.
- `table1`: n = 2, 6 and 8 for the estimators of the paper's table 1 at the paper's rate, two seeds.

Runs that the documentation holds (`docs/results/fair/runs.zip`) are taken from there, finished ones
are not run again, a broken one goes on from its checkpoint. `--report` only writes what the
finished runs say.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import differences
import fair_choices
import fair_figures
import fair_plan
import fair_report
import fair_runs
import fair_seconds
import fair_table1
import fair_times
from dbsurf_paper.experiments.vae import Options, train
from dbsurf_paper.labels import PAPER_ORDER, dataset_name, estimator_name
from dbsurf_paper.runs.local_pool import all_results
from fair_goals import FORMS, goal_table
from fair_plan import DATASETS, PLANS, look
from fair_runs import BASELINE
from findings import at_equal_seconds, ends_lowest
from pages import insert, publish, restore, save_csv, save_figure, texts

RESULTS, PAGE = Path("docs/results/fair"), Path("docs/fair.md")
FRONT = (Path("README.md"), Path("docs/index.md"), Path("docs/vae.md"), PAGE)  # the main table
VAE_RUNS = Path("docs/results/vae/runs.csv")  # has n = 4 at the paper's rate
STAGES = ("times", *PLANS)
NUMBERS = tuple(range(2, fair_plan.MOST_SAMPLES + 1))
NAMES = tuple(dict.fromkeys([*(one.estimator for one in fair_plan.ENTRANTS), *PAPER_ORDER]))


def carry_out(stage: str, asked: Callable[[Options], bool], workers: int) -> None:
    """The runs of a stage that are asked for and not finished, so many at a time.

    (A choice may ask for further runs when the first are there.)
    """

    def missing() -> list[Options]:
        runs = (one for dataset in DATASETS for one in PLANS[stage](dataset) if asked(one))
        return [one for one in runs if look(one) is None]

    while runs := missing():
        all_results(train, runs, workers)


def state(choices: Collection[Options]) -> str:
    """How far the study is on each data set."""
    told = []
    for dataset in DATASETS:
        chosen_runs = sum(look(one) is not None for one in choices if one.dataset == dataset)
        done = sum(look(one) is not None for one in fair_plan.seeds(dataset))
        names = ", ".join(
            estimator_name(fair_runs.series_of(one)) for one in fair_plan.waiting(dataset)
        )
        told.append(
            f"- {dataset_name(dataset)}: {chosen_runs} that choose rates, {done} at these rates"
            f"{f'; not all there: {names}' if names else ''}."
        )
    if any(map(fair_plan.waiting, DATASETS)):
        told.append(
            "\n**The study is under way.** Goals are judged by estimators with all five seeds."
        )
    return "\n".join(["Finished runs of 10,000 steps:\n", *told])


def report() -> None:
    """Tables and figures from the finished runs."""
    times = fair_runs.read_times(fair_plan.TIMES)
    by_processor = fair_runs.times_by_processor(fair_plan.TIMES)
    tried = {dataset: fair_plan.rates_tried(dataset) for dataset in DATASETS}
    hot = {dataset: fair_plan.tried_temperatures(dataset, look) for dataset in DATASETS}
    in_words = {
        dataset: {f"rate of {estimator_name(series)}": found for series, found in own.items()}
        | {"temperature of Gumbel-softmax": hot[dataset]}
        for dataset, own in tried.items()
    }
    runs = {stage: [one for d in DATASETS for one in plan(d)] for stage, plan in PLANS.items()}
    short, fifty, larger, farthest = (
        fair_runs.trained(runs[stage]) for stage in ("seeds", "long", "long-rate", "longest")
    )
    whole = [one for one in short if len(one.summaries) == len(fair_plan.SEEDS)]
    longer = [one for one in fifty if len(one.summaries) == len(fair_plan.SEEDS_OF_LONG)]
    measures = fair_table1.ELBO, fair_table1.BOUND
    small = {one: fair_table1.values_of(runs["table1"], VAE_RUNS, one) for one in measures}
    to_come = {dataset: fair_plan.waiting(dataset) for dataset in DATASETS}
    reaches = (
        fair_seconds.reach_table([x for x in short if x.dataset == d], times) for d in DATASETS
    )
    late = fair_report.along_table, lambda own: fair_seconds.reach_table(own, times)
    leads = (fair_report.along_table([x for x in short if x.dataset == d]) for d in DATASETS)
    parts = {
        "choices": texts(
            *(fair_choices.rate_table(dataset, own) for dataset, own in tried.items()),
            fair_choices.temperature_table(hot),
            fair_choices.other_choices(in_words),
        ),
        "results": texts(*fair_report.results(short, times)),
        "differences": texts(
            *differences.differences(short, BASELINE, *FORMS),
            differences.disputed_table(short, (BASELINE, *FORMS)),
        ),
        "equal time": texts(
            *(fair_seconds.seconds_table(short, name, times) for name in (BASELINE, *FORMS))
        ),
        "reaching": texts(*reaches, *leads),
        "processors": texts(fair_seconds.processor_table(whole, by_processor)),
        "longer": texts(
            *fair_report.results(
                fifty, times, f"every estimator at its best rate, at most {fair_plan.LONG_RATE:g}"
            ),
            fair_report.rate_table(fifty, larger),
            *differences.differences(fifty, BASELINE, FORMS[0]),
            differences.disputed_table(fifty, (BASELINE, FORMS[0])),
            *(make([x for x in fifty if x.dataset == d]) for d in DATASETS for make in late),
        ),
        "longest": texts(
            *fair_report.results(farthest, times, "all at the paper's rate, one seed"),
            fair_seconds.reach_table(farthest, times, "at the paper's rate"),
        ),
        "goals": texts(goal_table(to_come, whole, longer, by_processor)),
        "table 1": texts(
            fair_table1.value_table(small[fair_table1.ELBO]),
            *(fair_table1.gap_table(own, one) for one, own in small.items()),
        ),
        "revisions": fair_runs.revisions([one for own in runs.values() for one in own]),
        "state": state(runs["choose"]),
    }
    for name, text in parts.items():
        insert(PAGE, name, text)
    for page in FRONT:
        insert(page, "fair", texts(*fair_report.front(whole, times)))
    rows = fair_runs.rows_of(runs)
    if len(rows):
        save_csv(rows, RESULTS / "runs.csv", digits=10)
    draw_figures(short, fifty, farthest, runs["table1"], times)
    finished = [one.folder() for own in runs.values() for one in own if look(one) is not None]
    publish(RESULTS / "runs.zip", finished)


def draw_figures(
    short: list[fair_runs.Trained],
    fifty: list[fair_runs.Trained],
    farthest: list[fair_runs.Trained],
    small: list[Options],
    times: dict[str, float],
) -> None:
    """The figures, each where its runs are there."""
    caption = "Training -ELBO of 1,000 images at the paper's rate, four evaluations of f a step. "
    caption += "Diamonds: what the paper has after 1,000,000 steps, n = 4, for all images."
    marks = fair_figures.PAPER_MNIST
    upper = "The upper row of the paper's figure 1: two samples, means of two seeds."
    pairs = fair_runs.trained([one for one in small if one.n == 2])
    charts = {
        "seconds": fair_figures.curves(short, times),
        "seconds-long": fair_figures.curves(fifty, times),
        "longest": fair_figures.step_curves(farthest, "longest", caption, marks),
        "figure1-upper": fair_figures.step_curves(pairs, "figure1-upper", upper, {}),
    }
    for name, chart in charts.items():
        if chart is not None:
            finding = at_equal_seconds if name.startswith("seconds") else ends_lowest
            seeds_told = " (one seed)" if name == "longest" else ""
            chart = replace(chart, finding=f"{finding(chart)}{seeds_told}")
            save_figure(chart, RESULTS / f"{name}.csv", RESULTS / f"{name}.png")
        link = f"![{chart.caption}](results/fair/{name}.png)" if chart is not None else ""
        insert(PAGE, f"figure {name}", link)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--dataset", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--estimator", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--n", nargs="+", type=int, choices=NUMBERS, default=NUMBERS)
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--again", action="store_true", help="even if the documentation has them")
    parser.add_argument("--report", action="store_true", help="run nothing")
    given = parser.parse_args()
    stages = [one for one in given.stage if one != "times"]

    def asked(one: Options) -> bool:
        known = one.dataset in given.dataset and one.estimator in given.estimator
        return known and one.n in given.n

    restore(RESULTS / "runs.zip", fair_plan.RUNS)
    if given.again:
        runs = (one for stage in stages for dataset in DATASETS for one in PLANS[stage](dataset))
        again = {one.folder().name for one in runs if asked(one)}
        restore(RESULTS / "runs.zip", fair_plan.RUNS, again)
    if not given.report:
        if "times" in given.stage:
            forms = [(one.estimator, one.n, one.options) for one in fair_plan.timed()]
            measured = fair_times.milliseconds(forms, fair_plan.BASE.batch)
            save_csv(fair_times.beside(fair_plan.TIMES, measured), fair_plan.TIMES)
        for stage in stages:
            carry_out(stage, asked, given.workers)
    report()
