"""Finished runs of format 1, as run folders or archives of them, become runs of format 2.

Run with `python paper/studies/convert.py PLACE ...`; a place is an archive (`runs.zip`) or a folder
with run folders in it. No number changes: what is new are the format number and the checksum of
every file. The `config.json` of a converted run says so. What was changed since the run wrote it is
refused by the checksums of format 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from dbsurf_paper.experiments.league.study import measured_part, timed_part
from dbsurf_paper.files import read_json
from dbsurf_paper.runs.folder import CONFIG, ENVIRONMENT, ROWS, SUMMARY, write_summary
from dbsurf_paper.runs.records import METRICS
from dbsurf_paper.runs.sealed import FORMAT, sha256, write_sealed, write_sealed_text
from pages import publish, restore

NOTE = "from format 1, in which only summary.json had a checksum; no number was changed"
TIMES = ("milliseconds", "loorf_milliseconds")


def convert(folder: Path) -> None:
    """One finished run, in place; one of this format stays as it is."""
    summary = read_json(folder / SUMMARY)
    if summary.get("format") == FORMAT:
        return
    text = json.dumps(
        {name: value for name, value in summary.items() if name != "sha256"},
        sort_keys=True,
        separators=(",", ":"),
    )
    if summary.pop("sha256", "") != hashlib.sha256(text.encode()).hexdigest():
        raise ValueError(f"{folder / SUMMARY} is damaged: it does not match its checksum")
    for name, wanted in summary.pop("files").items():
        if sha256((folder / name).read_bytes()) != wanted:
            raise ValueError(f"{folder / name} is damaged: it is not the file that the run wrote")
    config = read_json(folder / CONFIG)
    if config != summary["configuration"]:
        raise ValueError(f"{folder / CONFIG} is of another run than {SUMMARY}")
    head = {"experiment": summary["experiment"], "configuration": config}
    write_sealed(folder / CONFIG, {**head, "converted": NOTE})
    if (folder / ENVIRONMENT).exists():
        write_sealed(folder / ENVIRONMENT, read_json(folder / ENVIRONMENT))
    if (folder / METRICS).exists():
        write_sealed_text(folder / METRICS, (folder / METRICS).read_text())
    if (folder / ROWS).exists():
        found = {"seconds": summary["seconds"], "parts": parts(read_json(folder / ROWS)["rows"])}
        write_sealed(folder / ROWS, {**head, **found}, indent=None)
    write_summary(folder, summary)


def parts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows of the league as the parts of a run: rows without times, then the times."""
    found: dict[str, Any] = {}
    for row in rows:
        name = measured_part(row["estimator"], row["evaluations"], row["learned"])
        found[name] = {key: value for key, value in row.items() if key not in TIMES}
    for row in rows:
        name = timed_part(row["estimator"], row["evaluations"])
        found[name] = {key: row[key] for key in TIMES}
    return found


def convert_all(place: Path) -> int:
    """All finished runs in a folder or an archive; returns their number."""
    if place.is_dir():
        folders = [path.parent for path in sorted(place.rglob(SUMMARY))]
        for folder in folders:
            convert(folder)
        return len(folders)
    with tempfile.TemporaryDirectory() as name:
        restore(place, Path(name))
        count = convert_all(Path(name))
        publish(place, [path for path in Path(name).iterdir() if path.is_dir()])
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", type=Path, nargs="+", metavar="PLACE")
    for place in parser.parse_args().places:
        print(f"{place}: {convert_all(place)} runs")
