"""Half precision on a processor that says more than it can do, played by children that die."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from dbsurf_paper.experiments.nas.supernet.launching import search
from dbsurf_paper.runs import device
from supernet_runs import TINY

CPU = torch.device("cpu")
DYING = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
CURED = f"import os\nif os.environ.get('{device.SETTING}') != 'AVX512_CORE':\n    {DYING}"


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(device.SETTING, raising=False)
    device.half_precision_failure.cache_clear()
    yield
    device.half_precision_failure.cache_clear()


@pytest.mark.parametrize("wanted", ["bf16-mixed", "16-mixed"])
def test_a_processor_that_dies_is_told_what_to_set(monkeypatch, wanted):
    monkeypatch.setattr(device, "PROBE", CURED)
    told = rf"precision {wanted} does not work on this processor \(Illegal instruction\): "
    with pytest.raises(ValueError, match=f"{told}set ONEDNN_MAX_CPU_ISA=AVX512_CORE and start"):
        device.check_precision(wanted, CPU)
    monkeypatch.setenv(device.SETTING, "AVX512_CORE")
    device.half_precision_failure.cache_clear()
    device.check_precision(wanted, CPU)


def test_a_processor_that_always_dies_is_left_with_single_precision(monkeypatch):
    monkeypatch.setattr(device, "PROBE", DYING)
    with pytest.raises(ValueError, match=r"\(Illegal instruction\): --precision 32 works"):
        device.check_precision("bf16-mixed", CPU)


def test_other_ends_of_the_child_have_a_reason_too(monkeypatch):
    monkeypatch.setattr(device, "PROBE", "raise RuntimeError('no such kernel')")
    assert device.half_precision_failure() == "RuntimeError: no such kernel"
    monkeypatch.setattr(device, "PROBE", "raise SystemExit(3)")
    assert device.half_precision_failure("AVX2") == "status 3"


def test_a_search_stops_before_it_computes(monkeypatch, tmp_path):
    monkeypatch.setattr(device, "PROBE", DYING)
    with pytest.raises(ValueError, match="does not work on this processor"):
        search(dataclasses.replace(TINY, out=tmp_path / "run", precision="bf16-mixed"))
    assert not (tmp_path / "run").exists()


def test_single_precision_and_other_devices_are_not_tried(monkeypatch, capsys):
    monkeypatch.setattr(device, "PROBE", DYING)
    device.check_precision("32", CPU)
    device.check_precision("16-mixed", torch.device("meta"))
    assert not capsys.readouterr().err


def test_what_16_mixed_is_on_a_cpu_is_said(monkeypatch, capsys):
    monkeypatch.setattr(device, "PROBE", "")
    device.check_precision("16-mixed", CPU)
    assert capsys.readouterr().err == "dbsurf: on a CPU, 16-mixed computes in bfloat16\n"


def test_the_probe_itself_runs(half_precision, monkeypatch):
    monkeypatch.setenv(device.SETTING, "AVX512_CORE")
    compile(device.PROBE, "probe", "exec")
    assert device.half_precision_failure() is None
