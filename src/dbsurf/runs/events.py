"""TensorBoard events of a run, without letting TensorBoard decide how the run ends."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType

from dbsurf.runs.metrics import Row


class Events:
    """Scalars for TensorBoard; what an interrupted run wrote beyond its checkpoint is purged.

    Args:
        folder: the run folder.
        step: the step from which the run goes on.
        enabled: write nothing otherwise.
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
            except OSError as error:  # from TensorBoard's own thread, without a name
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
            with suppress(OSError):  # what the run came to is decided by its own files
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

    with SummaryWriter(str(folder / "tensorboard")) as writer:
        writer.add_image(name, imread(picture)[..., :3], step, dataformats="HWC")
