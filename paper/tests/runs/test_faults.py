"""Faults of a run folder: damaged and foreign files, two processes at once, what kills leave."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from blobs import blobs
from dbsurf_paper import files
from dbsurf_paper.commands.main import main
from dbsurf_paper.experiments.vae import job as vae_job
from dbsurf_paper.runs.checkpoint import NEWEST, PREVIOUS, read_checkpoint, save_checkpoint
from dbsurf_paper.runs.folder import (
    LOCK,
    FolderInUse,
    exclusive,
    folder_lock,
    read_summary,
    write_summary,
)
from sweep_runs import TINY, outcome

STEPS = 60


def words(data: Path, out: Path, *more: str) -> list[str]:
    """The command line of a tiny run."""
    found = ["vae", "--data-dir", str(data), "--out", str(out), "--steps", str(STEPS)]
    for text in TINY:
        name, value = text.split("=")
        flag = f"--{name.replace('_', '-')}"
        found += [f"--no-{flag[2:]}"] if value == "false" else [flag, value]
    return [*found, "--threads", "1", *more]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return blobs(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is done."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert main(words(data, out)) == 0
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def unfinished(run: Path) -> Path:
    """The same with only its last checkpoint but one, and no end."""
    (run / "summary.json").unlink()
    (run / PREVIOUS).replace(run / NEWEST)
    return run


def one_line(error: str) -> str:
    """The only line of an error message."""
    assert "Traceback" not in error
    (line,) = error.splitlines()
    return line


# --- checkpoints with the right checksums of the archive and the wrong content --------------------


def _nan_weights(state: dict[str, Any]) -> None:
    next(iter(state["trainer"]["model"].values())).fill_(torch.nan)


def _too_many_steps(state: dict[str, Any]) -> None:
    state["trainer"]["steps"] = 999


def _no_model(state: dict[str, Any]) -> None:
    del state["trainer"]["model"]


def _another_number(state: dict[str, Any]) -> None:
    state["rows"][0]["train_negative_elbo"] += 1e-9


def _wrong_moments(state: dict[str, Any]) -> None:
    state["trainer"]["optimiser"]["state"][0]["exp_avg"] = torch.zeros(2)


CHANGES = [_nan_weights, _too_many_steps, _no_model, _another_number, _wrong_moments]


def change(path: Path, how: Callable[[dict[str, Any]], None]) -> None:
    content = torch.load(path, weights_only=True)
    how(content["state"])
    torch.save(content, path)


@pytest.mark.parametrize("how", CHANGES)
def test_a_checkpoint_of_changed_content_is_refused_in_one_line(unfinished, data, capsys, how):
    change(unfinished / NEWEST, how)
    assert main(words(data, unfinished, "--resume")) == 2
    line = one_line(capsys.readouterr().err)
    assert f"{unfinished / NEWEST} cannot be used: it does not match its checksum" in line
    assert not (unfinished / "summary.json").exists()


@pytest.mark.parametrize("how", CHANGES)
def test_the_checkpoint_before_it_is_used_instead(run, finished, data, capsys, how):
    (run / "summary.json").unlink()
    change(run / NEWEST, how)  # the one of the last step
    assert main(words(data, run, "--resume")) == 0
    assert f"{run / NEWEST} cannot be used" in capsys.readouterr().err
    assert outcome(run) == outcome(finished)


@pytest.mark.parametrize(
    ("how", "reason"),
    [(_wrong_moments, "exp_avg of an optimiser must have the shape"), (_no_model, "KeyError")],
)
def test_a_state_that_does_not_fit_is_refused_though_its_checksum_is_right(
    unfinished, data, capsys, how, reason
):
    """As of code that was changed under the same format number."""
    content = read_checkpoint(unfinished / NEWEST)
    how(content["state"])
    save_checkpoint(unfinished, content["config"], content["state"])
    (unfinished / PREVIOUS).unlink()
    assert main(words(data, unfinished, "--resume")) == 2
    assert reason in one_line(capsys.readouterr().err)


def test_a_run_that_ends_in_nan_has_failed(data, tmp_path, monkeypatch, capsys):
    real = vae_job.VAEJob.results
    monkeypatch.setattr(
        vae_job.VAEJob, "results", lambda self: {**real(self), "test_bound": float("nan")}
    )
    assert main(words(data, tmp_path / "run")) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert (
        line
        == f"dbsurf: error: the results of {tmp_path / 'run'} are not finite: test_bound is nan"
    )
    assert not (tmp_path / "run" / "summary.json").exists()


# --- damaged files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["summary.json", "metrics.csv"])
def test_a_changed_digit_is_noticed_and_the_results_are_made_again(
    run, finished, data, capsys, name
):
    text = (run / name).read_text()
    place = text.rindex("5")
    (run / name).write_text(f"{text[:place]}6{text[place + 1 :]}")
    with pytest.raises(ValueError, match=f"{name} is damaged"):
        read_summary(run)
    assert main(words(data, run)) == 2  # as with every unfinished run, only if that is asked for
    assert main(words(data, run, "--resume")) == 0
    assert f"{name} is damaged" in capsys.readouterr().err
    assert outcome(run) == outcome(finished)


def test_no_flipped_bit_of_a_summary_changes_a_number_unnoticed(run):
    path = run / "summary.json"
    whole, wanted = path.read_bytes(), read_summary(run)
    draw = random.Random(0)
    for _ in range(300):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        with suppress(ValueError):
            assert read_summary(run) == wanted


HOSTILE = {
    "empty": b"",
    "half": b'{"experiment": "vae", "conf',
    "random": bytes(range(256)),
    "list": b"[1, 2]",
    "number": b"5",
    "no configuration": b'{"experiment": "vae"}',
    "configuration as text": b'{"experiment": "vae", "configuration": "x"}',
    "brackets": b"[" * 100_000,
    "objects": b'{"a":' * 100_000,
    "huge integer": b'{"experiment": "vae", "seconds": ' + b"9" * 400 + b"}",
    "nan": b'{"experiment": "vae", "configuration": {}, "seconds": NaN}',
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_damaged_summary_is_made_again(run, finished, data, capsys, kind):
    (run / "summary.json").write_bytes(HOSTILE[kind])
    assert main(words(data, run, "--resume")) == 0
    error = capsys.readouterr().err
    assert f"dbsurf: {run / 'summary.json'} is" in error
    assert "Traceback" not in error
    assert outcome(run) == outcome(finished)


# Not those that are sound JSON objects: these have no format number, which is refused.
@pytest.mark.parametrize("kind", ["empty", "half", "random", "list", "number", "brackets"])
def test_a_damaged_config_is_written_again_beside_a_sound_checkpoint(
    unfinished, finished, data, capsys, kind
):
    (unfinished / "config.json").write_bytes(HOSTILE[kind])
    assert main(words(data, unfinished, "--resume")) == 0
    assert f"{unfinished / 'config.json'} is damaged" in capsys.readouterr().err
    assert outcome(unfinished) == outcome(finished)
    assert (unfinished / "config.json").read_bytes() == (finished / "config.json").read_bytes()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\0", b"step\n1,2,3\n", b"step\nx\n"])
def test_damaged_metrics_of_an_unfinished_run_are_written_again(
    unfinished, finished, data, content
):
    (unfinished / "metrics.csv").write_bytes(content)
    assert main(words(data, unfinished, "--resume")) == 0
    assert outcome(unfinished) == outcome(finished)


@pytest.mark.parametrize("kind", ["brackets", "objects", "huge integer", "random", "list", "nan"])
def test_a_report_over_a_damaged_run_has_no_traceback(run, tmp_path, capsys, kind):
    """The run is in the report as damaged, or is not one of ours any more."""
    for name in ("summary.json", "config.json", "environment.json"):
        before = (run / name).read_bytes()
        (run / name).write_bytes(HOSTILE[kind])
        assert main(["report", str(run), "--out", str(tmp_path / "report")]) in (0, 2)
        assert "Traceback" not in capsys.readouterr().err
        (run / name).write_bytes(before)


def test_results_that_are_not_finite_are_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"not finite: rows\[1\].value is inf"):
        write_summary(tmp_path, {"rows": [{"value": 1.0}, {"value": float("inf")}]})
    assert not list(tmp_path.iterdir())


# --- two processes, signals, and what a kill leaves -----------------------------------------------


def test_the_same_run_twice_at_once_is_refused_with_the_holder(unfinished, data, capsys):
    code = "import sys, time, pathlib; from dbsurf_paper.runs.folder import folder_lock\n"
    code += (
        f"with folder_lock(pathlib.Path({str(unfinished)!r})): print(flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        before = sorted(path.name for path in unfinished.iterdir())
        assert main(words(data, unfinished, "--resume")) == 2
        line = one_line(capsys.readouterr().err)
        assert f"{unfinished} is in use by process {other.pid} on " in line
        assert sorted(path.name for path in unfinished.iterdir()) == before
    finally:
        other.kill()
        other.communicate()
    assert main(words(data, unfinished, "--resume")) == 0  # a killed holder holds nothing
    assert not (unfinished / LOCK).exists()


def test_a_lock_whose_file_was_removed_meanwhile_is_still_one_lock(tmp_path):
    path = tmp_path / "lock"
    with exclusive(path, remove=True) as mine:
        assert mine
        with exclusive(path) as second:
            assert not second
    assert not path.exists()
    told = pytest.raises(FolderInUse, match="in use by process")
    with folder_lock(tmp_path), told, folder_lock(tmp_path):
        raise AssertionError("both hold it")


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_in_place_of_a_lock_is_not_followed(there, data, tmp_path, capsys):
    """A run folder from elsewhere must not make us write into files outside of it."""
    target, out = tmp_path / "precious", tmp_path / "run"
    if there:
        target.write_text("mine")
    out.mkdir()
    (out / LOCK).symlink_to(target)
    assert main(words(data, out)) == 2
    line = one_line(capsys.readouterr().err)
    assert f"{out / LOCK} must be a file, got a symbolic link" in line
    assert target.exists() == there
    assert not there or target.read_text() == "mine"


def test_a_link_that_comes_after_the_check_is_not_followed_either(tmp_path, monkeypatch):
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / LOCK).symlink_to(target)
    monkeypatch.setattr(Path, "is_symlink", lambda self: False)
    with pytest.raises(OSError, match="symbolic link"), exclusive(tmp_path / LOCK):
        raise AssertionError("locked")
    assert target.read_text() == "mine"


def test_what_a_killed_run_left_is_removed_and_its_last_checkpoint_named(run, finished, data):
    """Killed in the middle of writing, and between the two renames of the last checkpoint."""
    (run / "summary.json").unlink()
    (run / NEWEST).replace(run / f"{NEWEST}.new")
    (run / f".{NEWEST}.new.0123456789ab").write_bytes(b"half")
    (run / ".metrics.csv.0123456789ab").write_bytes(b"half")
    assert main(words(data, run, "--resume")) == 0
    names = sorted(path.name for path in run.iterdir())
    assert names == sorted(path.name for path in finished.iterdir())
    assert read_checkpoint(run / NEWEST)["state"]["trainer"]["steps"] == STEPS
    assert outcome(run) == outcome(finished)


def test_temporary_files_of_others_stay_where_the_folder_is_shared(tmp_path):
    young, old = tmp_path / ".a.0123456789ab", tmp_path / ".b.0123456789ab"
    for path in (young, old, tmp_path / ".profile", tmp_path / ".a.lock"):
        path.write_text("")
    os.utime(old, (0, 0))
    files.remove_temporary(tmp_path, older_than=3600)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".a.0123456789ab",
        ".a.lock",
        ".profile",
    ]


@pytest.mark.usefixtures("signals_heard")
def test_a_closed_terminal_saves(data, tmp_path):
    """The terminal is closed: SIGHUP comes, and nothing can be printed any more."""
    out = tmp_path / "run"
    leader, follower = os.openpty()
    line = [
        sys.executable,
        "-m",
        "dbsurf_paper.commands.main",
        *words(data, out),
        "--steps",
        "100000",
    ]
    line += ["--checkpoint-every", "100000", "--evaluate-every", "100000"]
    process = subprocess.Popen(
        line, stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(follower)
    end = time.monotonic() + 60
    while b"/s" not in os.read(leader, 65536):  # the bar has moved: it trains
        assert time.monotonic() < end
    os.close(leader)
    process.wait(60)
    assert read_checkpoint(out / NEWEST)["state"]["trainer"]["steps"] > 0


def test_ignored_sighup_stays_ignored(data, tmp_path):
    """As under nohup."""
    code = "import signal, os; from dbsurf_paper.runs.interruption import Interruption\n"
    code += "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    code += (
        "with Interruption() as stop: os.kill(os.getpid(), signal.SIGHUP); print(stop.requested)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout == b"False\n"


def test_a_run_under_nohup_ends_as_if_nothing_had_happened(data, tmp_path):
    out = tmp_path / "run"
    ignored = {signal.SIGHUP, signal.SIGINT}
    line = [sys.executable, "-m", "dbsurf_paper", *words(data, out), "--steps", "2000"]
    process = subprocess.Popen(
        line,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: [signal.signal(number, signal.SIG_IGN) for number in ignored],
    )
    status, end = Path(f"/proc/{process.pid}/status"), time.monotonic() + 60
    while not (out / "metrics.csv").exists():  # signals come while it imports, and while it trains
        assert time.monotonic() < end
        for number in ignored:
            process.send_signal(number)
        time.sleep(0.05)
    found = dict(row.split(":", 1) for row in status.read_text().splitlines())
    mask = int(found["SigIgn"], 16)
    assert all(mask >> (number - 1) & 1 for number in ignored)
    for number in ignored:
        process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in error) == (0, False)
    assert (out / "summary.json").exists()


def test_an_interrupt_after_training_names_the_command_too(data, tmp_path, monkeypatch, capsys):
    def interrupted(self: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(vae_job.VAEJob, "results", interrupted)
        assert main(words(data, tmp_path / "run")) == 130
    line = capsys.readouterr().err.splitlines()[-1]
    assert f"{tmp_path / 'run' / NEWEST} is the last state" in line
    assert main(shlex.split(line.split("; go on with: ")[1])[1:]) == 0


@pytest.mark.usefixtures("signals_heard")
def test_sighup_twice_is_one_request():
    from dbsurf_paper.runs.interruption import Interruption

    with Interruption() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.requested
