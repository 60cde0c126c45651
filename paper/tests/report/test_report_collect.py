"""Run folders are found wherever they are, and none of them can spoil the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbsurf_paper.commands import main as cli
from dbsurf_paper.commands import parsing
from dbsurf_paper.experiments import registry
from dbsurf_paper.experiments.registry import experiment
from dbsurf_paper.report.collect import DAMAGED, FINISHED, REPEATED, UNFINISHED, Run, record_of
from dbsurf_paper.report.collect import collect as collect_of
from dbsurf_paper.report.provenance import described, state
from handmade import changed, nas_run, toy_run, unfinished_vae_run, vae_run

RECORDS = registry.every()


def collect(places: list[Path]) -> list[Run]:
    return collect_of(places, RECORDS)


def only(place: Path) -> Run:
    (run,) = collect([place])
    return run


def test_runs_are_found_at_any_depth_and_once(tmp_path):
    vae_run(tmp_path / "a" / "b", 100.0, dataset="mnist")
    toy_run(tmp_path / "c")
    runs = collect([tmp_path, tmp_path / "a"])
    assert [run.experiment for run in runs] == ["vae", "toy"]
    assert [run.number for run in runs] == [1, 2]


def test_seeds_of_a_setting_are_neighbours(tmp_path):
    for seed in (2, 0, 1):
        for name in ("loorf", "dbsurf"):
            vae_run(tmp_path, 100.0 + seed, dataset="mnist", estimator=name, seed=seed)
    runs = collect([tmp_path])
    assert [(run.identity["estimator"], run.identity["seed"]) for run in runs] == [
        *(("dbsurf", seed) for seed in range(3)),
        *(("loorf", seed) for seed in range(3)),
    ]


def test_unfinished_runs_tell_their_last_step(tmp_path):
    folder = unfinished_vae_run(tmp_path, 100.0, dataset="mnist")
    run = only(tmp_path)
    assert (run.state, run.experiment, run.step) == (UNFINISHED, "vae", 20_000)
    assert state(run) == "unfinished, at step 20,000 of 20,000"
    (folder / "metrics.csv").unlink()
    assert state(only(tmp_path)) == "unfinished, no step measured yet of 20,000"


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("summary.json", "{", "summary.json is damaged: Expecting property name"),
        ("summary.json", "[1]", "summary.json is damaged: it must hold a JSON object"),
        ("summary.json", '{"experiment": "vae"}', "summary.json is without a format number"),
        ("config.json", "\xff", "config.json is damaged: "),
        ("environment.json", "", "environment.json is damaged: "),
        ("metrics.csv", "step,seconds\n1,2\n", "metrics.csv is damaged: it is not the file that"),
    ],
)
def test_damaged_files_are_named_and_the_rest_goes_on(tmp_path, file, content, reason):
    vae_run(tmp_path, 100.0, dataset="mnist")
    bad = vae_run(tmp_path, 101.0, dataset="mnist", seed=1)
    (bad / file).write_bytes(content.encode("latin-1"))
    runs = {run.folder.name: run for run in collect([tmp_path])}
    assert runs["mnist-dbsurf-n4-seed0"].state == FINISHED
    assert runs[bad.name].state == DAMAGED
    assert runs[bad.name].reason.startswith(reason)
    assert state(runs[bad.name]).startswith(f"damaged: {reason}")


def test_a_damaged_table_of_a_search_is_named(tmp_path):
    folder = nas_run(tmp_path, [94.0], "synthetic", dataset="synthetic")
    (folder / "curves.csv").write_text("a,b\n1,x\n")
    run = only(tmp_path)
    assert (run.state, run.reason[:10]) == (DAMAGED, "curves.csv")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("train_negative_elbo", None, "train_negative_elbo must be a number, got None"),
        ("seconds", "many", "seconds must be a number, got 'many'"),
        (
            "variance_by_estimator",
            [1],
            "every row of variance_by_estimator must be of type dict, got 1",
        ),
        (
            "variance_by_estimator",
            [{"estimator": "loorf", "options": {}}],
            "variance in variance_by_estimator must be a number, got None",
        ),
    ],
)
def test_a_summary_without_its_numbers_is_damaged(tmp_path, name, value, reason):
    folder = vae_run(tmp_path, 100.0, dataset="mnist")
    changed(folder, **{name: value})
    assert only(tmp_path).reason == f"summary.json: {reason}"


def test_a_configuration_or_a_search_without_what_is_needed_is_damaged(tmp_path):
    folder = vae_run(tmp_path, 100.0, dataset="mnist")
    chosen = {**only(tmp_path).configuration}
    del chosen["n"]
    changed(folder, configuration=chosen)
    assert only(tmp_path).reason == "summary.json has no n in its configuration"
    changed(folder, configuration={**chosen, "n": "four"})
    assert only(tmp_path).reason == (
        "summary.json: n of the configuration must be of type int, got 'four'"
    )
    other = nas_run(tmp_path / "nas", [94.0], "synthetic", dataset="synthetic")
    changed(other, found=None)
    assert only(tmp_path / "nas").reason == "summary.json: found must be of type list, got None"


def test_other_folders_are_none_of_our_business(tmp_path):
    vae_run(tmp_path, 100.0, dataset="mnist")
    for name, file, content in (
        ("foreign", "config.json", '{"learning_rate": 1}'),
        ("other", "summary.json", '{"experiment": "cooking"}'),
        ("nothing", "notes.txt", "none"),
        (".hidden", "summary.json", "{"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(content)
    assert only(tmp_path).configuration["dataset"] == "mnist"


def test_a_run_of_an_older_format_is_named(tmp_path):
    folder = unfinished_vae_run(tmp_path, 100.0, dataset="mnist")
    (folder / "config.json").write_text('{"dataset": "mnist"}')
    (folder / "environment.json").write_text("{}")
    told = "damaged: config.json is without a format number, this version reads format 2"
    assert state(only(tmp_path)) == told


def test_edited_metrics_of_an_unfinished_run_are_noticed(tmp_path):
    folder = unfinished_vae_run(tmp_path, 100.0, dataset="mnist")
    text = (folder / "metrics.csv").read_text()
    (folder / "metrics.csv").write_text(text.replace("200.0", "100.0"))
    assert (
        state(only(tmp_path)) == "damaged: metrics.csv is damaged: it does not match its checksum"
    )


def test_what_is_inside_a_run_belongs_to_it(tmp_path):
    folder = nas_run(tmp_path, [94.0], "NAS-Bench-201", dataset="cifar10")
    nas_run(folder / "seed-0", [94.0], "NAS-Bench-201", dataset="cifar10", seed=5)
    assert only(tmp_path).folder == folder


def test_the_same_configuration_counts_once(tmp_path):
    vae_run(tmp_path / "a", 100.0, dataset="mnist")
    vae_run(tmp_path / "b", 100.0, dataset="mnist")
    first, second = collect([tmp_path])
    assert (first.state, second.state) == (FINISHED, REPEATED)
    assert second.reason == "same configuration as run 1"


def test_no_runs_is_one_line_and_status_2(tmp_path, capsys):
    assert cli.main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("dbsurf: error: RUNS must hold at least one run, got")
    assert len(error.splitlines()) == 1
    assert cli.main(["report", str(tmp_path / "nowhere")]) == 2
    assert "RUNS must be folders" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("vae", {"dataset": "mnist", "estimator_options": ("alpha=preserve", "debias=true")}),
        ("vae", {"steps": 300, "learning_rate": 0.001, "seed": 3, "n": 8}),
        ("nas-table", {"dataset": "synthetic", "estimator": "random", "seeds": 3}),
        ("nas-supernet", {"channels": 8, "estimator_options": ("alpha=2",)}),
        ("nas-supernet", {"method": "few-shot", "base": "gdas", "split_edge": 2, "seed": 5}),
        ("nas-supernet", {"method": "drnas", "progressive": True, "parts": 2}),
        ("toy", {"preset": "smoke", "points": 39, "comparison_draws": 100, "n": (2, 4)}),
    ],
)
def test_a_command_makes_the_configuration_it_is_of(name, changes):
    record = experiment(name)
    options = record.options(**changes)
    words = record.command_for(options.config()).split()
    assert " ".join(words[1:]).startswith(record.command)
    _, again = parsing.parse(words[1:])
    assert again.config() == options.config()


def test_commands_of_what_we_do_not_know():
    assert experiment("vae").command_for({"flavour": 1}) == ""
    assert record_of({}, RECORDS) is None
    assert record_of({"experiment": "cooking", "configuration": {}}, RECORDS) is None
    assert record_of({"experiment": "toy", "configuration": {}}, RECORDS) is experiment("toy")


def test_every_configuration_is_known_for_its_own_experiment():
    for record in RECORDS:
        named = {"experiment": record.group, "configuration": record.options().config()}
        assert record_of(named, RECORDS) is record


def test_commands_say_what_was_measured_and_how_to_switch_off(tmp_path):
    vae_run(tmp_path, 100.0, dataset="mnist", measure_variance=True)
    run = only(tmp_path)
    assert run.command == "dbsurf vae --dataset mnist --steps 20000 --measure-variance"
    assert described(run) == "MNIST, DBsurf, n = 4, 20,000 steps"
    assert experiment("vae").command_for({"tensorboard": False}) == "dbsurf vae --no-tensorboard"


def test_what_was_typed_stands_in_for_a_configuration_of_another_version(tmp_path):
    folder = vae_run(tmp_path, 100.0, dataset="mnist")
    changed(folder, configuration={**only(tmp_path).configuration, "flavour": 1})
    assert only(tmp_path).command == "dbsurf vae"
