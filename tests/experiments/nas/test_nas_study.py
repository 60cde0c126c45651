"""Table 2 and the curves say what the runs say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from dbsurf.experiments.nas import Options, paper, study

# Mode, data set, estimator: test accuracies of the found cells.
NUMBERS = {
    ("table", "cifar10", "dbsurf"): (94.0, 94.2),
    ("table", "cifar100", "dbsurf"): (73.51, 73.51),
    ("table", "cifar10", "random"): (93.0, 94.0),
    ("table", "synthetic", "dbsurf"): (99.0, 99.0),
    ("supernet", "cifar10", "dbsurf"): (92.5,),
    ("supernet", "cifar100", "dbsurf"): (None, None),
}


def write(folder: Path, mode: str, dataset: str, estimator: str, tests: tuple) -> None:
    folder.mkdir(parents=True)
    options = Options(mode=mode, dataset=dataset, estimator=estimator, seeds=len(tests), steps=7)
    found = [
        {
            "seed": seed,
            "index": 10 + seed,
            "architecture": "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
            "val_12": 60.0,
            "val_200": 90.0,
            "test_200": test,
            "distinct_queries": 30,
            "queries": 35,
        }
        for seed, test in enumerate(tests)
    ]
    landscape = "synthetic" if dataset == "synthetic" else "NAS-Bench-201"
    summary = {
        "experiment": "nas",
        "configuration": options.config(),
        "landscape": None if None in tests else landscape,
        "found": found,
        "seconds": 1.0,
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    if mode == "table":
        rows = {"distinct_queries": [1, 20, 30], "val_12": [40.0, 50.0, 60.0]}
        rows |= {"test_200": [80.0, 90.0, tests[0]], "test_200_error": [0.3, 0.2, 0.1]}
        pd.DataFrame(rows).to_csv(folder / "curves.csv", index=False)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Finished searches with known numbers, the single seeds of one, and another experiment."""
    for (mode, dataset, estimator), tests in NUMBERS.items():
        write(tmp_path / f"{mode}-{dataset}-{estimator}", mode, dataset, estimator, tests)
    whole = tmp_path / "supernet-cifar100-dbsurf"
    write(whole / "seed-0", "supernet", "cifar100", "dbsurf", (None,))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "summary.json").write_text('{"experiment": "toy"}')
    return study.finished_runs([tmp_path])


def test_finished_searches_are_found_once(folders):
    assert len(folders) == len(NUMBERS)


def test_results_have_a_row_a_found_cell(folders):
    found = study.results(folders)
    assert len(found) == 11
    row = found[(found["estimator"] == "random") & (found["seed"] == 1)].iloc[0]
    assert (row["index"], row["test_200"], row["distinct_queries"]) == (11, 94.0, 30)
    assert row["scale"] == "table, 7 steps of n = 5, 30 finalists"
    scales = {
        name: study.scale(Options(estimator=name).config()) for name in ("loorf", "evolution")
    }
    assert scales["loorf"] == "table, 1000 steps of n = 5, rate 0.05, 30 finalists"
    assert "population 25, tournament 5, 30 finalists" in scales["evolution"]


def test_table_2_has_the_papers_rows_the_optimum_and_ours(folders):
    table = study.table_2(folders)
    assert list(table["method"][:10]) == [name for _, name in paper.TABLE_2] + ["Optimal"]
    assert table[table["method"] == "Optimal"]["imagenet16-120"].item() == 47.31
    ours = table[table["scale"] != "paper"].set_index(["parameterisation", "method"])
    assert len(ours) == 3  # neither the synthetic landscape nor what the table does not know
    row = ours.loc[("ours, table", "dbsurf")]
    assert row["cifar10"] == pytest.approx(94.1)
    assert row["cifar10_error"] == pytest.approx(0.1)  # sd 0.1414 over sqrt(2)
    assert (row["cifar100"], row["cifar100_error"]) == (73.51, 0.0)
    assert math.isnan(row["imagenet16-120"])
    assert row["seeds"] == "2"
    alone = ours.loc[("ours, supernet", "dbsurf")]
    assert alone["cifar10"] == 92.5
    assert math.isnan(alone["cifar10_error"])
    assert "supernet, 16 channels, 5 cells, all images, 5 + 45 epochs" in alone["scale"]


def test_markdown_marks_what_is_at_or_above_the_paper(folders):
    text = study.markdown(study.table_2(folders))
    assert "| discrete | DBsurf | 94.36 ± 0.00 | 73.51 ± 0.00 | 46.34 ± 0.00 | 4 | paper |" in text
    assert "| - | Optimal | 94.37 | 73.51 | 47.31 | - | paper |" in text
    ours = "| ours, table | dbsurf | 94.10 ± 0.10 | **73.51 ± 0.00** | - | 2 | table, 7 steps"
    assert ours in text


def test_curves_and_figure(folders, tmp_path):
    table = study.curves(folders)
    assert len(table) == 4 * 3
    assert list(table)[:4] == ["dataset", "estimator", "n", "seeds"]
    study.figure_search(folders, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_nothing_to_show_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="at least one finished run"):
        study.table_2([])
    with pytest.raises(ValueError, match="at least one finished table search"):
        study.figure_search([], tmp_path / "figure.png")


def test_papers_table_is_whole():
    assert len(paper.TABLE_2) == 9
    assert paper.TABLE_2["discrete", "DSNAS"]["cifar100"] == (31.01, 16.38)
    assert paper.DBSURF == {"cifar10": 94.36, "cifar100": 73.51, "imagenet16-120": 46.34}
