"""Learned states are saved and resumed bit for bit by torch and by every framework that saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from integrations.models import (
    ESTIMATORS,
    PIXELS,
    Autoencoder,
    assert_same,
    batches,
    optimiser,
    train,
)

# What other packages warn of is not ours to repair.
pytestmark = pytest.mark.filterwarnings("ignore")

EXTRA = "needs dbsurf[integrations]"


@pytest.fixture(params=ESTIMATORS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def straight(name: str) -> Autoencoder:
    """The model after six steps in one go."""
    model = Autoencoder(ESTIMATORS[name]())
    train(model, optimiser(model), 0, 6)
    return model


def test_the_state_is_buffers_and_tensors_only(name):
    model = straight(name)
    assert all(isinstance(value, Tensor) for value in model.state_dict().values())
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {parameter.split(".")[0] for parameter in trained} == {"encoder", "decoder"}


@pytest.mark.parametrize("order", ["optimiser after load", "optimiser before load"])
def test_torch(name, order, tmp_path):
    model = Autoencoder(ESTIMATORS[name]())
    adam = optimiser(model)
    train(model, adam, 0, 3)
    torch.save({"model": model.state_dict(), "adam": adam.state_dict()}, tmp_path / "state.pt")

    again = Autoencoder(ESTIMATORS[name]())
    adam = optimiser(again)
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    again.load_state_dict(saved["model"])
    if order == "optimiser after load":
        adam = optimiser(again)
    adam.load_state_dict(saved["adam"])
    train(again, adam, 3, 6)
    assert_same(again, straight(name))


def test_safetensors(name, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch", reason=EXTRA)
    model = straight(name)
    safetensors.save_model(model, str(tmp_path / "model.safetensors"))
    again = Autoencoder(ESTIMATORS[name]())
    safetensors.load_model(again, str(tmp_path / "model.safetensors"))
    assert_same(again, model)


def test_accelerate(name, tmp_path):
    accelerate = pytest.importorskip("accelerate", reason=EXTRA)

    def prepared() -> tuple[Any, nn.Module, torch.optim.Optimizer]:
        accelerator = accelerate.Accelerator(cpu=True)
        model = Autoencoder(ESTIMATORS[name]())
        return accelerator, *accelerator.prepare(model, optimiser(model))

    accelerator, model, adam = prepared()
    train(model, adam, 0, 3)
    accelerator.save_state(str(tmp_path))
    accelerator, again, adam = prepared()
    accelerator.load_state(str(tmp_path))
    train(again, adam, 3, 6)
    assert_same(again, straight(name))


class Data(Dataset[dict[str, Tensor]]):
    """The images of the first six batches."""

    def __init__(self) -> None:
        self.images = torch.cat(list(batches(0, 6)))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"data": self.images[index]}


def test_lightning(name, tmp_path):
    lightning = pytest.importorskip("lightning", reason=EXTRA)

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = Autoencoder(ESTIMATORS[name]())

        def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
            loss: Tensor = self.model(batch["data"])["loss"]
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimiser(self.model)

    def trainer(epochs: int) -> Any:
        return lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )

    loader = DataLoader(Data(), batch_size=8)
    whole, first, second = Module(), Module(), Module()
    trainer(2).fit(whole, loader)
    begun = trainer(1)
    begun.fit(first, loader)
    begun.save_checkpoint(tmp_path / "state.ckpt")
    trainer(2).fit(second, loader, ckpt_path=tmp_path / "state.ckpt")
    assert_same(second.model, whole.model)
    assert_same(first.model, straight(name))


def test_trainer_of_transformers(name, tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason=EXTRA)
    pytest.importorskip("accelerate", reason=EXTRA)

    class InOrder(transformers.Trainer):  # type: ignore[misc,name-defined]
        def _get_train_sampler(self, *args: Any) -> Any:
            return torch.utils.data.SequentialSampler(Data())

    def trained(folder: Path, resume: str | None = None) -> Autoencoder:
        model = Autoencoder(ESTIMATORS[name]())
        arguments = transformers.TrainingArguments(
            output_dir=str(folder),
            max_steps=6,
            per_device_train_batch_size=8,
            learning_rate=1e-2,
            save_steps=3,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
            logging_strategy="no",
            include_num_input_tokens_seen="no",
        )
        InOrder(model=model, args=arguments, train_dataset=Data()).train(
            resume_from_checkpoint=resume
        )
        return model

    whole = trained(tmp_path / "one")
    resumed = trained(tmp_path / "two", str(tmp_path / "one" / "checkpoint-3"))
    assert_same(resumed, whole)
    assert not torch.equal(whole.encoder.weight, Autoencoder(ESTIMATORS[name]()).encoder.weight)
    assert whole.encoder.weight.shape[-1] == PIXELS
