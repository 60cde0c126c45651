"""Records of a training run: metrics.csv, TensorBoard events, recent losses, time."""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

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


class Events:
    """Scalars for TensorBoard; events of an interrupted run after its checkpoint are purged.

    Args:
        folder: the run folder.
        step: the step at which the run starts or continues.
        enabled: whether to write events at all.
    """

    def __init__(self, folder: Path, step: int, *, enabled: bool = True) -> None:
        self._writer, self._place = None, folder / "tensorboard"
        if enabled:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._place), purge_step=step + 1 if step else None)

    def add(self, row: Row) -> None:
        """One point for every number of a row of the metrics, at its step."""
        if self._writer is not None:
            step = row["step"]
            try:
                for name, value in row.items():
                    if name != "step" and value is not None:
                        self._writer.add_scalar(name, value, step)
                self._writer.flush()
            except OSError as error:  # TensorBoard's own error does not name the file
                raise OSError(error.errno, error.strerror, str(self._place)) from error

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

    place = str(folder / "tensorboard")
    try:
        with SummaryWriter(place) as writer:
            writer.add_image(name, imread(picture)[..., :3], step, dataformats="HWC")
    except OSError as error:
        raise OSError(error.errno, error.strerror, place) from error


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
