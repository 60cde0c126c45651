"""One life of a run: opened or resumed, its parts and states kept as they are finished, finished.

All experiments use it alike. It knows folders, configurations and files; what a part holds and what
a state means is up to the experiment::

    life = Life("toy", options)
    if life.summary is None:  # else it is finished, and was read back
        with life.opened():
            table = life.keep("table", lambda: compute(options))
            life.finish({"table": table})
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dbsurf_paper.files import remove_temporary
from dbsurf_paper.runs.checkpoint import (
    NEWEST,
    PREVIOUS,
    load_checkpoint,
    refuse_other_config,
    save_checkpoint,
    tidy_checkpoints,
)
from dbsurf_paper.runs.device import threads
from dbsurf_paper.runs.folder import (
    CONFIG,
    ENVIRONMENT,
    ROWS,
    SUMMARY,
    environment,
    folder_lock,
    read_summary,
    write_summary,
)
from dbsurf_paper.runs.interruption import Interruption, stop_requested
from dbsurf_paper.runs.options import Execution
from dbsurf_paper.runs.records import Row, Stopwatch, write_metrics
from dbsurf_paper.runs.sealed import OtherFormat, read_sealed, write_sealed

Rows = list[dict[str, Any]]  # of numbers and strings
#: Takes the name of a part and the function that computes its rows; returns the rows.
Keep = Callable[[str, Callable[[], Iterable[dict[str, Any]]]], Rows]


def compute(name: str, make: Callable[[], Iterable[dict[str, Any]]]) -> Rows:
    """The rows of a part, computed and not kept."""
    return list(make())


def begun(folder: Path) -> bool:
    """Whether a folder holds parts or states from which a run can continue."""
    return any((folder / name).exists() for name in (NEWEST, PREVIOUS, f"{NEWEST}.new", ROWS))


class Life:
    """The life of one run, from its first file to its summary.

    Args:
        experiment: name of the experiment's group, as in the summary.
        options: what the run computes, and how.
        device: where it computes, for environment.json.

    Attributes:
        summary: the results if the run is finished, else None.
        watch: counts the seconds of parts and steps, those before an interruption included.
        metrics: the rows of metrics.csv.

    Raises:
        ValueError: if the folder holds another run, or one of another format.
    """

    def __init__(self, experiment: str, options: Execution, *, device: Any = None) -> None:
        self.experiment, self.options = experiment, options
        self.folder, self.config = options.folder(), options.config()
        self.watch = Stopwatch()
        self.metrics: list[Row] = []
        self._device = device
        self._parts: dict[str, Any] = {}
        self._described = False
        self.summary = self._read_back()

    def _read_back(self) -> dict[str, Any] | None:
        """The summary, if it is there and sound; damaged files are named and written again."""
        config = summary = None
        try:
            config = read_sealed(self.folder / CONFIG) if self._here(CONFIG) else None
        except OtherFormat as error:
            raise OtherFormat(f"{error}: --out must name another folder") from None
        except ValueError as error:
            print(f"dbsurf: {error}; the file is written again", file=sys.stderr)
        try:
            summary = read_summary(self.folder)
        except ValueError as error:
            print(f"dbsurf: {error}; the results are computed again", file=sys.stderr)
        for found in (config, summary):
            if found is not None:
                refuse_other_config(found["configuration"], self.config, self.folder)
        return summary

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lock the folder and take over the parts that are there.

        A life that fails before anything is kept leaves nothing. After an interrupt the message
        says what was saved.

        Raises:
            ValueError: if something is there to continue and ``resume`` is not set, if the folder
                holds files of something else, or if the parts were changed or damaged.
        """
        folder = self.folder
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        if folder.exists() and not self._usable():
            told = f"is not a folder of an earlier {self.experiment} run"
            raise ValueError(f"--out {folder} exists and {told}")
        try:
            count = self.options.thread_count()
            with folder_lock(folder), Interruption(at_once=True), threads(count):
                remove_temporary(folder)
                tidy_checkpoints(folder)
                if begun(folder) and not self.options.resume:
                    raise ValueError(f"{folder} holds an unfinished run: --resume continues it")
                self._take_over_parts()
                yield
        except KeyboardInterrupt as stop:
            if not stop.args and (saved := self._saved()):
                raise KeyboardInterrupt(saved) from None
            raise
        finally:
            for path in made:
                with suppress(OSError):  # what holds a file stays
                    path.rmdir()

    def _here(self, name: str) -> bool:
        return (self.folder / name).exists()

    def _usable(self) -> bool:
        """Whether the folder is one of a run, or holds no files that somebody may need."""
        if not self.folder.is_dir():
            return False
        ours = begun(self.folder) or self._here(CONFIG) or self._here(SUMMARY)
        files = [path for path in self.folder.iterdir() if path.is_file()]
        return ours or all(path.name.startswith(".") for path in files)

    def _saved(self) -> str:
        """What a stopped run continues from, in words; empty if nothing was kept."""
        if self._parts:
            count = "1 part is" if len(self._parts) == 1 else f"{len(self._parts)} parts are"
            return f"{count} saved in {self.folder}"
        return f"{self.folder / NEWEST} is the last state" if self._here(NEWEST) else ""

    def _head(self) -> dict[str, Any]:
        """What every file of the run says of it."""
        return {"experiment": self.experiment, "configuration": self.config}

    def _describe(self) -> None:
        """Write what the run computes, and where, before the first thing that is kept."""
        if not self._described:
            here = environment() | ({} if self._device is None else {"device": str(self._device)})
            write_sealed(self.folder / CONFIG, self._head())
            write_sealed(self.folder / ENVIRONMENT, here)
            self._described = True

    # --- parts ------------------------------------------------------------------------------------

    def keep(self, name: str, make: Callable[[], Any]) -> Any:
        """A part of the results: the one that was kept, or computed now and kept.

        Args:
            name: the part; its name must say everything that it depends on beside the options.
            make: computes it, of numbers, strings, lists, iterators and dictionaries.
        """
        if name not in self._parts:
            with self.watch.running():
                made = json.dumps(make(), default=list)
            # As it will be read back: a resumed run has the same numbers in the same types.
            parts = {**self._parts, name: json.loads(made)}
            self._describe()
            kept = {"seconds": self.watch.seconds, "parts": parts}
            write_sealed(self.folder / ROWS, {**self._head(), **kept}, indent=None)
            self._parts = parts
            if stop_requested():
                raise KeyboardInterrupt
        return self._parts[name]

    def _take_over_parts(self) -> None:
        path = self.folder / ROWS
        if path.exists():
            try:
                found = read_sealed(path)
            except ValueError as error:
                told = f"{error}; without this file its parts are computed again"
                raise ValueError(told) from None
            refuse_other_config(found["configuration"], self.config, path)
            self._parts, self.watch.seconds = found["parts"], found["seconds"]

    # --- steps ------------------------------------------------------------------------------------

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint: tensors, numbers, strings, lists and dictionaries."""
        self._describe()
        content = {"trainer": state, "rows": list(map(dict, self.metrics))}
        save_checkpoint(self.folder, self.config, {**content, "seconds": self.watch.seconds})

    def restore(self, load: Callable[[dict[str, Any]], None]) -> bool:
        """Load the newest state that can be used; False if there is none.

        Args:
            load: takes what was given to `save`; if it raises, the state before it is tried.
        """

        def accept(found: dict[str, Any]) -> None:
            load(found["trainer"])
            self.metrics = found["rows"]
            self.watch.seconds = max(self.watch.seconds, found["seconds"])

        return load_checkpoint(self.folder, self.config, accept) is not None

    def record(self, *rows: Row) -> None:
        """Add rows to the metrics, and write all of them."""
        self._describe()
        self.metrics += rows
        write_metrics(self.folder, self.metrics)

    # --- the end ----------------------------------------------------------------------------------

    def finish(self, results: dict[str, Any]) -> dict[str, Any]:
        """Write the summary, which marks the run as finished; returns it."""
        self._describe()
        self.summary = {**self._head(), "seconds": self.watch.seconds, **results}
        write_summary(self.folder, self.summary)
        return self.summary
