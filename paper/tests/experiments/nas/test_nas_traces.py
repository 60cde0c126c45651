"""Supernet searches in the report: rows of table 2 over seeds in several folders, and curves."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dbsurf_paper.experiments import registry
from dbsurf_paper.experiments.nas.report import sections
from dbsurf_paper.experiments.nas.searches import searches
from dbsurf_paper.experiments.nas.space import EDGES
from dbsurf_paper.experiments.nas.supernet.options import SUPERNET_PRESETS
from dbsurf_paper.report.collect import collect
from dbsurf_paper.report.document import Chart, Table
from dbsurf_paper.runs.records import write_metrics
from handmade import nas_run

PAPER, LAPTOP = SUPERNET_PRESETS["paper"], SUPERNET_PRESETS["laptop"]


def rows(accuracies: list[float | None], entropy: float) -> list[dict[str, Any]]:
    """An epoch of 1,000 images a row."""
    edges = {f"entropy_{source}_{target}": entropy for source, target in EDGES}
    return [
        {"step": 10 * epoch, "images": 1_000 * epoch, **edges, "test_200": accuracy}
        for epoch, accuracy in enumerate(accuracies)
    ]


def supernet(place: Path, accuracies: list[float], **options: Any) -> Path:
    given = {"mode": "supernet", "dataset": "cifar10", "steps": 0, **options}
    return nas_run(place, accuracies, "NAS-Bench-201", **given)


@pytest.fixture
def blocks(tmp_path: Path) -> list:
    """Two folders of one seed each, one of two seeds, one of uniform sampling."""
    for seed, last in ((0, 90.0), (5, 94.0)):
        folder = supernet(tmp_path, [last], method="darts", seed=seed, seeds=1)
        write_metrics(folder, rows([10.0, last - 2, last], 1.0 + seed / 10))
    folder = supernet(tmp_path, [80.0, 82.0], method="gdas")
    for seed in (0, 5):
        (folder / f"seed-{seed}").mkdir()
        write_metrics(folder / f"seed-{seed}", rows([10.0, 70.0, 80.0 + seed], 0.5))
    folder = supernet(tmp_path, [91.0], method="uniform", seeds=1)
    write_metrics(folder, rows([None, None, None], 1.6))
    (section,) = sections(collect([tmp_path], registry.every()))
    return list(section.blocks)


def test_seeds_in_several_folders_are_one_row(blocks):
    table = next(one for one in blocks if isinstance(one, Table) and "Table 2." in one.caption)
    ours = {row.cells[1].text: row for row in table.rows if not row.quiet}
    assert set(ours) == {"DARTS", "GDAS", "uniform sampling"}
    assert ours["DARTS"].cells[2].text == "92.00 ± 2.00"
    assert "2 seeds" in ours["DARTS"].cells[1].note
    assert "n = " not in ours["DARTS"].cells[1].note
    assert "n = 5" in ours["uniform sampling"].cells[1].note
    theirs = {row.cells[1].text for row in table.rows if row.quiet}
    assert {"DARTS", "GDAS", "Optimal"} <= theirs


def test_settings_are_told_by_the_nearest_preset(tmp_path):
    laptop = {item.name: getattr(LAPTOP, item.name) for item in fields(LAPTOP)}
    unlike = {name: value for name, value in laptop.items() if value != getattr(PAPER, name)}
    supernet(tmp_path / "own", [90.0], **{**unlike, "method": "darts", "seeds": 1})
    supernet(
        tmp_path / "faster",
        [90.0],
        **{**unlike, "method": "darts", "seeds": 1, "architecture_rate": 0.022},
    )
    supernet(tmp_path / "paper", [90.0], method="darts", seeds=1)
    settings = {one.setting for one in searches(collect([tmp_path], registry.every()))}
    assert settings == {"preset laptop", "preset laptop, architecture rate 0.022", ""}


def test_the_present_cell_against_images_seen(blocks):
    chart = next(one for one in blocks if isinstance(one, Chart) and one.name == "supernet-curves")
    assert {panel.title: [line.series for line in panel.lines] for panel in chart.panels} == {
        "CIFAR-10, deterministic": ["darts"],
        "CIFAR-10, discrete": ["gdas"],  # uniform sampling has no cell before its end
    }
    lines = {line.series: line for panel in chart.panels for line in panel.lines}
    assert lines["darts"].x == (0.0, 1.0, 2.0)
    assert lines["darts"].y == (10.0, 90.0, 92.0)
    assert lines["darts"].low == (10.0, 88.0, 90.0)
    assert lines["gdas"].y[-1] == 82.5
    assert {panel.level for panel in chart.panels} == {94.37}


def test_a_search_has_no_cell_before_it_prefers_one(tmp_path):
    folder = supernet(tmp_path, [90.0], method="darts", seeds=1)
    warm_up = rows([10.0, 10.0], math.log(5))
    write_metrics(folder, warm_up + rows([10.0, 10.0, 80.0, 90.0], 1.5)[2:])
    (section,) = sections(collect([tmp_path], registry.every()))
    charts = {one.name: one for one in section.blocks if isinstance(one, Chart)}
    (line,) = charts["supernet-curves"].panels[0].lines
    assert (line.x, line.y) == ((2.0, 3.0), (80.0, 90.0))
    assert charts["supernet-entropies"].panels[0].lines[0].x == (0.0, 1.0, 2.0, 3.0)


def test_the_entropy_of_each_edge(blocks):
    named = {one.name: one for one in blocks if isinstance(one, Chart)}
    chart = named["supernet-entropies"]
    assert [panel.title for panel in chart.panels] == [
        f"CIFAR-10, edge {source} to {target}" for source, target in EDGES
    ]
    for panel in chart.panels:
        ends = {line.series: line.y[-1] for line in panel.lines}
        assert ends == pytest.approx({"darts": 1.25, "gdas": 0.5, "uniform": 1.6})
