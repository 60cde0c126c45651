"""The examples learn: each beats chance, or what a part of it can do, by a margin."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested_here():
    assert {path.stem for path in FOLDER.glob("[!_]*.py")} == {
        "attention",
        "bandit",
        "epidemic",
        "patches",
        "policy",
        "router",
        "variational",
    }


def test_bandit_learns_and_baselines_help(capsys):
    found = example("bandit").main(steps=60, seeds=2)
    for name in ("REINFORCE, running mean", "LOORF", "DBsurf"):
        # Two fifths of the way from random offers to always the best.
        assert found[name] > found["random"] + 0.4 * (found["best"] - found["random"])
        assert found[name] > found["REINFORCE"]
    assert max(found.values()) == found["best"]
    assert "clicks a context" in capsys.readouterr().out


def test_variational_guides_approach_the_posterior(capsys):
    module = example("variational")
    start = module.main(steps=1)
    found = module.main(steps=150)
    for name, divergence in found.items():
        assert 0 <= divergence < 0.3 * start[name]
    assert found["exact"] == min(found.values())
    assert "enumerated" in capsys.readouterr().out


def test_attention_learns_where_to_look_and_what_is_there(capsys):
    found = example("attention").main(steps=80, seeds=1)
    assert found["only the reader"] < 0.45
    for name in ("LOORF", "DBsurf"):
        assert found[name] > 0.7
    assert "guessing" in capsys.readouterr().out


def test_policy_learns_to_count_down_from_rewards(capsys):
    found = example("policy").main(steps=50, seeds=1)
    for value in found.values():
        assert value > 0.4  # a model that guesses has 0.09
    assert "completions" in capsys.readouterr().out


def test_an_example_can_be_drawn_and_says_that_it_is_alive(tmp_path):
    words = [sys.executable, str(FOLDER / "bandit.py"), "--steps", "2", "--plot", "found.png"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "drawn into found.png" in done.stdout
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")
    code = "import _command, time\n_command.PAUSE = 0.05\nwith _command.alive(): time.sleep(0.2)"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[:2] == ["0 s", "0 s"]


@pytest.mark.parametrize("name", ["attention", "bandit", "policy", "variational"])
def test_an_example_is_short_and_says_how_to_run_it(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert 40 <= len(text.splitlines()) <= 100
    assert f"python examples/{name}.py" in text


def test_epidemic_finds_a_cheap_plan(capsys):
    costs = example("epidemic").main(steps=120)
    assert costs["dbsurf.Search"] < 0.8 * costs["best of random plans"]
    assert costs["dbsurf.Search"] < 0.4 * costs["nothing"]
    assert "closed" in capsys.readouterr().out


def test_patches_are_found_that_tell_the_digits(capsys, monkeypatch):
    module = example("patches")
    torch.manual_seed(0)
    digits = torch.randint(10, (500,))
    code = torch.rand(10, module.PATCHES).round()
    code[:, module.CHOSEN :] = 0.5  # the other patches say nothing
    pixels = module.masked(torch.ones(500, 784), code[digits])
    data = {"x_train": pixels, "y_train": digits, "x_test": pixels, "y_test": digits}
    monkeypatch.setattr(module, "images", lambda: data)
    found = module.main(steps=60, seeds=1)
    assert found["StructuredCV(4)"] > 0.3  # chance is a tenth
    assert found["StructuredCV(4)"] > found["random patches"]
    assert "6 of 49 patches" in capsys.readouterr().out


def test_routers_and_experts_learn_classes(capsys, monkeypatch):
    module = example("router")
    torch.manual_seed(0)
    classes = torch.randint(10, (500,))
    pixels = torch.rand(10, 784).round()[classes]
    data = {"x_train": pixels, "y_train": classes, "x_test": pixels, "y_test": classes}
    monkeypatch.setattr(module, "images", lambda: data)
    found = module.main(steps=30)
    assert set(found) == set(module.METHODS)
    assert min(found.values()) > 0.2  # chance is a tenth
    assert "2 of 8 experts" in capsys.readouterr().out
