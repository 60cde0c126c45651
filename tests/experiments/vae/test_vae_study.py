"""Table 1 and figure 1 say what the runs say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dbsurf.experiments.vae import paper, study
from dbsurf.experiments.vae.options import Options
from dbsurf.runs.metrics import write_metrics

NUMBERS = {
    ("mnist", "loorf", 0): 101.0,
    ("mnist", "loorf", 1): 103.0,
    ("mnist", "dbsurf", 0): 99.5,
    ("omniglot", "dbsurf", 0): 120.25,
}


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Finished runs with known numbers, and one of another experiment."""
    for (dataset, estimator, seed), elbo in NUMBERS.items():
        folder = tmp_path / f"{dataset}-{estimator}-{seed}"
        folder.mkdir()
        options = Options(dataset=dataset, estimator=estimator, seed=seed, steps=20)
        summary = {
            "experiment": "vae",
            "configuration": options.config(),
            "steps": 20,
            "evaluations": 8000,
            "seconds": 1.0,
            "train_negative_elbo": elbo,
            "test_negative_elbo": elbo + 1,
            "train_bound": elbo - 5,
            "test_bound": elbo - 4,
            "gradient_variance": 10 * elbo,
        }
        (folder / "summary.json").write_text(json.dumps(summary))
        rows = [
            {"step": s, "seconds": 0.1, "train_negative_elbo": elbo + 20 - s} for s in (0, 10, 20)
        ]
        write_metrics(folder, rows)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "summary.json").write_text('{"experiment": "toy"}')
    return study.finished_runs([tmp_path])


def test_only_finished_vae_runs_are_found(folders):
    assert len(folders) == 4


def test_table_has_mean_error_and_the_papers_number(folders):
    table = study.table_1(folders).set_index(["dataset", "estimator"])
    row = table.loc[("mnist", "loorf")]
    assert row["seeds"] == 2
    assert row["train_negative_elbo"] == 102
    assert row["train_negative_elbo_error"] == pytest.approx(1.0)  # sd sqrt(2), over sqrt(2)
    assert (row["paper"], row["paper_error"]) == (99.79, 0.08)
    assert math.isnan(table.loc[("mnist", "dbsurf")]["train_negative_elbo_error"])


def test_markdown_marks_the_lowest(folders):
    text = study.markdown(study.table_1(folders))
    assert "| mnist | 4 | loorf | 102.00 ± 1.00 | 103.00 ± 1.00 | 98.00 ± 1.00 | 1020 |" in text
    assert "| mnist | 4 | dbsurf | **99.50** | 100.50 | 95.50 | 995 | 98.66 ± 0.25 |" in text
    assert "| omniglot | 4 | dbsurf | **120.25** |" in text


def test_figure_is_drawn(folders, tmp_path):
    study.figure_1(folders, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_nothing_to_show_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="at least one finished run"):
        study.table_1([])
    with pytest.raises(ValueError, match="at least one finished run"):
        study.figure_1([], tmp_path / "figure.png")


def test_papers_table_is_whole():
    assert len(paper.TABLE_1) == 3 * 4 * 5
    assert paper.TABLE_1["fashion-mnist", 6, "dbsurf"] == (235.32, 0.24)
    assert paper.TABLE_1["omniglot", 8, "loorf"] == (113.59, 0.06)
    for dataset in ("mnist", "fashion-mnist", "omniglot"):  # the paper's claim: DBsurf is lowest
        for n in (2, 4, 6, 8):
            row = {e: paper.TABLE_1[dataset, n, e][0] for e in ("dbsurf", "doublecv", "arms")}
            assert min(row, key=row.__getitem__) == "dbsurf"
