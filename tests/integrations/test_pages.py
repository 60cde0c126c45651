"""The blocks of the documentation that need the extra ``integrations`` run, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")
DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(
    r"^```(?:python| \{\.python \.integrations\})\n(.*?)^```", re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize(
    ("page", "needed"),
    [
        ("completions.md", ["transformers", "trl"]),
        ("pyro.md", ["pyro"]),
        ("how/resume.md", ["lightning"]),
    ],
)
def test_the_blocks_of_a_page_run_in_order(page, needed, tmp_path, monkeypatch):
    for name in needed:
        pytest.importorskip(name, reason="needs dbsurf[integrations]")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": "example"}
    blocks = BLOCK.findall((DOCS / page).read_text())
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_every_page_with_such_blocks_is_run_here():
    marked = {
        str(page.relative_to(DOCS))
        for page in DOCS.rglob("*.md")
        if "{.python .integrations}" in page.read_text()
    }
    assert marked == {"completions.md", "pyro.md", "how/resume.md"}
