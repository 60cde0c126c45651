"""An experiment is one record: a tiny one is added from outside and works everywhere."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from dbsurf_paper.commands import parsing
from dbsurf_paper.experiments import registry
from dbsurf_paper.runs.experiment import Experiment

PARTS = ("sections", "sentences", "identity", "described", "measures")
# One folder: the package of a new experiment, as another distribution would ship it.
TINY = '''
"""Counts to a number."""
from dataclasses import dataclass
from pathlib import Path

from dbsurf_paper.report.document import Paragraph, Section
from dbsurf_paper.runs.experiment import Experiment, Headline, SummaryFormat
from dbsurf_paper.runs.life import Life
from dbsurf_paper.runs.options import Execution


@dataclass(frozen=True)
class Options(Execution):
    """Count to a number, for the sake of an example."""

    number: int = 3
    """The number."""
    seed: int = 0
    """Where to begin."""

    def place(self):
        return Path("tiny") / f"number{self.number}-seed{self.seed}"


def run(options):
    life = Life("tiny", options)
    if life.summary is None:
        with life.opened():
            ones = [life.keep(f"number {i}", lambda: 1) for i in range(options.number)]
            life.finish({"total": options.seed + sum(ones)})
    print(f"{life.folder}: counted to {life.summary['total']}")


def sections(runs):
    totals = [run.summary["total"] for run in runs if run.experiment == "tiny"]
    return [Section("tiny", "Counting", (Paragraph(f"Totals: {sorted(totals)}."),))]


def sentences(runs):
    found = [run for run in runs if run.experiment == "tiny"]
    return [f"Counting ended {len(found)} times."] if found else []


def identity(run):
    chosen = run.configuration
    return {"number": chosen.get("number"), "colour": "green", "seed": chosen.get("seed")}


def described(run):
    return ["", f"up to {run.configuration['number']}", "in green"]


def measures(run):
    yield "twice_the_total", None, 2.0 * run.summary["total"], {}


EXPERIMENTS = (
    Experiment(
        command="tiny",
        title="Counting",
        place=99,
        options=Options,
        presets={"smoke": Options()},
        run=run,
        headline=Headline("total", "total"),
        summary=SummaryFormat({"number": int}, ("seconds", "total"), "rows", {}, False),
        tables=("steps.csv",),
        sweeps={"count": lambda scale, data_dir: [Options(seed=seed) for seed in range(2)]},
        demo=lambda data_dir: [Options(number=7)],
        report="tiny",
    ),
)
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with the new package and its entry point; no file of ours changes."""
    home = tmp_path / "site"
    (home / "tiny").mkdir(parents=True)
    (home / "tiny" / "__init__.py").write_text(TINY)
    about = home / "tiny-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[dbsurf.experiments]\ntiny = tiny\n")
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(home), before])))
    return tmp_path


def dbsurf(*words: str) -> str:
    """The command in a process of its own; sweeps start further ones."""
    done = subprocess.run(
        [sys.executable, "-m", "dbsurf_paper.commands.main", *words],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_experiment_is_one_folder_and_one_record(place):
    out = place / "runs"
    assert "tiny" in dbsurf("--help")
    assert "--number" in dbsurf("tiny", "--help")
    assert "counted to 5" in dbsurf("tiny", "--number", "5", "--out", str(out / "alone"))
    swept = dbsurf("sweep", "tiny", "--grid", "number=1,2", "--out", str(out / "a"))
    assert "2 runs: 2 done" in swept
    named = dbsurf("sweep", "count", "--out", str(out / "b"), "--workers", "1")
    assert "2 runs: 2 done" in named
    names = sorted(path.parent.name for path in (out / "a").glob("*/summary.json"))
    assert [name.rsplit("-", 1)[0] for name in names] == [
        "tiny-number1-seed0",
        "tiny-number2-seed0",
    ]
    dbsurf("report", str(out), "--out", str(place / "page"))
    text = (place / "page" / "report.md").read_text()
    assert "## Counting" in text
    assert "Totals: [1, 2, 3, 4, 5]." in text
    assert "Counting ended 5 times." in text
    assert "`dbsurf tiny --number 5`" in text
    assert "| up to 5, in green (finished) |" in text
    rows = list(csv.DictReader((place / "page" / "results.csv").read_text().splitlines()))
    assert list(rows[0])[4:7] == ["number", "colour", "seed"]
    assert "estimator" not in rows[0]
    twice = [row for row in rows if row["measure"] == "twice_the_total"]
    assert [(row["number"], row["seed"], row["value"]) for row in twice] == [
        ("1", "0", "2.0"),
        ("2", "0", "4.0"),
        ("3", "0", "6.0"),
        ("3", "1", "8.0"),
        ("5", "0", "10.0"),
    ]


def test_the_demo_has_a_run_of_it(place, monkeypatch):
    code = "from dbsurf_paper.commands import demo; "
    code += "print([r.name for r in demo.plan(demo.Options(), 1)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tiny-number7-seed0-" in done.stdout


def test_no_field_of_a_record_can_be_left_out():
    assert all(
        item.default is MISSING and item.default_factory is MISSING for item in fields(Experiment)
    )
    with pytest.raises(TypeError, match="missing .* required positional arguments?"):
        Experiment(command="tiny", title="Counting")  # type: ignore[call-arg]


def test_every_folder_of_experiments_has_its_records_and_every_record_works():
    folders = {
        path.parent.name for path in Path(registry.package.__file__).parent.glob("*/__init__.py")
    }
    records = registry.every()
    assert {record.group for record in records} == folders
    for record in records:
        assert [command for command in parsing.commands(record.group) if command.run is record.run]
        parts = record.report_parts()
        assert all(callable(getattr(parts, name)) for name in PARTS)
        assert parts.sentences([]) == []
        assert all(section.blocks for section in parts.sections([]))
        for preset in record.presets.values():
            assert isinstance(preset, record.options)
        json.dumps(record.options().config())


def test_a_folder_without_a_record_is_an_error(monkeypatch):
    monkeypatch.setattr(registry, "groups", lambda: {"json": "json"})
    with pytest.raises(TypeError, match="json must have EXPERIMENTS"):
        registry.every()
    with pytest.raises(ValueError, match="experiment must be one of"):
        registry.load("cooking")


def test_unknown_experiments_are_named():
    with pytest.raises(
        ValueError, match="one of vae, nas-table, nas-supernet, toy, league, sequences, got 'nas'"
    ):
        registry.experiment("nas")
