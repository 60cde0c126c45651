"""The fair study of docs/fair.md: every estimator at its own best learning rate.

Run with `python paper/studies/fair_study.py`; `--stage`, `--dataset`, `--estimator` and `--n` do a
part of it, `--workers` does several runs at a time. Stages:

- `times`: milliseconds of a training step of every estimator, one interleaved run on one thread;
  every time of the study is steps times these, so that the trainings may share a machine.
- `choose`: 10,000 steps at three learning rates, one seed, on training images without 5,000 that
  are held out; the rate with the lowest -ELBO on those is taken. If it is the lowest or the highest
  of the three, the next one beyond is tried too. For Gumbel-softmax the temperature is chosen
  first, by the same rule, at the middle rate.
- `seeds`: 10,000 steps at the chosen rate, five other seeds, all training images.
- `long`: 50,000 steps of five estimators at these rates, but at most 1e-3, three seeds, two data
  sets; `long-rate` has one seed where the rate is larger, to show what that does.
- `longest`: 200,000 steps at the paper's rate, MNIST, three estimators.
- `table1`: n = 2, 6 and 8 for the estimators of the paper's table 1 at the paper's rate, two seeds.

Runs that the documentation holds (`docs/results/fair/runs.zip`) are taken from there, finished ones
are not run again, a broken one goes on from its checkpoint. `--report` only writes what the
finished runs say.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fair_choices
import fair_figures
import fair_report
import fair_runs
import fair_seconds
import fair_times
from dbsurf_paper.experiments.vae import PRESETS, Options, train
from dbsurf_paper.labels import PAPER_ORDER, dataset_name, estimator_name, file_name
from dbsurf_paper.runs.folder import read_summary
from dbsurf_paper.runs.local_pool import all_results
from fair_choices import Found, lowest
from fair_goals import FORMS, goal_table
from fair_runs import BASELINE
from findings import at_equal_seconds, ends_lowest
from pages import insert, publish, restore, save_csv, save_figure

RUNS, RESULTS, PAGE = Path("runs/fair"), Path("docs/results/fair"), Path("docs/fair.md")
FRONT = (Path("README.md"), Path("docs/index.md"), Path("docs/vae.md"), PAGE)  # the main table
TIMES = RESULTS / "times.csv"
VAE_RUNS = Path("docs/results/vae/runs.csv")  # has n = 4 at the paper's rate
DATASETS = ("mnist", "fashion-mnist", "omniglot")
RATES, TEMPERATURES = (3e-4, 1e-3, 3e-3), (0.25, 0.5, 1.0)
BEYOND_RATES = {3e-4: 1e-4, 3e-3: 1e-2}  # tried too if the best of these is at an end
BEYOND_TEMPERATURES = {0.25: 0.1, 1.0: 2.0}
HELD_OUT, SEED_OF_CHOICE, PAPER_RATE = 5_000, 100, 3e-4
SEEDS, SEEDS_OF_LONG = range(5), range(3)

Do = Callable[[Options], dict[str, Any] | None]  # a run's summary; None if it is not to be had


@dataclass(frozen=True)
class Entrant:
    """An estimator with four evaluations of f a step, unless its n says otherwise."""

    estimator: str
    n: int = 4
    options: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return file_name(self.estimator, self.options)


GUMBEL = Entrant("gumbelsoftmax")
ENTRANTS = (
    Entrant("loorf"),
    Entrant("reinmax"),
    Entrant("quadraticcv", 3),
    Entrant("dbsurf"),
    Entrant("mdsurf"),
    GUMBEL,
    Entrant("rodeo"),
    Entrant("arms"),
    Entrant("spotcheck", 2),
)
#: SpotCheck with more checks. They need no backward pass, so that it takes less time than its
#: evaluations of f would say; it is compared with what others do in that time, on one set only.
MORE_CHECKS, SET_OF_MORE = Entrant("spotcheck", 2, ("checks=6",)), "mnist"
#: Who is compared a second time, with the number of samples whose time is next to that of a form.
IN_TIME = {Entrant("spotcheck", 2): ("loorf",), MORE_CHECKS: ("loorf", "reinmax")}
MOST_SAMPLES = 8  # of those whose step is timed
LONG = ("loorf", "dbsurf", "quadraticcv", "spotcheck", "reinmax")
LONG_RATE = 1e-3  # at most: longer trainings want smaller rates
LONGEST = ("loorf", "dbsurf", "spotcheck")


def entrants(dataset: str) -> tuple[Entrant, ...]:
    """All that is compared: at four evaluations of f, and in as much time as SpotCheck takes.

    (Not with the most samples in at most that time: a hundredth of it, which the clock does not
    tell, would decide.)
    """
    times = fair_runs.read_times(TIMES)
    time = lambda one: times.get(fair_runs.time_name(one.estimator, one.n, one.options))  # noqa: E731
    found = list(ENTRANTS)
    for ours, names in IN_TIME.items():
        wanted = time(ours)
        if wanted is None or (ours == MORE_CHECKS and dataset != SET_OF_MORE):
            continue
        found.append(ours)
        for name in names:
            gaps = {
                one: abs(known - wanted)
                for n in range(4, MOST_SAMPLES + 1)
                if (known := time(one := Entrant(name, n))) is not None
            }
            found += [min(gaps, key=lambda one: gaps[one])] if gaps else []
    return tuple(dict.fromkeys(found))


def timed() -> set[Entrant]:
    """What is timed: all that is compared, or may be."""
    others = {name for names in IN_TIME.values() for name in names}
    samples = {Entrant(name, n) for name in others for n in range(2, MOST_SAMPLES + 1)}
    return {*ENTRANTS, *IN_TIME, *samples}


BASE = replace(PRESETS["laptop"], variance_draws=0, threads=1, resume=True, tensorboard=False)


def run_of(dataset: str, entrant: Entrant, rate: float, seed: int, steps: int) -> Options:
    """One training of the study."""
    name = f"{dataset}-{entrant.label}-n{entrant.n}-lr{rate:g}-{steps}-seed{seed}"
    return replace(
        BASE,
        dataset=dataset,
        estimator=entrant.estimator,
        estimator_options=entrant.options,
        n=entrant.n,
        learning_rate=rate,
        seed=seed,
        steps=steps,
        out=RUNS / name,
    )


def choice_of(dataset: str, entrant: Entrant, rate: float) -> Options:
    """One training to choose by: its "test images" are those that are held out."""
    one = run_of(dataset, entrant, rate, SEED_OF_CHOICE, BASE.steps)
    assert one.out is not None
    held = {"hold_out": HELD_OUT, "final_images": HELD_OUT, "bound_images": 500}
    return replace(one, **held, out=one.out.with_name(f"{one.out.name}-held-out"))


# --- the choice -----------------------------------------------------------------------------------


def tempered(temperature: float) -> Entrant:
    """Gumbel-softmax at a temperature."""
    return replace(GUMBEL, options=(f"temperature={temperature}",))


def tried_temperatures(dataset: str, do: Do) -> Found:
    """The summaries of Gumbel-softmax's choosing runs at the middle rate by temperature."""
    run = lambda one: do(choice_of(dataset, tempered(one), RATES[1]))  # noqa: E731
    return tried(TEMPERATURES, BEYOND_TEMPERATURES, run)


def tried_rates(dataset: str, entrant: Entrant, do: Do) -> Found:
    """The summaries of an estimator's choosing runs by rate."""
    return tried(RATES, BEYOND_RATES, lambda rate: do(choice_of(dataset, entrant, rate)))


def tried(
    values: tuple[float, ...],
    beyond: dict[float, float],
    run: Callable[[float], dict[str, Any] | None],
) -> Found:
    """The runs at all values, and at those beyond as long as the best is at an end."""
    found = {value: run(value) for value in values}
    while (best := lowest(found)) in beyond and beyond[best] not in found:
        found[beyond[best]] = run(beyond[best])
    return found


def chosen(dataset: str, entrant: Entrant, do: Do) -> tuple[Entrant, float] | None:
    """The estimator with its options and its rate, if all that decides is done."""
    if entrant == GUMBEL:
        temperature = lowest(tried_temperatures(dataset, do))
        if temperature is None:
            return None
        entrant = tempered(temperature)
    rate = lowest(tried_rates(dataset, entrant, do))
    return None if rate is None else (entrant, rate)


# --- the stages -----------------------------------------------------------------------------------


def look(options: Options) -> dict[str, Any] | None:
    """The summary of a finished run, without running anything."""
    return read_summary(options.folder())


def choose(dataset: str) -> Iterator[Options]:
    """Those that choose temperatures and rates, as far as finished ones tell which they are."""
    hot = tried_temperatures(dataset, look)
    runs = [choice_of(dataset, tempered(temperature), RATES[1]) for temperature in hot]
    for entrant in with_temperature(dataset):
        runs += [choice_of(dataset, entrant, rate) for rate in tried_rates(dataset, entrant, look)]
    yield from dict.fromkeys(runs)


def with_temperature(dataset: str) -> Iterator[Entrant]:
    """All that is compared, Gumbel-softmax at its temperature, if that is known."""
    for entrant in entrants(dataset):
        if entrant == GUMBEL:
            best = lowest(tried_temperatures(dataset, look))
            if best is None:
                continue
            entrant = tempered(best)
        yield entrant


def seeds(dataset: str) -> Iterator[Options]:
    """Seeds vary slowest: what is stopped early has compared everything with the first."""
    for seed in SEEDS:
        for entrant in entrants(dataset):
            found = chosen(dataset, entrant, look)
            if found is not None:
                yield run_of(dataset, *found, seed, BASE.steps)


def long(dataset: str) -> Iterator[Options]:
    for seed in SEEDS_OF_LONG:
        for entrant, rate in in_long(dataset):
            yield long_run(dataset, entrant, min(rate, LONG_RATE), seed)


def long_rate(dataset: str) -> Iterator[Options]:
    """What rates that are best for 10,000 steps, and larger, do in 50,000: one seed."""
    for entrant, rate in in_long(dataset):
        if rate > LONG_RATE:
            yield long_run(dataset, entrant, rate, SEEDS_OF_LONG[0])


def in_long(dataset: str) -> Iterator[tuple[Entrant, float]]:
    """The estimators of the longer trainings, and their rates for 10,000 steps."""
    for entrant in ENTRANTS:
        found = chosen(dataset, entrant, look) if entrant.estimator in LONG else None
        if found is not None and dataset != "omniglot":
            yield found


def long_run(dataset: str, entrant: Entrant, rate: float, seed: int) -> Options:
    return replace(run_of(dataset, entrant, rate, seed, 50_000), evaluate_every=2_500)


def longest(dataset: str) -> Iterator[Options]:
    for entrant in ENTRANTS:
        if entrant.estimator in LONGEST and dataset == "mnist":
            one = run_of(dataset, entrant, PAPER_RATE, 0, 200_000)
            yield replace(one, evaluate_every=5_000)


def table1(dataset: str) -> Iterator[Options]:
    for seed in range(2):
        for n in (2, 6, 8):
            for name in PAPER_ORDER:
                yield run_of(dataset, Entrant(name, n), PAPER_RATE, seed, BASE.steps)


STAGES = ("times", "choose", "seeds", "long", "long-rate", "longest", "table1")
NUMBERS = tuple(range(2, MOST_SAMPLES + 1))
NAMES = tuple(dict.fromkeys([*(one.estimator for one in ENTRANTS), *PAPER_ORDER]))
PLANS: dict[str, Callable[[str], Iterator[Options]]] = {
    "choose": choose,
    "seeds": seeds,
    "long": long,
    "long-rate": long_rate,
    "longest": longest,
    "table1": table1,
}


def carry_out(stage: str, asked: Callable[[Options], bool], workers: int) -> None:
    """The runs of a stage that are asked for and not finished, so many at a time.

    (A choice may ask for further runs when the first are there.)
    """

    def missing() -> list[Options]:
        runs = (one for dataset in DATASETS for one in PLANS[stage](dataset) if asked(one))
        return [one for one in runs if look(one) is None]

    while runs := missing():
        all_results(train, runs, workers)


def waiting(dataset: str) -> list[Entrant]:
    """The estimators without all runs at their chosen rate."""
    missing = []
    for entrant in entrants(dataset):
        found = chosen(dataset, entrant, look)
        runs = [] if found is None else [run_of(dataset, *found, s, BASE.steps) for s in SEEDS]
        if not runs or any(look(one) is None for one in runs):
            missing.append(entrant)
    return missing


def state(choices: Collection[Options]) -> str:
    """How far the study is on each data set."""
    told = []
    for dataset in DATASETS:
        chosen_runs = sum(look(one) is not None for one in choices if one.dataset == dataset)
        done = sum(look(one) is not None for one in seeds(dataset))
        missing = [run_of(dataset, one, PAPER_RATE, 0, BASE.steps) for one in waiting(dataset)]
        names = ", ".join(estimator_name(fair_runs.series_of(one)) for one in missing)
        told.append(
            f"- {dataset_name(dataset)}: {chosen_runs} that choose rates, {done} at these rates"
            f"{f'; not all there: {names}' if names else ''}."
        )
    if any(map(waiting, DATASETS)):
        told.append(
            "\n**The study is under way.** Goals are judged by estimators with all five seeds."
        )
    return "\n".join(["Finished runs of 10,000 steps:\n", *told])


def rates_tried(dataset: str) -> dict[str, Found]:
    """The summaries of the choosing runs by estimator and rate, as far as tried."""
    return {
        fair_runs.series_of(choice_of(dataset, entrant, RATES[0])): tried_rates(
            dataset, entrant, look
        )
        for entrant in with_temperature(dataset)
    }


def report() -> None:
    """Tables and figures from the finished runs."""
    times = fair_runs.read_times(TIMES)
    tried = {dataset: rates_tried(dataset) for dataset in DATASETS}
    runs = {stage: [one for d in DATASETS for one in plan(d)] for stage, plan in PLANS.items()}
    short, fifty, larger, farthest = (
        fair_runs.trained(runs[stage]) for stage in ("seeds", "long", "long-rate", "longest")
    )
    whole = [one for one in short if len(one.summaries) == len(SEEDS)]
    longer = [one for one in fifty if len(one.summaries) == len(SEEDS_OF_LONG)]
    to_come = {
        dataset: [run_of(dataset, one, PAPER_RATE, 0, BASE.steps) for one in waiting(dataset)]
        for dataset in DATASETS
    }
    reaches = (
        fair_seconds.reach_table([x for x in short if x.dataset == d], times) for d in DATASETS
    )
    late = fair_report.along_table, lambda own: fair_seconds.reach_table(own, times)
    leads = (fair_report.along_table([x for x in short if x.dataset == d]) for d in DATASETS)
    parts = {
        "choices": fair_report.texts(
            *(fair_choices.choice_table(dataset, own) for dataset, own in tried.items()),
            fair_choices.other_rates(tried),
        ),
        "results": fair_report.texts(*fair_report.results(short, times)),
        "differences": fair_report.texts(
            *fair_report.differences(short, BASELINE, *FORMS),
            fair_report.disputed_table(short, (BASELINE, *FORMS)),
        ),
        "equal time": fair_report.texts(
            *(fair_seconds.seconds_table(short, name, times) for name in (BASELINE, *FORMS))
        ),
        "reaching": fair_report.texts(*reaches, *leads),
        "longer": fair_report.texts(
            *fair_report.results(
                fifty, times, f"every estimator at its best rate, at most {LONG_RATE:g}"
            ),
            fair_report.rate_table(fifty, larger),
            *fair_report.differences(fifty, BASELINE, FORMS[0]),
            fair_report.disputed_table(fifty, (BASELINE, FORMS[0])),
            *(make([x for x in fifty if x.dataset == d]) for d in DATASETS for make in late),
        ),
        "longest": fair_report.texts(
            *fair_report.results(farthest, times, "all at the paper's rate, one seed"),
            fair_seconds.reach_table(farthest, times, "at the paper's rate"),
        ),
        "goals": fair_report.texts(goal_table(to_come, whole, longer, times)),
        "table 1": fair_report.texts(fair_report.table_1(runs["table1"], VAE_RUNS)),
        "revisions": fair_runs.revisions([one for own in runs.values() for one in own]),
        "state": state(runs["choose"]),
    }
    for name, text in parts.items():
        insert(PAGE, name, text)
    for page in FRONT:
        insert(page, "fair", fair_report.texts(fair_report.front_table(whole, times)))
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
    parser.add_argument("--report", action="store_true", help="run nothing")
    given = parser.parse_args()
    restore(RESULTS / "runs.zip", RUNS)
    if not given.report:
        if "times" in given.stage:
            forms = [(one.estimator, one.n, one.options) for one in timed()]
            save_csv(fair_times.milliseconds(forms, BASE.batch), TIMES)
        for stage in (one for one in given.stage if one != "times"):
            carry_out(
                stage,
                lambda one: (
                    one.dataset in given.dataset
                    and one.estimator in given.estimator
                    and one.n in given.n
                ),
                given.workers,
            )
    report()
