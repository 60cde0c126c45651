"""Figures as files: one that cannot be written is named, and leaves the one that was there."""

from __future__ import annotations

import errno
import os

import pytest

from dbsurf_paper.report import charts
from dbsurf_paper.report.charts import panels
from dbsurf_paper.report.document import Chart, Line, Panel


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


def test_a_legend_is_not_wider_than_its_figure():
    names = ["loorf", "dbsurf", *(f"gumbelsoftmax temperature=0.2{i}" for i in range(6))]
    lines = tuple(Line(name, (0.0, 1.0), (1.0, float(i))) for i, name in enumerate(names))
    figure = charts._whole(Chart("one", "", (Panel("p", "x", "y", lines),)), columns=1)
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(names)
    assert legend.get_window_extent().width <= figure.bbox.width
