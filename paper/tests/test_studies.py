"""The studies in paper/studies write what the report computes into the documentation's pages."""

from __future__ import annotations

import csv
import importlib
import itertools
import json
import shlex
import shutil
import sys
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd
import pytest
import torch

import archived
import bias
import convert
import findings
import league_tables
import pages
import reliability
import residual
import summary_figure
from dbsurf_paper.commands.parsing import parse
from dbsurf_paper.experiments.nas.landscape import Table, synthetic_columns
from dbsurf_paper.experiments.nas.supernet.methods import METHODS
from dbsurf_paper.report.document import Chart, Line, Panel
from dbsurf_paper.runs.checkpoint import refuse_other_config
from dbsurf_paper.runs.folder import read_summary
from dbsurf_paper.runs.records import read_metrics, write_metrics
from dbsurf_paper.runs.sealed import read_sealed, sha256, write_sealed
from handmade import changed, league_run, nas_run, vae_run
from storm.results import Result
from storm.tally import Tally, summary
from study_page import study

ROOT = Path(__file__).parents[2]


def test_the_vae_study(page, monkeypatch):
    module = study("vae_study", page, monkeypatch)
    assert len(module.plan()) == 162
    for estimator, seed, elbo in (
        ("loorf", 0, 101.0),
        ("loorf", 1, 103.0),
        ("dbsurf", 0, 99.5),
        ("dbsurf", 1, 99.5),
        ("rodeo", 0, 100.25),  # not in table 1
    ):
        options = {"dataset": "mnist", "estimator": estimator, "seed": seed}
        folder = vae_run(page.parent / "runs", elbo, **options)
        folder.rename(f"{folder}-10000")  # where the study looks for it
    for estimator, elbo in (("loorf", 120.0), ("mdsurf", 121.5)):
        vae_run(page.parent / "runs" / "20x10", elbo, estimator=estimator, latent_classes=10)
    (page.parent / "results").mkdir()
    module.report()
    text = page.read_text()
    assert "102.00 ± 1.00" in text
    assert "**99.50 ± 0.00**" in text
    assert "98.66 ± 0.25" in text  # the paper's
    assert "(run" not in text  # numbers of runs belong to a report, which has their list
    assert "| Runs |" not in text
    assert "| RODEO | 100.25 |\n| LOORF | 102.00 ± 1.00 |" in text  # for choose.md
    assert "| DBsurf | 4 | 2 | -2.50 ± 1.00 | -2.50 ± 1.00 |" in text  # of -1.5 and -3.5
    assert "| RODEO | 4 | 1 | -0.75 | -0.75 |" in text
    assert "| DBsurf | some | -2.50 (-15.21 to +10.21) |" in text
    assert "Minus DBsurf (bound, test) after 10,000 steps" in text
    assert "| LOORF | 4 | 2 | +0.00 | +0.00 |" in text
    assert "| MDsurf | 4 | 1 | +1.50 | +1.50 |" in text
    assert "Finished runs behind the tables: 7 of 162. 7 of these 7 runs name the revision" in text
    results = page.parent / "results"
    assert (results / "figure1.png").read_bytes()[:4] == b"\x89PNG"
    runs = pd.read_csv(results / "runs.csv")
    elbo = runs[runs["measure"] == "train_negative_elbo"]["value"]
    assert sorted(elbo) == [99.5, 99.5, 100.25, 101.0, 103.0, 120.0, 121.5]
    assert set(runs["revision"]) == {"abc1234"}
    curves = pd.read_csv(results / "curves.csv")
    assert set(curves["series"]) == {"loorf", "dbsurf"}
    shutil.rmtree(page.parent / "runs")  # what is published is enough to go on from
    module.restore(results / "runs.zip", page.parent / "runs")
    before = (results / "runs.zip").read_bytes()
    module.report()
    assert (results / "runs.zip").read_bytes() == before
    assert "102.00 ± 1.00" in page.read_text()
    table = pd.read_csv(results / "table1.csv").set_index("estimator")
    row = table.loc["loorf"]
    assert (row.seeds, row.train_negative_elbo, row.train_negative_elbo_error) == (2, 102.0, 1.0)


def test_the_titles_of_figures_are_computed():
    """Each sentence on a chart of a few points, and on one that has nothing to say."""

    def chart(*panels: dict[str, tuple[float, ...]], x: tuple[float, ...] = (1, 4)) -> Chart:
        drawn = (tuple(Line(name, x[: len(y)], y) for name, y in panel.items()) for panel in panels)
        return Chart("c", "", tuple(Panel("", "x", "y", lines) for lines in drawn))

    first = {"loorf": (9.0, 5.0), "dbsurf": (9.0, 4.5), "quadraticcv": (9.0, 3.0)}
    second = {"loorf": (9.0, 6.0), "dbsurf": (9.0, 6.25), "quadraticcv": (9.0, 5.0)}
    both = chart(first, second)
    assert findings.ends_lowest(both) == (
        "After 4 steps QuadraticCV is 1.0 to 2.0 nats below LOORF, DBsurf -0.2 to 0.5"
    )
    assert findings.ends_lowest(chart({"loorf": (2.0, 1.0), "dbsurf": (2.0, 0.5)})) == (
        "After 4 steps DBsurf is 0.5 nats below LOORF"
    )
    assert findings.at_equal_seconds(both) == (
        "In the time that LOORF takes, QuadraticCV, the best on average, ends 2.0 and 1.0 nats "
        "below it"
    )
    mixed = chart(
        {"loorf": (9.0, 5.0), "arms": (9.0, 3.0)}, {"loorf": (9.0, 5.0), "arms": (9.0, 6.0)}
    )
    assert findings.at_equal_seconds(mixed).endswith("ends 2.0 below and 1.0 above it, in nats")
    assert findings.below_zero(chart({"dbsurf": (-0.5, -0.25), "arms": (-0.1, 0.2)})) == (
        "The lead of DBsurf over LOORF is at most 0.5 nats, and 0.2 at the end"
    )
    assert findings.lowest_at_four(chart(first, second, {"dbsurf": (1.0, 2.0)})) == (
        "With four evaluations of f QuadraticCV has the lowest variance in 2 of the 2 problems "
        "with more than one line"
    )
    accuracies = {"dbsurf": (90.0, 93.5), "loorf": (90.0, 93.4), "darts": (90.0, 94.0)}
    assert findings.ends_highest(chart(accuracies)) == (
        "DARTS ends highest, at 94.0 %; DBsurf at 93.5 %, LOORF at 93.4 %"
    )
    assert findings.most_decided(chart({**first, "uniform": (1.0, 0.0)}, second)) == (
        "QuadraticCV decides most (mean entropy 4.0 nats at the end), LOORF least (5.5)"
    )
    rows = [("dbsurf", 93.0), ("loorf", 93.25), ("evolution", 94.0)]
    table = pd.DataFrame(rows, columns=["estimator", "test_200"])
    table = table.assign(dataset="cifar10", distinct_queries=100)
    assert findings.after_cells(table) == (
        "After 100 distinct cells evolution is highest on average; DBsurf and LOORF differ by at "
        "most 0.25 points"
    )
    silent = (findings.ends_lowest, findings.at_equal_seconds, findings.below_zero)
    silent += (findings.lowest_at_four, findings.ends_highest, findings.most_decided)
    assert {sentence(chart()) for sentence in silent} == {""}
    assert findings.after_cells(table.assign(distinct_queries=99)) == ""


def test_the_table_search_study(page, monkeypatch):
    module = study("nas_table_study", page, monkeypatch)
    runs = page.parent / "runs"
    for place, estimator in (("search", "dbsurf"), ("same-rate", "loorf"), ("tuning", "dbsurf")):
        for dataset, accuracy in (("cifar10", 94.0), ("cifar100", 73.0), ("imagenet16-120", 46.0)):
            tests = [accuracy, accuracy + 0.2]
            folder = nas_run(
                runs / place, tests, "NAS-Bench-201", dataset=dataset, estimator=estimator
            )
            numbers = {"val_12": 60.0, "test_200": accuracy + 0.1, "test_200_error": 0.1}
            found = [{**cell, "best_reached": 50} for cell in read_summary(folder)["found"]]
            changed(folder, by_choice={"best": numbers}, distinct_queries=105.0, found=found)
    tuning = {"method": "dbsurf", "setting": "0.1", "val_12": 60.0, "distinct_queries": 100}
    rows = [{"dataset": name, **tuning, "chosen": True} for name in module.DATASETS]
    pd.DataFrame(rows).to_csv(runs / "tuning.csv", index=False)
    module.report()
    text = page.read_text()
    assert "94.10 ± 0.10" in text  # table 2
    assert "94.100 ± 0.100" in text  # choices
    assert "50 (100 %)" in text  # reach
    assert "old" not in text.split("<!-- choices -->")[1].split("<!-- end of choices")[0]
    results = page.parent / "results"
    assert (results / "table-search.png").read_bytes()[:4] == b"\x89PNG"
    assert set(pd.read_csv(results / "table-search-curves.csv")["series"]) == {"dbsurf"}
    assert len(pd.read_csv(results / "table-search-table2.csv")) >= 11


def test_the_supernet_study_compares_all_methods_on_a_seed_before_the_next(page, monkeypatch):
    module = study("supernet_study", page, monkeypatch)
    runs = module.runs()
    assert len(runs) == 33
    assert {module.key(run) for run in runs[:11]} == {"dbsurf", "loorf", *METHODS} - {"sampled"}
    assert [run.seed for run in runs] == [0] * 11 + [5] * 11 + [10] * 11
    for run in runs[:11]:
        _, options = parse(shlex.split(module.command(run)))
        assert options.config() == run.config()
        assert options.folder() == run.folder()


def test_the_supernet_study_writes_what_finished_runs_say(page, monkeypatch):
    module = study("supernet_study", page, monkeypatch)
    table = Table("NAS-Bench-201", _as_cifar10(synthetic_columns()))
    monkeypatch.setattr(module, "load_table", lambda dataset: table)
    folder = page.parent / "supernet"

    def finished(runs: list, seconds: dict[str, float]) -> None:
        for number, run in enumerate(runs):
            made = nas_run(folder, [90.0], "NAS-Bench-201", mode="supernet", **_identity(run))
            (cell,) = read_summary(made)["found"]
            names = ("step", "seconds", "images", "test_200")
            rows = [(0, 0, 0, 10), (10, 1, 640, 90)]
            write_metrics(made, [dict(zip(names, row, strict=True)) for row in rows])
            took = seconds.get(module.key(run), 90.0)
            changed(made, found=[{**cell, "index": 100 * number}], steps=10, seconds=took)
            made.rename(run.folder())

    finished(module.runs(folder)[:22], {"dbsurf": 100.0, "dsnas": 20.0})
    longer = module.longer_runs(folder)
    assert [(run.method, run.epochs, run.warmup_epochs) for run in longer] == [
        ("dsnas", 50, 50)
    ] * 3
    assert longer[0].architecture_rate == pytest.approx(0.011 / 5)
    assert "--epochs 50" in module.command(longer[0])
    finished(longer[:2], {})
    module.report(folder)
    text = page.read_text()
    assert "Finished searches behind the tables: 22 of 33, and 2 longer ones. 0 of these 24" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    paper = {"DBsurf": "94.36 ± 0.00", "LOORF": "-", "DARTS": "54.30 ± 0.00"}
    for name, printed in paper.items():
        end = f" | - | {printed} |"
        assert any(line.startswith(f"| {name} | 2 |") and line.endswith(end) for line in rows)
    (dsnas,) = (line for line in rows if line.startswith("| DSNAS | 2 |") and "of 2" in line)
    assert " 2.000 | " in dsnas  # seconds a step
    assert dsnas.split("|")[-3].strip() != "-"
    assert any(line.startswith("| DARTS | 2 |") and " to " in line for line in rows)
    assert (page.parent / "results" / "supernet-runs.zip").exists()
    points = pd.read_csv(page.parent / "results" / "supernet-curves.csv")
    assert set(points["series"]) >= {"dbsurf", "darts", "few-shot"}


def _identity(run):
    """The options of a run that say what it computes."""
    chosen = {"method", "estimator", "seed", "architecture_rate", "dataset", "epochs"}
    return {item.name: getattr(run, item.name) for item in fields(run) if item.name in chosen}


def _as_cifar10(columns):
    return {("cifar10", split, epochs): values for (_, split, epochs), values in columns.items()}


def test_runs_are_asked_for_by_name_or_by_a_word_of_it():
    names = ["vae-seed0", "two-layer-vae-seed0", "network-seed0", "network-seed1"]
    assert pages.asked(["vae-seed0"], names) == ["vae-seed0"]  # not what ends so
    assert pages.asked(["network", "vae-seed0"], names) == ["vae-seed0", *names[2:]]
    assert pages.asked([""], names) == names


def test_the_league(page, monkeypatch):
    module = study("league", page, monkeypatch)
    runs = page.parent / "runs"
    variances = {"quadraticcv": 12.0, "quadraticcv uses=values": 50.0, "mdsurf": 75.0}
    league_run(runs, {**variances, "reinmax": 1.0}, dataset="mnist")
    league_run(runs, {"quadraticcv": 30.0}, dataset="omniglot")
    league_run(runs, {"quadraticcv": 18.0}, dataset="mnist", seed=1)
    module.write()
    text = page.read_text()
    assert len(module.plan()) == 37
    assert "Finished runs behind the tables: 2 of 37." in text
    assert "| mnist VAE | 2 | – | 0.150 (0.120 to 0.180) | 0.010 (0.010 to 0.010) |" in text
    assert "dbsurf league --problem vae --dataset omniglot --steps 30000" in text
    assert "at most 0.2 | mnist VAE | 0.120 to 0.120 | 4 evaluations | **met**" in text
    assert "|  |  | omniglot VAE | 0.300 to 0.300 | 4 evaluations | not met" in text
    assert "at most 0.7 | mnist VAE | 0.500 to 0.500 | 4 evaluations | **met**" in text
    assert "| mnist VAE | 0.667 to 0.667 | 4 evaluations, MDsurf | **met**" in text
    assert "| QuadraticCV | yes | **0.120** (± 0.002) |" in text
    assert "| ReinMax | 0.010 + 0.250 | 3.0 (1.50) |" in text
    blind = "without the gradient of f it is 0.500 of LOORF's (0.486 to 0.514), by QuadraticCV"
    assert blind in text
    results = page.parent / "results"
    assert len(pd.read_csv(results / "league.csv")) == 7
    assert len(pd.read_csv(results / "seeds.csv")) == 2
    assert set(pd.read_csv(results / "figure.csv")["series"]) == {*variances}
    assert (results / "league.png").read_bytes()[:4] == b"\x89PNG"


def test_in_equal_time(page):
    """LOORF has 200 / (n - 1) of variance in n / 2 milliseconds."""
    module = importlib.import_module("dbsurf_paper.experiments.league.results")
    base = {"estimator": "loorf", "loorf_milliseconds": 1.0, "learned": "-", "ratio": 1.0}
    rows = [
        {**base, "evaluations": n, "variance": 200 / (n - 1), "milliseconds": n / 2}
        for n in (2, 4, 8)
    ]
    others = [{"estimator": name, "evaluations": 2} for name in ("mdsurf", "arms")]
    one = module.Outcome("VAE", "vae", 2_000, rows=rows)
    for count in (2, 4, 8):
        one.rows += [{**other, "evaluations": count} for other in others]
    own = {"estimator": "spotcheck", "evaluations": 2, "ratio": 0.5, "loorf_milliseconds": 3.0}
    # The same time, that of four samples, of six, of sixteen; never that of one.
    for milliseconds, wanted in ((3.0, 0.5), (6.0, 1.5), (9.0, 2.5), (24.0, 7.5), (1.0, 0.5)):
        found = module.at_equal_time(one, {**own, "milliseconds": milliseconds})
        assert found == pytest.approx(wanted)
    assert module.at_equal_time(one, {**own, "evaluations": 3, "milliseconds": 3.0}) is None
    for row in rows:
        row["milliseconds"] = 1.0
    # No time tells the numbers of samples apart.
    assert module.at_equal_time(one, {**own, "milliseconds": 24.0}) is None


def test_spotcheck_along_a_training(page, monkeypatch):
    module = study("spotcheck_study", page, monkeypatch)
    monkeypatch.setattr(module, "MARKS", (1, 3))
    for name, value in {"PARAMETERS_AT": 3, "DRAWS": 4, "TURNS": 1}.items():
        monkeypatch.setattr(module, name, value)
    small = {"dataset": "digits", "steps": 3, "draws": 10, "images": 4, "out": page.parent / "runs"}
    monkeypatch.setattr(module, "OPTIONS", replace(module.OPTIONS, **small))
    module.carry_out()
    module.report()
    text = page.read_text()
    assert "| Estimator | 1 | 3 |" in text
    assert "| LOORF(4) | 4 | 1.000 | 1.000 | 1.00 |" in text
    assert "| SpotCheck, 2 + 6 | 8 |" in text
    assert set(pd.read_csv(page.parent / "results" / "along.csv")["series"]) == {
        "spotcheck",
        "quadraticcv",
        "reinmax",
    }


def test_tables_of_other_pages_are_those_of_the_league():
    docs = ROOT / "docs"
    table = pd.read_csv(docs / "results" / "league" / "league.csv")
    text = league_tables.on_bits(table)
    assert f"<!-- vae variance -->\n{text}\n<!-- end" in (docs / "choose.md").read_text()
    # By hand: one that learned from the first step, one that did not, one that does not learn.
    late = table[(table.steps == 30_000) & (table.evaluations == 4)]
    late = late[late.problem.str.startswith("MNIST") & (late.learned != "converged")]
    words = {"spotcheck": "SpotCheck", "rodeo": r"RODEO\*", "mdsurf": "MDsurf"}
    for name, word in words.items():
        row = late[late.estimator == name].sort_values("problem").iloc[0]
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {word} |"))
        shown = f"{row.ratio:.2f}" if row.ratio >= 0.095 else f"{row.ratio:.3f}"
        assert line.split(" | ")[5] == shown

    page = (docs / "quadratic.md").read_text()
    text = league_tables.control_variates(table)
    assert f"<!-- variance -->\n{text}\n<!-- end" in page
    last = late[late.problem.str.endswith("(learning along the last 2,000)")].set_index("estimator")
    first = late[~late.problem.str.endswith(")")].set_index("estimator")
    line = f"| MNIST, 200 bits, 30,000 steps | {first.ratio['quadraticcv']:.3f} | "
    assert line + rf"{last.ratio['quadraticcv uses=gradient']:.3f}\* | " in text
    text = league_tables.by_learning(table)
    assert f"<!-- learning -->\n{text}\n<!-- end" in page
    black = (f"{x.ratio['quadraticcv uses=values']:.2f}"[1:] for x in (first, last))
    assert text.splitlines()[3].endswith(f" | {' | '.join(black)} |")


def test_a_run_of_chosen_estimators_takes_the_place_of_rows_of_a_whole_run(page, monkeypatch):
    module = study("league", page, monkeypatch)
    runs = page.parent / "runs"
    league_run(runs, {"quadraticcv": 30.0, "mdsurf": 75.0}, dataset="mnist")
    league_run(runs, {"quadraticcv": 18.0}, dataset="mnist", estimators=("quadraticcv",))
    module.write()
    text = page.read_text()
    assert "| QuadraticCV | yes | **0.180** (± 0.003) |" in text
    assert "| MDsurf | no | 0.750 (± 0.011) |" in text


def test_learning_along_from_the_first_step_is_a_row_of_its_own(page, monkeypatch):
    module = study("league", page, monkeypatch)
    runs = page.parent / "runs"
    league_run(runs, {"quadraticcv": 30.0}, dataset="mnist", steps=30_000)
    whole = {"steps": 30_000, "along": 0, "estimators": ("quadraticcv",)}
    league_run(runs, {"quadraticcv": 18.0}, dataset="mnist", **whole)
    module.write()
    text = page.read_text()
    assert "| mnist VAE (learning along the last 2,000) | 0.300 to 0.300 |" in text
    assert "| mnist VAE | 0.180 to 0.180 | 4 evaluations | **met**" in text


def test_the_listing_of_revisions(tmp_path):
    folders = [tmp_path / name for name in ("b", "a", "c")]
    for folder, revision in zip(folders, ("1234567", None, "1234567"), strict=True):
        folder.mkdir()
        write_sealed(folder / "environment.json", {"revision": revision})
    told = "of these {} runs name the revision of the code that made them"
    assert pages.origins(folders) == (
        f"2 {told.format(3)} (2 of 1234567); 1 are of before revisions were kept: `a`."
    )
    (folders[1] / "environment.json").unlink()  # as in archives of before
    assert "`a`" in pages.origins(folders)
    assert pages.origins(folders, "see runs.csv").endswith("were kept: see runs.csv.")
    assert pages.origins(folders[1:2]).endswith("; all are of before revisions were kept.")
    assert pages.origins(folders[::2]).endswith("; none is of before revisions were kept.")
    told = pages.origins(folders, since={"a": "89abcde", "c": "not asked for"})
    assert told.endswith("were kept: `a`. In the archive they are: 1 since 89abcde.")


def test_since_when_an_archive_has_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "someone@example.com")
    archived.git("init", "-q")
    revisions = []
    for seconds in ({"a": 1.0}, {"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 2.0, "named": 4.0}):
        with zipfile.ZipFile("runs.zip", "w") as file:
            for name, value in seconds.items():
                file.writestr(f"{name}/summary.json", json.dumps({"seconds": value}))
                if name == "named":
                    file.writestr(f"{name}/environment.json", "{}")
        archived.git("add", "runs.zip")
        archived.git("commit", "-q", "-m", "more runs")
        revisions.append(archived.git("rev-parse", "--short", "HEAD").decode().strip())
    # a was made anew in the last revision; the one that names its own is not asked for
    assert archived.since(Path("runs.zip")) == {"a": revisions[2], "b": revisions[1]}
    assert archived.read(tmp_path) == {}


@pytest.mark.parametrize("archive", archived.ARCHIVES, ids=lambda path: path.parent.name)
def test_every_archived_run_has_a_revision_or_one_since_when_it_is_there(archive):
    unnamed = archived.runs_of((ROOT / archive).read_bytes())
    assert set(archived.read((ROOT / archive).parent)) == set(unnamed)


def test_a_run_that_is_to_be_done_again_is_not_taken_from_the_archive(tmp_path):
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "summary.json").write_text(name)
    folders = [tmp_path / "runs" / name for name in ("one", "two")]
    archive = tmp_path / "runs.zip"
    pages.publish(archive, folders)
    pages.restore(archive, tmp_path / "runs", ["one"])  # taken from the archive before
    assert not folders[0].exists()
    assert folders[1].exists()
    pages.restore(archive, tmp_path / "runs", ["one"])
    assert not folders[0].exists()
    folders[0].mkdir()
    (folders[0] / "summary.json").write_text("done again")
    pages.restore(archive, tmp_path / "runs", ["one"])
    assert (folders[0] / "summary.json").read_text() == "done again"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "paper/studies").glob("*.py")), ids=lambda x: x.stem
)
def test_every_study_can_be_started(path):
    importlib.import_module(path.stem)


@pytest.mark.parametrize("name", ["vae_study", "league", "supernet_study"])
def test_published_runs_are_those_that_the_study_looks_for(name, tmp_path):
    """Otherwise the study would run again what the documentation holds, or refuse it."""
    module = importlib.import_module(name)
    if name == "supernet_study":
        archive = ROOT / module.RESULTS / module.ARCHIVE
        if not archive.exists():
            pytest.skip("no supernet run is published yet")
        module.restore(archive, tmp_path)
        planned = [*module.runs(tmp_path), *module.longer_runs(tmp_path)]
    else:
        archive, planned = ROOT / module.RESULTS / "runs.zip", module.plan()
        module.restore(archive, tmp_path)
    configurations = {options.folder().name: options.config() for options in planned}
    published = sorted(tmp_path.iterdir())
    assert published
    for folder in published:
        summary = read_summary(folder)  # every file is the one that was published
        refuse_other_config(summary["configuration"], configurations[folder.name], folder)
        told = read_sealed(folder / "config.json").get("converted", "no number was changed")
        assert "no number was changed" in told  # those of the format before; newer ones say nothing


def test_a_run_of_format_1_is_converted_and_an_edited_one_refused(tmp_path):
    rows = "step,loss\n0,0.1\n10,0.30000000000000004\n"
    summary = {"experiment": "vae", "configuration": {"n": 4}, "loss": 0.1 + 0.2}
    summary["files"] = {"metrics.csv": sha256(rows.encode())}
    text = json.dumps(summary, sort_keys=True, separators=(",", ":"))
    for name in ("run", "edited"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "metrics.csv").write_text(rows)
        (folder / "config.json").write_text('{"n": 4}')
        content = {"sha256": sha256(text.encode()), **summary}
        (folder / "summary.json").write_text(json.dumps(content))
    convert.convert(tmp_path / "run")
    convert.convert(tmp_path / "run")  # nothing is left to do
    assert read_summary(tmp_path / "run") == {k: v for k, v in summary.items() if k != "files"}
    assert read_metrics(tmp_path / "run")[1] == {"step": 10, "loss": 0.1 + 0.2}
    (tmp_path / "edited" / "metrics.csv").write_text(rows.replace("0.1", "0.2"))
    with pytest.raises(ValueError, match="metrics.csv is damaged"):
        convert.convert(tmp_path / "edited")


def test_the_variance_that_is_due_to_pairs():
    """The definition written out: different samples, pairs of different bits that vary."""
    random, n = torch.Generator().manual_seed(0), 6
    probs = torch.tensor([[0.3, 0.6, 0.5, 0.9999]], dtype=torch.float64)
    samples = torch.bernoulli(probs.expand(n, 1, 4), generator=random)
    values = torch.randn(n, 1, generator=random, dtype=torch.float64)
    bits = ((samples - probs) / (probs * (1 - probs)).sqrt())[:, 0]
    centred = (values - values.mean(0))[:, 0]
    wanted = sum(
        centred[i] * centred[j] * bits[i, k] * bits[i, m] * bits[j, k] * bits[j, m]
        for i, j in itertools.permutations(range(n), 2)
        for k, m in itertools.combinations(range(3), 2)  # the last bit hardly varies
    ) / (n * (n - 1))
    torch.testing.assert_close(residual.of_pairs(values, samples, probs), wanted)


def test_what_the_control_variate_leaves(tmp_path):
    """Shares of a tiny run: what h leaves and misses, and that an exact slope misses nothing."""
    from dbsurf_paper.experiments.league import PRESETS, study

    options = replace(PRESETS["smoke"], problem="vae", steps=60, estimators=("quadraticcv",))
    study.complete(replace(options, out=tmp_path))
    found = residual.shares(tmp_path, 400)
    assert found.pop("problem").endswith("60 steps")
    assert all(-0.05 < value < 1.5 for value in found.values())
    assert 0.5 < found["linear"] < 1.1  # hardly trained, f is nearly linear
    assert abs(found["linear"] + found["pairs"] - 1) < 0.1
    assert found["pairs left by h"] < found["left by h"]
    # The shares add up: what h leaves is what its slope misses, and what no slope could help.
    rest = found["left by h"] - found["with the exact slope"] - found["due to the slope"]
    assert abs(rest) < 0.1


def test_the_numbers_of_the_page_on_bias_are_those_of_the_file():
    text, rows = bias.PAGE.read_text(), list(csv.DictReader(bias.RESULTS.read_text().splitlines()))
    for name in bias.PROBLEMS:
        block = text.split(f"<!-- {name} -->\n")[1].split(f"\n<!-- end of {name} -->")[0]
        assert block == bias.table([row for row in rows if row["problem"] == name])
        assert block.count("\n") == len(bias.ESTIMATORS) + 1


def test_the_summary_figure_has_one_mark_an_estimator_and_says_what_the_league_says():
    league = pd.read_csv(ROOT / summary_figure.RESULTS / "league.csv")
    table = summary_figure.points(league)
    assert table.name.is_unique
    assert table.early["loorf"] == table.late["loorf"] == 1
    best = table[table.kind != "biased"].iloc[-1]
    assert best.early == table.early[table.kind != "biased"].min()
    assert f"{best.early:.2g}" in summary_figure.finding(table)
    assert set(table.index[table.kind == "biased"]) >= {"reinmax", "dbsurf", "straightthrough"}


def test_a_storm_is_written_into_its_page(tmp_path, monkeypatch):
    page, file = tmp_path / "page.md", tmp_path / "storm.json"
    page.write_text("a\n<!-- storm -->\nold\n<!-- end of storm -->\nb")
    monkeypatch.setattr(reliability, "PAGE", page)
    tally = Tally("kills")
    tally.add(Result("vae", "same numbers", kills=1200), 0)
    tally.add(Result("vae", "lost", "no summary", kills=1), 0)
    held = {"LOORF, plain": [100.0, 0.1, 3.0, 0.5]}
    tally.add(Result("plain", "right mean", inputs=1, compared=1, evidence=held), 0)
    file.write_text(json.dumps(summary([tally], 30.0, 0)))
    monkeypatch.setattr(sys, "argv", ["reliability.py", str(file)])
    reliability.main()
    text = page.read_text()
    assert "**1,201 kills**" in text
    assert "**0 silently wrong, 1 lost, 0 tracebacks" in text
    assert "| killed runs: vae | 2 | – | – | 1,201 | – | – | 1 | – |" in text
    assert "(LOORF, plain); a storm in which nothing is wrong fails with probability 0.001" in text
    assert "```text\n--- kills 1, vae: lost" in text
    assert "old" not in text
