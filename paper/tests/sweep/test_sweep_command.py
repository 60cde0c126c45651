"""A sweep from its command line to its end, with an engine that works in this process."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from blobs import blobs
from dbsurf_paper.commands.main import main
from dbsurf_paper.experiments.vae.training import Trainer
from dbsurf_paper.runs.checkpoint import NEWEST, read_checkpoint
from dbsurf_paper.runs.folder import exclusive, holder, write_summary
from dbsurf_paper.runs.records import STEP, marked_step, marking, write_metrics
from dbsurf_paper.sweep import carry_out, command
from dbsurf_paper.sweep.board import Board
from dbsurf_paper.sweep.display import Display, picture, span
from dbsurf_paper.sweep.plan import plan
from dbsurf_paper.sweep.run import Outcome, work
from sweep_runs import Inline, outcomes, words


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return blobs(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "engine", lambda *_: Inline())
    monkeypatch.setattr(command, "LocalPool", lambda _: Inline())
    monkeypatch.setattr(carry_out, "AGAIN", 0.1)


def test_finished_runs_are_skipped_and_broken_ones_go_on(data, tmp_path, monkeypatch, capsys):
    short = words(data, tmp_path / "whole", "steps=100", "estimator=loorf,arms", "seed=0..1")
    assert main(short) == 0
    whole = outcomes(tmp_path / "whole")
    assert len(whole) == 4
    assert "4 runs: 4 done (0 of them before)" in capsys.readouterr().out

    step, steps = Trainer.step, []

    def counted(self: Trainer) -> None:
        step(self)
        steps.append(self.steps)
        if len(steps) == 160:  # in the second run, after its checkpoint at 50
            raise RuntimeError("the power is out")

    broken = words(data, tmp_path / "broken", "steps=100", "estimator=loorf,arms", "seed=0..1")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", counted)
        assert main(broken) == 2
    error = capsys.readouterr().err
    assert "failed: loorf seed=1: RuntimeError: the power is out (see " in error
    assert error.endswith("dbsurf: error: 1 of 4 runs failed\n")
    assert len(steps) == 360
    assert len(outcomes(tmp_path / "broken")) == 3

    again = []
    monkeypatch.setattr(Trainer, "step", lambda self: (step(self), again.append(self.steps)))
    assert main(broken) == 0
    assert again == list(range(51, 101))
    assert outcomes(tmp_path / "broken") == whole
    assert main(broken) == 0
    assert len(again) == 50
    assert "4 runs: 4 done (4 of them before)" in capsys.readouterr().out


def test_what_a_run_prints_is_in_its_log_and_its_folder_names_its_command(data, tmp_path, capsys):
    assert main(words(data, tmp_path, "steps=50", "estimator=loorf")) == 0
    (log,) = (tmp_path / "logs").iterdir()
    assert "-ELBO" in log.read_text()
    shown = capsys.readouterr()
    assert "after 50 steps" not in shown.out + shown.err
    assert shown.err.splitlines()[-1].startswith("done       vae  -ELBO")
    environment = json.loads((tmp_path / log.stem / "environment.json").read_text())
    assert environment["command"][:2] == ["dbsurf", "vae"]


def test_own_errors_of_a_run_are_reported(data, tmp_path, capsys):
    grid = ("steps=50", "estimator=loorf,disarm", "n=3")
    assert main(words(data, tmp_path, *grid)) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-2].startswith("failed: disarm: n must be an even integer")
    assert error[-1] == "dbsurf: error: 1 of 2 runs failed"
    assert len(outcomes(tmp_path)) == 1


def test_a_run_that_is_at_work_elsewhere_is_waited_for(data, tmp_path, capsys):
    (run,) = plan("vae", "smoke", words(data, tmp_path, "steps=50")[9:], tmp_path, data_dir=data)
    held, free = threading.Event(), threading.Event()

    def other() -> None:
        with exclusive(run.lock, "another sweep"):
            held.set()
            free.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    held.wait(30)
    assert work(run, "mine") == Outcome("elsewhere")
    assert holder(run.lock) == "another sweep"
    threading.Timer(1.0, free.set).start()
    assert main(words(data, tmp_path, "steps=50")) == 0
    thread.join(30)
    error = capsys.readouterr().err
    assert "elsewhere  vae" in error
    assert "done       vae" in error
    assert holder(run.lock) == ""
    before = (run.folder / "summary.json").stat().st_mtime_ns
    assert work(run, "mine") == Outcome("done")
    assert (run.folder / "summary.json").stat().st_mtime_ns == before


def test_an_interrupt_says_how_to_go_on(data, tmp_path, monkeypatch, capsys):
    class Asked(carry_out.Interruption):
        requested = True

    monkeypatch.setattr(carry_out, "Interruption", Asked)
    assert main(words(data, tmp_path, "steps=50", "seed=0..1")) == 130
    error = capsys.readouterr().err.splitlines()
    assert error[-1] == "dbsurf: interrupted"
    assert "2 of 2 runs are done; go on with: dbsurf sweep vae --grid dataset=tiny" in error[-2]


def test_a_run_that_somebody_keeps_stopping_fails_in_the_end(data, tmp_path, monkeypatch, capsys):
    def stopped(self: Trainer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "step", stopped)
    monkeypatch.setattr(carry_out, "STOPS", 2)
    monkeypatch.setattr(carry_out, "LOOK", 0.01)
    assert main(words(data, tmp_path, "steps=50")) == 2
    assert "vae: it was stopped 2 times from outside" in capsys.readouterr().err


def test_a_dry_run_lists_and_estimates_and_leaves_nothing(data, tmp_path, capsys):
    out = tmp_path / "out"
    grid = ("steps=100", "seed=0..2", "n=2")
    assert main([*words(data, out, *grid), "seed=0"][:-1]) == 0
    finished = sorted(out.iterdir())
    (run, *_) = [path for path in finished if path.name.startswith("vae-")]
    (run / "summary.json").unlink()
    capsys.readouterr()
    more = [word.replace("seed=0..2", "seed=0..3") for word in words(data, out, *grid)]
    assert main([*more, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert sorted(line.split()[0] for line in text.splitlines()[:4]) == ["done"] * 2 + [
        "new",
        "resume",
    ]
    assert "4 runs: 2 done, 2 to do" in text
    assert "about 0:0" in text
    assert "This rests on 60 steps of seed=" in text
    assert sorted(out.iterdir()) == finished
    assert read_checkpoint(run / NEWEST)["state"]["trainer"]["steps"] == 100


def test_a_dry_run_of_what_has_no_steps_or_does_not_work(data, tmp_path, capsys):
    assert main(["sweep", "toy", "--out", str(tmp_path / "toy"), "--dry-run"]) == 0
    assert "1 runs: 0 done, 1 to do" in capsys.readouterr().out
    assert main([*words(data, tmp_path, "estimator=disarm", "n=3"), "--dry-run"]) == 2
    assert "the trial of vae failed: n must be an even" in capsys.readouterr().err


def test_the_live_table_fits_the_terminal(tmp_path):
    runs = plan("table1", "paper", [], tmp_path)
    board = Board(runs, "mark")
    for run in runs[:7]:
        run.folder.mkdir(parents=True)
        write_summary(run.folder, {"configuration": {}, "train_negative_elbo": 99.5})
        board.set(run, "done")
    board.set(runs[7], "failed", "no reason")
    board.set(runs[20], "elsewhere")
    with exclusive(runs[300].lock, "mark"):
        runs[300].folder.mkdir()
        first = {"step": 0, "train_negative_elbo": 500.0}
        write_metrics(runs[300].folder, [first])
        board.look()
        time.sleep(0.05)
        later = {"step": 250_000, "train_negative_elbo": 123.456}
        write_metrics(runs[300].folder, [first, later])
        board.look()
        assert board.busy()
        console = Console(file=io.StringIO(), force_terminal=True, width=100, height=12)
        with Display(board, console) as display:
            display.show()
    console = Console(file=io.StringIO(), width=100)
    console.print(picture(board, 12, 100))
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0].split() == ["run", "state", "step", "-ELBO", "left"]
    working = next(line for line in lines if "running" in line)
    assert runs[300].label in working
    assert "250000/1000000" in working
    assert "123.46" in working
    assert any("–" in line for line in lines if "elsewhere" in line)  # no number yet
    assert any("failed" in line for line in lines)
    assert lines[-1].startswith("360 runs: 7 done, 1 running, 1 elsewhere, 1 failed, 350 waiting; ")
    assert board.entries[runs[300].name].left() is not None
    assert not board.busy()
    board.stopped()
    assert board.count("running") == 0


def test_the_live_table_is_whole_at_80_columns_and_steps_move_between_evaluations(tmp_path):
    long = ["estimator_options=alpha=preserve,debias=true", "dataset=fashion-mnist", "seed=0,1"]
    runs = plan("vae", "laptop", long, tmp_path)
    board = Board(runs, "mark")
    runs[0].folder.mkdir(parents=True)
    with exclusive(runs[0].lock, "mark"), marking(runs[0].folder, 0) as mark:
        write_metrics(runs[0].folder, [{"step": 0, "train_negative_elbo": 543.21}])
        board.look()
        os.utime(runs[0].folder / STEP, (time.time() + 1, time.time() + 1))
        for step in (10, 437):
            mark(step)
            os.utime(runs[0].folder / STEP, (time.time() + step, time.time() + step))
            board.look()
            assert board.entries[runs[0].name].step == step
        assert board.entries[runs[0].name].left() is not None
        console = Console(file=io.StringIO(), width=80)
        console.print(picture(board, 12, 80))
    lines = console.file.getvalue().splitlines()
    working, *_, waiting = (line for line in lines if "/10000" in line)
    assert working.split()[-4:-1] == ["running", "437/10000", "543.21"]
    assert waiting.split()[-3:] == ["waiting", "0/10000", "–"]
    assert max(map(len, lines)) <= 80
    assert marked_step(runs[0].folder) is None


def test_spans():
    assert [span(0.4), span(59.6), span(3600)] == ["0:00", "1:00", "1:00:00"]
