"""``dbsurf toy`` from the outside: its folder, its words, its errors."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import torch

from dbsurf_paper.commands import main as cli
from dbsurf_paper.experiments.toy import curves, statements

TINY = ["--points", "9", "--draws", "100", "--comparison-draws", "10"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One small run for all tests that only look."""
    out = tmp_path_factory.mktemp("runs") / "toy"
    assert cli.main(["toy", "--preset", "smoke", "--out", str(out), *TINY]) == 0
    return out


def test_the_folder_has_every_figure_curve_and_table(folder):
    names = {path.name for path in folder.iterdir()}
    drawn = ["figure2", "figure3", "figure4", "figure5", "figure6", "appendix", "ten_dimensions"]
    for name in drawn:
        assert {f"{name}.png", f"{name}.pdf", f"{name}.csv"} <= names
        assert (folder / f"{name}.png").stat().st_size > 10_000
        assert len(pd.read_csv(folder / f"{name}.csv")) > 2
    assert {"one_dimension.csv", "summary.md", "config.json", "environment.json"} <= names
    config = json.loads((folder / "config.json").read_text())["configuration"]
    assert "preset" not in config  # it says where the other values are from
    assert config["points"] == 9
    assert config["seed"] == 0


def test_the_summary_lists_the_papers_statements_with_a_verdict_each(folder):
    text = (folder / "summary.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("| ") and "**" in line]
    judged = [line for line in table if any(f"**{v}**" in line for v in VERDICTS)]
    assert len(judged) >= 15
    for claim in ("proposition 2.1", "proposition 2.2", "figure 4", "ARMS-D", "DoubleCV"):
        assert any(claim in line for line in judged)
    for name in ("figure2", "figure6", "appendix"):
        assert f"({name}.png)" in text


VERDICTS = ("holds", "holds in part", "does not hold")


def test_verdicts_follow_the_numbers():
    assert [statements.verdict(share) for share in (1.0, 0.4, 0.0)] == list(VERDICTS)
    p = pd.Series([0.1, 0.2, 0.3, 0.4]).to_numpy()
    assert statements.intervals(p, p < 0.25) == "0.10-0.20"
    assert statements.intervals(p, (p < 0.15) | (p > 0.25)) == "0.10-0.10, 0.30-0.40"
    assert statements.intervals(p, p > 1) == "no p"
    assert statements.intervals(p, p > 0) == "all p"


def test_a_claim_that_is_false_is_said_to_be_false(folder):
    """The statements are judged by the data: other data, other verdicts."""
    names = ("figure2", "figure3", "figure4", "figure5", "figure6", "appendix")
    data = {name: pd.read_csv(folder / f"{name}.csv") for name in names}
    before = {s.claim: s.verdict for s in statements.collect(data)}
    worse = data["figure6"].series == "DBsurf"
    data["figure6"].loc[worse, "exact"] = 1.0
    after = {s.claim: s.verdict for s in statements.collect(data)}
    claim = "For all n DBsurf significantly reduces variance over LOORF."
    assert before[claim] == "holds"
    assert after[claim] == "does not hold"


def test_the_same_seed_gives_the_same_numbers(folder):
    generator = torch.Generator().manual_seed(0)
    probs = curves.probability_grid(9)
    again = curves.gradient_variance(0.49, probs, 100, generator, lambda share: None)
    pd.testing.assert_frame_equal(again, pd.read_csv(folder / "figure6.csv"))


def test_ones_own_function(tmp_path, capsys):
    (tmp_path / "mine.py").write_text("def product(x):\n    return x.prod(-1) + x.sum(-1)\n")
    words = ["toy", "--function", "mine:product", "--dim", "3", "--comparison-draws", "10"]
    assert cli.main(words) == 0
    out = tmp_path / "runs" / "toy" / "mine.product"
    printed = capsys.readouterr().out
    assert printed.strip().endswith("summary.md")
    assert "MDsurf" in printed
    data = pd.read_csv(out / "comparison.csv")
    assert set(data.n) == {2, 4, 6, 8}
    assert data.groupby("n").recommended.sum().eq(1).all()
    assert "mine:product in 3 dimensions" in (out / "summary.md").read_text()
    assert cli.main(words) == 0  # finished: read back
    assert cli.main([*words, "--seed", "1"]) == 2
    assert "another configuration: seed (0 there, 1 here)" in capsys.readouterr().err


BROKEN = """
import torch
def good(x): return x.sum(-1)
def shape(x): return x
def raises(x): return x @ torch.ones(77)
def nan(x): return x.sum(-1) * float("nan")
def number(x): return 3.0
constant = 5
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--function", "nowhere:f"], "module 'nowhere' can't be imported"),
        (["--function", "broken"], "--function must have the form module:callable, got 'broken'"),
        (["--function", "broken:missing"], "'broken' has no callable 'missing'"),
        (["--function", "broken:constant"], "'broken' has no callable 'constant'"),
        (["--function", "syntax:f"], "module 'syntax' can't be imported (SyntaxError"),
        (["--function", "broken:shape"], "f must return one floating-point tensor of shape (2,)"),
        (["--function", "broken:nan"], "f must return finite values"),
        (["--function", "broken:number"], "f must return one tensor"),
        (
            ["--function", "broken:raises"],
            "failed on samples of shape (2, 10) (RuntimeError",
        ),
        (["--target", "nan"], "--target must be a finite number, got nan"),
        (["--points", "1"], "--points must be at least 3, got 1"),
        (["--dim", "0"], "--dim must be at least 1, got 0"),
        (
            ["--function", "broken:good", "--n", "3", "--estimators", "DisARM(3)"],
            "n must be an even integer >= 2 for DisARM, got 3",
        ),
        (["--function", "broken:good", "--n", "1"], "n must be an integer >= 2 for compare, got 1"),
        (["--function", "broken:good", "--estimators", "GUM"], "name must be one of arm"),
        (["--preset", "huge"], "--preset must be one of smoke, paper for toy, got 'huge'"),
        (["--out", "taken"], "--out taken exists and is not a folder of an earlier toy run"),
        (["--out", "full"], "--out full exists and is not a folder of an earlier toy run"),
        (["--out", "taken/deeper"], "taken"),
        (["--out", "/proc/locked"], "/proc"),  # not even root may write there
    ],
)
def test_bad_input_is_one_line_and_status_2_and_leaves_nothing(tmp_path, capsys, words, message):
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "syntax.py").write_text("def f(:\n")
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("not ours")
    before = {path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts}
    assert cli.main(["toy", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("dbsurf: error: ")
    assert message in output.err
    assert output.err.count("\n") == 1
    assert {p for p in tmp_path.rglob("*") if "__pycache__" not in p.parts} == before


def test_a_failure_half_way_leaves_no_folder(tmp_path, monkeypatch, capsys):
    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dbsurf_paper.experiments.toy.curves.gradient_variance", full_disk)
    assert cli.main(["toy", "--preset", "smoke", "--out", "runs/x", *TINY]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
