"""Which runs a sweep is made of, and what they are called."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dbsurf_paper.commands.main import main
from dbsurf_paper.commands.parsing import parse
from dbsurf_paper.experiments.nas.supernet.methods import METHODS
from dbsurf_paper.experiments.registry import experiment
from dbsurf_paper.experiments.vae import PRESETS, Options
from dbsurf_paper.runs.options import config_hash
from dbsurf_paper.sweep.plan import plan, read_grid, write_plan
from dbsurf_paper.sweep.run import placed

OUT = Path("out")


def test_a_grid_is_all_combinations():
    runs = plan("vae", "smoke", ["estimator=dbsurf,loorf", "n=2,4,8", "seed=0..4"], OUT)
    found = [(run.options.estimator, run.options.n, run.options.seed) for run in runs]
    wanted = [(e, n, s) for e in ("dbsurf", "loorf") for n in (2, 4, 8) for s in range(5)]
    assert found == wanted
    assert len({run.name for run in runs}) == 30
    assert runs[0].label == "dbsurf n=2 seed=0"
    assert all(run.options.steps == PRESETS["smoke"].steps for run in runs)


def test_values_of_every_type():
    words = ["learning_rate=1e-3,0.1", "measure-variance=true", "architecture=linear"]
    words += ["estimator_options=,alpha=preserve+debias=true", "data_dir=none", "seed=3..3,7,3"]
    assert read_grid(words, Options) == {
        "learning_rate": [0.001, 0.1],
        "measure_variance": [True],
        "architecture": ["linear"],
        "estimator_options": [(), ("alpha=preserve", "debias=true")],
        "data_dir": [None],
        "seed": [3, 7],
    }


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["vae"], "--grid must name what varies in a sweep of vae, got nothing"),
        (["vae", "--grid"], "--grid must name what varies"),
        (["dance"], "sweep must be one of table1, figure1"),
        (["vae", "--grid", "estimator"], "--grid must be NAME=VALUES, got 'estimator'"),
        (["vae", "--grid", "estimtor=arms"], "--grid must name options among dataset, estimator,"),
        (["vae", "--grid", "out=here"], "--grid must name options among"),
        (["vae", "--grid", "n=2", "n=4"], "--grid must name n once, got it twice"),
        (["vae", "--grid", "n=two"], "--grid must give n integers, got 'two'"),
        (["vae", "--grid", "n="], "--grid must give n a value, got none"),
        (["vae", "--grid", "n=4..2"], "--grid must give n a range that is not empty, got 4..2"),
        (["vae", "--grid", "learning_rate=x"], "--grid must give learning_rate numbers, got 'x'"),
        (["vae", "--grid", "tensorboard=1"], "--grid must give tensorboard true or false, got '1'"),
        (
            ["vae", "--grid", "architecture=odd"],
            "give architecture one of nonlinear, linear, got 'odd'",
        ),
        (["vae", "--grid", "threads=1,2"], "--grid must give threads one value"),
        (["vae", "--grid", "steps=0"], "steps must be at least 1, got 0"),
        (["table1", "--grid", "n=8"], "--grid must give n values among [2, 4], got 8"),
        (["toy", "--scale", "laptop", "--grid", "dims=1"], "--grid must name options among"),
        (["table1", "--workers", "-1"], "--workers must lie in 0 to 1024, got -1"),
        (["table1", "--scheduler", "tcp://x"], "--scheduler must come with --engine dask"),
    ],
)
def test_bad_input_ends_in_one_line(words, reason, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "scale", "runs", "sets", "counts", "seeds", "steps"),
    [
        ("table1", "smoke", 24, 1, {2, 4}, 2, 1_000),
        ("table1", "laptop", 36, 3, {4}, 2, 10_000),
        ("table1", "paper", 360, 3, {2, 4, 6, 8}, 5, 1_000_000),
        ("figure1", "smoke", 20, 1, {2, 4}, 2, 1_000),
        ("figure1", "laptop", 60, 3, {2, 4}, 2, 10_000),
        ("figure1", "paper", 150, 3, {2, 4}, 5, 1_000_000),
    ],
)
def test_named_sweeps(name, scale, runs, sets, counts, seeds, steps):
    found = [run.options for run in plan(name, scale, [], OUT)]
    assert len(found) == runs
    assert len({item.dataset for item in found}) == sets
    assert {item.n for item in found} == counts
    assert {item.seed for item in found} == set(range(seeds))
    assert {item.steps for item in found} == {steps}
    each = Counter((item.estimator, item.estimator_options) for item in found)
    assert len(each) == (6 if name == "table1" else 5)
    assert len(set(each.values())) == 1
    assert all(item.measure_variance == (scale == "laptop") for item in found)


def test_a_named_sweep_can_be_narrowed_and_changed():
    runs = plan("table1", "smoke", ["estimator=loorf,arms", "n=2", "steps=10", "seed=1"], OUT)
    assert [run.label for run in runs] == ["arms", "loorf"]
    assert {(run.options.n, run.options.seed, run.options.steps) for run in runs} == {(2, 1, 10)}
    both = ["estimator=arms", "estimator_options=debias=true"]
    with pytest.raises(ValueError, match="estimator_options values among"):
        plan("table1", "smoke", both, OUT)


def test_table_2(tmp_path, monkeypatch):
    monkeypatch.setenv("DBSURF_DATA", str(tmp_path))
    paper = [run.options for run in plan("table2", "paper", [], OUT)]
    assert len(paper) == 9 * 12  # the rows of table 2
    assert {(item.config()["mode"], item.seeds, item.n) for item in paper} == {("supernet", 1, 5)}
    assert {item.seed for item in paper} == {0, 5, 10, 15}
    smoke = plan("table2", "smoke", [], OUT)
    assert {(run.experiment, run.options.dataset) for run in smoke} == {("nas-table", "synthetic")}
    assert [run.label for run in smoke] == ["dbsurf", "loorf", "random"]
    (tmp_path / "nasbench201.npz").touch()
    assert len(plan("table2", "smoke", [], OUT)) == 9
    laptop = plan("table2", "laptop", [], OUT)
    assert len(laptop) == 9 + 3 * 11  # and LOORF and uniform sampling
    assert {run.options.method for run in laptop[9:]} == set(METHODS)
    for run in laptop[9:]:
        run.options.check()
    reach = {
        run.options.method: run.options.architecture_rate
        for run in laptop[9:]
        if run.options.seed == 0
    }
    assert (reach["sampled"], reach["darts"], reach["few-shot"]) == (0.011, 0.022, 0.055)
    assert laptop[0].label == "nas-table cifar10 dbsurf"
    assert laptop[-1].label == "nas-supernet few-shot-gm dbsurf seed=10 architecture_rate=0.022"
    fewer = plan("table2", "laptop", ["seed=0", "logits_rate=0.1"], OUT)
    assert {run.experiment for run in fewer} == {"nas-table", "nas-supernet"}
    assert len(fewer) == 9 + 11
    with pytest.raises(ValueError, match="--grid must name options among .*, got 'flavour'"):
        plan("table2", "laptop", ["flavour=1"], OUT)


def test_the_toy_study_is_a_sweep_of_one():
    (run,) = plan("toy", "smoke", [], OUT)
    assert (run.label, run.steps) == ("toy", None)
    assert len(plan("toy", "laptop", ["target=0.3,0.49"], OUT)) == 2


def test_the_folder_is_named_by_what_is_computed_and_nothing_else():
    options = replace(PRESETS["smoke"], seed=3)
    vae = experiment("vae")
    name = placed(vae, options, OUT).name
    code = config_hash("vae", json.loads(json.dumps(options.config())))
    assert name == f"vae-digits-dbsurf-n4-seed3-{code}"
    elsewhere = replace(options, threads=2, data_dir=Path("d"), checkpoint_every=7, device="cpu")
    assert placed(vae, elsewhere, Path("other")).name == name
    assert placed(vae, replace(options, seed=4), OUT).name != name


def test_a_folder_of_an_older_version_is_used_again(tmp_path):
    options = PRESETS["smoke"]
    code = config_hash("vae", options.config())
    (tmp_path / f"vae-{code}").mkdir()
    assert placed(experiment("vae"), options, tmp_path).name == f"vae-{code}"


@pytest.mark.parametrize("name", ["table1", "table2", "toy"])
def test_the_command_of_a_run_is_that_run(name, tmp_path):
    runs = plan(name, "smoke", [], tmp_path, threads=1)
    write_plan(tmp_path, "dbsurf sweep", runs)
    listed = json.loads((tmp_path / "sweep.json").read_text())["runs"]
    assert len(listed) == len(runs)
    for entry, run in zip(listed, runs, strict=True):
        first, *words = shlex.split(entry["command"])
        assert first == "dbsurf"
        assert parse(words)[1] == run.options
        assert entry["folder"] == run.name
        assert entry["configuration"] == run.options.config()
