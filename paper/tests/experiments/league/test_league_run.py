"""``dbsurf league``: whole runs, stopped and continued bit for bit, their report, bad options."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pandas as pd
import pytest

from dbsurf_paper.commands import main as cli
from dbsurf_paper.experiments.league import (
    EXPERIMENTS,
    PRESETS,
    entrants,
    report,
    results,
    run,
    study,
    whole_league,
)
from dbsurf_paper.experiments.league.options import Options, every
from dbsurf_paper.experiments.league.results import outcomes
from dbsurf_paper.report.collect import collect
from dbsurf_paper.report.markdown import block_text
from dbsurf_paper.runs.checkpoint import NEWEST
from dbsurf_paper.runs.life import Life

FEW = ("doublecv", "quadraticcv uses=values", "mdsurf", "reinmax", "localexpectation")
TINY = replace(
    PRESETS["smoke"],
    problem="vae",
    steps=4,
    converge=3,
    evaluations=(2, 4),
    images=3,
    timings=1,
    estimators=FEW,
    checkpoint_every=2,
)
TIMES = {"milliseconds", "loorf_milliseconds", "time_ratio"}


def rows_of(folder):
    rows = json.loads((folder / "summary.json").read_text())["rows"]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "vae"
    run(replace(TINY, out=out))
    return out


def test_a_run_leaves_rows_a_table_and_a_summary(folder):
    summary = json.loads((folder / "summary.json").read_text())
    EXPERIMENTS[0].summary.check(summary)
    assert summary["title"] == "digits VAE, 200 bits, 4 steps"
    rows = {(row["estimator"], row["evaluations"], row["learned"]) for row in rows_of(folder)}
    assert rows == {
        *(("loorf", count, "-") for count in (2, 4, 201)),
        *((name, count, "-") for name in ("mdsurf", "reinmax") for count in (2, 4)),
        *(
            (name, count, "joint")
            for name in ("doublecv", "quadraticcv uses=values")
            for count in (2, 4)
        ),
        ("localexpectation", 201, "-"),
        ("doublecv", 4, "converged"),
        ("quadraticcv uses=values", 4, "converged"),
    }
    table = pd.read_csv(folder / "league.csv")
    assert len(table) == len(rows)
    biased = table[table.estimator == "reinmax"]
    assert biased.bias_ratio.notna().all()
    assert table[table.unbiased == 1].bias_ratio.isna().all()
    assert summary["left_out"] == entrants.every()[1]


class Killed(Exception):
    """In place of a signal that nothing can catch."""


def dies_at(monkeypatch, name, count):
    """Let a method of the study raise at its so-manieth call."""
    work, calls = getattr(study.Study, name), []

    def method(self, *words):
        calls.append(words)
        if len(calls) == count:
            raise Killed
        return work(self, *words)

    monkeypatch.setattr(study.Study, name, method)


@pytest.mark.parametrize(
    ("name", "count"),
    [("step", 4), ("measure_one", 2), ("measure_one", 9), ("step", 7), ("measure_one", 13)],
)
def test_a_killed_run_continues_bit_for_bit(folder, tmp_path, monkeypatch, name, count):
    options = replace(TINY, out=tmp_path / "run")
    with monkeypatch.context() as patch:
        dies_at(patch, name, count)
        with pytest.raises(Killed):
            run(options)
    with pytest.raises(ValueError, match="--resume continues it"):
        run(options)
    assert not (options.folder() / "summary.json").exists()
    asked = []
    work = study.Study.measure_one
    monkeypatch.setattr(
        study.Study, "measure_one", lambda self, *words: asked.append(words) or work(self, *words)
    )
    run(replace(options, resume=True))
    assert rows_of(options.folder()) == rows_of(folder)
    done = count - 1 if name == "measure_one" else 0 if count <= 4 else 12
    assert len(asked) == len(rows_of(folder)) - done  # nothing is measured twice


def test_an_edited_rows_json_is_noticed(tmp_path, monkeypatch):
    options = replace(TINY, out=tmp_path / "run")
    with monkeypatch.context() as patch:
        dies_at(patch, "measure_one", 5)
        with pytest.raises(Killed):
            run(options)
    path = options.folder() / "rows.json"
    text = path.read_text()
    assert text.count('"variance": 1') >= 1
    path.write_text(text.replace('"variance": 1', '"variance": 2', 1))
    with pytest.raises(ValueError, match="rows.json is damaged: it does not match its checksum"):
        run(replace(options, resume=True))
    assert not (options.folder() / "summary.json").exists()


def test_what_one_learns_does_not_depend_on_the_others(folder, tmp_path):
    run(replace(TINY, out=tmp_path, estimators=("doublecv",)))
    alone = [row for row in rows_of(tmp_path) if row["estimator"] == "doublecv"]
    assert alone
    assert alone == [row for row in rows_of(folder) if row["estimator"] == "doublecv"]


def test_training_along_for_the_last_steps_only(tmp_path):
    options = replace(TINY, out=tmp_path, along=1, estimators=("doublecv",))
    one = study.Study(options, study.PROBLEMS["vae"](options), Life("league", options))
    taught = []
    learner = one.learners["doublecv"].estimator
    work = learner.estimate
    learner.estimate = lambda *words, **more: taught.append(one.steps) or work(*words, **more)
    while one.steps < 6:
        one.step()
    assert taught == [3, 4, 5]
    assert one.problem.trainer.steps == 4


def test_a_finished_run_is_read_back(folder, capsys):
    before = (folder / "summary.json").read_bytes()
    run(replace(TINY, out=folder))
    assert (folder / "summary.json").read_bytes() == before
    assert "14 rows of digits VAE" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"another configuration: draws \(10 there, 11 here\)"):
        run(replace(TINY, out=folder, draws=11))


def test_without_a_problem_all_are_run(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(
        study, "complete", lambda options: done.append(options) or {"rows": [], "title": ""}
    )
    run(replace(PRESETS["smoke"], out=tmp_path))
    assert [one.problem for one in done] == [
        "quadratic", "network", "table", "table-searched", "vae", "categorical-vae",
        "two-layer-vae", "two-layer-common", "gates-perceptron", "gates-convolutions",
    ]  # fmt: skip
    assert len({one.folder() for one in done}) == len(done)
    assert all(one.folder().parent == tmp_path for one in done)
    runs = whole_league("laptop", None)
    assert runs == every(PRESETS["laptop"])
    assert {one.dataset for one in runs if one.steps == 30_000} == {
        "mnist", "fashion-mnist", "omniglot",
    }  # fmt: skip
    assert Options().folder().name == "league"


def test_two_layers_categories_and_gates(tmp_path):
    names = ("two-layer-vae", "two-layer-common", "categorical-vae")
    for name in (*names, "gates-perceptron", "gates-convolutions"):
        run(
            replace(
                TINY,
                problem=name,
                steps=2,
                converge=1,
                evaluations=(4,),
                estimators=("quadraticcv",),
                out=tmp_path / name,
            )
        )
    (first,) = {row["learned"] for row in rows_of(tmp_path / "two-layer-vae")} - {"-", "converged"}
    assert first == "joint"
    titles = [one.title for one in outcomes(collect([tmp_path], EXPERIMENTS))]
    assert titles == [
        "digits VAE, 2 layers of 200 bits, 2 steps",
        "digits VAE, 2 layers of 200 bits, common noise, 2 steps",
        "digits VAE, 20 latents of 10 classes, 2 steps",
        "digits, 49 gates before a perceptron, 2 steps",
        "digits, 49 gates before a convolutional network, 2 steps",
    ]


def test_forms_that_no_variant_declares(tmp_path):
    label = "spotcheck checks=3"
    run(replace(TINY, problem="gates-perceptron", estimators=(label,), out=tmp_path))
    found = {(row["estimator"], row["n"], row["evaluations"]) for row in rows_of(tmp_path)}
    assert (label, 1, 4) in found
    assert {count for name, _, count in found if name == label} == {4}


def test_stopped_gates_continue_bit_for_bit(tmp_path, monkeypatch):
    options = replace(TINY, problem="gates-perceptron", estimators=("doublecv",))
    run(replace(options, out=tmp_path / "whole"))
    with monkeypatch.context() as patch:
        dies_at(patch, "step", 4)
        with pytest.raises(Killed):
            run(replace(options, out=tmp_path / "parts"))
    run(replace(options, out=tmp_path / "parts", resume=True))
    assert rows_of(tmp_path / "parts") == rows_of(tmp_path / "whole")


# --- the report -----------------------------------------------------------------------------------


def test_the_report_has_a_figure_the_goals_and_two_tables(folder, monkeypatch):
    # So small a run may not say that more samples take more time.
    monkeypatch.setattr(results, "TOLD", -math.inf)
    runs = collect([folder], EXPERIMENTS)
    (section,) = report.sections(runs)
    assert [block.kind for block in section.blocks] == [
        "paragraph", "chart", "table", "table", "table", "table",
    ]  # fmt: skip
    _, chart, wanted, in_time, unbiased, biased = section.blocks
    assert in_time.titles[:2] == ("Problem", "SpotCheck")
    assert {line.series for panel in chart.panels for line in panel.lines} == {
        "doublecv", "quadraticcv uses=values", "mdsurf",
    }  # fmt: skip
    assert [row.cells[1].text for row in wanted.rows] == ["at most 0.7", "at most 1"]
    names = [row.cells[0].text for row in unbiased.rows]
    assert set(names) == {
        "DoubleCV", 'QuadraticCV "values"', "MDsurf", "LOORF", "local expectation",
    }  # fmt: skip
    assert names[-1] == "local expectation"  # it takes 201 evaluations
    ratios = [row.cells[3] for row in unbiased.rows[:-1]]
    numbers = [float(cell.text) for cell in ratios]
    assert numbers == sorted(numbers)
    assert [cell.best for cell in ratios] == [True, False, False, False]
    assert "201 evaluations" in block_text(unbiased)
    assert [row.cells[0].text for row in biased.rows] == ["ReinMax"]
    (sentence,) = report.sentences(runs)
    assert "at 4 evaluations of f the lowest variance" in sentence
    found = list(report.measures(runs[0]))
    kinds = {name for name, *_ in found}
    assert kinds == {"variance_over_loorf", "time_over_loorf", "squared_bias_over_loorf"}
    assert len([one for one in found if one[0] == "variance_over_loorf"]) == 14


def test_runs_of_one_problem_are_one_table(folder, tmp_path):
    more = ("arms", "disarm")
    run(replace(TINY, out=tmp_path / "more", estimators=more))
    (one,) = outcomes(collect([folder, tmp_path], EXPERIMENTS))
    labels = [row["estimator"] for row in one.rows]
    assert {*FEW, *more} <= set(labels)
    assert labels.count("loorf") == 3  # of the first run alone
    assert len(one.runs) == 2


# --- bad options ----------------------------------------------------------------------------------


def status(words):
    """The command's exit status; what the parser itself refuses ends the program."""
    try:
        return cli.main(words)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--draws", "5"], "draws must be at least 10, got 5"),
        (["--evaluations", "1", "4"], "evaluations must be numbers from 2 to 1000, got [1, 4]"),
        (["--precision", "0"], "precision must be above 0, got 0.0"),
        (["--estimators", "cooking"], "estimators must be among "),
        (["--estimators", "cooking checks=3"], "estimators must be among "),
        (["--estimators", "spotcheck cooks=3"], "cooks"),
        (["--dataset", "cooking"], "dataset must be one of digits, mnist"),
        (["--problem", "cooking"], "cooking"),
    ],
)
def test_bad_options(words, message, capsys, tmp_path):
    out = tmp_path / "out"
    start = ["league", "--preset", "smoke", "--problem", "vae"]
    assert status([*start, "--out", str(out), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (out / NEWEST).exists()


def test_a_table_that_is_not_there(capsys, tmp_path):
    words = ["league", "--preset", "smoke", "--problem", "table", "--table", "cooking"]
    assert cli.main([*words, "--out", str(tmp_path / "out")]) == 2
    assert "dataset must be one of cifar10" in capsys.readouterr().err
