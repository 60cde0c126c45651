"""Every example of README and docs runs, every public name is documented, numbers are right."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
import torch
import yaml

import dbsurf
import dbsurf_paper
from dbsurf import distributions, estimators, laws, measure, samplers, sequences
from dbsurf_paper.commands import parsing
from dbsurf_paper.labels import estimator_name

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: A block, and what the page says that it prints.
SHOWN = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
#: Other code: ``` {.python .integrations} needs that extra and is run by tests/integrations, and
#: ```text is not run.
OTHER_BLOCK = re.compile(
    r"^```(?: \{\.python \.integrations\}|text)\n.*?^```", re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if BLOCK.search(page.read_text())],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_examples_of_a_page_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": "example"}
    known = set(dbsurf.available())
    for block, shown in SHOWN.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), names)
        printed = capsys.readouterr().out
        assert not shown or timeless(printed) == timeless(shown)
    for name in set(dbsurf.available()) - known:  # what the page itself has registered
        estimators.unregister(estimators.estimator_class(name))


def timeless(text: str) -> list[list[str]]:
    """The words of every line, without the milliseconds of a table of `compare`."""
    return [re.sub(r" \d+\.\d\d$", "", line).split() for line in text.splitlines()]


def public_names(module: ModuleType) -> list[str]:
    """What ``__all__`` says, or else every function and class that the module itself makes."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if (inspect.isfunction(value) or inspect.isclass(value))
        and not name.startswith("_")
        and value.__module__ == module.__name__
    ]


PUBLIC = [
    (module, name)
    for module in (dbsurf, estimators, samplers, distributions, sequences, measure, laws)
    for name in public_names(module)
]
REFERENCE = [DOCS / "api.md", *sorted((DOCS / "api").glob("*.md"))]


def documented() -> list[object]:
    """What the reference's ``:::`` lines name, and all that a module so named holds."""
    found: list[object] = []
    text = "\n".join(page.read_text() for page in REFERENCE)
    for path in re.findall(r"^::: (\S+)$", text, re.MULTILINE):
        words = path.split(".")
        if words[1] == "integrations":  # whose libraries may be missing
            continue
        target: object = dbsurf
        for word in words[1:]:
            # A module hides behind a function of its name: dbsurf.compare.compare.
            inner = inspect.getmodule(target) if inspect.isfunction(target) else target
            target = getattr(inner, word)
        found.append(target)
        if inspect.ismodule(target):
            found += [getattr(target, name) for name in public_names(target)]
    return found


@pytest.mark.parametrize(
    ("module", "name"), PUBLIC, ids=[f"{module.__name__}.{name}" for module, name in PUBLIC]
)
def test_every_public_name_has_a_docstring_and_a_place_in_the_reference(module, name):
    value = getattr(module, name)
    if isinstance(value, estimators.Accepts):
        return
    assert inspect.getdoc(value)
    if value in (samplers, distributions, estimators, sequences):  # listed one by one
        assert public_names(value)
        return
    assert any(value is other for other in documented())


def test_every_public_name_of_the_package_is_in_all():
    """A name that a user can import from dbsurf, and that is not a module, is a public one."""
    for name, value in vars(dbsurf).items():
        if not name.startswith("_") and not inspect.ismodule(value):
            assert name in dbsurf.__all__


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("[!_]*.py")), ids=lambda p: p.name)
def test_every_example_file_is_in_the_documentation(path):
    assert f"python examples/{path.name}" in (DOCS / "examples.md").read_text()


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    pages = [DOCS / "play.html", *(page for page in DOCS.rglob("*.md") if "joss" not in page.parts)]
    for page in pages:
        assert f": {page.relative_to(DOCS)}\n" in text


SHELL = re.compile(r"^```(?:sh)?\n(.*?)^```", re.DOTALL | re.MULTILINE)


def shell_lines() -> list[tuple[str, str]]:
    """Every ``dbsurf ...`` of a code block, with the page that has it."""
    found: list[tuple[str, str]] = []
    for page in PAGES:
        text = OTHER_BLOCK.sub("", BLOCK.sub("", page.read_text()))
        for block in SHELL.findall(text):
            for line in block.replace("\\\n", " ").splitlines():
                parts = [part.strip() for part in line.split("#")[0].split("&&")]
                found += [
                    (str(page.relative_to(ROOT)), part)
                    for part in parts
                    if part.startswith("dbsurf ")
                ]
    return found


@pytest.mark.parametrize(("page", "line"), shell_lines(), ids=lambda value: value[:60])
def test_every_command_line_of_the_pages_is_understood(page, line, capsys):
    words = shlex.split(line)[1:]
    if words[0] in ("--help", "--version"):
        return
    if words[-1] == "--help":
        with pytest.raises(SystemExit, match="0"):
            parsing.parse(words)
        return
    command, options = parsing.parse(words)
    assert type(options) is command.options


@pytest.mark.parametrize("name", re.findall(r"`(test_\w+)`", (ROOT / "docs/theory.md").read_text()))
def test_the_tests_that_theory_names_exist(name):
    assert any(f"def {name}(" in path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def test_the_citation_is_complete_and_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "license"} <= set(cited)
    assert cited["version"] == dbsurf.__version__ == dbsurf_paper.__version__
    assert cited["type"] == "software"
    (paper,) = cited["references"]
    assert {"type", "title", "authors", "year", "doi"} <= set(paper)
    assert [author["family-names"] for author in paper["authors"]] == [
        "Mulet Arabi",
        "Flowers",
        "Mauch",
        "Cardinaux",
    ]


LABELS = {
    "loorf": "LOORF",
    "dbsurf": "DBsurf",
    "dbsurf debias=true": "DBsurf debiased",
    "dbsurf alpha=preserve debias=true": "DBsurf preserving",
    "mdsurf": "MDsurf",
    "arms": "ARMS-D",
    "disarm": "DisARM",
    "doublecv": "DoubleCV",
}
RESULTS = ROOT / "docs" / "results"


def one_dimension() -> dict[str, list[str]]:
    table = pd.read_csv(RESULTS / "toy" / "one_dimension.csv").set_index(["estimator", "p", "n"])
    names = [name for name in LABELS.values() if name != "DBsurf"]  # its scale is another
    ratio = table.variance / table.gradient**2
    cases = [(p, n) for p in (0.05, 0.3) for n in (2, 4)]
    return {name: [f"{ratio[name, p, n]:.3g}" for p, n in cases] for name in names}


def ten_dimensions() -> dict[str, list[str]]:
    table = pd.read_csv(RESULTS / "toy" / "ten_dimensions.csv").set_index(["estimator", "n"])
    names = [*LABELS.values(), "ARMS-N", "REINFORCE running mean", "CrossFitted", "RODEO"]
    names += ['QuadraticCV "gradient"', 'QuadraticCV "values"']
    return {name: [f"{table.relative_variance[name, n]:.2f}" for n in (2, 4, 8)] for name in names}


def vae_elbo() -> dict[str, list[str]]:
    table = pd.read_csv(RESULTS / "vae" / "table1.csv")
    table = table[(table.evaluations == 4) & (table.steps == 10_000)]
    table = table.set_index(["estimator", "dataset"])
    found: dict[str, list[str]] = {}
    for (key, _), row in table.sort_index().iterrows():  # data sets in alphabetical order
        text = f"{row.train_negative_elbo:.2f}"
        if row.seeds > 1:
            text += f" ± {row.train_negative_elbo_error:.2f}"
        found.setdefault(estimator_name(key), []).append(text)
    return {name: row for name, row in found.items() if len(row) == 3}  # on all data sets


@pytest.mark.parametrize("table", [one_dimension, ten_dimensions, vae_elbo])
def test_the_numbers_of_the_choice_page_are_those_of_the_files(table):
    text = (ROOT / "docs" / "choose.md").read_text()
    mark = table.__name__.replace("_", " ")
    block = text.split(f"<!-- {mark} -->")[1].split(f"<!-- end of {mark} -->")[0]
    rows = [line.strip("| ").split(" | ") for line in block.strip().splitlines()[2:]]
    assert {name: values for name, *values in rows} == table()


@pytest.mark.parametrize("name", dbsurf.available())
def test_an_estimators_docstring_states_bias_cost_and_needs(name):
    text = inspect.getdoc(type(dbsurf.get(name, 4)))
    for word in ("Bias", "valuations of f", "gradient", "Examples:", "Args:"):
        assert word in text


def test_the_skeleton_of_the_guide_is_unbiased():
    """The page asserts so itself; here that it really gets to the assertion."""
    text = (ROOT / "docs" / "add-an-estimator.md").read_text()
    wanted = "    assert (expectation - truth).abs().max() < 1e-12\n"
    assert any(block.endswith(wanted) for block in BLOCK.findall(text))


def test_the_skeleton_of_the_guide_works_inside_the_package(tmp_path):
    """The class of the page, with the imports that the page says, in a copy of the library."""
    blocks = BLOCK.findall((DOCS / "add-an-estimator.md").read_text())
    (skeleton,) = [block for block in blocks if "class MedianBaseline" in block]
    (imports,) = [block for block in blocks if "# @register in place of" in block]
    body = skeleton[skeleton.index("@dbsurf.register") :].replace("@dbsurf.register", "@register")
    shutil.copytree(
        ROOT / "src" / "dbsurf", tmp_path / "dbsurf", ignore=shutil.ignore_patterns("*.pyc")
    )
    folder = tmp_path / "dbsurf" / "estimators"
    (folder / "median_baseline.py").write_text(f"import torch\n{imports}\n\n{body}")
    line = "\nfrom dbsurf.estimators.median_baseline import MedianBaseline\n"
    with (folder / "__init__.py").open("a") as file:
        file.write(line)
    code = "import dbsurf; print(dbsurf.get('MedianBaseline(5)').n, dbsurf.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.stdout.startswith(f"5 {tmp_path}"), done.stderr


def test_the_table_of_the_choice_page_is_what_estimators_declare(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    module = importlib.import_module("estimator_table")
    assert module.PAGE.read_text().split(module.FIRST)[1].split(module.LAST)[0] == module.table()


@pytest.mark.parametrize("name", dbsurf.available())
def test_what_an_estimator_declares_is_true(name):
    kind = estimators.estimator_class(name)
    for variant in kind.variants:
        for n in (2, 4):
            built = kind(n, **variant.options)
            if built.evaluations is not None:
                assert built.evaluations == eval(variant.cost, {"n": n})
        assert dbsurf.get(variant.call(kind.__name__, 4)).n in (4, 0)
