"""The notebooks of the gallery run, and their pages show what they keep."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

plt = pytest.importorskip("matplotlib.pyplot", reason="the notebooks draw")

ROOT = Path(__file__).parents[1]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = tool()
NAMES = notebooks.names()


def test_there_are_six_notebooks_each_on_the_page_of_examples():
    assert len(NAMES) == 6
    text = (ROOT / "docs" / "examples.md").read_text()
    for name in NAMES:
        assert f"(gallery/{name}.md)" in text


# Tensors go to matplotlib as they are; what numpy warns of there is between numpy and torch.
@pytest.mark.filterwarnings("ignore:__array:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_with_few_steps(name):
    notebook = notebooks.read(name)
    plt.figure()  # somebody's: no cell's output
    found = notebooks.executed(notebook, steps=10)
    kinds = [
        [output["output_type"] for output in cell["outputs"]]
        for cell in found["cells"]
        if cell["cell_type"] == "code"
    ]
    kept = [
        [output["output_type"] for output in cell["outputs"]]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]
    assert kinds == kept  # the same cells print and draw
    assert sum(kind.count("display_data") for kind in kinds) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_notebook_is_what_the_notebook_keeps(name):
    notebook = notebooks.read(name)
    text, pictures = notebooks.page(name, notebook)
    assert (notebooks.FOLDER / f"{name}.md").read_text() == text
    for file, image in pictures.items():
        assert (notebooks.FOLDER / file).read_bytes() == image


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_format_of_notebooks(name):
    notebook = notebooks.read(name)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert notebooks.STEPS.search(notebooks.source(code[0]))
