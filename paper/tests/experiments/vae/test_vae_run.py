"""Whole runs on a small set: resume bit for bit, faults, bad input, what a folder holds."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import dbsurf
from blobs import blobs
from dbsurf_paper import files
from dbsurf_paper.commands.main import main
from dbsurf_paper.experiments.league.entrants import takes_bits
from dbsurf_paper.experiments.vae import PRESETS, Options, job, train
from dbsurf_paper.experiments.vae.training import Trainer, negative_elbo
from dbsurf_paper.runs.checkpoint import NEWEST, PREVIOUS, read_checkpoint
from dbsurf_paper.runs.device import choose_device
from dbsurf_paper.runs.records import read_metrics

FILES = ["checkpoint.previous.pt", "checkpoint.pt", "config.json", "environment.json"]
FILES += ["metrics.csv", "pictures.png", "summary.json"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a set called tiny."""
    return blobs(tmp_path_factory.mktemp("data"))


def tiny(data: Path, out: Path, **changes: object) -> Options:
    options = Options(
        dataset="tiny",
        steps=200,
        batch=20,
        learning_rate=3e-3,
        latents=8,
        hidden=8,
        evaluate_every=50,
        evaluation_images=20,
        evaluation_samples=2,
        bound_samples=5,
        variance_draws=3,
        variance_images=10,
        checkpoint_every=50,
        tensorboard=False,
        data_dir=data,
        out=out,
        device="cpu",
    )
    return replace(options, **changes)  # type: ignore[arg-type]


def words(options: Options) -> list[str]:
    """The options of a tiny run as a command line."""
    found = ["vae"]
    names = ["dataset", "estimator", "n", "steps", "seed", "batch", "learning_rate", "latents"]
    names += ["hidden", "evaluate_every", "evaluation_images", "evaluation_samples"]
    names += ["bound_samples", "variance_draws", "variance_images", "checkpoint_every"]
    for name in [*names, "data_dir", "out"]:
        found += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return [*found, "--threads", "1", "--no-tensorboard", *(["--resume"] if options.resume else [])]


def outcome(folder: Path) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Last state and metrics of a run, without its times."""
    state = read_checkpoint(folder / NEWEST)["state"]["trainer"]
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in read_metrics(folder)]
    return state, rows


def assert_same(one: object, other: object) -> None:
    """Equal to the last bit, through dictionaries, lists and tensors."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert one == other


# --- resume ---------------------------------------------------------------------------------------


KILLED = """
import os, signal, sys
from dbsurf_paper import files
from dbsurf_paper.commands.main import main
from dbsurf_paper.experiments.vae.training import Trainer
step = Trainer.step
def fatal(self):
    step(self)
    if self.steps == 137:
        os.kill(os.getpid(), signal.SIGKILL)
Trainer.step = fatal
main(sys.argv[1:])
"""


@pytest.mark.parametrize("estimator", ["doublecv", "quadraticcv"])  # those with state
def test_200_steps_are_100_and_kill_9_and_resume(data, tmp_path, estimator):
    whole = tiny(data, tmp_path / "whole", estimator=estimator)
    train(whole)
    broken = replace(whole, out=tmp_path / "broken")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *words(broken)], timeout=120, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert read_checkpoint(tmp_path / "broken" / NEWEST)["state"]["trainer"]["steps"] == 100
    summary = train(replace(broken, resume=True))
    assert_same(outcome(tmp_path / "broken"), outcome(tmp_path / "whole"))
    for name, value in train(whole).items():  # finished: read back, not run again
        if name != "seconds":
            assert summary[name] == value


def test_damaged_checkpoint_falls_back_and_ends_the_same(data, tmp_path, capsys):
    whole, broken = tiny(data, tmp_path / "whole"), tiny(data, tmp_path / "broken")
    train(whole)
    train(broken)
    (tmp_path / "broken" / "summary.json").unlink()
    content = (tmp_path / "broken" / NEWEST).read_bytes()
    (tmp_path / "broken" / NEWEST).write_bytes(content[:1000])
    train(replace(broken, resume=True))
    assert f"{NEWEST} is damaged" in capsys.readouterr().err
    assert_same(outcome(tmp_path / "broken"), outcome(tmp_path / "whole"))


def test_another_configuration_is_refused(data, tmp_path, capsys):
    options = tiny(data, tmp_path / "run", steps=50)
    train(options)
    assert main(words(replace(options, n=6, seed=3, resume=True))) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "another configuration: n (4 there, 6 here), seed (0 there, 3 here)" in error


def test_unfinished_run_is_not_overwritten(data, tmp_path):
    options = tiny(data, tmp_path / "run", steps=50)
    train(options)
    (tmp_path / "run" / "summary.json").unlink()
    with pytest.raises(ValueError, match="holds an unfinished run: --resume continues it"):
        train(options)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("signals_heard")
def test_signal_saves_and_stops(data, tmp_path, monkeypatch, capsys, number):
    step = Trainer.step

    def interrupted(self: Trainer) -> None:
        step(self)
        if self.steps == 73:
            os.kill(os.getpid(), number)

    whole, broken = tiny(data, tmp_path / "whole"), tiny(data, tmp_path / "broken")
    train(whole)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", interrupted)
        assert main(words(broken)) == 130
    assert read_checkpoint(tmp_path / "broken" / NEWEST)["state"]["trainer"]["steps"] == 73
    told = capsys.readouterr().err.splitlines()[-1]
    saved, line = told.split("; go on with: ")
    assert saved == f"dbsurf: interrupted; step 73 of 200 is saved in {tmp_path / 'broken'}"
    assert main(shlex.split(line)[1:]) == 0
    assert_same(outcome(tmp_path / "broken"), outcome(tmp_path / "whole"))


# --- faults ---------------------------------------------------------------------------------------


def test_nan_stops_at_its_step_and_keeps_the_last_good_checkpoint(
    data, tmp_path, monkeypatch, capsys
):
    step = Trainer.step

    def poisoned(self: Trainer) -> None:
        if self.steps == 122:
            self.model.decoders[0][-1].bias.data[-1] = torch.nan
        step(self)

    monkeypatch.setattr(Trainer, "step", poisoned)
    assert main(words(tiny(data, tmp_path / "run"))) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "a loss or a weight is not finite at step 123; the last good checkpoint is" in error
    saved = read_checkpoint(tmp_path / "run" / NEWEST)["state"]["trainer"]
    assert saved["steps"] == 100
    assert all(value.isfinite().all() for value in saved["model"].values())


def test_bad_weights_are_seen_before_they_are_saved(data, tmp_path, monkeypatch):
    """The step just before a checkpoint makes them: no loss has shown it yet."""
    step = Trainer.step

    def poisoned(self: Trainer) -> None:
        step(self)
        if self.steps == 100:
            self.model.encoders[0][-1].bias.data[-1] = torch.inf

    monkeypatch.setattr(Trainer, "step", poisoned)
    with pytest.raises(ValueError, match="at step 100; the last good checkpoint"):
        train(tiny(data, tmp_path / "run"))
    assert read_checkpoint(tmp_path / "run" / NEWEST)["state"]["trainer"]["steps"] == 50


def test_full_disk_while_saving_ends_in_one_line_and_loses_nothing(
    data, tmp_path, monkeypatch, capsys
):
    fsync, saves = os.fsync, []

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size > 5_000:  # only checkpoints are so large
            saves.append(descriptor)
            if len(saves) > 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    options = tiny(data, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        assert main(words(options)) == 2
    assert "No space left on device" in capsys.readouterr().err.splitlines()[-1]
    assert read_checkpoint(tmp_path / "run" / NEWEST)["state"]["trainer"]["steps"] == 100
    assert read_checkpoint(tmp_path / "run" / PREVIOUS)["state"]["trainer"]["steps"] == 50
    train(tiny(data, tmp_path / "whole"))
    train(replace(options, resume=True))
    assert_same(outcome(tmp_path / "run"), outcome(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (["--dataset", "mnits"], "dataset must be one of digits, mnist, fashion-mnist, omniglot, "),
        (["--dataset", "cifar10"], "omniglot-iwae, tiny, got 'cifar10'"),
        (["--dataset", "fashion-mnist"], "`dbsurf data fetch fashion-mnist`"),
        (["--estimator", "dbsrf"], "name must be one of"),
        (["--estimator", "disarm", "--n", "3"], "n must be an even integer"),
        (["--estimator-options", "alpah=1"], "options of DBsurf must be"),
        (["--estimator-options", "alpha"], "estimator_options must be NAME=VALUE"),
        (["--estimator-options", "alpha=-1"], "alpha must be a finite number"),
        (["--batch", "101"], "batch must lie between 1 and 100"),
        (["--latent-classes", "3", "--estimator", "arms"], "arms, which needs Bernoulli latents"),
        (["--preset", "huge"], "--preset must be one of paper, laptop, smoke"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(data, tmp_path, capsys, extra, reason):
    assert main([*words(tiny(data, tmp_path / "run")), *extra]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_corrupt_data_ends_with_one_line_and_status_2(data, tmp_path, capsys):
    content = bytearray((data / "tiny.npz").read_bytes())
    content[len(content) // 2] ^= 255
    (tmp_path / "tiny.npz").write_bytes(content)
    options = tiny(tmp_path, tmp_path / "run")
    assert main(words(options)) == 2
    error = capsys.readouterr().err
    assert "tiny.npz" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"latent_classes": 1}, "latent_classes must be at least 2, got 1"),
        ({"layers": 5}, "layers must be at most 4, got 5"),
        ({"variance_draws": 1}, "variance_draws must be 0 or at least 2"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_options_that_make_no_sense(changes, reason):
    with pytest.raises(ValueError, match=reason):
        Options(**changes)


def test_device_that_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("this machine has a cuda device")
    with pytest.raises(ValueError, match="device must be one that this machine has, got cuda"):
        choose_device("cuda")


# --- what a finished run is -----------------------------------------------------------------------


def test_folder_of_a_finished_run(data, tmp_path, capsys):
    options = tiny(data, tmp_path / "run", tensorboard=True, measure_variance=True)
    job.run(options)
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert [name for name in files if "tfevents" not in name] == FILES
    assert "-ELBO" in capsys.readouterr().out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["configuration"] == options.config()
    assert summary["steps"] == 200
    assert summary["evaluations"] == 200 * 20 * 4
    assert summary["seconds"] > 0
    assert summary["train_bound"] < summary["train_negative_elbo"]
    assert len(summary["variance_by_estimator"]) == 8
    assert all(row["variance"] > 0 for row in summary["variance_by_estimator"])
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    assert "train/negative_elbo" in events.Tags()["scalars"]
    assert [picture.step for picture in events.Images("pictures")] == [200]
    rows = read_metrics(tmp_path / "run")
    assert [row["step"] for row in rows] == [0, 50, 100, 150, 200]
    assert rows[-1]["train_negative_elbo"] < rows[0]["train_negative_elbo"] - 100
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["torch"] == torch.__version__
    assert environment["device"] == "cpu"


def test_runs_differ_by_seed_and_agree_otherwise(data, tmp_path):
    steps = {"steps": 20, "evaluate_every": 20, "checkpoint_every": 20}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(tiny(data, tmp_path / name, seed=seed, **steps))
    assert_same(outcome(tmp_path / "a"), outcome(tmp_path / "b"))
    assert outcome(tmp_path / "a")[1] != outcome(tmp_path / "c")[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"layers": 2},
        {"architecture": "linear"},
        {"variance_draws": 0},
        {"latent_classes": 5, "measure_variance": True},
        {"latent_classes": 3, "layers": 2, "estimator": "loorf"},
        {"latent_classes": 5, "estimator": "quadraticcv"},
        {"layers": 2, "estimator": "quadraticcv"},
    ],
)
def test_other_models_train_too(data, tmp_path, changes):
    steps = {"steps": 100, "evaluate_every": 100, "checkpoint_every": 100}
    train(tiny(data, tmp_path / "run", **steps, **changes))
    first, last = read_metrics(tmp_path / "run")
    assert last["train_negative_elbo"] < first["train_negative_elbo"] - 20


def test_runs_of_one_seed_differ_by_the_estimator_alone(data, tmp_path, monkeypatch):
    """The same initial weights and the same binarised images in the same order, resumed or not."""
    batches: dict[str, list[torch.Tensor]] = {}
    weights: dict[str, dict[str, torch.Tensor]] = {}
    step = Trainer.step

    def recording(self: Trainer) -> None:
        name = type(self.estimators[0]).__name__
        if self.steps == 0:
            weights[name] = {k: v.clone() for k, v in self.model.state_dict().items()}
        kept, forward = batches.setdefault(name, []), self.batches.next

        def watched() -> torch.Tensor:
            kept.append(forward())
            return kept[-1]

        with monkeypatch.context() as patch:
            patch.setattr(self.batches, "next", watched)
            step(self)

    monkeypatch.setattr(Trainer, "step", recording)
    sizes = {"steps": 12, "evaluate_every": 6, "checkpoint_every": 6}
    names = ("loorf", "dbsurf", "doublecv")
    for name in names:
        folder = tmp_path / name
        train(tiny(data, folder, estimator=name, **sizes))
        (folder / "summary.json").unlink()
        (folder / NEWEST).unlink()  # back to the checkpoint at step 6
        train(tiny(data, folder, estimator=name, resume=True, **sizes))
    first, *others = batches
    assert len(batches) == len(names)
    assert len(batches[first]) == 12 + 6  # the second half twice
    for other in others:
        assert_same(weights[first], weights[other])
        assert_same(batches[first], batches[other])
    ends = [outcome(tmp_path / name)[0]["model"]["encoders.0.0.weight"] for name in names]
    assert not torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


@pytest.mark.parametrize("finished", [False, True])
def test_run_folder_of_older_code_is_refused_in_one_line(data, tmp_path, capsys, finished):
    options = tiny(data, tmp_path / "run", steps=50)
    train(options)
    (tmp_path / "run" / "config.json").write_text(json.dumps(options.config()))  # as it was
    if not finished:
        (tmp_path / "run" / "summary.json").unlink()
    assert main(words(replace(options, resume=True))) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "config.json is without a format number, this version reads format 2" in error
    assert error.endswith("--out must name another folder")


TRAIN = [
    name
    for name in dbsurf.available()
    if dbsurf.get(name, 4).objective == "mean" and takes_bits(dbsurf.get(name, 4))
]


@pytest.mark.parametrize("name", TRAIN)
def test_every_estimator_trains(data, tmp_path, name):
    steps = {"steps": 10, "evaluate_every": 10, "checkpoint_every": 10}
    summary = train(tiny(data, tmp_path / "run", estimator=name, **steps))
    assert np.isfinite(summary["train_negative_elbo"])


def test_names_and_presets():
    options = Options(estimator="dbsurf", estimator_options=("alpha=preserve", "debias=true"))
    assert options.folder() == Path("runs/vae/digits-dbsurf-alpha-preserve-debias-true-n4-seed0")
    assert options.build_estimator().unbiased
    assert PRESETS["paper"] == Options(dataset="mnist", steps=1_000_000, bound_images=0)
    assert [PRESETS[name].dataset for name in ("laptop", "smoke")] == ["mnist", "digits"]
    assert Options().steps == 10_000  # nobody asks for a million by chance


@pytest.mark.parametrize("preset", ["paper", "laptop"])
def test_a_preset_without_its_images_says_in_one_line_how_to_get_them(preset, tmp_path, capsys):
    place = ["--data-dir", str(tmp_path / "data"), "--out", str(tmp_path / "run")]
    assert main(["vae", "--preset", preset, *place]) == 2
    error = capsys.readouterr().err.strip()
    assert "data set mnist is not in" in error
    assert "`dbsurf data fetch mnist` downloads it, `dbsurf data import FILE`" in error
    assert "\n" not in error
    assert not (tmp_path / "run").exists()


def test_no_step_waits_for_the_device(data, tmp_path):
    """On the meta device every look at a value is an error, as it would be a wait on a GPU."""
    options = tiny(data, tmp_path / "run")
    trainer, _ = job.build(options, torch.device("cpu"))
    images = torch.zeros(20, 784, device="meta")
    model = trainer.model.to("meta")
    for name in ("loorf", "dbsurf", "mdsurf", "disarm", "arms", "doublecv"):
        estimators = torch.nn.ModuleList([replace(options, estimator=name).build_estimator()])
        estimators.to("meta")
        negative_elbo(model, estimators, images, None).backward()


def test_an_estimator_of_another_objective_is_refused():
    with pytest.raises(ValueError, match="objective mean of f, got vimco"):
        Options(estimator="vimco").build_estimator()
