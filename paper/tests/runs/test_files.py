"""Metrics, events, stopwatch, signals and the step bar."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from dbsurf_paper.files import write_atomically
from dbsurf_paper.progress import StepBar
from dbsurf_paper.runs.interruption import Interruption
from dbsurf_paper.runs.records import Events, Stopwatch, read_metrics, write_metrics


def test_metrics_come_back_to_the_last_digit(tmp_path):
    rows = [
        {"step": 0, "loss": 0.1 + 0.2, "variance": None},
        {"step": 1, "loss": 1e-300, "variance": 3},
    ]
    write_metrics(tmp_path, rows)
    assert read_metrics(tmp_path) == rows
    write_metrics(tmp_path, rows[:1])
    assert read_metrics(tmp_path) == rows[:1]


def test_metrics_without_rows(tmp_path):
    write_metrics(tmp_path, [])
    assert read_metrics(tmp_path) == []


def test_events_are_what_tensorboard_reads(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Events(tmp_path, 0, {"n": 4, "estimator": "loorf", "sizes": [2], "out": None}) as events:
        for step in range(4):
            events.add({"step": step, "loss": 10.0 - step, "variance": None})
    with Events(tmp_path, 1) as events:  # continued after step 1: what came later is purged
        events.add({"step": 2, "loss": 5.0, "variance": None})
    found = EventAccumulator(str(tmp_path)).Reload()
    assert found.Tags()["scalars"] == ["train/loss"]
    points = {point.step: point.value for point in found.Scalars("train/loss")}
    assert points == {0: 10.0, 1: 9.0, 2: 5.0}
    told = str(found.summary_metadata["_hparams_/session_start_info"])
    assert "loorf" in told
    assert "out" not in told


def test_events_can_be_off(tmp_path):
    with Events(tmp_path, 0, enabled=False) as events:
        events.add({"step": 0, "loss": 1.0})
    assert not list(tmp_path.iterdir())


def test_stopwatch_leaves_pauses_out():
    watch = Stopwatch()
    watch.seconds = 100.0
    with watch.paused():
        pass
    assert watch.seconds == 100.0
    with watch.running():
        with watch.paused():
            before = watch.seconds
            time.sleep(0.05)
            assert watch.seconds == before
        time.sleep(0.02)
    assert 100.02 <= watch.seconds < 100.05


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("signals_heard")
def test_first_signal_is_noted_second_stops(number):
    before = signal.getsignal(number)
    with Interruption() as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), number)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


class Leaving:
    """Is signalled while it is deleted, where Python prints and drops what is raised."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_in_a_finaliser_is_not_lost(capsys):
    def work() -> None:
        leaving = Leaving()
        del leaving
        time.sleep(5)

    with Interruption(at_once=True), pytest.raises(KeyboardInterrupt):
        work()
    assert capsys.readouterr().err == ""


def test_interruption_outside_the_main_thread_changes_nothing():
    seen = []

    def work() -> None:
        with Interruption() as interruption:
            seen.append((interruption.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, signal.getsignal(signal.SIGINT))]


def test_bar_prints_lines_where_there_is_no_terminal(capsys):
    with StepBar("mnist loorf", 10, 4) as bar:
        assert bar.due()
        bar.show(6, "-ELBO 100.00")
        assert not bar.due()
        bar.line(7, "-ELBO 99.00")
    error = capsys.readouterr().err
    assert error.startswith("mnist loorf  7/10  -ELBO 99.00")
    assert error.count("\n") == 1


def test_a_file_is_as_readable_as_any_other_new_one(tmp_path):
    """Others look at a shared folder too."""
    (tmp_path / "other").write_text("")
    write_atomically(tmp_path / "ours", "text")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "other").stat().st_mode
