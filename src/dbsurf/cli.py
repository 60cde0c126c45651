"""The ``dbsurf`` command: finds the subcommand, reads its options, reports errors in one line.

A subcommand is a module with three names: ``Options``, a frozen dataclass whose fields and
docstrings are the command line; ``PRESETS``, whole `Options` by name for ``--preset``; and
``run(options)``. Everything else about it is its own business.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Annotated, Any, Union

import tyro

import dbsurf

COMMANDS = {
    "estimators": "dbsurf.catalogue",
    "toy": "dbsurf.experiments.toy.command",
    "vae": "dbsurf.experiments.vae",
    "nas": "dbsurf.experiments.nas",
    "data": "dbsurf.data.command",
}

BAD_INPUT, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if "--version" in words:
        print(f"dbsurf {dbsurf.__version__}")
        return 0
    try:
        command, options = parse(words)
        command.run(options)
    except KeyboardInterrupt:
        print("dbsurf: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError) as error:
        if debug:
            raise
        print(f"dbsurf: error: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def parse(words: Sequence[str]) -> tuple[ModuleType, Any]:
    """The subcommand's module and its options; exits with status 2 if they do not fit."""
    modules = {name: importlib.import_module(path) for name, path in COMMANDS.items()}
    preset = _preset(words)
    choices = []
    for name, module in modules.items():
        summary = (module.Options.__doc__ or "").split("\n\n")[0]
        extra: dict[str, Any] = {}
        if name in words[:1] and preset is not None:
            if preset not in module.PRESETS:
                known = ", ".join(module.PRESETS) or "none"
                raise ValueError(f"--preset must be one of {known} for {name}, got {preset!r}")
            extra["default"] = module.PRESETS[preset]
        choices.append(
            Annotated[module.Options, tyro.conf.subcommand(name, description=summary, **extra)]
        )
    choice: Any = Union[tuple(choices)]  # noqa: UP007
    options = tyro.cli(
        choice,
        args=words,
        prog="dbsurf",
        description="Gradients through discrete random variables: the paper's experiments.",
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.ConsolidateSubcommandArgs),
    )
    for module in modules.values():
        if type(options) is module.Options:
            return module, options
    raise AssertionError(f"{options!r} belongs to no subcommand")


def _preset(words: Sequence[str]) -> str | None:
    """The value of ``--preset``, looked up first because it sets all other defaults."""
    for position, word in enumerate(words):
        if word == "--preset" and position + 1 < len(words):
            return words[position + 1]
        if word.startswith("--preset="):
            return word.removeprefix("--preset=")
    return None


if __name__ == "__main__":
    raise SystemExit(main())
