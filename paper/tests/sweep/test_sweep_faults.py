"""One damaged file of a sweep is the trouble of one run: it is named, the others are done."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from blobs import blobs
from dbsurf_paper.commands.main import main
from dbsurf_paper.runs.checkpoint import NEWEST, PREVIOUS
from dbsurf_paper.runs.folder import folder_lock
from dbsurf_paper.sweep import carry_out, command
from dbsurf_paper.sweep.plan import plan
from dbsurf_paper.sweep.run import Log, work
from sweep_runs import TINY, Inline, outcomes, words

GRID = ("steps=50", "seed=0..2")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return blobs(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "engine", lambda *_: Inline())


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "engine", lambda *_: Inline())
        assert main(words(data, out, *GRID)) == 0
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "out"))


DAMAGE = [b"", b"{", bytes(range(256)), b"[1]", b"[" * 100_000, b'{"seconds": ' + b"9" * 400 + b"}"]


@pytest.mark.parametrize("content", DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_summary_is_made_again_from_the_checkpoint(out, finished, data, content, capsys):
    bad, *others = sorted(out.glob("vae-*"))
    (bad / "summary.json").write_bytes(content)
    before = [(path / "summary.json").stat().st_mtime_ns for path in others]
    assert main(words(data, out, *GRID)) == 0
    assert "3 runs: 3 done (2 of them before)" in capsys.readouterr().out
    assert outcomes(out) == outcomes(finished)
    assert [(path / "summary.json").stat().st_mtime_ns for path in others] == before
    assert f"{bad / 'summary.json'} is damaged" in (out / "logs" / f"{bad.name}.log").read_text()


@pytest.mark.parametrize("name", ["metrics.csv", "config.json", "environment.json", "lock"])
def test_other_damaged_files_of_an_unfinished_run_do_not_matter(out, finished, data, name, capsys):
    bad = min(out.glob("vae-*"))
    (bad / "summary.json").unlink()
    place = out / "locks" / bad.name if name == "lock" else bad / name
    place.write_bytes(bytes(range(256)) * 10)
    assert main(words(data, out, *GRID)) == 0
    assert "3 runs: 3 done (2 of them before)" in capsys.readouterr().out
    assert outcomes(out) == outcomes(finished)


def test_a_run_without_a_usable_checkpoint_fails_alone(out, data, capsys):
    bad = min(out.glob("vae-*"))
    (bad / "summary.json").write_text("{")
    for name in (NEWEST, PREVIOUS):
        (bad / name).write_bytes(b"garbage")
    for folder in sorted(out.glob("vae-*"))[1:]:
        (folder / "summary.json").unlink()
    assert main(words(data, out, *GRID)) == 2
    told = capsys.readouterr()
    assert "3 runs: 2 done, 1 failed" in told.out
    assert f"no checkpoint in {bad} can be used: {bad / NEWEST} is damaged" in told.err
    assert "Traceback" not in told.err


def test_a_lock_that_is_no_file_fails_one_run(out, data, capsys):
    bad = min(out.glob("vae-*"))
    (bad / "summary.json").unlink()
    lock = out / "locks" / bad.name
    lock.unlink()
    lock.mkdir()
    with pytest.raises(IsADirectoryError, match=bad.name):
        Inline().submit(work, next(r for r in _plan(out, data) if r.name == bad.name), "x").result()


def _plan(out: Path, data: Path) -> list:
    return plan("vae", "smoke", [*TINY, *GRID], out, data_dir=data, threads=1)


def test_a_run_that_a_command_of_its_own_does_is_elsewhere(out, data):
    bad = min(out.glob("vae-*"))
    (bad / "summary.json").unlink()
    (run,) = [run for run in _plan(out, data) if run.name == bad.name]
    with folder_lock(bad):
        assert work(run, "mark").state == "elsewhere"
    assert work(run, "mark").state == "done"
    assert carry_out.AGAIN > 0


def test_a_log_on_a_full_disk_stops_nothing():
    with Path("/dev/full").open("wb", buffering=0) as full:
        with pytest.raises(OSError, match="No space left"):
            full.write(b"x")
        assert Log(full).write("a line\n") == 7


def test_a_grid_of_too_many_runs_is_refused(tmp_path, capsys):
    for grid in (["seed=0..99999999999"], ["seed=0..9999", "n=2..9999"]):
        assert main(["sweep", "vae", "--out", str(tmp_path), "--grid", *grid]) == 2
        assert "at most 100,000" in capsys.readouterr().err
    for name in ("--workers", "--threads"):
        assert main(["sweep", "toy", "--out", str(tmp_path), name, "999999999"]) == 2
        assert f"{name} must lie in 0 to 1024" in capsys.readouterr().err
