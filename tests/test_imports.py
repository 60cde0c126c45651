"""Which room of the two distributions imports which; `python tests/test_imports.py` draws it.

The table in CONTRIBUTING is what `drawn` makes of the imports that are found. There is no cycle,
the library imports nothing of the paper's, and the paper's code uses public names of the library.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "dbsurf"
PAPER = ROOT / "paper" / "src" / "dbsurf_paper"
PAGE = ROOT / "CONTRIBUTING.md"
FIRST, LAST = "<!-- imports -->\n", "<!-- end of imports -->"
#: What `pip install dbsurf` brings beside Python's own library.
NEEDS = {"torch", "numpy"}
#: Used where a caller has them: laws that scipy made, tables and figures of a comparison, and in
#: `dbsurf.integrations` the library that is adapted.
OPTIONAL = {"scipy", "pandas", "matplotlib", "typing_extensions", "transformers", "pyro"}


@cache
def modules(package: Path) -> dict[Path, ast.Module]:
    """Every module of a package, parsed."""
    return {file: ast.parse(file.read_text()) for file in sorted(package.rglob("*.py"))}


def names(tree: ast.AST) -> set[str]:
    """Dotted names that a module imports, wherever in it: ``a.b`` for ``from a import b``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def room(package: Path, words: list[str]) -> str:
    """The folder or file at a package's root that a dotted name lies in."""
    here = package / words[0] if words else package
    known = words and (here.is_dir() or here.with_suffix(".py").is_file())
    return words[0] if known else "__init__"


def graph(package: Path) -> dict[str, set[str]]:
    """The rooms of a package, and what each imports of the others."""
    found: dict[str, set[str]] = {}
    for file, tree in modules(package).items():
        own = file.relative_to(package).with_suffix("").parts[0]
        inside = [name.split(".")[1:] for name in names(tree) if name.split(".")[0] == package.name]
        found.setdefault(own, set()).update({room(package, words) for words in inside} - {own})
    return found


def described(package: Path, name: str) -> str:
    """The first line of a room's docstring."""
    folder = package / name / "__init__.py"
    tree = modules(package)[folder if folder.is_file() else package / f"{name}.py"]
    return (ast.get_docstring(tree) or "").splitlines()[0].rstrip(".:")


def drawn() -> str:
    """The table in CONTRIBUTING: in each distribution, what imports nothing comes first."""
    lines = ["| room | what it is | imports |", "|---|---|---|"]
    for package in (LIBRARY, PAPER):
        edges = graph(package)
        edges.pop("__init__")
        order = TopologicalSorter(edges)
        order.prepare()
        while order.is_active():
            ready = sorted(order.get_ready())
            order.done(*ready)
            for name in ready:
                if name not in edges:  # what `import package` itself offers
                    continue
                cell = ", ".join(f"`{other}`" for other in sorted(edges[name]))
                place = f"`{package.name}.{name}`"
                lines.append(f"| {place} | {described(package, name)} | {cell} |")
    return "\n".join(lines) + "\n"


def test_the_tests_of_the_library_need_nothing_of_the_papers():
    """They run where only ``dbsurf[test]`` is installed."""
    for file, tree in modules(ROOT / "tests").items():
        assert not any(name.split(".")[0] == PAPER.name for name in names(tree)), file


@pytest.mark.parametrize("package", [LIBRARY, PAPER], ids=["library", "paper"])
def test_there_is_no_cycle(package):
    TopologicalSorter(graph(package)).prepare()  # raises CycleError


def test_the_table_is_what_the_imports_are():
    assert PAGE.read_text().split(FIRST)[1].split(LAST)[0] == drawn()


def test_the_library_needs_torch_and_numpy_only():
    for file, tree in modules(LIBRARY).items():
        outside = {name.split(".")[0] for name in names(tree)} - sys.stdlib_module_names
        assert outside - {"dbsurf"} <= NEEDS | OPTIONAL, file


def test_the_paper_uses_public_names_of_the_library():
    """``dbsurf.x`` with x in ``__all__``, and the names that public modules export."""
    import dbsurf

    for file, tree in modules(PAPER).items():
        for name in names(tree):
            first, *words = name.split(".")
            if first != "dbsurf" or not words:
                continue
            assert words[0] in [*dbsurf.__all__, "__version__"], f"{file} imports {name}"
            if len(words) > 1:
                public = getattr(dbsurf, words[0]).__all__
                assert len(words) == 2, f"{file} imports {name}"
                assert words[1] in public, f"{file} imports {name}"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(FIRST)
    PAGE.write_text(before + FIRST + drawn() + LAST + rest.partition(LAST)[2])
