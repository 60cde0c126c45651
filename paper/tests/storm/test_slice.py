"""A short slice of the storm: a few trials of each kind, and the runner itself."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from storm import __main__ as runner
from storm.results import Result, random_numbers

ROOT = Path(__file__).parents[3]
PATHS = [str(ROOT / "tests"), str(ROOT / "paper" / "tests"), os.environ.get("PYTHONPATH", "")]
#: Kinds and trials; the sweeps have tests of their own.
SLICE = {"api": 60, "oracle": 25, "commands": 6, "kills": 2, "corruption": 6, "disks": 1}
CHILD = f"""
import sys
from pathlib import Path
from storm.__main__ import run
place = Path(sys.argv[1])
raise SystemExit(sum(run(kind, 0, range(count), place) for kind, count in {SLICE}.items()))
"""


def test_a_slice_of_every_kind(tmp_path):
    """In a process of its own: its children are killed, and it limits its memory."""
    words = [sys.executable, "-c", CHILD, str(tmp_path)]
    settings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, PATHS)),
        "OMP_NUM_THREADS": "1",
    }
    child = subprocess.run(words, capture_output=True, text=True, env=settings)
    assert child.returncode == 0, child.stdout + child.stderr[-2000:]


def test_every_kind_has_a_trial_and_a_limit():
    for kind in runner.KINDS:
        module = importlib.import_module(f"storm.{kind}")
        assert callable(module.trial)
        assert module.LIMIT > 0
    assert sum(runner.KINDS.values()) == pytest.approx(1)


def test_trials_are_the_same_on_every_machine():
    assert random_numbers(0, "api", 5).randrange(10**9) == 481440058
    assert random_numbers(0, "api", 5).random() != random_numbers(0, "api", 6).random()


def test_the_table_counts_trials_and_failures(capsys):
    tally = runner.Tally("api")
    tally.add(Result("answered", count=3), 7)
    tally.add(Result("wrong", "code"), 7)
    assert "python -m storm api --seed 7 --trial 1)\ncode" in capsys.readouterr().out
    text = runner.report([tally], 1.5, 7)
    assert "| api | 2 | 4 | 1 |" in text
    assert "| api | answered | 1 | 3 |" in text


def test_a_trial_that_dies_is_a_failure(tmp_path, monkeypatch, capsys):
    """A child that ends in the middle of a trial, played by a script."""
    lines = [json.dumps({"begin": 0, "limit": 5}), json.dumps({"answer": "a"})]
    lines.append(json.dumps({"begin": 1, "limit": 5}))
    code = f"import os\nfor line in {lines!r}: print(line, flush=True)\nos.abort()"
    real = subprocess.Popen
    monkeypatch.setattr(
        runner.subprocess, "Popen", lambda words, **more: real([sys.executable, "-c", code], **more)
    )
    tally = runner.Tally("api")
    tally.slice(0, 0.0, tmp_path)
    assert (tally.next, len(tally.failures)) == (2, 1)
    assert "the process ended with status -6" in tally.failures[0]
