"""The entry point of the ``dbsurf`` command: runs a subcommand, reports errors in one line.

Exit statuses: 0 for success, 2 for bad input, 130 for an interrupt, 141 for a closed output pipe.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import dbsurf

BAD_INPUT, INTERRUPTED, NO_READER = 2, 130, 141
EXTRA = "the dbsurf command needs the packages of dbsurf-paper: pip install dbsurf-paper"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        if "--version" in words:
            print(f"dbsurf {dbsurf.__version__}")
        else:
            run(words)
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        told = ["dbsurf: interrupted", *map(str, stop.args)]
        if stop.args:  # a run that was saved
            again = [word for word in words if word != "--resume"]
            told.append(f"go on with: {shlex.join(['dbsurf', *again, '--resume'])}")
        print("; ".join(told), file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The rest of the buffer cannot be written; Python would report that at its exit.
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
        print("dbsurf: error: this machine does not have enough memory", file=sys.stderr)
        return BAD_INPUT
    return 0


def out_of_memory(error: Exception) -> bool:
    """Whether an error means that memory ran out; torch has several messages for that."""
    told = ("allocate memory", "enough memory", "out of memory", "calculation overflowed")
    return isinstance(error, MemoryError) or any(words in str(error) for words in told)


def run(words: Sequence[str]) -> None:
    """Find the subcommand, read its options, run it."""
    if find_spec("tyro") is None:  # only the library is installed
        raise ValueError(EXTRA)
    from dbsurf_paper.commands.parsing import parse

    command, options = parse(words)
    command.run(options)


if __name__ == "__main__":
    raise SystemExit(main())
