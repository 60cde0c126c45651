"""The entry point of the ``dbsurf`` command: runs a subcommand, reports errors in one line.

Exit statuses: 0 for success, 2 for bad input, 130 for an interrupt, 141 for a closed output pipe.
Torch takes seconds to import: nothing here imports it before a subcommand needs it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib.metadata import version
from importlib.util import find_spec
from types import FrameType

BAD_INPUT, INTERRUPTED, NO_READER = 2, 130, 141
EXTRA = "the dbsurf command needs the packages of dbsurf-paper: pip install dbsurf-paper"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    open_streams()
    search_here()
    try:
        if "--version" in words:
            print(f"dbsurf {version('dbsurf')}")
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
        print(f"dbsurf: error: {error}{suggestion(str(error))}", file=sys.stderr)
        return BAD_INPUT
    except (MemoryError, RuntimeError) as error:
        if debug or not out_of_memory(error):
            raise
        print("dbsurf: error: this machine does not have enough memory", file=sys.stderr)
        return BAD_INPUT
    return 0


def search_here() -> None:
    """Look for modules of the user in the current folder too, behind everything installed.

    The processes of a sweep inherit it.
    """
    with suppress(FileNotFoundError):  # the folder was deleted
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())


def open_streams() -> None:
    """Send output to the null device where the process was started without it (``>&-``).

    Python sets such a stream to None. The file descriptor is taken too: otherwise the next file
    that is opened would get its number, and whatever a library prints would be written into it.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_WRONLY)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


def suggestion(error: str) -> str:
    """What to add to an error about a wrong name: the nearest right one, or the right ones.

    >>> suggestion("dataset must be one of digits, mnist, got 'mnits'")
    "; did you mean 'mnist'?"
    """
    listed = r"must be (?:followed by )?one of ([^\n]*?)(?: for [^,]*)?, got '([^']*)'"
    if (found := re.search(listed, error)) and "did you mean" not in error:
        near = get_close_matches(found[2].lower(), found[1].split(", "), n=1)
        return f"; did you mean {near[0]!r}?" if near else ""
    return ""


def out_of_memory(error: Exception) -> bool:
    """Whether an error means that memory ran out; torch has several messages for that."""
    told = ("allocate memory", "enough memory", "out of memory", "calculation overflowed")
    return isinstance(error, MemoryError) or any(words in str(error) for words in told)


def run(words: Sequence[str]) -> None:
    """Find the subcommand, read its options, run it."""
    if find_spec("tyro") is None:  # only the library is installed
        raise ValueError(EXTRA)
    with stopping_at_once():
        from dbsurf_paper.commands.parsing import parse

        command, options = parse(words)
    command.run(options)


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Ctrl-C ends the process: there is nothing to save yet, and an import cannot be interrupted.

    Where SIGINT is ignored, as in a background job, it stays ignored.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _stop(number: int, frame: FrameType | None) -> None:
    os.write(2, b"dbsurf: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    raise SystemExit(main())
