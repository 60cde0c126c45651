"""The command line's manners."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import subprocess
import sys

import pytest

import dbsurf
from dbsurf_paper.commands import main as cli
from dbsurf_paper.commands import parsing
from dbsurf_paper.experiments import registry

ESCAPE = "\x1b["
COMMANDS = parsing.names()


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"dbsurf {dbsurf.__version__}"


def test_the_package_runs_as_a_module():
    words = [sys.executable, "-m", "dbsurf_paper", "--version"]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == f"dbsurf {dbsurf.__version__}"


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_help_of_all_commands(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "usage: dbsurf" in text
    for name in COMMANDS:
        assert name in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("columns", [80, 120])
def test_help_of_a_command_fits_the_terminal(name, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: dbsurf {name}")
    assert "None}" not in text  # no "{None}|PATH"
    boxed = [line for line in text.splitlines() if line[0:1] in "╭│╰"]
    assert max(map(len, boxed)) <= columns


EXPERIMENTS = [command for name in registry.groups() for command in parsing.commands(name)]


@pytest.mark.parametrize("command", EXPERIMENTS, ids=lambda command: "-".join(command.words))
def test_the_help_of_an_experiment_has_every_option_once_the_preset_first(
    command, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        parsing.parse([*command.words, "--help"])
    lines = capsys.readouterr().out.splitlines()
    options = [line.split()[0] for line in lines if line.startswith("  --")]
    assert options[0] == "--preset"
    typed = [word.replace("[no-]", "")[2:].replace("-", "_") for word in options]
    assert sorted(typed) == sorted(item.name for item in dataclasses.fields(command.options))
    assert max(map(len, lines)) <= 80
    for example in command.options.help_examples:
        assert f"  {example}" in lines
        words = shlex.split(example, comments=True)
        found, _ = parsing.parse(words[1:])
        assert found.words == command.words


def test_help_shows_the_defaults_of_the_preset(capsys):
    for words, steps in (([], "[10000]"), (["--preset", "smoke"], "[1500]")):
        with pytest.raises(SystemExit, match="0"):
            parsing.parse(["vae", *words, "--help"])
        (line,) = (line for line in capsys.readouterr().out.splitlines() if " --steps" in line)
        assert line.endswith(steps)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_short_summary(name):
    """In the help of all commands, and in that of commands of two words."""
    for text in (parsing.summary(name), *(found.summary for found in parsing.commands(name))):
        assert 10 < len(text) <= 100
        assert text.endswith(".")


@pytest.mark.parametrize("word", ["--version", "--help", "vea"])
def test_what_runs_nothing_imports_no_torch_and_takes_half_a_second(word):
    code = "import sys, time; from dbsurf_paper.commands.main import main\n"
    code += f"try: main([{word!r}])\nexcept SystemExit: pass\n"
    code += "print('torch' in sys.modules, time.process_time(), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported, seconds = done.stderr.splitlines()[-1].split()
    assert imported == "False"
    assert float(seconds) < 0.5


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["vea"], "; did you mean 'vae'?"),
        (["dance"], "got 'dance'"),
        (["nas", "tabel"], "; did you mean 'table'?"),
        (["toy", "--preset", "smok"], "; did you mean 'smoke'?"),
        (["sweep", "tabel1"], "; did you mean 'table1'?"),
        (["data", "fetch", "mnits"], "; did you mean 'mnist'?"),
        (["vae", "--dataset", "fashon-mnist"], "; did you mean 'fashion-mnist'?"),
        (["vae", "--estimator", "DBsruf"], "; did you mean 'dbsurf'?"),
        (["vae", "--estimator-options", "alpah=2"], "among alpha, debias, validate, got alpah"),
        (["vae", "--estimator", "disarm", "--estimator-options", "a=2"], "among validate, got a"),
    ],
)
def test_wrong_names_get_the_right_ones_in_the_same_line(words, near, tmp_path, capsys):
    if words[0] == "vae":
        words = [*words, "--out", str(tmp_path)]
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.endswith(f"{near}\n")


@pytest.mark.parametrize(
    "words", [["toy", "--seed", "many"], ["toy", "--unknown", "1"], ["completion", "ksh"]]
)
def test_options_that_do_not_fit_end_with_status_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [["dance"], ["--unknown"], ["toy", "--preset", "huge"]])
def test_unknown_words_end_with_status_2_and_one_line(words, capsys):
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("dbsurf: error: ")
    assert error.count("\n") == 1
    assert "must be one of" in error


def test_interrupt_and_debug(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("dbsurf_paper.commands.estimators.run", interrupted)
    assert cli.main(["estimators"]) == 130
    assert capsys.readouterr().err == "dbsurf: interrupted\n"

    def failing(options):
        raise ValueError("one line")

    monkeypatch.setattr("dbsurf_paper.commands.estimators.run", failing)
    assert cli.main(["estimators"]) == 2
    assert capsys.readouterr().err == "dbsurf: error: one line\n"
    with pytest.raises(ValueError, match="one line"):
        cli.main(["estimators", "--debug"])


def test_the_catalogue_lists_every_estimator(capsys):
    assert cli.main(["estimators"]) == 0
    text = capsys.readouterr().out
    for name in dbsurf.available():
        assert name in text
    assert ESCAPE not in text


def test_colours_on_terminals_only_and_not_where_no_color_is_set(monkeypatch, capsys):
    def page() -> str:
        with pytest.raises(SystemExit):
            cli.main(["estimators", "--help"])
        return capsys.readouterr().out

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert ESCAPE not in page()
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    assert ESCAPE in page()
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE not in page()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_knows_every_command(shell, capsys, tmp_path):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name in COMMANDS:
        assert name in script
    if shell != "bash" or shutil.which("bash") is None:
        return
    (tmp_path / "script").write_text(script)
    ask = f"""source {tmp_path / "script"}
        COMP_WORDS=(dbsurf t) COMP_CWORD=1; _tyro_dbsurf; echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(dbsurf toy --ta) COMP_CWORD=2; _tyro_dbsurf; echo "${{COMPREPLY[@]}}" """
    answer = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert [line.strip() for line in answer.stdout.splitlines()] == ["toy", "--target"]


def test_a_reader_that_leaves_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "dbsurf_paper.commands.main", "--version"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.parametrize("word", ["--version", "--help", "estimators", "dance"])
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_no_standard_output_is_no_error(word, closed, tmp_path):
    """As a service may start it: nothing is printed, and files do not get what was to be."""
    line = f'"{sys.executable}" -m dbsurf_paper {word} {closed}'
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True)
    assert done.returncode == (2 if word == "dance" else 0)
    told = word == "dance" and closed == ">&-"
    assert done.stderr.count("\n") == told
    assert "Traceback" not in done.stderr


def test_a_run_and_its_processes_without_standard_output(tmp_path):
    line = "sweep vae --grid steps=2 bound_images=10 final_images=10 --workers 1"
    words = f'"{sys.executable}" -m dbsurf_paper {line} --out "{tmp_path}" >&- 2>&-'
    assert subprocess.run(["sh", "-c", words]).returncode == 0
    assert len(list(tmp_path.glob("*/summary.json"))) == 1


@pytest.mark.parametrize("words", [["--help"], [], ["vae", "--preset", "smoke"]])
def test_missing_packages_are_one_line(words):
    """As after an installation without dependencies."""
    hidden = ("tyro", "rich", "matplotlib", "pandas", "pooch", "tqdm", "tensorboard", "jinja2")
    code = f"import sys; sys.modules |= dict.fromkeys({hidden}); "
    code += "from dbsurf_paper.commands.main import main; raise SystemExit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"dbsurf: error: {cli.EXTRA}\n"


def test_exact_works_for_finite_supports_only(capsys):
    cli.main(["estimators"])
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "finite" in rows["exact"]
    assert "any discrete" in rows["loorf"]
    assert "Bernoulli" in rows["arms"]
    assert "Bernoulli, one-hot" in rows["quadraticcv"]
