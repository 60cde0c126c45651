"""The fair study: its plan, its choices, its tables and its goals."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import differences
import fair_choices
import fair_plan as plan
import fair_report
import fair_runs
import fair_seconds
import fair_table1
import fair_times
from dbsurf_paper.commands.parsing import parse
from handmade import vae_run
from study_page import study

ROOT = Path(__file__).parents[2]


@pytest.fixture
def module(page: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The study, with its runs, times and results beside the page."""
    found = study("fair_study", page, monkeypatch)
    monkeypatch.setattr(found, "FRONT", (page,))
    monkeypatch.setattr(plan, "RUNS", page.parent / "runs")
    monkeypatch.setattr(plan, "TIMES", found.RESULTS / "times.csv")
    found.RESULTS.mkdir()
    return found


def write_times(times: dict[str, float]) -> None:
    """The milliseconds of a step by estimator and n."""
    table = pd.DataFrame({"estimator": times.keys(), "milliseconds": times.values()})
    table.assign(processor=fair_runs.PROCESSOR).to_csv(plan.TIMES, index=False)


def fair_run(options, elbo: float) -> None:
    """A finished run of the fair study."""
    chosen = {**options.config(), "out": options.out}
    folder = vae_run(options.out.parent, elbo, **chosen)
    assert folder == options.folder()


def test_the_fair_study(module, page, monkeypatch):
    monkeypatch.setattr(plan, "ENTRANTS", (plan.Entrant("loorf"), plan.Entrant("arms")))
    levels = {("loorf", 3e-4): 130.0, ("loorf", 1e-3): 119.0, ("loorf", 3e-3): 122.0}
    levels |= {("arms", 3e-4): 128.0, ("arms", 1e-3): 118.3, ("arms", 3e-3): 118.0}
    asked = []

    def do(options):
        asked.append(options.learning_rate)
        level = levels.get((options.estimator, options.learning_rate), 150.0)
        fair_run(options, level)
        return plan.look(options)

    for entrant in plan.entrants():
        plan.chosen("mnist", entrant, do)
    assert asked == [3e-4, 1e-3, 3e-3, 3e-4, 1e-3, 3e-3, 1e-2]  # one beyond where the end is best
    planned = list(plan.seeds("mnist"))
    assert [one.learning_rate for one in planned] == [1e-3, 3e-3] * 5
    assert {one.hold_out for one in planned} == {None}
    for one in planned[:4]:
        level = {"loorf": 118.0 + one.seed, "arms": 116.0 + 2 * one.seed}[one.estimator]
        fair_run(one, level)
    write_times({"loorf n=4": 5.0, "arms n=4": 10.0})
    module.report()
    text = page.read_text()
    assert "by processor" not in text
    assert "| ARMS-D | 129.00 | 119.30 | **119.00** | 151.00 |" in text
    assert "| ARMS-D | 4 | 0.003 | 2 | **117.00 ± 1.00** |" in text
    assert "| 10.0 |" in text
    assert "| ARMS-D | none | -1.50 (-7.85 to +4.85) |" in text
    assert "correction over the 1 comparisons" in text
    assert "| ARMS-D | 0.93 | 1.85 (" in text  # fewer steps, of twice the time
    assert "| ARMS-D | +8.50 (+2.15 to +14.85) |" in text  # at half its steps, LOORF at its end
    assert (
        "| MNIST | rate of ARMS-D | 0.003 | 0.001 | +0.30 | +0.30 | +0.30 |" in text
    )  # a close choice
    assert "rate of LOORF" not in text
    assert "- 11 runs: revision abc1234, torch 2.13.0" in text
    assert "- MNIST: 7 that choose rates, 4 at these rates; not all there: LOORF, ARMS-D." in text
    assert "under way" in text
    others = pd.DataFrame({"estimator": ["loorf n=4", "arms n=4"], "milliseconds": [4.0, 5.0]})
    others = fair_times.beside(plan.TIMES, others.assign(processor="Another"))
    assert len(fair_times.beside(plan.TIMES, others)) == len(others) == 4  # measured anew
    others.to_csv(plan.TIMES, index=False)
    both = fair_runs.times_by_processor(plan.TIMES)
    table = fair_seconds.processor_table(fair_runs.trained(planned), both)
    assert table.titles[1::2] == ("step, AMD EPYC", "step, Another")
    (row,) = table.rows
    assert [cell.text for cell in row.cells] == ["ARMS-D", "2.00", "1.85", "1.25", "1.16"]
    module.report()
    text = page.read_text()
    assert "| ARMS-D | 0.93 | 1.85 (" in text  # by the study's processor
    options = plan.run_of("mnist", plan.Entrant("loorf"), 3e-4, 0, 200_000)
    fair_run(replace(options, evaluate_every=5_000), 99.0)
    for name in ("arms", "loorf"):
        fair_run(plan.run_of("mnist", plan.Entrant(name, 2), 3e-4, 0, 10_000), 140.0)
    module.report()
    text = page.read_text()
    assert "(results/fair/longest.png)" in text
    assert "| MNIST | 2 | here | – | – | **140.00** | – | **140.00** |" in text
    assert "| paper | **99.20 ± 0.16** | 100.31 ± 0.19 |" in text
    assert (page.parent / "results" / "figure1-upper.png").exists()
    assert "200,000 steps, all at the paper's rate, one seed: mean" in text
    rows = pd.read_csv(page.parent / "results" / "runs.csv")
    assert dict(rows.stage.value_counts()) == {"choose": 7, "seeds": 4, "table1": 2, "longest": 1}
    assert set(rows.revision) == {"abc1234"}
    assert rows.command.iloc[-3] == (
        "dbsurf vae --dataset mnist --estimator loorf --steps 200000 --evaluate-every 5000 "
        "--variance-draws 0 --threads 1"
    )


def ending_at(estimator: str, values: list[float]):
    """Runs of the fair study that end at these values, on a line from 200."""
    options = plan.run_of("mnist", plan.Entrant(estimator), 1e-3, 0, 10_000)
    summaries = {seed: dict.fromkeys(fair_runs.MEASURED, x) for seed, x in enumerate(values)}
    steps = np.array([0.0, 10_000.0])
    levels = {seed: np.array([200.0, x]) for seed, x in enumerate(values)}
    return fair_runs.Trained("mnist", estimator, options, summaries, steps, levels)


def test_verdicts_that_depend_on_the_test():
    loorf = ending_at("loorf", [100.0, 101.0, 102.0, 103.0])
    near = ending_at("mdsurf", [99.5, 100.4, 101.5, 102.6])  # paired: -.5, hardly a spread
    far = ending_at("arms", [80.0, 81.0, 80.5, 81.5])
    rows = {
        row.series: row for row in differences.compared([loorf, near, far], "loorf", "test_bound")
    }
    assert list(rows) == ["arms", "mdsurf"]
    assert rows["mdsurf"].disputed
    assert rows["mdsurf"].p < 0.05 < rows["mdsurf"].pooled_p
    assert not rows["arms"].disputed
    assert rows["arms"].pooled.value == pytest.approx(-20.75)
    table = differences.disputed_table([loorf, near, far], ("loorf", "mdsurf"))
    assert [row.cells[0].text for row in table.rows] == ["MDsurf minus LOORF"] * 2


def test_the_main_table_marks_what_is_not_significant():
    loorf = ending_at("loorf", [100.0, 101.0, 102.0, 103.0])
    near = ending_at("mdsurf", [99.5, 100.4, 101.5, 102.6])
    noisy = ending_at("arms", [90.0, 104.0, 95.0, 103.0])
    table, notes = fair_report.front([loorf, near, noisy], {})
    cells = {row.cells[0].text: [cell.text for cell in row.cells] for row in table.rows}
    assert (cells["MDsurf"][3], cells["ARMS-D"][3]) == ("-0.5", "-3.5°")
    assert (cells["MDsurf"][5], cells["ARMS-D"][5]) == ("-0.5", "-3.5°")  # by the bound
    assert "over the 2 comparisons" in notes.items[2]
    assert notes.items[-1] == "Learning rates: MNIST 0.001."
    assert fair_report.front([loorf], {}) == []


def test_temperatures_among_the_choices():
    levels = {0.25: (100.0, 105.0), 0.5: (100.4, 103.0), 1.0: (110.0, 108.0)}
    found = {
        value: dict.fromkeys(fair_choices.SHOWN, elbo) | {"test_bound": bound}
        for value, (elbo, bound) in levels.items()
    }
    (row,) = fair_choices.temperature_table({"mnist": found}).rows
    assert [cell.best for cell in row.cells] == [False, True, False, False]
    close = fair_choices.other_choices({"mnist": {"temperature of Gumbel-softmax": found}})
    (row,) = close.rows  # 1 is worse by every measure
    assert [cell.text for cell in row.cells[2:4]] == ["0.25", "0.5"]
    assert [cell.best for cell in row.cells[4:]] == [False, False, True]


def test_seconds_until_the_last_value_of_another():
    base = ending_at("loorf", [120.0, 120.0, 120.0])
    times = {"loorf n=4": 10.0, "arms n=4": 15.0}
    sooner = ending_at("arms", [100.0, 100.0, 100.0])
    reach = fair_seconds.reach_of(sooner, base, times)
    assert (reach.steps, reach.seconds) == (pytest.approx(0.8), pytest.approx(1.2))
    assert reach.cell().note == ""  # all seeds are alike
    spread = fair_seconds.reach_of(ending_at("arms", [90.0, 100.0, 110.0]), base, times)
    assert spread.steps == pytest.approx(0.8)
    # Leaving one out: 80 / 95, 80 / 100, 80 / 105.
    parts = 80 / np.array([95.0, 100.0, 105.0])
    error = 4.3027 * np.sqrt(2 / 3 * np.square(parts - parts.mean()).sum())
    assert spread.latest == pytest.approx(1.5 * (0.8 + error), rel=1e-4)
    never = fair_seconds.reach_of(ending_at("arms", [130.0] * 3), base, times)
    assert never.steps is None
    assert never.cell().text == "–"
    gap = fair_seconds.gap_in_time(sooner, base, times)  # after two thirds of its steps
    assert gap.value == pytest.approx(200 - 100 * 2 / 3 - 120)


def test_rows_of_table_1_together():
    own = {"dbsurf": [100.0, 101.0], "doublecv": [101.0, 103.0], "arms": [100.0, 101.5]}
    own |= {"disarm": [100.5, 101.0], "loorf": [103.0, 103.0]}
    other = {name: [value + 100 for value in values] for name, values in own.items()}
    other["arms"] = [199.0, 199.5]
    missing = {name: own[name] for name in ("dbsurf", "loorf")}
    found = {("mnist", 2): own, ("omniglot", 2): other, ("mnist", 6): missing}
    table = fair_table1.gap_table(found)
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    assert [row[0] for row in rows[::2]] == [
        "n = 2",
        "MNIST",
        "Omniglot",
        "all",
        "all, as a sample",
    ]
    two, paper, everything, sample = rows[0], rows[1], rows[6], rows[8]
    assert two[:3] == ["n = 2", "2", "here"]  # six samples are not all there
    assert everything[3:] == two[3:]
    assert sample[6] == "-2.50"  # the two rows have the same difference
    assert sample[4] == f"+0.50 ({0.5 - 12.706 * 0.75:+.2f} to {0.5 + 12.706 * 0.75:+.2f})"
    # Squared deviations from the means: .5, 2, 1.125, .125, 0 and .5, 2, .125, .125, 0.
    error = np.sqrt(6.5 / 10 / 2)
    reach = 2.2281 * np.sqrt(4 * error**2) / 2
    assert two[4] == f"+0.50 ({0.5 - reach:+.2f} to {0.5 + reach:+.2f})"
    assert two[6] == f"-2.50 ({-2.5 - reach:+.2f} to {-2.5 + reach:+.2f})"
    assert [cell.best for cell in table.rows[0].cells[3:]] == [True, False, False, True]
    # 99.20 ± .16 minus 100.56 ± .22, and 114.47 ± .08 minus 114.83 ± .16.
    reach = 1.96 * np.sqrt(0.16**2 + 0.22**2 + 0.08**2 + 0.16**2) / 2
    assert paper[6] == f"-0.86 ({-0.86 - reach:+.2f} to {-0.86 + reach:+.2f})"
    assert fair_table1.gap_table({("mnist", 6): missing}) is None
    bound = fair_table1.gap_table(found, fair_table1.BOUND)
    assert {row.cells[2].text for row in bound.rows} == {"here"}  # the paper has no such bound


def test_commands_of_the_fair_study_repeat_its_runs():
    rows = pd.read_csv(ROOT / "docs/results/fair/runs.csv")
    assert rows.command.is_unique
    for row in rows.itertuples():
        _, options = parse(shlex.split(row.command)[1:])
        found = (options.dataset, options.n, options.learning_rate, options.steps, options.seed)
        assert found == (row.dataset, row.n, row.learning_rate, row.steps, row.seed)
        assert (options.hold_out is None) == (row.stage != "choose")
        assert row.estimator.startswith(options.estimator)
        assert options.threads == 1


def test_a_temperature_at_an_end_is_followed_by_the_next(module):
    asked = []

    def do(options):
        if plan.look(options) is None:
            (word,) = options.estimator_options
            asked.append((word, options.learning_rate))
            fair_run(options, 110.0 + float(word.partition("=")[2]))
        return plan.look(options)

    entrant, _ = plan.chosen("mnist", plan.GUMBEL, do)
    assert asked[:4] == [(f"temperature={one}", 1e-3) for one in (0.25, 0.5, 1.0, 0.1)]
    assert entrant.options == ("temperature=0.1",)  # nothing below that is tried
    assert {word for word, _ in asked[4:]} == {"temperature=0.1"}


def test_choosing_goes_on_until_no_further_run_is_asked_for(module, monkeypatch):
    monkeypatch.setattr(plan, "ENTRANTS", (plan.Entrant("arms"), plan.GUMBEL))
    rounds = []

    def together(fn, runs, workers):
        rounds.append([(one.estimator, one.learning_rate) for one in runs])
        for one in runs:
            words = one.estimator_options or ("temperature=0.5",)
            middle = abs(float(words[0].partition("=")[2]) - 0.5)
            fair_run(one, 110.0 - 100 * one.learning_rate + middle)

    monkeypatch.setattr(module, "all_results", together)
    module.carry_out("choose", lambda one: one.dataset == "mnist", 2)
    assert rounds == [
        [("gumbelsoftmax", 1e-3)] * 3 + [("arms", 3e-4), ("arms", 1e-3), ("arms", 3e-3)],
        [("arms", 1e-2), ("gumbelsoftmax", 3e-4), ("gumbelsoftmax", 3e-3)],
        [("gumbelsoftmax", 1e-2)],
    ]


def test_goals_of_the_fair_study(module, page, monkeypatch):
    Entrant = plan.Entrant
    ours = Entrant("spotcheck", 2)
    monkeypatch.setattr(plan, "ENTRANTS", (Entrant("loorf"), Entrant("reinmax"), ours))
    assert plan.entrants() == plan.ENTRANTS  # nothing is known of times
    times = {"loorf n=4": 10.0, "loorf n=5": 13.0, "loorf n=6": 15.0}
    for time, others in ((9.0, ()), (11.0, ()), (12.9, (Entrant("loorf", 5),))):
        write_times({**times, "spotcheck n=2": time})
        assert plan.entrants() == (*plan.ENTRANTS, *others)

    def do(options):
        if plan.look(options) is None:
            fair_run(options, 120.0 + (options.learning_rate != 1e-3))
        return plan.look(options)

    def train_all(levels):
        for entrant in plan.entrants():
            plan.chosen("mnist", entrant, do)
        for one in plan.seeds("mnist"):
            noise = 0.1 * (one.seed % 2 if one.estimator == "spotcheck" else 0)
            level = levels[one.estimator, one.n]
            if plan.look(one) is None and level is not None:
                fair_run(one, level + noise - 3 * len(one.estimator_options))

    levels = {("loorf", 4): 119.0, ("loorf", 5): 117.0, ("loorf", 6): 116.0}
    levels |= {("reinmax", 4): 113.0, ("reinmax", 5): 111.0, ("spotcheck", 2): 112.0}
    train_all(levels)
    module.report()
    text = page.read_text()
    assert "- MNIST: 12 that choose rates, 20 at these rates." in text
    assert "| LOORF n=5 | 5 | 0.001 | 5 |" in text
    assert "from LOORF n=5** | – | – |" in text  # the nearest of the unbiased ones
    assert "| SpotCheck: at most 0.5 nats above ReinMax | **met: -0.96 (" in text
    assert "within 0.5 of LOORF's seconds, AMD EPYC | " in text
    assert "| SpotCheck | none | 1.29 | -7.0 (-7.0 to -6.9) |" in text
    assert "| SpotCheck: below ReinMax by the test bound after 50,000 steps | – | – | – |" in text
    assert "to come" not in text
    assert "SpotCheck checks=6" not in text
    monkeypatch.setattr(plan, "ENTRANTS", (*plan.ENTRANTS, Entrant("mdsurf")))
    module.report()
    assert "| so far met: " in page.read_text()
    assert "from LOORF n=5; MDsurf to come | – | – |" in page.read_text()
    # With more checks, the others have as much time; the other form of SpotCheck is no rival.
    monkeypatch.setattr(plan, "ENTRANTS", plan.ENTRANTS[:-1])
    more = {"spotcheck checks=6 n=2": 15.2, "reinmax n=4": 11.0, "reinmax n=5": 14.0}
    write_times({**times, "spotcheck n=2": 12.9, **more})
    in_time = (plan.MORE_CHECKS, Entrant("loorf", 6), Entrant("reinmax", 5))
    assert plan.entrants() == (*plan.ENTRANTS, Entrant("loorf", 5), *in_time)
    assert plan.timed() >= {*plan.entrants(), Entrant("reinmax", 8)}
    train_all({**levels, ("reinmax", 5): None})  # all but that one
    module.report()
    text = page.read_text()
    with_more = "| SpotCheck checks=6: at most 0.5 nats above ReinMax | so far met: -3.96 ("
    assert with_more in text
    assert "ReinMax n=5 to come | – | – |" in text
    train_all(levels)
    module.report()
    text = page.read_text()
    assert "| SpotCheck checks=6 | 8 | 0.001 | 5 |" in text
    assert "| SpotCheck: at most 0.5 nats above ReinMax | **met: -0.96 (" in text
    assert "| SpotCheck | none | 1.29 | -7.0 (-7.0 to -6.9) |" in text
    assert "from LOORF n=6** | – | – |" in text
    with_more = "| SpotCheck checks=6: at most 0.5 nats above ReinMax | **met: -1.96 ("
    assert with_more in text
    assert "from ReinMax n=5** | – | – |" in text
    for one in plan.long("mnist"):
        assert (one.steps, one.evaluate_every) == (50_000, 2_500)
        lead = {"loorf": 0.0, "reinmax": 2.0, "spotcheck": 1.5 + 0.1 * one.seed}[one.estimator]
        fair_run(one, 105.0 - lead)
    module.report()
    text = page.read_text()
    behind = "| SpotCheck: below ReinMax by the test bound after 50,000 steps | missed: +0.40 ("
    assert behind in text
    assert "| Estimator | 25,000 | 50,000 |" in text
    assert "| SpotCheck | -1.60 (-1.85 to -1.35) | -1.60 (-1.85 to -1.35) |" in text
    assert "after 50,000 steps (105.00). Both are divided" in text
    assert "(results/fair/seconds-long.png)" in text
    assert "best for 10,000 steps, seed 0" not in text
    assert not list(plan.long_rate("mnist"))
    monkeypatch.setattr(plan, "LONG_RATE", 5e-4)
    (smaller,) = [x for x in plan.long("mnist") if (x.estimator, x.seed) == ("reinmax", 0)]
    fair_run(smaller, 100.5)
    module.report()
    text = page.read_text()
    assert "| MNIST | ReinMax | 0.0005 | 100.50 | 101.50 | 95.50 | 96.50 |" in text
    assert "| MNIST | ReinMax | 0.001 | 103.00 | 104.00 | 98.00 | 99.00 |" in text
