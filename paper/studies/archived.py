"""Since which revision an archive holds the runs that do not name the one that made them.

Run with `python paper/studies/archived.py`, in a checkout with all of its history. The code of such
a run is that of this revision or an earlier one. It writes `archived.csv` beside the archives.
"""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from pathlib import Path

import pandas as pd

from dbsurf_paper.runs.folder import ENVIRONMENT, SUMMARY

RESULTS = Path("docs/results")
ARCHIVES = (RESULTS / "vae" / "runs.zip", RESULTS / "nas" / "supernet-runs.zip")
NAME = "archived.csv"


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], capture_output=True, check=True).stdout


def runs_of(archive: bytes) -> dict[str, float]:
    """The seconds of every run that names no revision; no two runs of a name have the same."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        names = {Path(name).parts[0] for name in file.namelist()}
        unnamed = (name for name in names if f"{name}/{ENVIRONMENT}" not in file.namelist())
        return {name: json.loads(file.read(f"{name}/{SUMMARY}"))["seconds"] for name in unnamed}


def since(archive: Path) -> dict[str, str]:
    """The first revision with each of an archive's runs that name none, by run."""
    wanted, found = runs_of(archive.read_bytes()), dict[str, str]()
    # (Where the archive was added or changed; it may have been away in between.)
    revisions = git("log", "--reverse", "--diff-filter=AM", "--format=%h", "--", str(archive))
    for revision in revisions.decode().split():
        then = runs_of(git("show", f"{revision}:{archive.as_posix()}"))
        for name, seconds in wanted.items():
            # (Seconds were rounded when the files got another format.)
            if name not in found and abs(then.get(name, float("inf")) - seconds) < 1e-6:
                found[name] = revision
    return found


def read(results: Path) -> dict[str, str]:
    """What was written beside an archive, by run; nothing where there is no such file."""
    path = results / NAME
    return dict(pd.read_csv(path, dtype=str).to_numpy().tolist()) if path.exists() else {}


if __name__ == "__main__":
    for one in ARCHIVES:
        rows = pd.DataFrame(sorted(since(one).items()), columns=["run", "since"])
        rows.to_csv(one.with_name(NAME), index=False)
