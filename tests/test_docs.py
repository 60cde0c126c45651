"""Every example of README and docs runs; every public name is documented."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch

import dbsurf
from dbsurf import laws, samplers

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name
)
def test_the_examples_of_a_page_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": "example"}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), names)


def public_objects() -> list[tuple[str, object]]:
    found = [(f"dbsurf.{name}", getattr(dbsurf, name)) for name in dbsurf.__all__]
    found += [(f"dbsurf.samplers.{name}", getattr(samplers, name)) for name in samplers.__all__]
    found += [
        (f"dbsurf.laws.{name}", value)
        for name, value in vars(laws).items()
        if inspect.isfunction(value) and not name.startswith("_")
    ]
    return found


@pytest.mark.parametrize(("name", "value"), public_objects(), ids=lambda value: str(value)[:40])
def test_every_public_name_has_a_docstring_and_a_place_in_the_reference(name, value):
    assert inspect.getdoc(value)
    reference = (ROOT / "docs" / "api.md").read_text().splitlines()
    whole_modules = (
        "dbsurf.laws",
        "dbsurf.samplers",
    )  # the first listed as one, the second's names
    home = f"{getattr(value, '__module__', '')}.{name.split('.')[-1]}"
    listed = f"::: {name}" in reference or f"::: {home}" in reference
    assert listed or name in whole_modules or name.startswith("dbsurf.laws.")


@pytest.mark.parametrize("name", dbsurf.available())
def test_an_estimators_docstring_states_bias_cost_and_needs(name):
    text = inspect.getdoc(type(dbsurf.get(name, 4)))
    for word in ("Bias", "valuations of f", "gradient", "Example:", "Args:"):
        assert word in text


def test_the_skeleton_of_the_guide_is_unbiased():
    """The page asserts so itself; here that it really gets to the assertion."""
    text = (ROOT / "docs" / "add-an-estimator.md").read_text()
    assert "assert (expectation - truth).abs().max() < 1e-12" in BLOCK.findall(text)[-1]


def test_readme_table_agrees_with_what_estimators_say():
    text = (ROOT / "README.md").read_text()
    for name in dbsurf.available():
        estimator = dbsurf.get(name, 4)
        label = type(estimator).__name__
        row = next(line for line in text.splitlines() if line.startswith(f"| `{label}("))
        cells = [cell.strip() for cell in row.split("|")]
        assert (cells[4] == "yes") == estimator.needs_grad_f
        assert ("yes" not in cells[2]) == estimator.unbiased
        assert (cells[5] == "Bernoulli") == estimator.bernoulli_only
