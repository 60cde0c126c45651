"""The steps of a run: trained, evaluated and saved until all are done or a signal asks to stop."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from dbsurf_paper.progress import StepBar
from dbsurf_paper.runs.checkpoint import NEWEST, check_optimiser
from dbsurf_paper.runs.interruption import Interruption
from dbsurf_paper.runs.life import Life
from dbsurf_paper.runs.records import KEPT, Events, Row, marking


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


class Steps:
    """The steps of a run. A subclass says what is shown and measured.

    Args:
        life: the run.
        trainer: the trainer, at step 0.
        total: steps of the run.
        checkpoint_every: steps between checkpoints.
        evaluate_every: steps between rows of the metrics; 0 for a run without metrics.
        tensorboard: whether the metrics are written as TensorBoard events, too.
    """

    def __init__(
        self,
        life: Life,
        trainer: Trainer,
        *,
        total: int,
        checkpoint_every: int,
        evaluate_every: int = 0,
        tensorboard: bool = False,
    ) -> None:
        self.life, self.total, self._trainer = life, total, trainer
        self._checkpoint_every, self._evaluate_every = checkpoint_every, evaluate_every
        self._tensorboard = tensorboard

    # --- what a subclass defines ------------------------------------------------------------------

    def title(self) -> str:
        """The name of the run for the progress bar."""
        raise NotImplementedError

    def note(self) -> str:
        """The latest numbers for the progress bar."""
        return ""

    def measure(self) -> Row:
        """The numbers of one evaluation, with the same names every time."""
        raise NotImplementedError

    # --- what is the same for all -----------------------------------------------------------------

    def restore(self) -> bool:
        """Load the newest usable checkpoint; False if there is no checkpoint."""
        return self.life.restore(self._load)

    def _load(self, state: dict[str, Any]) -> None:
        self._trainer.load_state_dict(state)
        for value in vars(self._trainer).values():
            if isinstance(value, torch.optim.Optimizer):
                check_optimiser(value)

    def train(self, until: int | None = None) -> None:
        """Train until so many steps are done, by default all, or until a signal asks to stop."""
        trainer, life, end = self._trainer, self.life, self.total if until is None else until
        on = self._tensorboard and self._evaluate_every > 0
        events = Events(life.folder, trainer.steps, life.config, enabled=on)
        bar = StepBar(self.title(), self.total, trainer.steps)
        if self._evaluate_every and trainer.steps == 0:
            self._evaluate(events)
        elif self._evaluate_every:
            life.record()  # the file may be newer than the checkpoint, or damaged
        marks = marking(life.folder, trainer.steps)
        with Interruption() as interruption, life.watch.running(), events, bar, marks as mark:
            while trainer.steps < end:
                trainer.step()
                done, asked = trainer.steps, interruption.requested
                save = asked or done == end or done % self._checkpoint_every == 0
                evaluate = self._due(done)
                if save or evaluate or done % KEPT == 0:
                    self.stop_if_diverged()
                with life.watch.paused():
                    if evaluate:
                        self._evaluate(events)
                    if save:
                        life.save(trainer.state_dict())
                if asked:
                    told = f"step {done} of {self.total} is saved in {life.folder}"
                    raise KeyboardInterrupt(told)
                if evaluate or (save and not self._evaluate_every):
                    bar.line(done, self.note())  # after saving: the terminal may be gone
                if bar.due():
                    bar.show(done, self.note())
                    mark(done)

    def _due(self, done: int) -> bool:
        """Whether metrics are to be measured after so many steps."""
        every = self._evaluate_every
        return every > 0 and (done == self.total or done % every == 0)

    def stop_if_diverged(self) -> None:
        """Raise if a loss or a weight is not finite."""
        bad = self._trainer.first_bad_step()
        if bad is not None:
            newest = self.life.folder / NEWEST
            kept = f"the last good checkpoint is {newest}" if newest.exists() else "none was saved"
            raise ValueError(f"a loss or a weight is not finite at step {bad}; {kept}")

    def _evaluate(self, events: Events) -> None:
        trainer = self._trainer
        row = {
            "step": trainer.steps,
            "evaluations": trainer.evaluations,
            "seconds": self.life.watch.seconds,
            **self.measure(),
        }
        self.life.record(row)
        events.add(row)

    def counted(self) -> dict[str, Any]:
        """Steps and evaluations, for the summary."""
        return {"steps": self._trainer.steps, "evaluations": self._trainer.evaluations}
