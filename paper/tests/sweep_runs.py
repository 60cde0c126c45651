"""Small sweeps of real runs: a set of 150 blobs, tiny networks, a few hundred steps."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from pathlib import Path

from dbsurf_paper.runs.folder import read_summary
from dbsurf_paper.runs.records import read_metrics

TINY = [
    "dataset=tiny",
    "batch=20",
    "learning_rate=0.003",
    "latents=8",
    "hidden=8",
    "evaluate_every=50",
    "evaluation_images=20",
    "evaluation_samples=2",
    "bound_samples=5",
    "variance_draws=3",
    "variance_images=10",
    "checkpoint_every=25",
    "tensorboard=false",
    "device=cpu",
]


def words(data: Path, out: Path, *grid: str) -> list[str]:
    """The command line of a sweep over tiny runs."""
    places = ["--data-dir", str(data), "--out", str(out), "--threads", "1"]
    return ["sweep", "vae", *places, "--grid", *TINY, *grid]


def outcome(folder: Path) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Summary and metrics of a finished run, without its times."""
    summary = read_summary(folder)
    assert summary is not None
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in read_metrics(folder)]
    return {name: value for name, value in summary.items() if name != "seconds"}, rows


def outcomes(out: Path) -> dict[str, object]:
    """All finished runs of a sweep by name."""
    return {path.parent.name: outcome(path.parent) for path in out.glob("*/summary.json")}


class Inline(Executor):
    """Does what it is given at once, in this process: for tests of all but engines."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future[object] = Future()
        future.set_result(fn(*args, **kwargs))
        return future
