"""A study made of parts: each is saved when it is done, and a stopped run goes on with the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbsurf_paper.files import remove_temporary, write_json
from dbsurf_paper.runs.checkpoint import NEWEST, load_checkpoint, save_checkpoint, tidy_checkpoints
from dbsurf_paper.runs.folder import CONFIG, environment, folder_lock
from dbsurf_paper.runs.options import RunOptions
from dbsurf_paper.runs.records import Stopwatch

Rows = list[dict[str, Any]]  # of numbers and strings
#: Takes the name of a part and the function that computes its rows; returns the rows.
Keep = Callable[[str, Callable[[], Iterable[dict[str, Any]]]], Rows]


def compute(name: str, make: Callable[[], Iterable[dict[str, Any]]]) -> Rows:
    """The rows of a part, computed and not kept."""
    return list(make())


class Parts:
    """The finished parts of a run, in its checkpoint.

    Args:
        options: the options of the run, which name its folder.

    Attributes:
        watch: counts the seconds of the parts, those before an interruption included.
    """

    def __init__(self, options: RunOptions) -> None:
        self.folder: Path = options.folder()
        self.watch = Stopwatch()
        self._config = options.config()
        self._rows: dict[str, Rows] = {}

    @contextmanager
    def opened(self, *, resume: bool) -> Iterator[None]:
        """Lock the folder, write the configuration, and take over the parts that are there.

        After an interrupt the message says what was saved.

        Raises:
            ValueError: if there are parts and ``resume`` is False.
        """
        with folder_lock(self.folder):
            remove_temporary(self.folder)
            tidy_checkpoints(self.folder)
            if not resume and (self.folder / NEWEST).exists():
                raise ValueError(f"{self.folder} holds an unfinished run: --resume continues it")
            load_checkpoint(self.folder, self._config, self._take_over)
            write_json(self.folder / CONFIG, self._config)
            write_json(self.folder / "environment.json", environment())
            try:
                with self.watch.running():
                    yield
            except KeyboardInterrupt as stop:
                if not stop.args and self._rows:
                    count = "1 part is" if len(self._rows) == 1 else f"{len(self._rows)} parts are"
                    told = f"{count} saved in {self.folder}"
                    raise KeyboardInterrupt(told) from None
                raise

    def keep(self, name: str, make: Callable[[], Iterable[dict[str, Any]]]) -> Rows:
        """The rows of a part: saved ones, or computed and saved."""
        if name not in self._rows:
            rows = list(make())
            with self.watch.paused():
                self._rows[name] = rows
                state = {"seconds": self.watch.seconds, "rows": self._rows}
                save_checkpoint(self.folder, self._config, state)
        return self._rows[name]

    def _take_over(self, state: dict[str, Any]) -> None:
        seconds, rows = state["seconds"], state["rows"]
        if not isinstance(seconds, float) or not 0 <= seconds < float("inf"):
            raise ValueError(f"seconds must be a number of at least 0, got {seconds!r}")
        for name, part in rows.items():
            if not isinstance(part, list) or not all(isinstance(row, dict) for row in part):
                raise ValueError(f"part {name!r} must be a list of rows")
        self._rows, self.watch.seconds = rows, seconds
