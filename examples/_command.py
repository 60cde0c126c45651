"""What the examples share as commands: options, a sign of life, and a figure of what was found."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

KNOWN = ("random", "best", "exact", "nothing", "everything")  # no estimators: to compare with
PAUSE = 20.0  # seconds between two signs of life where there is no terminal


def run(main: Callable[..., dict[str, float]], about: str | None, *, what: str, best: str) -> None:
    """Read the options, run the example, and draw what it returns if ``--plot`` is given.

    Args:
        main: takes ``steps`` and returns a number for each name.
        about: the example's docstring.
        what: what the numbers are, with their unit.
        best: "highest" or "lowest".
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, help="steps of each training")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the results, as .png or so")
    options = parser.parse_args()
    with alive():
        found = main() if options.steps is None else main(steps=options.steps)
    if options.plot is not None:
        plot(found, options.plot, what, best)
        print(f"drawn into {options.plot}")


@contextmanager
def alive() -> Iterator[None]:
    """Say on stderr how long the work inside has taken: every second on a terminal, else seldom."""
    done, start, terminal = threading.Event(), time.monotonic(), sys.stderr.isatty()
    sys.stdout.reconfigure(line_buffering=True)  # rows appear when they are finished

    def tell() -> None:
        while not done.wait(1.0 if terminal else PAUSE):
            text = f"{time.monotonic() - start:.0f} s"
            print(f"\r{text} " if terminal else text, end="" if terminal else "\n", file=sys.stderr)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
        if terminal:
            print("\r       \r", end="", file=sys.stderr)


def plot(found: dict[str, float], path: Path, what: str, best: str) -> None:
    """One mark a name, the title says which is the best."""
    import matplotlib.pyplot as plt

    tried = {name: value for name, value in found.items() if name not in KNOWN}
    winner = (max if best == "highest" else min)(tried, key=tried.__getitem__)
    figure, ax = plt.subplots(figsize=(6, 0.8 + 0.32 * len(found)), layout="constrained")
    for place, (name, value) in enumerate(reversed(found.items())):
        colour = "#D55E00" if name == winner else "#0072B2" if name in tried else "#777777"
        ax.plot(value, place, "o", color=colour)
        ax.annotate(f"{value:.3g}", (value, place), (6, -3), textcoords="offset points", fontsize=8)
    ax.set_yticks(range(len(found)), list(reversed(found)), fontsize=8)
    ax.margins(x=0.12)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(what)
    ax.set_title(f"{best.capitalize()}: {winner}", fontsize=10)
    figure.savefig(path, dpi=150)
    plt.close(figure)
