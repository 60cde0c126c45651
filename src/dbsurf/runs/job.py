"""A resumable run: steps, evaluations, checkpoints, and an end that is declared once."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch

from dbsurf.runs.checkpoint import NEWEST, load_checkpoint, refuse_other_config, save_checkpoint
from dbsurf.runs.events import Events
from dbsurf.runs.folder import CONFIG, SUMMARY, environment, write_json
from dbsurf.runs.losses import KEPT
from dbsurf.runs.metrics import Row, write_metrics
from dbsurf.runs.options import RunOptions
from dbsurf.runs.progress import StepBar
from dbsurf.runs.signals import Interruption
from dbsurf.runs.stopwatch import Stopwatch


class JobOptions(RunOptions, Protocol):
    """What the loop asks of an experiment's options."""

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
    """What is trained, one step at a time.

    Attributes:
        steps: done so far.
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
    job.open()
    job.train()
    return job.finish()


def read_finished(folder: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The summary if this very run is finished already; stops if the folder is another run's."""
    if (folder / CONFIG).exists():
        found = json.loads((folder / CONFIG).read_text())
        refuse_other_config(found, config, folder)
    if not (folder / SUMMARY).exists():
        return None
    summary: dict[str, Any] = json.loads((folder / SUMMARY).read_text())
    return summary


class Job(ABC):
    """One run at work. An experiment says what is measured; the loop and the files are here.

    Args:
        options: of the experiment.
        trainer: at step 0.
        device: where it computes.

    Attributes:
        experiment: name of the experiment, as in the summary.
        rows: the metrics so far.
        watch: counts training, evaluations and checkpoints left out.
    """

    experiment: ClassVar[str]

    def __init__(self, options: JobOptions, trainer: Trainer, device: torch.device) -> None:
        self._options, self._trainer, self._device = options, trainer, device
        self.folder = options.folder()
        self.rows: list[Row] = []
        self.watch = Stopwatch()

    # --- what an experiment says ------------------------------------------------------------------

    @abstractmethod
    def title(self) -> str:
        """What runs, in a few words."""

    @abstractmethod
    def note(self) -> str:
        """How it stands, in a few words."""

    @abstractmethod
    def measure(self) -> Row:
        """One evaluation; the same names every time."""

    @abstractmethod
    def results(self) -> dict[str, Any]:
        """The final evaluation, for the summary; may write pictures into the folder."""

    # --- what all of them do ----------------------------------------------------------------------

    def open(self) -> None:
        """Write what the run is, and continue it where it stopped."""
        config = self._options.config()
        if not self._options.resume and (self.folder / NEWEST).exists():
            raise ValueError(f"{self.folder} holds an unfinished run: --resume continues it")
        self.folder.mkdir(parents=True, exist_ok=True)
        state = load_checkpoint(self.folder, config)
        write_json(self.folder / CONFIG, config)
        write_json(self.folder / "environment.json", {**environment(), "device": str(self._device)})
        if state is not None:
            self._trainer.load_state_dict(state["trainer"])
            self.rows, self.watch.seconds = state["rows"], state["seconds"]
        self.events = Events(self.folder, self._trainer.steps, enabled=self._options.tensorboard)
        if state is None:
            self.evaluate()
        write_metrics(self.folder, self.rows)

    def train(self) -> None:
        """Step until all steps are done or somebody asks to stop."""
        options, trainer = self._options, self._trainer
        bar = StepBar(self.title(), options.steps, trainer.steps)
        with Interruption() as interruption, self.watch.running(), self.events, bar:
            while trainer.steps < options.steps:
                trainer.step()
                done, last = trainer.steps, trainer.steps == options.steps
                save = last or interruption.requested or done % options.checkpoint_every == 0
                evaluate = last or done % options.evaluate_every == 0
                if save or evaluate or done % KEPT == 0:
                    self.stop_if_diverged()
                if evaluate:
                    self.evaluate()
                    bar.line(done, self.note())
                if save:
                    self.save()
                if interruption.requested:
                    raise KeyboardInterrupt
                if bar.due():
                    bar.show(done, self.note())

    def stop_if_diverged(self) -> None:
        bad = self._trainer.first_bad_step()
        if bad is not None:
            newest = self.folder / NEWEST
            kept = f"the last good checkpoint is {newest}" if newest.exists() else "none was saved"
            raise ValueError(f"training is not finite any more at step {bad}; {kept}")

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
        """Measure what counts, and declare the run finished."""
        summary: dict[str, Any] = {
            "experiment": self.experiment,
            "configuration": self._options.config(),
            "steps": self._trainer.steps,
            "evaluations": self._trainer.evaluations,
            "seconds": self.watch.seconds,
            **self.results(),
        }
        write_json(self.folder / SUMMARY, summary)
        return summary
