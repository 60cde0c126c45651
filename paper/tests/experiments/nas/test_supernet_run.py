"""Runs from options to a finished folder: resumed bit for bit, over seeds, or refused."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from dbsurf_paper.commands.main import main
from dbsurf_paper.data import store
from dbsurf_paper.experiments.nas import space
from dbsurf_paper.experiments.nas.supernet import building
from dbsurf_paper.experiments.nas.supernet.drawing import draw_cell
from dbsurf_paper.experiments.nas.supernet.launching import search
from dbsurf_paper.experiments.nas.supernet.methods import METHODS
from dbsurf_paper.experiments.nas.supernet.methods.base import ByChoice
from dbsurf_paper.experiments.nas.supernet.options import SUPERNET_PRESETS as PRESETS
from dbsurf_paper.experiments.nas.supernet.options import Base, Name, SupernetOptions
from dbsurf_paper.experiments.nas.supernet.training import Trainer
from dbsurf_paper.runs.checkpoint import read_checkpoint
from dbsurf_paper.runs.folder import read_summary
from dbsurf_paper.runs.records import read_metrics
from supernet_runs import TINY, digits, searching


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the digits, read from their table once."""
    return digits(tmp_path_factory.mktemp("data"))


@pytest.fixture
def tiny(tmp_path: Path, folder: Path) -> SupernetOptions:
    return dataclasses.replace(TINY, out=tmp_path / "run", data_dir=folder)


def trained(place: Path) -> dict:
    return read_checkpoint(place / "checkpoint.pt")["state"]["trainer"]


def assert_same_state(left: object, right: object, name: str = "state") -> None:
    """Two nested states, bit for bit."""
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key, value in left.items():
            assert_same_state(value, right[key], f"{name}.{key}")
    elif isinstance(left, torch.Tensor):
        assert torch.equal(left, right), name
    else:
        assert left == right, name


def test_a_run_writes_what_it_promises(tiny, tmp_path, folder):
    summary = search(tiny)
    assert read_summary(tmp_path / "run") == summary
    assert summary["experiment"] == "nas"
    assert summary["configuration"]["mode"] == "supernet"
    assert summary["steps"] == 12
    assert summary["landscape"] is None  # digits are not in the table
    (found,) = summary["found"]
    assert space.to_string(space.from_index(found["index"])) == found["architecture"]
    assert found["queries"] == 36
    assert 1 <= found["distinct_queries"] <= 36
    assert found["test_200"] is None
    assert 0 <= found["supernet_accuracy"] <= 100
    assert (tmp_path / "run" / "cell.png").read_bytes().startswith(b"\x89PNG")
    rows = read_metrics(tmp_path / "run")
    assert [row["step"] for row in rows] == [0, 4, 8, 12]
    assert rows[-1]["cell"] == found["index"]
    assert rows[0]["loss"] is None
    assert rows[1]["entropy_0_1"] == pytest.approx(np.log(5))  # the warm-up is one epoch
    assert rows[-1]["entropy_2_3"] < np.log(5)
    again = search(dataclasses.replace(tiny, data_dir=tmp_path / "nothing"))
    assert again == summary  # read back, not run again


VARIANTS = [
    *({"method": name} for name in METHODS),
    {"method": "darts", "order": 2},
    {"method": "drnas", "progressive": True, "parts": 2},
    {"method": "few-shot", "base": "pc-darts", "parts": 2, "split_edge": 3, "split_groups": 2},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: " ".join(map(str, one.values())))
def test_a_broken_run_goes_on_bit_for_bit(tiny, tmp_path, monkeypatch, variant):
    """Broken once before and once after a split, a pruning or a widening."""
    options = searching(tiny, **variant)
    whole = search(dataclasses.replace(options, out=tmp_path / "whole"))
    step = Trainer.step
    stops = [3, 7]

    def stopping(self: Trainer) -> None:
        if stops and self.steps == stops[0]:
            stops.pop(0)
            raise KeyboardInterrupt
        step(self)

    monkeypatch.setattr(Trainer, "step", stopping)
    broken = dataclasses.replace(options, checkpoint_every=3)
    with pytest.raises(KeyboardInterrupt):
        search(broken)
    assert trained(tmp_path / "run")["steps"] == 3
    with pytest.raises(ValueError, match="holds an unfinished run: --resume continues it"):
        search(broken)
    again = dataclasses.replace(broken, resume=True)
    with pytest.raises(KeyboardInterrupt):
        search(again)
    assert trained(tmp_path / "run")["steps"] == 6
    finished = search(again)
    assert_same_state(trained(tmp_path / "whole"), trained(tmp_path / "run"))
    same = ("found", "steps", "evaluations", "configuration")
    assert {key: whole[key] for key in same} == {key: finished[key] for key in same}
    rows, others = read_metrics(tmp_path / "whole"), read_metrics(tmp_path / "run")
    for row, other in zip(rows, others, strict=True):
        assert {**row, "seconds": None} == {**other, "seconds": None}
    assert (tmp_path / "run" / "cell.png").exists()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_sees_as_many_images(tiny, name):
    """3 epochs of 64 images; gradient matching also looks at 4 batches before its split."""
    summary = search(searching(tiny, name))
    (found,) = summary["found"]
    extra = 4 * 16 if name == "few-shot-gm" else 0
    assert found["images"] == 3 * 64 + extra
    validation = METHODS[name].validation
    assert summary["steps"] == (4 + 2 * 2 if validation else 4 + 2 * 4)


def test_few_shot_has_a_supernet_for_every_group_and_takes_the_one_with_the_lowest_loss(
    tiny, tmp_path
):
    search(searching(tiny, "few-shot", split_edge=2))
    members = trained(tmp_path / "run")["members"]
    assert len(members) == 5
    allowed = [member["architecture"]["allowed"] for member in members.values()]
    assert torch.equal(torch.stack([one[2] for one in allowed]), torch.eye(5).bool())
    assert all(one[[0, 1, 3, 4, 5]].all() for one in allowed)
    lines = (tmp_path / "run" / "candidates.csv").read_text().splitlines()
    assert lines[0] == "index,architecture,loss,supernet"
    losses = [float(line.split(",")[2]) for line in lines[1:]]
    assert losses == sorted(losses)
    assert sorted(int(line.split(",")[3]) for line in lines[1:]) == list(range(5))


def test_several_seeds_have_a_folder_each_and_a_summary_over_all(tiny, tmp_path):
    summary = search(dataclasses.replace(tiny, seeds=2, seed=5, epochs=1))
    assert [cell["seed"] for cell in summary["found"]] == [5, 10]
    for seed in (5, 10):
        one = read_summary(tmp_path / "run" / f"seed-{seed}")
        assert one["configuration"]["seed"] == seed
        assert one["found"][0] in summary["found"]
    assert summary["queries"] == 24
    assert summary["configuration"]["seeds"] == 2
    assert read_summary(tmp_path / "run") == summary


def test_seeds_side_by_side_are_the_seeds_one_after_the_other(tiny, tmp_path):
    options = dataclasses.replace(tiny, seeds=2, epochs=1)
    apart = search(dataclasses.replace(options, out=tmp_path / "apart"))
    beside = search(dataclasses.replace(options, jobs=2))
    assert beside["found"] == apart["found"]


def test_uniform_sampling_chooses_by_the_training_loss_of_cells_it_draws(tiny, tmp_path):
    summary = search(searching(tiny, "uniform", candidates=5))
    lines = (tmp_path / "run" / "candidates.csv").read_text().splitlines()
    losses = [float(line.split(",")[2]) for line in lines[1:]]
    assert losses == sorted(losses)
    assert len(losses) == 5
    assert int(lines[1].split(",")[0]) == summary["found"][0]["index"]
    rows = read_metrics(tmp_path / "run")
    entropies = [row["entropy_0_3"] for row in rows]
    assert entropies == pytest.approx([np.log(5)] * len(entropies))
    assert all(row["cell"] is None for row in rows)


def test_steps_stand_above_epochs_and_divergence_is_named(tiny):
    options = dataclasses.replace(tiny, steps=5, learning_rate=1e30, warmup_epochs=0)
    with pytest.raises(ValueError, match="a loss or a weight is not finite at step"):
        search(options)


def test_found_cells_are_looked_up(tiny, monkeypatch, tmp_path):
    from dbsurf_paper.experiments.nas.landscape import SYNTHETIC, Table, synthetic_columns
    from dbsurf_paper.experiments.nas.supernet import search as ours

    table = Table("NAS-Bench-201", synthetic_columns())
    monkeypatch.setattr(ours, "table_of", lambda options: (table, SYNTHETIC))
    summary = search(dataclasses.replace(tiny, epochs=1))
    (found,) = summary["found"]
    assert summary["landscape"] == "NAS-Bench-201"
    assert summary["test_200"] == found["test_200"] > 0
    assert summary["test_200_error"] is None


def test_the_real_table_knows_the_subset():
    if store.locate("nasbench201") is None:
        pytest.skip("nasbench201 is not on this machine: DBSURF_DATA names no folder with it")
    from dbsurf_paper.experiments.nas.supernet.search import looked_up, table_of

    best = space.from_index(6111)
    for dataset in ("cifar10", "cifar10-subset"):
        table, name = table_of(dataclasses.replace(TINY, dataset=dataset))
        assert looked_up(best, table, name)["test_200"] == pytest.approx(94.37, abs=0.005)


@pytest.mark.parametrize(
    "cell", [(0,) * 6, (3,) * 6, (3, 0, 0, 1, 0, 0), (1, 2, 3, 4, 0, 3)], ids=str
)
def test_every_cell_can_be_drawn(cell, tmp_path):
    draw_cell(cell, tmp_path / "cell.png", "a cell", [0.5] * 6)
    assert (tmp_path / "cell.png").stat().st_size > 5_000


# --- presets ------------------------------------------------------------------------------------


def test_the_paper_preset_is_appendix_c_2():
    paper = PRESETS["paper"]
    assert (paper.channels, paper.cells, paper.n) == (16, 5, 5)
    assert (paper.warmup_epochs, paper.epochs, paper.cosine_epochs) == (5, 45, 235)
    assert (paper.learning_rate, paper.architecture_rate, paper.prune) == (0.5, 1e-3, 0.8)
    assert paper.batch_size() == 128
    assert dataclasses.replace(paper, dataset="imagenet16-120").batch_size() == 512
    assert paper.seeds == 4


def test_smoke_takes_what_is_there(folder, tmp_path, capsys):
    smoke = dataclasses.replace(
        PRESETS["smoke"], preset="smoke", data_dir=folder, out=tmp_path / "run"
    )
    assert smoke.seeds == 1
    found = building.with_data(smoke)
    assert found.dataset in ("fashion-mnist", "digits")
    assert "cifar10 is not here" in capsys.readouterr().err
    laptop = dataclasses.replace(smoke, preset="laptop")
    assert building.with_data(laptop) is laptop
    with pytest.raises(ValueError, match="cifar10 is not in .*`dbsurf data fetch cifar10`"):
        search(laptop)


def test_the_subset_stands_in_for_the_whole_where_it_is_enough():
    if store.locate("cifar10-subset") is None or store.locate("cifar10") is not None:
        pytest.skip("DBSURF_DATA names no folder with cifar10-subset and without cifar10")
    laptop = PRESETS["laptop"]
    assert building.with_data(dataclasses.replace(laptop, preset="smoke")).dataset == "cifar10"
    assert building.load_images(laptop).name == "cifar10-subset"
    with pytest.raises(ValueError, match="cifar10 is not in"):
        building.load_images(dataclasses.replace(laptop, images=0))


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--estimator", "dbsruf"], "estimator must be one of .*, got 'dbsruf'"),
        (["--estimator", "uniform"], "uniform sampling is --method uniform"),
        (["--estimator", "arms"], "got arms: dist must be Bernoulli"),
        (["--estimator", "loorf", "--n", "1"], "n must be"),
        (["--method", "uniform", "--estimator", "loorf"], "uniform has none: got loorf"),
        (["--method", "darts", "--n", "3"], "n must be left alone, darts has none: got 3"),
        (["--method", "darts", "--order", "3"], "order must be 1 or 2, got 3"),
        (["--method", "snas", "--order", "2"], "order must be left alone, snas has none: got 2"),
        (["--method", "snas", "--temperature", "0"], "temperature must be above 0 .*, got 0.0"),
        (["--method", "gdas", "--temperature", "-1"], "temperature must be above 0 .*, got -1.0"),
        (
            ["--method", "gdas", "--final-temperature", "20"],
            "final_temperature must be at most the temperature 10.0, got 20.0",
        ),
        (["--method", "pc-darts", "--parts", "3"], "parts must lie between 1 and the 2 channels"),
        (
            ["--method", "pc-darts", "--channels", "4", "--parts", "3"],
            "parts must divide the 4 channels, got 3",
        ),
        (["--method", "pc-darts", "--parts", "0"], "parts must lie between 1 .*, got 0"),
        (
            ["--method", "drnas", "--progressive", "--channels", "3", "--parts", "3"],
            "parts must be even for the progressive scheme, got 3",
        ),
        (
            ["--method", "few-shot", "--split-edge", "6"],
            "split_edge must be an edge, a number from 0 to 5, got 6",
        ),
        (["--method", "few-shot", "--split-groups", "1"], "split_groups must lie between 2 and 5"),
        (["--method", "few-shot-gm", "--split-edge", "0"], "few-shot-gm of snas has none: got 0"),
        (["--method", "few-shot", "--temperature", "nan"], "temperature must be above 0"),
        (["--method", "gdas", "--validation", "1"], "validation must lie between 0 and 1, got 1.0"),
        (
            ["--method", "gdas", "--validation", "0.9"],
            "batch must lie between 1 and 6 images, got 16",
        ),
        (
            ["--dataset", "omniglot"],
            "dataset must be one of digits, mnist, .*imagenet16-120, got 'omniglot'",
        ),
        (["--dataset", "cifar100"], "cifar100 is not in .*dbsurf data fetch cifar100"),
        (["--images", "5000"], "images must be at most the 4000 that digits has, got 5000"),
        (["--batch", "65"], "batch must lie between 1 and 64 images, got 65"),
        (["--devices", "3"], "batch must be a multiple of the 3 processes, got 16"),
        (["--devices", "0"], "devices must be at least 1, got 0"),
        (["--prune", "0"], r"threshold must lie in \(0, 1\], got 0"),
        (["--image-size", "2"], "image_size must be 0 or at least 4, got 2"),
        (["--learning-rate", "0"], "learning_rate must be above 0, got 0"),
        (
            ["--architecture-rate", "1e300"],
            r"architecture_rate must be at most 1e\+30, got 1e\+300",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_status_2(words, reason, folder, tmp_path, capsys):
    given = ["nas", "supernet", "--data-dir", str(folder), "--out", str(tmp_path / "r")]
    given += ["--device", "cpu", "--seeds", "1", "--channels", "2", "--cells", "1"]
    given += ["--image-size", "8", "--images", "64", "--batch", "16", "--dataset", "digits"]
    assert main([*given, *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(reason, error)


def test_precision_and_device_that_do_not_exist(folder, tmp_path, capsys, monkeypatch):
    given = ["nas", "supernet", "--data-dir", str(folder), "--out", str(tmp_path / "r")]
    with pytest.raises(SystemExit) as stopped:
        main([*given, "--precision", "8"])
    assert stopped.value.code == 2
    if not torch.cuda.is_available():
        assert main([*given, "--device", "cuda"]) == 2
        assert "device must be one that this machine has, got cuda" in capsys.readouterr().err
    monkeypatch.setattr(building, "choose_device", lambda name: torch.device("cuda"))
    with pytest.raises(ValueError, match=r"devices must be at most the \d+ that this machine has"):
        building.check(dataclasses.replace(TINY, devices=16))
    monkeypatch.setattr(building, "choose_device", lambda name: torch.device("mps"))
    with pytest.raises(ValueError, match="must be 1 and 32 on mps"):
        building.check(dataclasses.replace(TINY, devices=2))


def test_the_command_line_lists_all_methods(capsys):
    assert list(METHODS) == list(get_args(Name))
    with pytest.raises(SystemExit):
        main(["nas", "supernet", "--help"])
    told = capsys.readouterr().out
    assert all(name in told for name in METHODS)
    for name in get_args(Base):
        assert issubclass(METHODS[name], ByChoice)


def test_the_page_lists_every_method_as_it_says_of_itself():
    """Text between the marks of docs/nas.md."""
    page = (Path(__file__).parents[4] / "docs" / "nas.md").read_text()
    table = page.split("<!-- methods -->")[1].split("<!-- end of methods -->")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().split("\n")]
    found = {row[0].strip("`"): row[1:] for row in rows[2:]}
    assert list(found) == list(METHODS)
    for name, method in METHODS.items():
        split = "as `--base`" if "base" in method.reads else "yes" if method.validation else "no"
        options = ", ".join(f"`{one}`" for one in method.reads) or "none"
        said = [method.kind, method.computes, method.holds, method.costs, split, options]
        assert found[name] == said
        assert "Reference:" in method.__doc__
        assert "Bias:" in method.__doc__
        assert "Memory:" in method.__doc__ or "memory" in method.__doc__
        assert "Evaluations:" in method.__doc__


def test_a_folder_of_another_method_is_refused_in_one_line(tiny, capsys):
    search(dataclasses.replace(tiny, steps=1))
    with pytest.raises(
        ValueError, match=r"another configuration: .*method \('sampled' there, 'dar"
    ):
        search(searching(tiny, "darts"))


def test_a_missing_fabric_is_named(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    with pytest.raises(ValueError, match=r"pip install 'dbsurf-paper\[cluster\]'"):
        search(dataclasses.replace(tiny, precision="bf16-mixed"))
