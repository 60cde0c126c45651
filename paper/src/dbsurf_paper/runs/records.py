"""Records of a training run: metrics.csv, TensorBoard events, recent losses, time."""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from dbsurf_paper.files import naming
from dbsurf_paper.runs.sealed import read_sealed_text, write_sealed_text

Row = Mapping[str, float | int | None]
METRICS = "metrics.csv"


def write_metrics(folder: Path, rows: Sequence[Row]) -> None:
    """Write all rows; the columns are those of the first. None becomes an empty cell."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_sealed_text(folder / METRICS, text.getvalue())


def read_metrics(folder: Path) -> list[dict[str, float | None]]:
    """The rows that `write_metrics` wrote, to the last digit.

    Raises:
        ValueError: naming the file, if it was changed or damaged.
    """
    text = read_sealed_text(folder / METRICS)
    return [
        {name: float(cell) if cell else None for name, cell in row.items()}
        for row in csv.DictReader(io.StringIO(text, newline=""))
    ]


STEP = ".step"  # the step that a run is at, for those who watch it; the run does not read it


@contextmanager
def marking(folder: Path, step: int) -> Iterator[Callable[[int], None]]:
    """While a run trains: takes the step that it is at, for `marked_step`."""
    path = folder / STEP

    def mark(step: int) -> None:
        with suppress(OSError):  # an extra: an error here must not fail the run
            path.write_text(str(step))

    mark(step)
    try:
        yield mark
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def marked_step(folder: Path) -> tuple[float, int] | None:
    """When a run was at which step; None if it does not say."""
    path = folder / STEP
    try:
        return path.stat().st_mtime, int(path.read_text())
    except (OSError, ValueError):
        return None


#: Numbers whose names begin so are shown together; the others are of the run.
GROUPS = ("train", "test", "gradient", "entropy")


def tag(name: str) -> str:
    """The name of a number in TensorBoard, where what comes before a slash is a group.

    >>> tag("train_negative_elbo"), tag("loss"), tag("seconds")
    ('train/negative_elbo', 'train/loss', 'run/seconds')
    """
    first, _, rest = name.partition("_")
    if first in GROUPS and rest:
        return f"{first}/{rest}"
    return "train/loss" if name == "loss" else f"run/{name}"


class Events:
    """Scalars for TensorBoard; events of an interrupted run after its checkpoint are purged.

    They are in the run folder itself, so that TensorBoard calls the run by the name of its folder.

    Args:
        folder: the run folder.
        step: the step at which the run starts or continues.
        settings: what the run computes, shown as hyperparameters.
        enabled: whether to write events at all.
    """

    def __init__(
        self,
        folder: Path,
        step: int,
        settings: Mapping[str, Any] | None = None,
        *,
        enabled: bool = True,
    ) -> None:
        self._writer, self._place = None, folder
        self._settings = settings if step == 0 else None
        if enabled:
            from torch.utils.tensorboard import SummaryWriter

            with naming(folder):
                self._writer = SummaryWriter(str(folder), purge_step=step + 1 if step else None)

    def add(self, row: Row) -> None:
        """One point for every number of a row of the metrics, at its step."""
        if self._writer is not None:
            step = row["step"]
            numbers = {tag(name): value for name, value in row.items() if name != "step"}
            with naming(self._place):
                self._add_settings(numbers)
                for name, value in numbers.items():
                    if value is not None:
                        self._writer.add_scalar(name, value, step)
                self._writer.flush()

    def _add_settings(self, numbers: Iterable[str]) -> None:
        """Once: the hyperparameters, and the numbers that stand beside them."""
        if self._writer is None or self._settings is None:
            return
        from torch.utils.tensorboard.summary import hparams

        known = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in self._settings.items()
            if value is not None
        }
        file: Any = self._writer.file_writer
        for summary in hparams(known, dict.fromkeys(numbers, 0.0)):
            file.add_summary(summary)
        self._settings = None

    def __enter__(self) -> Events:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            with suppress(OSError):  # events are an extra: an error here must not fail the run
                self._writer.close()


def add_picture(folder: Path, name: str, picture: Path, step: int) -> None:
    """Show a PNG of a run in TensorBoard, beside the run's curves.

    Args:
        folder: the run folder.
        name: what the picture is called there.
        picture: the PNG file.
        step: the step that it belongs to.
    """
    from matplotlib.image import imread
    from torch.utils.tensorboard import SummaryWriter

    with naming(folder), SummaryWriter(str(folder)) as writer:
        writer.add_image(name, imread(picture)[..., :3], step, dataformats="HWC")


KEPT = 100  # losses that are kept; training checks them at least that often


class RecentLosses:
    """Remembers `KEPT` losses without waiting for the device.

    Args:
        device: where the losses are.

    Attributes:
        values: the losses, that of step s at s modulo `KEPT`; save and restore it.
    """

    def __init__(self, device: torch.device) -> None:
        self.values = torch.zeros(KEPT, device=device)

    def add(self, step: int, loss: Tensor) -> None:
        """The loss of a step, counted from 0."""
        self.values[step % KEPT] = loss.detach()

    def first_bad_step(self, steps: int, parameters: Sequence[Tensor]) -> int | None:
        """The first of the last steps, counted from 1, whose loss was not finite.

        The weights are checked too, because the last step may have made them infinite. This waits
        for the device.

        Args:
            steps: number of steps that were done.
            parameters: the weights.
        """
        losses = self.values.tolist()
        for step in range(max(0, steps - KEPT), steps):
            if not math.isfinite(losses[step % KEPT]):
                return step + 1
        sums = torch.stack([value.detach().sum() for value in parameters])
        return None if bool(torch.isfinite(sums).all()) else steps


class Stopwatch:
    """Counts seconds of work.

    Attributes:
        seconds: counted so far; set it to continue an earlier count.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time inside."""
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time inside."""
        was_running = self._since is not None
        self._stop()
        try:
            yield
        finally:
            if was_running:
                self._since = time.perf_counter()

    def _stop(self) -> None:
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since
            self._since = None
