"""``dbsurf nas``: one command, two ways to search."""

from __future__ import annotations

from typing import Any

from dbsurf.experiments.nas.options import Options


def run(options: Options) -> None:
    """Search, write the run folder, and say what was found."""
    summary = search(options)
    accuracy, error = summary["test_200"], summary["test_200_error"]
    count = len(summary["found"])
    told = "not in the table here" if accuracy is None else f"{accuracy:.2f}"
    if error is not None:
        told += f" ± {error:.2f}"
    print(
        f"{options.folder()}: test accuracy after 200 epochs {told} over {count} "
        f"{'search' if count == 1 else 'searches'}, "
        f"{summary['distinct_queries']:.0f} distinct cells of {summary['queries']:.0f} asked for"
    )


def search(options: Options) -> dict[str, Any]:
    """Do or finish the search that ``options`` describe; returns its summary."""
    if options.mode == "table":
        from dbsurf.experiments.nas.search import run_table

        return run_table(options)
    from dbsurf.experiments.nas.supernet.launching import search as by_supernet

    return by_supernet(options)
