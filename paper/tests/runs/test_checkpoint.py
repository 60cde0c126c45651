"""Checkpoints survive kills, full disks and damage, and belong to one configuration."""

from __future__ import annotations

import errno
import os

import pytest
import torch

from dbsurf_paper import files
from dbsurf_paper.runs.checkpoint import (
    NEWEST,
    PREVIOUS,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)

CONFIG = {"n": 4, "estimator": "dbsurf", "options": ["a"]}


def state(step: int) -> dict[str, object]:
    return {"step": step, "weights": torch.full((100,), float(step)), "rows": [{"loss": 0.1}]}


@pytest.fixture
def saved(tmp_path):
    """A folder with two checkpoints."""
    for step in (1, 2):
        save_checkpoint(tmp_path, CONFIG, state(step))
    return tmp_path


def test_the_newest_comes_back(saved):
    found = load_checkpoint(saved, CONFIG)
    assert found["step"] == 2
    assert torch.equal(found["weights"], torch.full((100,), 2.0))
    assert found["rows"] == [{"loss": 0.1}]
    assert sorted(os.listdir(saved)) == [PREVIOUS, NEWEST]


def test_nothing_there_is_no_error(tmp_path):
    assert load_checkpoint(tmp_path, CONFIG) is None


def test_truncated_at_any_length_falls_back(saved, capsys):
    content = (saved / NEWEST).read_bytes()
    for length in (0, 1, 100, len(content) // 2, len(content) - 1):
        (saved / NEWEST).write_bytes(content[:length])
        assert load_checkpoint(saved, CONFIG)["step"] == 1
        error = capsys.readouterr().err
        assert f"{saved / NEWEST} is damaged" in error
        assert error.count("\n") == 1


def test_one_flipped_bit_in_the_tensors_is_noticed(saved, capsys):
    content = bytearray((saved / NEWEST).read_bytes())
    place = bytes(content).index(torch.full((100,), 2.0).numpy().tobytes())
    content[place + 7] ^= 1
    (saved / NEWEST).write_bytes(content)
    torch.load(saved / NEWEST, weights_only=True)  # torch itself does not notice
    assert load_checkpoint(saved, CONFIG)["step"] == 1
    assert "wrong checksum" in capsys.readouterr().err


def test_nothing_whole_is_an_error(saved):
    for name in (NEWEST, PREVIOUS):
        (saved / name).write_bytes(b"garbage")
    with pytest.raises(
        ValueError, match=f"no checkpoint in .*{NEWEST} is damaged.*{PREVIOUS} is damaged"
    ):
        load_checkpoint(saved, CONFIG)


def test_another_configuration_is_refused_by_field(saved):
    with pytest.raises(ValueError, match=r"another configuration: n \(4 there, 8 here\), seed"):
        load_checkpoint(saved, {**CONFIG, "n": 8, "seed": 1})


def test_kill_between_the_two_renames_loses_nothing(saved):
    """At worst the new file is complete under its first name."""
    (saved / NEWEST).replace(saved / f"{NEWEST}.new")
    assert load_checkpoint(saved, CONFIG)["step"] == 2
    save_checkpoint(saved, CONFIG, state(3))
    assert load_checkpoint(saved, CONFIG)["step"] == 3


def test_full_disk_leaves_what_was_saved(saved, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device: '.*checkpoint.pt.new'"):
        save_checkpoint(saved, CONFIG, state(3))
    monkeypatch.undo()
    assert load_checkpoint(saved, CONFIG)["step"] == 2
    assert sorted(os.listdir(saved)) == [PREVIOUS, NEWEST]


class Trap:
    """Unpickling this would be noticed."""

    def __reduce__(self):
        return (Trap.spring, ())

    @staticmethod
    def spring():
        raise AssertionError("a pickle was run")


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    torch.save({"config": CONFIG, "state": {"x": Trap()}}, tmp_path / NEWEST)
    with pytest.raises(ValueError, match="is damaged"):
        read_checkpoint(tmp_path / NEWEST)


def test_a_file_of_something_else_is_no_checkpoint(tmp_path):
    torch.save([1, 2], tmp_path / NEWEST)
    with pytest.raises(ValueError, match="is not a checkpoint of a run"):
        read_checkpoint(tmp_path / NEWEST)
