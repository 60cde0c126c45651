"""What a run is: its configuration, the name of that, and the last losses of a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from dbsurf_paper.experiments.registry import every, experiment
from dbsurf_paper.labels import file_name
from dbsurf_paper.runs.options import (
    EXECUTION,
    config_hash,
    configuration,
    named_values,
)
from dbsurf_paper.runs.records import KEPT, RecentLosses


@dataclass(frozen=True)
class Sample:
    n: int = 4
    extras: tuple[str, ...] = ("alpha=1",)
    out: Path | None = field(default=Path("runs"), metadata=EXECUTION)


def test_a_configuration_is_what_comes_back_from_json():
    assert configuration(Sample()) == {"n": 4, "extras": ["alpha=1"]}
    assert configuration(Sample(out=None)) == configuration(Sample())


def test_a_configurations_name_is_the_same_on_every_machine():
    assert config_hash("vae", configuration(Sample())) == "4d1e9048496f"
    others = [config_hash("nas", configuration(Sample())), config_hash("vae", {"n": 5})]
    assert len({*others, "4d1e9048496f"}) == 3


def test_values_by_name():
    assert named_values(["alpha=0.5", "debias=true", "baseline=running-mean", "x=null"]) == {
        "alpha": 0.5,
        "debias": True,
        "baseline": "running-mean",
        "x": None,
    }
    assert file_name("dbsurf", ["alpha=0.5"]) == "dbsurf-alpha-0.5"
    for text in ("alpha", "=1"):
        with pytest.raises(ValueError, match="estimator_options must be NAME=VALUE, got"):
            named_values([text])


@pytest.mark.parametrize("record", every(), ids=lambda record: record.name)
def test_every_experiment_has_presets_and_folders(record):
    assert "smoke" in record.presets
    assert {"laptop", "paper"} & set(record.presets)
    for options in record.presets.values():
        assert isinstance(options, record.options)
        assert len(config_hash(record.name, options.config())) == 12
        assert isinstance(options.folder(), Path)


def test_unknown_experiment():
    with pytest.raises(ValueError, match="experiment must be one of vae, .*, got 'vea'"):
        experiment("vea")


def test_losses_name_the_first_bad_step_of_the_last_hundred():
    weights = [torch.zeros(2), torch.zeros(3)]
    losses = RecentLosses(torch.device("cpu"))
    for step in range(KEPT + 20):
        bad = step in (10, KEPT + 7)  # the first is overwritten by later ones
        losses.add(step, torch.tensor(float("nan") if bad else 1.0))
    assert losses.first_bad_step(KEPT + 20, weights) == KEPT + 8
    losses.add(KEPT + 7, torch.tensor(1.0))
    assert losses.first_bad_step(KEPT + 20, weights) is None
    weights[1][2] = torch.inf
    assert losses.first_bad_step(KEPT + 20, weights) == KEPT + 20
