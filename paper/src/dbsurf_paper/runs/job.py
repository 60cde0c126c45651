"""A run that can be resumed: its training loop, evaluations, checkpoints and results."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch

from dbsurf_paper.files import read_json, remove_temporary, write_json
from dbsurf_paper.progress import StepBar
from dbsurf_paper.runs.checkpoint import (
    NEWEST,
    OtherConfiguration,
    check_layout,
    check_optimiser,
    check_rows,
    load_checkpoint,
    refuse_other_config,
    save_checkpoint,
    tidy_checkpoints,
)
from dbsurf_paper.runs.folder import CONFIG, environment, folder_lock, read_summary, write_summary
from dbsurf_paper.runs.options import RunOptions
from dbsurf_paper.runs.processes import Interruption
from dbsurf_paper.runs.records import KEPT, Events, Row, Stopwatch, write_metrics


class JobOptions(RunOptions, Protocol):
    """The options that the training loop needs."""

    @property
    def steps(self) -> int: ...
    @property
    def evaluate_every(self) -> int: ...
    @property
    def checkpoint_every(self) -> int: ...
    @property
    def resume(self) -> bool: ...
    @property
    def tensorboard(self) -> bool: ...


class Trainer(Protocol):
    """A model in training, one step at a time.

    Attributes:
        steps: steps done so far.
    """

    steps: int

    @property
    def evaluations(self) -> int:
        """How often f has been evaluated."""
        ...

    def step(self) -> None:
        """Do one step, without waiting for the device."""
        ...

    def first_bad_step(self) -> int | None:
        """The first of the last steps at which training was not finite."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything the next steps depend on: tensors, numbers, strings, lists, dictionaries."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def complete(options: RunOptions, make: Callable[[], Job]) -> dict[str, Any]:
    """Do or finish the run that ``options`` describe; returns its summary.

    A run that is finished is read back: ``make`` is not called.
    """
    finished = read_finished(options.folder(), options.config())
    if finished is not None:
        return finished
    job = make()
    with job.held():
        job.open()
        job.train()
        return job.finish()


def read_finished(folder: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The summary if this run is finished; None if there is work to do.

    A damaged summary is computed again from the checkpoint. A damaged ``config.json`` is written
    again, because summary and checkpoint contain the configuration too.

    Raises:
        ValueError: if the folder holds another run.
    """
    summary = None
    try:
        if (folder / CONFIG).exists():
            refuse_other_config(read_json(folder / CONFIG), config, folder)
    except OtherConfiguration:
        raise
    except ValueError as error:
        print(f"dbsurf: {error}; the file is written again", file=sys.stderr)
    try:
        summary = read_summary(folder)
    except ValueError as error:
        print(f"dbsurf: {error}; the results are computed again", file=sys.stderr)
    if summary is not None:
        refuse_other_config(summary["configuration"], config, folder)
    return summary


class Job(ABC):
    """A run in progress. A subclass defines what is measured; the loop and the files are here.

    Args:
        options: the options of the experiment.
        trainer: the trainer, at step 0.
        device: the device of the computation.

    Attributes:
        experiment: name of the experiment, as in the summary.
        rows: the metrics so far.
        watch: counts the seconds of training, without evaluations and checkpoints.
    """

    experiment: ClassVar[str]

    def __init__(self, options: JobOptions, trainer: Trainer, device: torch.device) -> None:
        self._options, self._trainer, self._device = options, trainer, device
        self.folder = options.folder()
        self.rows: list[Row] = []
        self.watch = Stopwatch()
        self._restored = False  # from a checkpoint, without a step since

    # --- what a subclass defines ------------------------------------------------------------------

    @abstractmethod
    def title(self) -> str:
        """The name of the run for the progress bar."""

    @abstractmethod
    def note(self) -> str:
        """The latest numbers for the progress bar."""

    @abstractmethod
    def measure(self) -> Row:
        """The numbers of one evaluation, with the same names every time."""

    @abstractmethod
    def results(self) -> dict[str, Any]:
        """The final evaluation, for the summary; may write pictures into the folder."""

    # --- what is the same for all -----------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the run folder, so that no other process works in it.

        After an interrupt the message says what was saved.
        """
        with folder_lock(self.folder):
            try:
                yield
            except KeyboardInterrupt as stop:
                if not stop.args and (self.folder / NEWEST).exists():
                    raise KeyboardInterrupt(f"{self.folder / NEWEST} is the last state") from None
                raise

    def open(self) -> None:
        """Write the configuration, and continue from the checkpoint if there is one."""
        config = self._options.config()
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_temporary(self.folder)
        tidy_checkpoints(self.folder)
        if not self._options.resume and (self.folder / NEWEST).exists():
            raise ValueError(f"{self.folder} holds an unfinished run: --resume continues it")
        continued = self.restore()
        write_json(self.folder / CONFIG, config)
        write_json(self.folder / "environment.json", {**environment(), "device": str(self._device)})
        self.events = Events(self.folder, self._trainer.steps, enabled=self._options.tensorboard)
        if not continued:
            self.evaluate()
        write_metrics(self.folder, self.rows)

    def restore(self) -> bool:
        """Load the newest usable checkpoint; False if there is no checkpoint."""
        return load_checkpoint(self.folder, self._options.config(), self._take_over) is not None

    def _take_over(self, state: dict[str, Any]) -> None:
        """Load a state; raises if this run cannot have saved it."""
        trainer, rows, seconds = self._trainer, state["rows"], state["seconds"]
        check_layout(state["trainer"], trainer.state_dict())
        trainer.load_state_dict(state["trainer"])
        for value in vars(trainer).values():
            if isinstance(value, torch.optim.Optimizer):
                check_optimiser(value)
        total = self._options.steps
        if type(trainer.steps) is not int or not 0 <= trainer.steps <= total:
            raise ValueError(f"steps must be an integer from 0 to {total}, got {trainer.steps!r}")
        if not isinstance(seconds, float) or not 0 <= seconds < math.inf:
            raise ValueError(f"seconds must be a number of at least 0, got {seconds!r}")
        check_rows(rows, trainer.steps)
        bad = trainer.first_bad_step()
        if bad is not None:
            raise ValueError(f"losses or weights are not finite at step {bad}")
        self.rows, self.watch.seconds = rows, seconds
        self._restored = True

    def train(self) -> None:
        """Train until all steps are done or a signal asks to stop."""
        options, trainer = self._options, self._trainer
        bar = StepBar(self.title(), options.steps, trainer.steps)
        with Interruption() as interruption, self.watch.running(), self.events, bar:
            while trainer.steps < options.steps:
                self.step()
                done, last = trainer.steps, trainer.steps == options.steps
                save = last or interruption.requested or done % options.checkpoint_every == 0
                evaluate = last or done % options.evaluate_every == 0
                if save or evaluate or done % KEPT == 0:
                    self.stop_if_diverged()
                if evaluate:
                    self.evaluate()
                if save:
                    self.save()
                if interruption.requested and save:
                    raise KeyboardInterrupt(
                        f"step {done} of {options.steps} is saved in {self.folder}"
                    )
                if evaluate:  # after saving: the terminal may be gone
                    bar.line(done, self.note())
                if bar.due():
                    bar.show(done, self.note())

    def step(self) -> None:
        """One step. If the first step after loading a checkpoint fails, the checkpoint is wrong.

        Torch does not check everything that an optimiser loads until the optimiser uses it.
        """
        if not self._restored:
            self._trainer.step()
            return
        try:
            self._trainer.step()
        except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
            raise ValueError(
                f"{self.folder / NEWEST} cannot be used: the next step fails with "
                f"{type(error).__name__}: {reason}"
            ) from error
        self._restored = False

    def stop_if_diverged(self) -> None:
        """Raise if a loss or a weight is not finite."""
        bad = self._trainer.first_bad_step()
        if bad is not None:
            newest = self.folder / NEWEST
            kept = f"the last good checkpoint is {newest}" if newest.exists() else "none was saved"
            raise ValueError(f"a loss or a weight is not finite at step {bad}; {kept}")

    def evaluate(self) -> None:
        """Add a row to the metrics."""
        with self.watch.paused():
            row = {
                "step": self._trainer.steps,
                "evaluations": self._trainer.evaluations,
                "seconds": self.watch.seconds,
                **self.measure(),
            }
            self.rows.append(row)
            write_metrics(self.folder, self.rows)
            self.events.add(row)

    def save(self) -> None:
        """Write a checkpoint."""
        with self.watch.paused():
            state = {
                "trainer": self._trainer.state_dict(),
                "rows": [dict(row) for row in self.rows],
                "seconds": self.watch.seconds,
            }
            save_checkpoint(self.folder, self._options.config(), state)

    def finish(self) -> dict[str, Any]:
        """Do the final evaluation and write the summary, which marks the run as finished."""
        summary: dict[str, Any] = {
            "experiment": self.experiment,
            "configuration": self._options.config(),
            "steps": self._trainer.steps,
            "evaluations": self._trainer.evaluations,
            "seconds": self.watch.seconds,
            **self.results(),
        }
        write_summary(self.folder, summary)
        return summary
