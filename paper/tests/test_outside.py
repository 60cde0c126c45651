"""An estimator of the user's own in the commands, and in the processes that they start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from blobs import blobs
from dbsurf_paper.commands.main import main
from dbsurf_paper.sweep import command
from dbsurf_paper.sweep.command import wanted_threads
from dbsurf_paper.sweep.plan import plan
from sweep_runs import Inline, outcome, words

# It learns, so that a resumed run needs its state, and its module.
MODULE = '''
import dbsurf


class Small(dbsurf.QuadraticCV):
    """QuadraticCV of rank 2."""

    def __init__(self, n, *, validate=True):
        super().__init__(n, rank=2, validate=validate)
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_estimators.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_estimators", raising=False)
    return tmp_path


def test_a_path_that_leads_nowhere_is_one_line(place, capsys):
    assert main(["vae", "--estimator", "my_estimators:Missing"]) == 2
    assert "got 'my_estimators:Missing', which is not there" in capsys.readouterr().err


def test_the_league_takes_it_by_its_path(place, monkeypatch):
    from dbsurf_paper.experiments.league.entrants import chosen

    monkeypatch.syspath_prepend(place)
    labels = [entrant.label for entrant in chosen(["my_estimators:Small", "mdsurf"])]
    assert labels == ["loorf", "mdsurf", "my_estimators:Small"]


def test_a_sweep_adds_it_wherever_it_has_others(place, monkeypatch):
    monkeypatch.syspath_prepend(place)
    found = plan("table1", "smoke", [], place, added=["my_estimators:Small"])
    ours = [run.options for run in found if run.options.estimator == "my_estimators:Small"]
    others = {(run.options.n, run.options.seed) for run in found}
    assert sorted((one.n, one.seed) for one in ours) == sorted(others)
    with pytest.raises(ValueError, match="--add-estimator must go with a sweep of estimators"):
        plan("league", "smoke", [], place, added=["my_estimators:Small"])
    with pytest.raises(ValueError, match="name must be one of"):
        plan("table1", "smoke", [], place, added=["median"])


def test_processes_of_a_sweep_know_it_and_a_killed_run_goes_on(place, monkeypatch, capsys):
    (place / "data").mkdir()
    data = blobs(place / "data")
    grid = words(data, place / "out", "steps=60", "n=2", "estimator=my_estimators:Small")
    line = [*grid, "--add-estimator", "my_estimators:Small", "--workers", "1"]
    assert main(line) == 0  # in a process of its own
    assert "1 run: 1 done" in capsys.readouterr().out
    (folder,) = (place / "out").glob("vae-*")
    assert "my_estimators-Small-n2-seed0" in folder.name
    whole = outcome(folder)
    # as if it had been killed after its last checkpoint, at step 50
    (folder / "summary.json").unlink()
    monkeypatch.setattr(command, "engine", lambda *_: Inline())
    assert main(line) == 0
    assert "1 done (0 of them before)" in capsys.readouterr().out
    assert outcome(folder) == whole


def test_threads_of_a_run_follow_omp_num_threads(monkeypatch):
    for text, wanted in {"1": 1, "4,2": 4, "": None, "0": None, "many": None}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert wanted_threads() == wanted
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert wanted_threads() is None
