"""``dbsurf sequences``: a tiny run from beginning to end, its report, and bad options."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dbsurf_paper.commands import main as cli
from dbsurf_paper.experiments.sequences import EXPERIMENTS, PRESETS, exact, report, run, study
from dbsurf_paper.report.collect import collect
from dbsurf_paper.runs import life
from dbsurf_paper.runs.folder import ROWS

TINY = replace(
    PRESETS["smoke"],
    length=2,
    sizes=(2,),
    draws=30,
    pretraining=2,
    steps=2,
    every=1,
    batch=2,
    pool=10,
    replicates=2,
    variance_draws=2,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "tiny"
    run(replace(TINY, out=out))
    return out


def test_a_run_leaves_tables_figures_and_a_summary(folder):
    summary = json.loads((folder / "summary.json").read_text())
    EXPERIMENTS[0].summary.check(summary)
    assert summary["experiment"] == "sequences"
    assert len(summary["claims"]) == 36
    assert {one["n"] for one in summary["outcomes"]} == {4}
    for name in report.CAPTIONS:
        assert (folder / f"{name}.png").exists()
    for name in TABLES:
        assert (folder / f"{name}.csv").exists()


def test_the_report_has_a_section_with_both_tables_and_all_figures(folder):
    runs = collect([folder], EXPERIMENTS)
    (section,) = report.sections(runs)
    kinds = [block.kind for block in section.blocks]
    assert kinds == ["paragraph", "table", "gallery", "table", "gallery"]
    first, second = report.sentences(runs)
    assert "Systematic halves of sequences" in first
    assert "n = 4" in second
    names = {name for name, *_ in report.measures(runs[0])}
    # A run this small may have had no signal to measure the variance of.
    assert names - {"training_variance_ratio"} == {"error_ratio", "reward", "training_error_ratio"}


def test_a_run_that_did_not_measure_the_variance_is_reported_without_it(folder):
    (run,) = collect([folder], EXPERIMENTS)
    kept = [
        {name: value for name, value in one.items() if "variance" not in name}
        for one in run.summary["outcomes"]
    ]
    older = replace(run, summary={**run.summary, "outcomes": kept})
    (section,) = report.sections([older])
    table = section.blocks[3]
    place = table.titles.index("Variance ratio")
    assert {row.cells[place].text for row in table.rows} == {""}
    assert "training_variance_ratio" not in {name for name, *_ in report.measures(older)}


def test_one_part_alone(folder):
    (run,) = collect([folder], EXPERIMENTS)
    kept = {name: value for name, value in run.summary.items() if name != "claims"}
    (section,) = report.sections([replace(run, summary=kept)])
    assert [block.kind for block in section.blocks] == ["missing", "table", "gallery"]
    assert replace(TINY, part="exact").folder().name == "smoke-exact"


def test_the_study_writes_both_tables_of_a_run_into_its_page(folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "studies"))
    module = importlib.import_module("sequences_study")
    page = tmp_path / "page.md"
    marks = [f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in module.PLACES]
    page.write_text("".join(marks))
    monkeypatch.setattr(module, "RUNS", folder)
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(module, "PAGE", page)
    module.write()
    first, second = page.read_text().split("<!-- end of claims -->")
    assert "| Sampler, baseline | smooth |" in first
    assert "| n | Sampler, baseline | Reward |" in second
    assert (tmp_path / "results" / "variances.png").exists()


class Killed(Exception):
    """In place of a signal that nothing can catch."""


TABLES = ("cells", "positions", "laws", "claims", "training", "gradient-errors", "outcomes")


@pytest.fixture
def no_figures(monkeypatch):
    """Half of a tiny run's time are its figures."""
    monkeypatch.setattr(study, "draw_exact", lambda folder: None)
    for name in ("rewards", "variances", "gradient_errors"):
        monkeypatch.setattr(study.figures, name, lambda *words: None)


@pytest.mark.parametrize("count", [1, 12])
def test_a_killed_run_continues_bit_for_bit(folder, tmp_path, monkeypatch, count, no_figures):
    """Of its parts two are laws, one is the positions, two are cells, and the others are runs."""
    options = replace(TINY, out=tmp_path / "run")
    saved, calls = life.write_sealed, []

    def save(path, *words, **more):
        if path.name == ROWS:
            calls.append(path)
            if len(calls) == count:
                raise Killed
        saved(path, *words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(life, "write_sealed", save)
        with pytest.raises(Killed):
            run(options)
        calls.clear()
        if count > 1:
            with pytest.raises(ValueError, match="--resume continues it"):
                run(options)
        assert not (options.folder() / "summary.json").exists()
        count = 0
        run(replace(options, resume=True))
    for name in TABLES:
        assert (options.folder() / f"{name}.csv").read_bytes() == (
            folder / f"{name}.csv"
        ).read_bytes()


def test_an_interrupt_says_what_is_saved(tmp_path, monkeypatch, capsys, no_figures):
    words = ["sequences", "--preset", "smoke", "--part", "exact", "--length", "2", "--sizes", "2"]
    words += ["--draws", "30", "--out", str(tmp_path / "out")]
    made = exact.one_law
    monkeypatch.setattr(exact, "one_law", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert cli.main(words) == 130
    assert "saved" not in capsys.readouterr().err  # nothing was

    def second(seed, sharpness, *rest):
        if sharpness > 1:
            raise KeyboardInterrupt
        return made(seed, sharpness, *rest)

    monkeypatch.setattr(exact, "one_law", second)
    assert cli.main(words) == 130
    told = capsys.readouterr().err
    assert "1 part is saved in" in told
    assert told.rstrip().endswith("--resume")
    monkeypatch.setattr(exact, "one_law", made)
    assert cli.main([*words, "--resume"]) == 0
    assert cli.main(words) == 0  # finished: read back


def test_a_finished_run_is_not_computed_again_and_another_is_refused(folder, monkeypatch):
    monkeypatch.setattr(study, "both", lambda *_: pytest.fail("computed again"))
    run(replace(TINY, out=folder))
    with pytest.raises(ValueError, match=r"another configuration: draws \(30 there, 40 here\)"):
        run(replace(TINY, draws=40, out=folder))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--groups", "3"], "--groups must be even numbers of at least 2, got [3]"),
        (["--sizes", str(2**63)], f"--sizes must be at most 65536, got [{2**63}]"),
        (["--seeds", "1"], "--seeds must be at least 2, got 1"),
        (["--length", "11"], "--length must be at most 10, got 11"),
        (["--laws", "1", "--sharpness", "1"], "must be at least 2, got 1 times 1"),
        (["--variance-draws", "1"], "--variance-draws must be at least 2, got 1"),
        (["--rate", "0"], "rate must be above 0, got 0.0"),
        (["--pool", "6000"], "--pool must be at most 5000, got 6000"),
    ],
)
def test_bad_options(words, message, capsys, tmp_path):
    assert cli.main(["sequences", *words, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
