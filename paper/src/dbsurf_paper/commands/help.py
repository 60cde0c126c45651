"""The help of an experiment: its options in groups, the preset first, examples last.

And the list of commands. tyro reads the command line and prints the help of the other commands; it
has no groups.
"""

from __future__ import annotations

import ast
import inspect
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dbsurf_paper.runs.options import Execution

PRESET, RUNNING = "preset", "how it is run"
COLUMN = 26  # where the explanations begin
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def text(prog: str, options: type[Execution], usual: Any, *, colours: bool = False) -> str:
    """The help.

    Args:
        prog: the words of the command line before the options.
        options: the options; their docstring, those of their fields and ``help_groups`` are shown.
        usual: the values that are shown as defaults.
        colours: whether titles are bold.
    """
    width = min(100, shutil.get_terminal_size().columns)
    lines = [f"usage: {prog} [OPTIONS]", "", *textwrap.wrap(inspect.getdoc(options) or "", width)]
    documented = explanations(options)
    hints = get_type_hints(options)
    for title, names in groups(options).items():
        lines += ["", f"{BOLD}{title}{PLAIN}" if colours else title]
        for name in names:
            told = f"{documented[name]} {shown(getattr(usual, name))}".strip()
            lines += entry(words(name, hints[name]), told, width)
    if options.help_examples:
        lines += ["", f"{BOLD}examples{PLAIN}" if colours else "examples"]
        lines += [f"  {example}" for example in options.help_examples]
    return "\n".join(lines)


def overview(
    prog: str, description: str, commands: Mapping[str, str], *, colours: bool = False
) -> str:
    """The list of commands.

    Args:
        prog: the words of the command line before them.
        description: what they do together.
        commands: what each does, by name.
        colours: whether titles are bold.
    """
    width = min(100, shutil.get_terminal_size().columns)
    lines = [f"usage: {prog} COMMAND [OPTIONS]"]
    for paragraph in description.split("\n\n"):
        lines += ["", *textwrap.wrap(paragraph, width)]
    lines += ["", f"{BOLD}commands{PLAIN}" if colours else "commands"]
    column = max(map(len, commands)) + 4
    for name, told in commands.items():
        lines += entry(name, " ".join(told.split()), width, column)
    return "\n".join(lines)


def groups(options: type[Execution]) -> dict[str, list[str]]:
    """Names of options by the titles of their groups: all of them, the preset first.

    What is in no group that the options name is in "options", or, if it changes no result, in
    "how it is run".
    """
    found: dict[str, list[str]] = {PRESET: [PRESET], "options": []}
    found |= {title: list(names) for title, names in options.help_groups.items()}
    found[RUNNING] = []
    grouped = {name for names in found.values() for name in names}
    for item in fields(options):
        if item.name not in grouped:
            found["options" if _computes(item) else RUNNING].append(item.name)
    return {title: names for title, names in found.items() if names}


def _computes(item: Field[Any]) -> bool:
    """Whether an option changes what is computed."""
    return bool(item.metadata.get("identity", True))


def explanations(options: type) -> dict[str, str]:
    """The texts below the fields of a dataclass and of those that it inherits from."""
    found: dict[str, str] = {}
    for owner in reversed(options.__mro__[:-1]):
        found |= dict(_explained(owner))
    return found


def _explained(owner: type) -> Iterator[tuple[str, str]]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(definition, ast.ClassDef)
    for before, after in zip(definition.body, definition.body[1:], strict=False):
        match before, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, " ".join(said.split())


def words(name: str, hint: Any) -> str:
    """An option as it is typed: its name, and what has to follow it.

    >>> words("n", int), words("sizes", tuple[int, ...]), words("resume", bool)
    ('--n INT', '--sizes INT ...', '--[no-]resume')
    """
    flag = name.replace("_", "-")
    switch = bool in (hint, *get_args(hint))  # bool, or bool | None
    return f"--[no-]{flag}" if switch else f"--{flag} {_kind(hint)}"


def _kind(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) is Literal:
        return "{" + ",".join(map(str, get_args(hint))) + "}"
    if get_origin(hint) is tuple:
        return f"{_kind(get_args(hint)[0])} ..."
    names: Mapping[Any, str] = {str: "TEXT", Path: "PATH", int: "INT", float: "NUMBER"}
    return names[hint]


def shown(value: Any) -> str:
    """A default, in brackets; empty for what is not given by default.

    >>> shown(True), shown((2, 4)), shown(None)
    ('[yes]', '[2 4]', '')
    """
    if isinstance(value, bool):
        return "[yes]" if value else "[no]"
    if isinstance(value, tuple):
        value = " ".join(map(str, value))
    return "" if value is None or value == "" else f"[{value}]"


def entry(option: str, told: str, width: int, column: int = COLUMN) -> list[str]:
    """The lines of one option; its explanation begins in a column."""
    space = " " * column
    below = textwrap.wrap(
        told, width, initial_indent=space, subsequent_indent=space, break_on_hyphens=False
    )
    if len(option) < column - 2:
        return [f"  {option}".ljust(column) + below[0].lstrip(), *below[1:]]
    if len(option) > width - 2:
        option = option.replace(",", ", ")
    above = textwrap.wrap(option, width - 2, subsequent_indent="  ", break_on_hyphens=False)
    return [*(f"  {line}" for line in above), *below]
