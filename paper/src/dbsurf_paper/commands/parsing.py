"""Reads the command line with tyro: the subcommand and its options.

Every experiment is a subcommand, defined by its record. The other subcommands are modules that
define ``Options``, a frozen dataclass whose fields and docstrings are the command line;
``PRESETS``, complete `Options` by name for ``--preset``; and ``run(options)``.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import tyro

from dbsurf_paper.commands import help
from dbsurf_paper.experiments import registry
from dbsurf_paper.runs.options import Execution

MODULES = {
    "demo": "dbsurf_paper.commands.demo",
    "estimators": "dbsurf_paper.commands.estimators",
    "sweep": "dbsurf_paper.sweep.command",
    "report": "dbsurf_paper.commands.report",
    "data": "dbsurf_paper.data.command",
}
DESCRIPTION = """Gradients through discrete random variables, and the paper's experiments.

dbsurf COMMAND --help explains one. Also: --version; --debug for tracebacks."""
LOOK = (
    tyro.conf.OmitSubcommandPrefixes,
    tyro.conf.ConsolidateSubcommandArgs,
    tyro.conf.DisallowNone,  # leave an option out for None
    tyro.conf.PositionalMetavarFromFieldName,
)


@dataclass(frozen=True)
class Command:
    """A subcommand.

    Attributes:
        words: its name on the command line, after ``dbsurf``.
        options: its options, a frozen dataclass.
        presets: complete options by name.
        run: runs it with given options.
    """

    words: tuple[str, ...]
    options: type
    presets: Mapping[str, Any]
    run: Callable[[Any], None]

    @property
    def summary(self) -> str:
        """The first paragraph of the options' docstring."""
        return (self.options.__doc__ or "").split("\n\n")[0]


def commands(name: str) -> list[Command]:
    """The subcommands that begin with a word; only they are imported."""
    if name == "completion":
        return [Command((name,), Completion, {}, print_completion)]
    if name in MODULES:
        module = importlib.import_module(MODULES[name])
        return [Command((name,), module.Options, module.PRESETS, module.run)]
    return [
        Command(tuple(record.command.split(" ")), record.options, record.presets, record.run)
        for record in registry.load(name)
    ]


def names() -> list[str]:
    """First words of all subcommands, in the order of the help."""
    return ["demo", "estimators", *registry.groups(), "sweep", "report", "data", "completion"]


def summary(name: str) -> str:
    """The first line of the docstring of a subcommand's module, which is not imported."""
    if name == "completion":
        return str(Completion.__doc__)
    found = find_spec({**registry.groups(), **MODULES}[name])
    assert found is not None
    assert found.origin is not None
    text = ast.get_docstring(ast.parse(Path(found.origin).read_text())) or name
    return text.splitlines()[0]


def parse(words: Sequence[str]) -> tuple[Command, Any]:
    """The subcommand and its options; exits with status 2 if the options are not right."""
    tyro._experimental_options["ansi_codes"] = colourful()
    name, *rest = words or ["--help"]
    if name in ("-h", "--help"):
        listed = {name: summary(name) for name in names()}
        print(help.overview("dbsurf", DESCRIPTION, listed, colours=colourful()))
        raise SystemExit(0)
    if name not in MODULES and name != "completion" and name not in registry.groups():
        raise ValueError(f"the command must be one of {', '.join(names())}, got {name!r}")
    found = commands(name)
    if len(found) > 1:
        second = rest.pop(0) if rest else "--help"
        known = {command.words[1]: command for command in found}
        if second in ("-h", "--help"):
            listed = {word: one.summary for word, one in known.items()}
            print(help.overview(f"dbsurf {name}", summary(name), listed, colours=colourful()))
            raise SystemExit(0)
        if second not in known:
            raise ValueError(
                f"{name} must be followed by one of {', '.join(known)}, got {second!r}"
            )
        found = [known[second]]
    (command,) = found
    extra: dict[str, Any] = {}
    preset = _preset(rest)
    if preset is not None:
        if preset not in command.presets:
            listed = ", ".join(command.presets) or "none"
            told = " ".join(command.words)
            raise ValueError(f"--preset must be one of {listed} for {told}, got {preset!r}")
        extra["default"] = command.presets[preset]
    prog = " ".join(["dbsurf", *command.words])
    if {"-h", "--help"} & set(rest) and issubclass(command.options, Execution):
        usual = extra.get("default") or command.options()
        print(help.text(prog, command.options, usual, colours=colourful()))
        raise SystemExit(0)
    options = tyro.cli(command.options, args=rest, prog=prog, config=LOOK, **extra)
    return command, options


def colourful() -> bool:
    """Whether to colour help and errors: on terminals only, and not where NO_COLOR is set."""
    return sys.stdout.isatty() and sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def every_command() -> Any:
    """All subcommands with their options, for the completion script."""
    choices = []
    for name in names():
        found = commands(name)
        if len(found) == 1:
            choices.append(_choice(found[0], 0))
            continue
        group = make_dataclass(name, [("search", _one_of(found))])
        choices.append(Annotated[group, tyro.conf.subcommand(name, description=summary(name))])
    return Union[tuple(choices)]  # noqa: UP007


def _one_of(found: Sequence[Command]) -> Any:
    """Subcommands that share their first word, as one type."""
    choices = [_choice(command, 1) for command in found]
    return Union[tuple(choices)]  # noqa: UP007


def _choice(command: Command, place: int) -> Any:
    word = tyro.conf.subcommand(command.words[place], description=command.summary)
    return Annotated[command.options, word]


def _preset(words: Sequence[str]) -> str | None:
    """The value of ``--preset``, looked up first because it sets all other defaults."""
    for position, word in enumerate(words):
        if word == "--preset" and position + 1 < len(words):
            return words[position + 1]
        if word.startswith("--preset="):
            return word.removeprefix("--preset=")
    return None


# --- dbsurf completion ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Completion:
    """Print a completion script for bash, zsh or fish."""

    shell: Annotated[
        Literal["bash", "zsh", "fish"],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="{bash,zsh,fish}"),
    ]
    """The shell; "Command line" in the documentation says where to put the script."""


def print_completion(options: Completion) -> None:
    """Print the script."""
    words = ["--tyro-write-completion", options.shell, "-"]
    try:
        tyro.cli(every_command(), args=words, prog="dbsurf", config=LOOK)
    except SystemExit as done:  # tyro exits after printing, with status 0 if all is well
        if done.code:
            raise
