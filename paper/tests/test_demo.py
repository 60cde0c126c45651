"""``dbsurf demo``: what it plans, and a small one from beginning to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbsurf_paper.commands import demo
from dbsurf_paper.commands import main as cli
from dbsurf_paper.data import store
from dbsurf_paper.experiments import nas
from dbsurf_paper.sweep.run import Run

SMALL = {
    "toy": {"points": 9, "draws": 20, "comparison_draws": 10},
    "vae": {
        "steps": 20,
        "latents": 4,
        "hidden": 4,
        "evaluate_every": 10,
        "evaluation_images": 10,
        "final_images": 10,
        "bound_images": 10,
        "bound_samples": 2,
        "variance_draws": 2,
        "tensorboard": False,
    },
    "nas-table": {"steps": 5, "finalists": 2},
}


def test_the_plan_has_every_experiment_and_all_of_the_four_estimators(tmp_path):
    options = demo.Options(out=tmp_path, data_dir=tmp_path)
    runs = demo.plan(options, threads=1)
    assert {run.experiment for run in runs} == {"toy", "vae", "nas-table"}
    assert len({run.folder for run in runs}) == len(runs)
    trained = {run.options.estimator for run in runs if run.experiment == "vae"}
    assert trained == {"dbsurf", "loorf", "arms", "doublecv"}
    assert all(run.options.threads == 1 for run in runs if run.experiment != "toy")
    assert {run.options.dataset for run in runs if run.experiment == "vae"} == {"digits"}


def test_without_the_table_the_search_is_on_the_synthetic_landscape(tmp_path):
    found = nas.demo(tmp_path)
    assert {one.dataset for one in found} == {"synthetic"}


def test_with_the_table_the_search_uses_it():
    if store.locate("nasbench201") is None:
        pytest.skip("the table of NAS-Bench-201 is not here: DBSURF_DATA names its folder")
    assert {one.dataset for one in nas.demo(None)} == {"cifar10"}


def small(runs: list[Run]) -> list[Run]:
    """The same runs, shrunk; those of the second seed left out."""
    return [
        replace(run, options=replace(run.options, **SMALL[run.experiment]))
        for run in runs
        if run.options.seed == 0
    ]


def test_a_small_demo_ends_with_a_report_and_three_sentences(tmp_path, monkeypatch, capsys):
    plan = demo.plan
    monkeypatch.setattr(demo, "plan", lambda options, threads: small(plan(options, threads)))
    words = ["demo", "--out", str(tmp_path / "demo"), "--data-dir", str(tmp_path)]
    assert cli.main(words) == 0
    first = capsys.readouterr().out
    assert "9 runs: 9 done (0 of them before)" in first
    assert f"The report is {tmp_path / 'demo' / 'report.html'}." in first
    assert first.count("\n- ") == 3
    for part in ("Binary VAEs", "synthetic landscape", "Of the paper's"):
        assert part in first
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "synthetic" in page
    assert cli.main(words) == 0  # nothing is left to do
    again = capsys.readouterr().out
    assert "9 done (9 of them before)" in again
    assert again.split("The report is")[1] == first.split("The report is")[1]


def test_bad_number_of_workers(tmp_path, capsys):
    assert cli.main(["demo", "--workers", "-1", "--out", str(tmp_path / "demo")]) == 2
    assert "--workers must be at least 0, got -1" in capsys.readouterr().err
    assert not Path(tmp_path / "demo").exists()
