"""A short slice of the storm: a few trials of each kind, and the runner itself."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from storm import __main__ as runner
from storm import chance, means
from storm import tally as tallies
from storm.results import Result, random_numbers
from storm.tally import Tally, summary, table

ROOT = Path(__file__).parents[3]
PATHS = [str(ROOT / "tests"), str(ROOT / "paper" / "tests"), os.environ.get("PYTHONPATH", "")]
#: Kinds and trials; sweeps and several processes have tests of their own.
SLICE = {"api": 30, "oracle": 30, "sequences": 15, "commands": 3, "kills": 1, "corruption": 2}
SLICE |= {"surroundings": 1}
SETTINGS = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, PATHS)),
    "OMP_NUM_THREADS": "1",
}
CHILD = f"""
import sys
import time
from pathlib import Path
from storm.__main__ import run
place = Path(sys.argv[1])
raise SystemExit(sum(run(kind, 0, range(count), place) for kind, count in {SLICE}.items()))
"""


def test_a_slice_of_every_kind(tmp_path):
    """In a process of its own: its children are killed, and it limits its memory."""
    words = [sys.executable, "-c", CHILD, str(tmp_path)]
    child = subprocess.run(words, capture_output=True, text=True, env=SETTINGS)
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


def test_the_table_counts_inputs_kills_faults_and_failures(capsys):
    tally = Tally("api")
    tally.add(Result("means", "answered", inputs=3, compared=2), 7)
    tally.add(Result("means", "wrong answer", "code", inputs=1), 7)
    tally.add(Result("vae", "lost", "gone", kills=4), 7)
    tally.add(Result("vae", "traceback", "words", faults=1), 7)
    assert "python -m storm api --seed 7 --trial 1)\ncode" in capsys.readouterr().out
    found = summary([tally], 1.5, 7)
    assert json.loads(json.dumps(found)) == found
    text = table(found)
    assert "| `api` | means | 2 | 4 | 2 | 0 | 0 | 1 | 0 | 0 |" in text
    assert "| `api` | vae | 2 | 0 | 0 | 4 | 1 | 0 | 1 | 1 |" in text
    assert "| **all** | | **4** | **4** | **2** | **4** | **1** | **1** | **1** | **1** |" in text


def test_a_trial_that_dies_is_a_failure(tmp_path, monkeypatch, capsys):
    """A child that ends in the middle of a trial, played by a script."""
    good = {"subject": "a", "answer": "b"}
    lines = [json.dumps({"begin": 0, "limit": 5}), json.dumps(good)]
    lines.append(json.dumps({"begin": 1, "limit": 5}))
    code = f"import os\nfor line in {lines!r}: print(line, flush=True)\nos.abort()"
    real = subprocess.Popen
    monkeypatch.setattr(
        tallies.subprocess,
        "Popen",
        lambda words, **more: real([sys.executable, "-c", code], **more),
    )
    tally = Tally("api")
    tally.slice(0, 0.0, tmp_path)
    assert (tally.next, len(tally.failures)) == (2, 1)
    assert "the process ended with status -6" in tally.failures[0]


def test_a_storm_that_is_stopped_prints_its_tables(tmp_path):
    words = [sys.executable, "-m", "storm", "sequences", "--minutes", "5"]
    words += ["--out", str(tmp_path / "storm.json")]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=SETTINGS)
    assert child.stdout is not None
    assert "5 minutes, seed 0" in child.stdout.readline()
    time.sleep(1)
    child.terminate()
    told, _ = child.communicate(timeout=60)
    assert "| **all** | |" in told
    assert child.returncode == 0
    assert json.loads((tmp_path / "storm.json").read_text())["seed"] == 0


# --- the test of means ----------------------------------------------------------------------------


def estimates(bias: float, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(4096, 2, generator=generator, dtype=torch.float64)
    return TRUTH * (1 + bias) + noise


TRUTH = torch.tensor([0.6, -0.8], dtype=torch.float64)


def test_a_large_bias_is_found_in_one_trial():
    assert means.judged(estimates(0.0), TRUTH) == ""
    assert "the mean is off" in means.judged(estimates(0.3), TRUTH)
    assert means.judged(estimates(0.0).fill_(torch.nan), TRUTH) == "an estimate that is not finite"


def test_a_small_bias_is_found_in_all_trials_together():
    """Five percent: too little for one trial, not for thirty."""
    held: dict[float, list[float]] = {}
    for bias in (0.0, 0.05):
        for seed in range(30):
            found = estimates(bias, seed)
            assert means.judged(found, TRUTH) == ""
            one = means.moments(found, TRUTH, unit=1.0)
            held[bias] = chance.added(held[bias], one) if bias in held else one
    assert chance.score(held[0.0]) < 1 < chance.score(held[0.05])
    tally = Tally("oracle")
    tally.add(Result("plain", "right mean", evidence={"LOORF, plain": held[0.05]}), 0)
    (row,) = [row for row in summary([tally], 1.0, 0)["rows"] if row["wrong"]]
    assert row["subject"] == "all trials together"
