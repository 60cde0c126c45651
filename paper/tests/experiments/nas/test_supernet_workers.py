"""Several processes do what one does, and mixed precision trains.

Batch normalisation takes its statistics over the batches of all processes, so that the comparison
with the joined batch holds for the whole network as it is, up to the order of sums.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from dbsurf_paper.experiments.nas.supernet.launching import search
from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
from dbsurf_paper.runs.checkpoint import read_checkpoint
from supernet_runs import TINY, digits, searching

pytest.importorskip("lightning_fabric", reason="the extra cluster is not installed")

SHORT = dataclasses.replace(
    TINY, estimator="loorf", warmup_epochs=0, epochs=45, steps=3, architecture_rate=0.01
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SupernetOptions:
    """With the digits in a folder of their own, read from their table once."""
    return dataclasses.replace(SHORT, data_dir=digits(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def alone(tiny: SupernetOptions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run in one process and single precision."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("alone") / "run"
    search(dataclasses.replace(tiny, out=out))
    return out


def state(folder: Path) -> dict:
    return read_checkpoint(folder / "checkpoint.pt")["state"]["trainer"]


def assert_alike(left: dict, right: dict, tolerance: float) -> None:
    assert left["members"].keys() == right["members"].keys()
    for number, member in left["members"].items():
        other = right["members"][number]
        for part in ("network", "architecture"):
            assert member[part].keys() == other[part].keys()
            for name, value in member[part].items():
                torch.testing.assert_close(value, other[part][name], rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore")  # Fabric's advice
def test_two_processes_give_the_update_of_one_with_the_joined_batch(tiny, alone, tmp_path):
    summary = search(dataclasses.replace(tiny, out=tmp_path / "two", devices=2))
    assert_alike(state(alone), state(tmp_path / "two"), 1e-4)
    assert (state(tmp_path / "two")["members"]["0"]["architecture"]["logits"] != 0).any()
    one = json.loads((alone / "summary.json").read_text())
    assert summary["configuration"] == one["configuration"]
    assert summary["found"][0]["index"] == one["found"][0]["index"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("half_precision")
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision_trains(tiny, alone, tmp_path, precision):
    summary = search(dataclasses.replace(tiny, out=tmp_path / "half", precision=precision))
    assert summary["configuration"]["precision"] == precision
    full, half = state(alone), state(tmp_path / "half")
    assert_alike(full, half, 0.1)
    fuller, other = full["members"]["0"]["network"], half["members"]["0"]["network"]
    assert all(value.dtype == torch.float32 for value in other.values())
    assert not torch.equal(fuller["head.4.bias"], other["head.4.bias"])


OTHERS = ["darts", "pc-darts", "snas", "drnas", "gdas", "dsnas", "few-shot-gm"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["darts", "pc-darts", "gdas", "few-shot"])
def test_methods_on_two_processes(tiny, tmp_path, method):
    """One step: its gradients are those of the joined batch, so Adam's step has the same sign."""
    options = searching(tiny, method, steps=1, parts=2 if method == "pc-darts" else 4)
    search(dataclasses.replace(options, out=tmp_path / "one"))
    search(dataclasses.replace(options, out=tmp_path / "two", devices=2))
    assert_alike(state(tmp_path / "one"), state(tmp_path / "two"), 1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("half_precision")
@pytest.mark.parametrize("method", OTHERS)
def test_every_method_in_mixed_precision(tiny, tmp_path, method):
    parts = 2 if method == "pc-darts" else 4
    options = searching(tiny, method, steps=2, parts=parts, precision="bf16-mixed")
    search(dataclasses.replace(options, out=tmp_path / "half"))
    half = state(tmp_path / "half")
    assert (half["members"]["0"]["architecture"]["logits"] != 0).any()
