"""A run from its options to a finished folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from dbsurf import data
from dbsurf.experiments.vae import measure
from dbsurf.experiments.vae.batches import Batches, flat, mean_image
from dbsurf.experiments.vae.evaluation import seeded
from dbsurf.experiments.vae.model import BinaryVAE
from dbsurf.experiments.vae.options import Options
from dbsurf.experiments.vae.pictures import save_pictures
from dbsurf.experiments.vae.training import LOSSES_KEPT, Trainer
from dbsurf.runs.checkpoint import NEWEST, load_checkpoint, refuse_other_config, save_checkpoint
from dbsurf.runs.events import Events
from dbsurf.runs.folder import CONFIG, environment, write_json
from dbsurf.runs.metrics import Row, write_metrics
from dbsurf.runs.progress import StepBar
from dbsurf.runs.signals import Interruption
from dbsurf.runs.stopwatch import Stopwatch

SUMMARY, PICTURE = "summary.json", "pictures.png"


def run(options: Options) -> None:
    """Train, evaluate, write the run folder."""
    summary = train(options)
    print(
        f"{options.folder()}: -ELBO {summary['train_negative_elbo']:.2f} train, "
        f"{summary['test_negative_elbo']:.2f} test after {summary['steps']} steps"
    )


def train(options: Options) -> dict[str, Any]:
    """Do or finish the run that ``options`` describe; returns its summary."""
    finished = read_finished(options.folder(), options)
    if finished is not None:
        return finished
    if options.threads:
        torch.set_num_threads(options.threads)
    job = Job(options)
    job.open()
    job.train()
    return job.finish()


def read_finished(folder: Path, options: Options) -> dict[str, Any] | None:
    """The summary if this very run is finished already; stops if the folder is another run's."""
    if (folder / CONFIG).exists():
        found = json.loads((folder / CONFIG).read_text())
        refuse_other_config(found, options.config(), folder)
    if not (folder / SUMMARY).exists():
        return None
    summary: dict[str, Any] = json.loads((folder / SUMMARY).read_text())
    return summary


class Job:
    """One run at work."""

    def __init__(self, options: Options) -> None:
        self.options, self.folder = options, options.folder()
        self.device = choose_device(options.device)
        self.trainer, test = build(options, self.device)
        self.measures = measure.Measures(options, self.trainer, test)
        self.rows: list[Row] = []
        self.watch = Stopwatch()

    def open(self) -> None:
        """Write what the run is, and continue it where it stopped."""
        if not self.options.resume and (self.folder / NEWEST).exists():
            raise ValueError(f"{self.folder} holds an unfinished run: --resume continues it")
        self.folder.mkdir(parents=True, exist_ok=True)
        state = load_checkpoint(self.folder, self.options.config())
        write_json(self.folder / CONFIG, self.options.config())
        write_json(self.folder / "environment.json", {**environment(), "device": str(self.device)})
        if state is not None:
            self.trainer.load_state_dict(state["trainer"])
            self.rows, self.watch.seconds = state["rows"], state["seconds"]
        self.events = Events(self.folder, self.trainer.steps, enabled=self.options.tensorboard)
        if state is None:
            self.evaluate()
        write_metrics(self.folder, self.rows)

    def train(self) -> None:
        """Step until all steps are done or somebody asks to stop."""
        options, trainer = self.options, self.trainer
        title = f"{options.dataset} {options.label()} n={options.n}"
        bar = StepBar(title, options.steps, trainer.steps)
        with Interruption() as interruption, self.watch.running(), self.events, bar:
            while trainer.steps < options.steps:
                trainer.step()
                done, last = trainer.steps, trainer.steps == options.steps
                save = last or interruption.requested or done % options.checkpoint_every == 0
                evaluate = last or done % options.evaluate_every == 0
                if save or evaluate or done % LOSSES_KEPT == 0:
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

    def note(self) -> str:
        return f"-ELBO {self.rows[-1]['train_negative_elbo']:.2f}"

    def stop_if_diverged(self) -> None:
        bad = self.trainer.first_bad_step()
        if bad is not None:
            newest = self.folder / NEWEST
            kept = f"the last good checkpoint is {newest}" if newest.exists() else "none was saved"
            raise ValueError(f"training is not finite any more at step {bad}; {kept}")

    def evaluate(self) -> None:
        """Add a row to the metrics."""
        with self.watch.paused():
            row = {
                "step": self.trainer.steps,
                "evaluations": self.trainer.steps * self.trainer.evaluations_per_step,
                "seconds": self.watch.seconds,
                **self.measures.during_training(),
            }
            self.rows.append(row)
            write_metrics(self.folder, self.rows)
            self.events.add(row)

    def save(self) -> None:
        """Write a checkpoint."""
        with self.watch.paused():
            state = {
                "trainer": self.trainer.state_dict(),
                "rows": [dict(row) for row in self.rows],
                "seconds": self.watch.seconds,
            }
            save_checkpoint(self.folder, self.options.config(), state)

    def finish(self) -> dict[str, Any]:
        """Evaluate on all images, draw the pictures, and declare the run finished."""
        last = self.rows[-1]
        summary: dict[str, Any] = {
            "experiment": "vae",
            "configuration": self.options.config(),
            "steps": self.trainer.steps,
            "evaluations": last["evaluations"],
            "seconds": self.watch.seconds,
            **self.measures.at_the_end(),
            "gradient_variance": last["gradient_variance"],
            "gradient_mean_square": last["gradient_mean_square"],
        }
        if self.options.measure_variance:
            summary["variance_by_estimator"] = self.measures.all_variances()
        save_pictures(self.trainer.model, self.measures.shown(), self.folder / PICTURE)
        write_json(self.folder / SUMMARY, summary)
        return summary


def build(options: Options, device: torch.device) -> tuple[Trainer, torch.Tensor]:
    """The trainer at step 0, and the test images as bytes on the device."""
    estimators = [options.build_estimator().to(device) for _ in range(options.layers)]
    images = data.load(options.dataset, options.data_dir)
    if images.train.ndim != 3:
        shape = images.train.shape[1:]
        raise ValueError(f"dataset must be one of grey images, got {options.dataset} of {shape}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        model = BinaryVAE(
            mean_image(images.train),
            latents=options.latents,
            hidden=options.hidden,
            architecture=options.architecture,
            layers=options.layers,
        )
    batches = Batches(images.train, options.batch, seeded(options.seed, device), device)
    trainer = Trainer(model.to(device), estimators, batches, options.learning_rate)
    return trainer, flat(images.test, device)


def choose_device(name: str) -> torch.device:
    """The device by its name; auto is the fastest there is."""
    present = {"cpu": True, "cuda": torch.cuda.is_available()}
    present["mps"] = torch.backends.mps.is_available()
    if name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if present[kind])
    if not present[name]:
        raise ValueError(f"device must be one that this machine has, got {name}")
    return torch.device(name)
