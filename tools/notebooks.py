"""Runs the notebooks of docs/gallery, keeps what they print and draw, and writes their pages.

    python tools/notebooks.py [NAME ...]

A notebook is the source. Edit it in Jupyter or elsewhere, then run this: its outputs, its page
(docs/gallery/NAME.md) and the pictures of the page are written again. Cells are executed as plain
Python, so nothing of Jupyter is needed; matplotlib is. Tests run the same cells with few steps: the
first code cell of a notebook has a line ``STEPS = 400``, which they change.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"
STEPS = re.compile(r"^STEPS = \d+$", re.MULTILINE)
Notebook = dict[str, Any]
Output = dict[str, Any]


def names() -> list[str]:
    """The notebooks, in the order of the page of examples."""
    return sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def read(name: str) -> Notebook:
    """A notebook, as it is in its file."""
    found: Notebook = json.loads((FOLDER / f"{name}.ipynb").read_text())
    return found


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def lines(text: str) -> list[str]:
    """Text as notebooks have it."""
    return text.splitlines(keepends=True)


def executed(notebook: Notebook, steps: int | None = None) -> Notebook:
    """The notebook with new outputs.

    Args:
        notebook: it is not changed.
        steps: in place of its own number of steps.
    """
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    plt.close("all")  # figures of whoever calls this are not the notebook's
    space: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            text = source(cell)
            if steps is not None:
                text = STEPS.sub(f"STEPS = {steps}", text)
            cell = {**cell, "execution_count": count, "outputs": outputs(text, space, count)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def outputs(text: str, space: dict[str, Any], count: int) -> list[Output]:
    """Run a cell: what it prints, its last expression, and the figures that it leaves open."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        shown = run(text, space)
    found: list[Output] = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    if shown is not None and not text.rstrip().endswith(";"):
        data = {"text/plain": lines(repr(shown))}
        if hasattr(shown, "_repr_html_"):
            data["text/html"] = lines(shown._repr_html_())
        found.append(
            {
                "output_type": "execute_result",
                "execution_count": count,
                "data": data,
                "metadata": {},
            }
        )
    return found + figures()


def run(text: str, space: dict[str, Any]) -> Any:
    """Execute the text; the value of its last statement if that is an expression."""
    tree = ast.parse(text)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "cell", "exec"), space)
        return None
    tree.body.pop()
    exec(compile(tree, "cell", "exec"), space)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), space)


def figures() -> list[Output]:
    """Every open figure as PNG; they are closed."""
    import matplotlib.pyplot as plt

    found: list[Output] = []
    for number in plt.get_fignums():
        figure, buffer = plt.figure(number), io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
        plt.close(figure)
        image = base64.b64encode(buffer.getvalue()).decode()
        data = {"image/png": image, "text/plain": ["<Figure>"]}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    return found


def page(name: str, notebook: Notebook) -> tuple[str, dict[str, bytes]]:
    """The notebook as Markdown, and its pictures by the names of their files."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(source(cell))
            if len(parts) == 1:
                parts.append(f"[The notebook]({name}.ipynb), with what it printed and drew:")
            continue
        parts.append(f"```py\n{source(cell).rstrip(';')}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(data["image/png"])
                parts.append(f"![{described(source(cell))}]({file}){{ .drawing }}")
            else:
                text = "".join(output.get("text") or data["text/plain"])
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures


def described(text: str) -> str:
    """What a picture shows: its title in the code."""
    found = re.findall(r'(?:title\(|title=|show\(.*?, |suptitle\()f?"([^"]*)"', text)
    return re.sub(r"\{.*?\}", "…", found[-1]) if found else "The picture that these lines draw"


def main(chosen: list[str]) -> None:
    """Run notebooks and write their files."""
    for name in chosen or names():
        print(name, flush=True)
        notebook = executed(read(name))
        text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
        (FOLDER / f"{name}.ipynb").write_text(text + "\n")
        markdown, pictures = page(name, notebook)
        (FOLDER / f"{name}.md").write_text(markdown)
        for old in FOLDER.glob(f"{name}-*.png"):
            old.unlink()
        for file, image in pictures.items():
            (FOLDER / file).write_bytes(image)


if __name__ == "__main__":
    main(sys.argv[1:])
