"""What the fair study trains: who is compared, at which rates, in which stages.

Every stage is a function from a data set to its runs, as far as the finished ones tell which they
are: the rate of a comparison is known when the runs that choose it are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fair_runs
from dbsurf_paper.experiments.vae import PRESETS, Options
from dbsurf_paper.labels import PAPER_ORDER, file_name
from dbsurf_paper.runs.folder import read_summary
from fair_choices import Found, lowest

RUNS, TIMES = Path("runs/fair"), Path("docs/results/fair/times.csv")
DATASETS = ("mnist", "fashion-mnist", "omniglot")
RATES, TEMPERATURES = (3e-4, 1e-3, 3e-3), (0.25, 0.5, 1.0)
BEYOND_RATES = {3e-4: 1e-4, 3e-3: 1e-2}  # tried too if the best of these is at an end
BEYOND_TEMPERATURES = {0.25: 0.1, 1.0: 2.0}
HELD_OUT, SEED_OF_CHOICE, PAPER_RATE = 5_000, 100, 3e-4
SEEDS, SEEDS_OF_LONG = range(5), range(3)

Do = Callable[[Options], dict[str, Any] | None]  # a run's summary; None if it is not finished


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
#: evaluations of f would say; it is compared with what others do in that time.
MORE_CHECKS = Entrant("spotcheck", 2, ("checks=6",))
#: Who is compared a second time, with the number of samples whose time is next to that of a form.
IN_TIME = {Entrant("spotcheck", 2): ("loorf",), MORE_CHECKS: ("loorf", "reinmax")}
MOST_SAMPLES = 8  # of those whose step is timed
LONG = ("loorf", "dbsurf", "quadraticcv", "spotcheck", "reinmax")
#: Trained longer, too, on one set: it was added when the results of the others were known.
LATER, SET_OF_LATER = "gumbelsoftmax", "mnist"
LONG_RATE = 1e-3  # at most: longer trainings want smaller rates
LONGEST = ("loorf", "dbsurf", "spotcheck")


def entrants() -> tuple[Entrant, ...]:
    """All that is compared: at four evaluations of f, and in as much time as SpotCheck takes.

    The nearest time is taken, not the longest below it: times are not known to a hundredth, which
    could then change the choice.
    """
    times = fair_runs.read_times(TIMES)
    time = lambda one: times.get(fair_runs.time_name(one.estimator, one.n, one.options))  # noqa: E731
    found = list(ENTRANTS)
    for ours, names in IN_TIME.items():
        wanted = time(ours)
        if wanted is None:
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
    for entrant in entrants():
        if entrant == GUMBEL:
            best = lowest(tried_temperatures(dataset, look))
            if best is None:
                continue
            entrant = tempered(best)
        yield entrant


def seeds(dataset: str) -> Iterator[Options]:
    """Seeds vary slowest: what is stopped early has compared everything with the first."""
    for seed in SEEDS:
        for entrant in entrants():
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
        if rate > LONG_RATE and entrant.estimator in LONG:
            yield long_run(dataset, entrant, rate, SEEDS_OF_LONG[0])


def in_long(dataset: str) -> Iterator[tuple[Entrant, float]]:
    """The estimators of the longer trainings, and their rates for 10,000 steps."""
    names = () if dataset == "omniglot" else LONG
    if dataset == SET_OF_LATER:
        names += (LATER,)
    for entrant in ENTRANTS:
        found = chosen(dataset, entrant, look) if entrant.estimator in names else None
        if found is not None:
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


PLANS: dict[str, Callable[[str], Iterator[Options]]] = {
    "choose": choose,
    "seeds": seeds,
    "long": long,
    "long-rate": long_rate,
    "longest": longest,
    "table1": table1,
}


# --- how far it is --------------------------------------------------------------------------------


def waiting(dataset: str) -> list[Options]:
    """The estimators without all runs at their chosen rate, each as a run at the paper's."""
    missing = []
    for entrant in entrants():
        found = chosen(dataset, entrant, look)
        runs = [] if found is None else [run_of(dataset, *found, s, BASE.steps) for s in SEEDS]
        if not runs or any(look(one) is None for one in runs):
            missing.append(run_of(dataset, entrant, PAPER_RATE, 0, BASE.steps))
    return missing


def rates_tried(dataset: str) -> dict[str, Found]:
    """The summaries of the choosing runs by estimator and rate, as far as tried."""
    return {
        fair_runs.series_of(choice_of(dataset, entrant, RATES[0])): tried_rates(
            dataset, entrant, look
        )
        for entrant in with_temperature(dataset)
    }
