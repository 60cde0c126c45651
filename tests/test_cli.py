"""The command line's manners."""

from __future__ import annotations

import pytest

import dbsurf
from dbsurf import cli


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"dbsurf {dbsurf.__version__}"


@pytest.mark.parametrize("words", [["--help"], ["toy", "--help"], ["estimators", "--help"]])
def test_help_at_every_level(words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "usage: dbsurf" in text
    assert "toy" in text or "estimators" in text


@pytest.mark.parametrize("words", [["dance"], ["toy", "--seed", "many"], ["toy", "--unknown", "1"]])
def test_unknown_words_end_with_status_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_interrupt_and_debug(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("dbsurf.catalogue.run", interrupted)
    assert cli.main(["estimators"]) == 130

    def failing(options):
        raise ValueError("one line")

    monkeypatch.setattr("dbsurf.catalogue.run", failing)
    assert cli.main(["estimators"]) == 2
    assert capsys.readouterr().err.endswith("dbsurf: error: one line\n")
    with pytest.raises(ValueError, match="one line"):
        cli.main(["estimators", "--debug"])


def test_the_catalogue_lists_every_estimator(capsys):
    assert cli.main(["estimators"]) == 0
    text = capsys.readouterr().out
    for name in dbsurf.available():
        assert name in text
