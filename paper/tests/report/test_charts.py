"""Figures as files: one that cannot be written is named, and leaves the one that was there."""

from __future__ import annotations

import errno
import os

import pytest

from dbsurf_paper.report.charts import panels


def test_a_figure_on_a_full_disk(tmp_path, monkeypatch):
    with panels(1, tmp_path / "curve") as (_, (axes,)):
        axes.plot([0, 1])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(before) == ["curve.pdf", "curve.png"]

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*curve.png'"),
        panels(1, tmp_path / "curve") as (_, (axes,)),
    ):
        axes.plot([1, 0])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
