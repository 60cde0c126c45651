"""The ``dbsurf`` command: finds the subcommand, reads its options, reports errors in one line.

A subcommand is a module with three names: ``Options``, a frozen dataclass whose fields and
docstrings are the command line; ``PRESETS``, whole `Options` by name for ``--preset``; and
``run(options)``. Everything else about it is its own business.

Exit statuses: 0, 2 for bad input, 130 for an interrupt, 141 where the reader of a pipe has left.
"""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Annotated, Any, Union

import tyro

import dbsurf

# In the order of the help.
COMMANDS = {
    "demo": "dbsurf.demo",
    "estimators": "dbsurf.catalogue",
    "toy": "dbsurf.experiments.toy.command",
    "vae": "dbsurf.experiments.vae",
    "nas": "dbsurf.experiments.nas",
    "sweep": "dbsurf.sweep.command",
    "report": "dbsurf.report.command",
    "data": "dbsurf.data.command",
    "completion": "dbsurf.completion",
}

DESCRIPTION = """Gradients through discrete random variables, and the paper's experiments.

dbsurf COMMAND --help explains one. Also: --version; --debug for tracebacks."""
LOOK = (
    tyro.conf.OmitSubcommandPrefixes,
    tyro.conf.ConsolidateSubcommandArgs,
    tyro.conf.DisallowNone,  # not giving an option is how to say None
    tyro.conf.PositionalMetavarFromFieldName,
)

BAD_INPUT, INTERRUPTED, NO_READER = 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    tyro._experimental_options["ansi_codes"] = colourful()
    try:
        if "--version" in words:
            print(f"dbsurf {dbsurf.__version__}")
        else:
            command, options = parse(words)
            command.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        told = ["dbsurf: interrupted", *map(str, stop.args)]
        if stop.args:  # a run that was saved
            again = [word for word in words if word != "--resume"]
            told.append(f"go on with: {shlex.join(['dbsurf', *again, '--resume'])}")
        print("; ".join(told), file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # What is left in the buffer has nowhere to go; Python would complain on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except (ValueError, OSError) as error:
        if debug:
            raise
        print(f"dbsurf: error: {error}", file=sys.stderr)
        return BAD_INPUT
    except (MemoryError, RuntimeError) as error:
        if debug or not out_of_memory(error):
            raise
        print("dbsurf: error: the memory of this machine is not enough", file=sys.stderr)
        return BAD_INPUT
    return 0


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that there is not enough memory: torch has several ways to say so."""
    told = ("allocate memory", "enough memory", "out of memory", "calculation overflowed")
    return isinstance(error, MemoryError) or any(words in str(error) for words in told)


def colourful() -> bool:
    """Whether to colour help and errors: on terminals only, and not where NO_COLOR is set."""
    return sys.stdout.isatty() and sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def parse(words: Sequence[str]) -> tuple[ModuleType, Any]:
    """The subcommand's module and its options; exits with status 2 if they do not fit.

    Only the subcommand that is asked for is imported.
    """
    name = words[0] if words else "--help"
    if name in ("-h", "--help"):  # prints and stops
        tyro.cli(
            every_command(), args=["--help"], prog="dbsurf", description=DESCRIPTION, config=LOOK
        )
    if name not in COMMANDS:
        raise ValueError(f"the command must be one of {', '.join(COMMANDS)}, got {name!r}")
    module = importlib.import_module(COMMANDS[name])
    extra: dict[str, Any] = {}
    preset = _preset(words)
    if preset is not None:
        if preset not in module.PRESETS:
            known = ", ".join(module.PRESETS) or "none"
            raise ValueError(f"--preset must be one of {known} for {name}, got {preset!r}")
        extra["default"] = module.PRESETS[preset]
    options = tyro.cli(
        module.Options,
        args=words[1:],
        prog=f"dbsurf {name}",
        config=LOOK,
        **extra,
    )
    return module, options


def every_command() -> Any:
    """All subcommands as one type that tyro can read."""
    choices = []
    for name, path in COMMANDS.items():
        options = importlib.import_module(path).Options
        summary = (options.__doc__ or "").split("\n\n")[0]
        choices.append(Annotated[options, tyro.conf.subcommand(name, description=summary)])
    return Union[tuple(choices)]  # noqa: UP007


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
