"""The import graph of packages is the one that CONTRIBUTING draws, and has no cycle."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dbsurf"
# Everything that `pip install dbsurf` without extras is for.
CORE = {"__init__", "checks", "compare", "laws", "distributions", "samplers", "estimators"}


def room(words: tuple[str, ...]) -> str:
    """The package, or module at the root, that a dotted name lies in."""
    return "core" if not words or words[0] in CORE else words[0]


def imported(tree: ast.AST) -> set[str]:
    """Rooms that a module imports, wherever in the module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            first, *rest = node.module.split(".")
            if first == "dbsurf":
                names = [rest] if rest else [[alias.name] for alias in node.names]
                found |= {room(_existing(tuple(words))) for words in names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first, *rest = alias.name.split(".")
                if first == "dbsurf":
                    found.add(room(tuple(rest)))
    return found


def _existing(words: tuple[str, ...]) -> tuple[str, ...]:
    """``words`` if they name a module; a name inside the package itself is the core's."""
    here = PACKAGE / words[0]
    return words if here.is_dir() or here.with_suffix(".py").is_file() else ()


def graph() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        own = room(file.relative_to(PACKAGE).with_suffix("").parts)
        edges = found.setdefault(own, set())
        edges |= imported(ast.parse(file.read_text())) - {own}
    return found


def drawn() -> dict[str, set[str]]:
    """The table in CONTRIBUTING: a room, and the rooms that it imports."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = text.split("<!-- imports -->")[1].split("<!-- end of imports -->")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", block, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", cell)) for name, cell in rows}


def test_the_graph_has_no_cycle():
    TopologicalSorter(graph()).prepare()  # raises CycleError


def test_the_graph_is_the_one_that_is_drawn():
    assert graph() == drawn()


def test_experiments_use_public_names_of_the_core_only():
    """`dbsurf.x` and the three public modules; nothing from inside estimators or samplers."""
    for file in [*(PACKAGE / "experiments").rglob("*.py"), *(PACKAGE / "report").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                words = node.module.split(".")
                if words[0] == "dbsurf" and len(words) > 2:
                    assert words[1] not in CORE, f"{file} imports {node.module}"
