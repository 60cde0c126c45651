"""The searches' part of a report: table 2 in the paper's layout, cost and cells of every search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbsurf_paper.experiments.nas.landscape import DATASETS, SYNTHETIC
from dbsurf_paper.experiments.nas.searches import (
    OPTIMUM,
    TABLE_2,
    Search,
    searches,
    series,
)
from dbsurf_paper.experiments.nas.traces import training_curves
from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.collect import Run, numbers_of
from dbsurf_paper.report.document import (
    Block,
    Cell,
    Chart,
    Gallery,
    Line,
    Missing,
    Panel,
    Paragraph,
    Picture,
    Row,
    Section,
    Table,
    is_png,
)
from dbsurf_paper.report.numbers import counted, given, plus_minus
from dbsurf_paper.report.statistics import Mean
from dbsurf_paper.report.tidy import plain_numbers

COMMAND = "dbsurf sweep table2 --scale laptop"
OURS = "dbsurf"
FOUND = ("val_12", "val_200", "test_200", "distinct_queries", "queries", "images")  # of every cell
CURVES = "curves.csv"  # of a search by table
FIRST = 10  # queries at which a curve begins; before that it only rises


def sections(runs: Sequence[Run]) -> list[Section]:
    """The paper's rows and ours, what the searches cost, the cells they found."""
    found = searches(runs)
    blocks: list[Block] = []
    if found:
        blocks += [*paper_layout(found), _costs(found), *search_curves(found)]
        blocks += [*training_curves(found), _cells(found), *_drawn_cells(found)]
    else:
        blocks.append(Missing("No finished architecture search, so no table 2.", COMMAND))
    return [Section("table-2", "Table 2: architecture search", tuple(blocks))]


def paper_layout(found: list[Search]) -> list[Block]:
    """The paper's rows, then ours, then the best cell of the benchmark."""
    comparable = [one for one in found if one.landscape != SYNTHETIC and one.mean("test_200")]
    comparable = [one for one in comparable if one.dataset in DATASETS]
    text = (
        "Test accuracy in % of the cell that a search ends with, trained for 200 epochs: higher is "
        "better. The paper searches with a supernet and looks the cell found up in NAS-Bench-201; "
        "a search by table looks up every cell that it samples. That is an easier problem, so its "
        "numbers are in separate rows. The paper's rows are as printed, but some cannot be right: "
        "no cell has an accuracy near GDAS's 41.02 on CIFAR-10, for instance. The page on "
        "architecture search of the documentation lists them."
    )
    blocks: list[Block] = [Paragraph(text)]
    if not comparable:
        text = "No search on NAS-Bench-201, so table 2 has the paper's rows only."
        blocks.append(Missing(text, COMMAND))
    if any(one.landscape == SYNTHETIC for one in found):
        text = (
            "Searches on the synthetic landscape, a made-up table of the same shape, are labelled "
            "so below. Their accuracies belong to no trained network and are not in table 2."
        )
        blocks.append(Paragraph(text))
    highest = {name: max(numbers[name][0] for numbers in TABLE_2.values()) for name in DATASETS}
    rows = []
    before = ""
    for (group, method), numbers in TABLE_2.items():
        cells = [Cell(group, note="paper") if group != before else Cell("")]
        cells.append(Cell(method, note="4 seeds" if method == "DBsurf" else ""))
        for name, (mean, error) in numbers.items():
            cells.append(Cell(plus_minus(mean, error), best=mean == highest[name]))
        rows.append(Row(tuple(cells), quiet=True, first=group != before))
        before = group
    rows += _our_rows(comparable)
    optimum = (Cell(f"{OPTIMUM[name]:.2f}", best=True) for name in DATASETS)
    rows.append(Row((Cell("", note="paper"), Cell("Optimal"), *optimum), quiet=True, first=True))
    titles = ("Parameterization", "Method", *map(dataset_name, DATASETS))
    caption = (
        "Table 2. Mean ± standard error over seeds of the test accuracy. The paper's highest are "
        "bold; small numbers are the runs behind ours."
    )
    blocks.append(Table(caption, titles, tuple(rows), words=2))
    return blocks


def _our_rows(found: list[Search]) -> list[Row]:
    """One row for each estimator and mode, with the data sets it searched."""
    groups: dict[tuple[str, str, int, int, str], dict[str, Search]] = {}
    for search in found:
        key = search.mode, search.label, search.n, search.steps, search.setting
        groups.setdefault(key, {})[search.dataset] = search
    rows = []
    for position, ((mode, _, n, steps, setting), columns) in enumerate(groups.items()):
        some = next(iter(columns.values()))
        seeds = sorted({len(search.found) for search in columns.values()})
        count = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
        note = f"by {mode}, " + (f"n = {n}, " if n else "")
        note += (f"{steps:,} steps, " if steps else "") + count
        note += f"; {setting}" if setting else ""
        cells = [Cell("") if position else Cell("ours", note="here"), Cell(some.name, note=note)]
        for dataset in DATASETS:
            one = columns.get(dataset)
            mean = None if one is None else one.mean("test_200")
            if one is None or mean is None:
                cells.append(Cell("–"))
            else:
                cells.append(Cell(mean.text(), runs=numbers_of(one.runs)))
        rows.append(Row(tuple(cells), first=position == 0))
    return rows


def _costs(found: list[Search]) -> Table:
    """Every search: the accuracy it found and the number of cells it looked up."""
    rows = []
    before = ""
    for one in found:
        heads = (
            Cell(one.place if one.place != before else ""),
            Cell(one.name, note=one.setting, runs=numbers_of(one.runs)),
            Cell(one.mode),
        )
        numbers = (
            str(one.n) if one.n else "–",
            f"{one.steps:,}" if one.steps else "–",
            str(len(one.found)),
        )
        measures = (("val_12", 2), ("test_200", 2), ("distinct_queries", 0), ("queries", 0))
        cells = [_mean(one.mean(name), digits) for name, digits in measures]
        rows.append(Row((*heads, *map(Cell, numbers), *cells), first=one.place != before))
        before = one.place
    counts = ("n", "Steps", "Seeds")
    measured = ("Validation, 12 epochs", "Test, 200 epochs", "Distinct queries", "Queries")
    titles = ("Data set", "Search", "Mode", *counts, *measured)
    caption = (
        "All searches: accuracy in % of the cell found, and how many cells were looked up, each "
        "once or again. Mean ± standard error over seeds."
    )
    return Table(caption, titles, tuple(rows), words=3)


def _how(one: Search) -> str:
    """Mode, n, and options that are not the defaults."""
    drawn = f", n = {one.n}" if one.n else ""
    return f"by {one.mode}{drawn}" + (f"; {one.setting}" if one.setting else "")


def _mean(mean: Mean | None, digits: int) -> Cell:
    return Cell("–" if mean is None else mean.text(digits))


def search_curves(found: list[Search]) -> list[Block]:
    """Accuracy of the best cell so far against cells looked up."""
    panels: dict[str, list[Line]] = {}
    optimum: dict[str, float] = {}
    for one in found:
        rows = [
            row for row in one.runs[0].tables.get(CURVES, ()) if row.get("test_200") is not None
        ]
        rows = [row for row in rows if (row.get("distinct_queries") or 0) >= FIRST]
        if rows:
            value = [float(row["test_200"] or 0) for row in rows]
            error = [float(row.get("test_200_error") or 0) for row in rows]
            line = Line(
                one.label,
                tuple(float(row["distinct_queries"] or 0) for row in rows),
                tuple(value),
                tuple(v - e for v, e in zip(value, error, strict=True)),
                tuple(v + e for v, e in zip(value, error, strict=True)),
            )
            title = f"{one.place}, n = {one.n}"
            panels.setdefault(title, []).append(line)
            if one.landscape != SYNTHETIC and one.dataset in OPTIMUM:
                optimum[title] = OPTIMUM[one.dataset]
    if not panels:
        if all(one.mode == "supernet" for one in found):
            return []  # their curves are against images seen
        return [
            Missing("No search with curves (curves.csv).", "dbsurf nas table --dataset synthetic")
        ]
    caption = (
        "Test accuracy of the best cell so far against the number of distinct cells looked up, "
        f"from {FIRST} on: mean over seeds with a band of one standard error. The thin line is the "
        "best cell of NAS-Bench-201."
    )
    drawn = tuple(
        Panel(
            title,
            "distinct queries",
            "test accuracy, %",
            tuple(lines),
            level=optimum.get(title),
            logarithmic=True,
        )
        for title, lines in panels.items()
    )
    return [Chart("search-curves", caption, drawn)]


def _cells(found: list[Search]) -> Table:
    """The cell that most seeds of a search ended with."""
    rows = []
    before = ""
    for one in found:
        counts = Counter(str(cell.get("architecture")) for cell in one.found)
        if not counts:
            continue
        architecture, count = counts.most_common(1)[0]
        same = next(cell for cell in one.found if str(cell.get("architecture")) == architecture)
        values = [same.get(name) for name in ("val_12", "val_200", "test_200")]
        cells = (
            Cell(one.place if one.place != before else ""),
            Cell(one.name, note=_how(one), runs=numbers_of(one.runs)),
            Cell(architecture, code=True),
            Cell(f"{count} of {len(one.found)}"),
            *(Cell("–" if value is None else f"{value:.2f}") for value in values),
        )
        rows.append(Row(cells, first=one.place != before))
        before = one.place
    titles = ("Data set", "Search", "Cell", "Seeds", "Validation, 12", "Validation, 200")
    caption = (
        "The cell that most seeds of a search ended with, in the notation of NAS-Bench-201, and "
        "its accuracies in % after 12 and 200 epochs. All cells found are in `results.csv`."
    )
    return Table(caption, (*titles, "Test, 200"), tuple(rows), words=3)


def _drawn_cells(found: list[Search]) -> list[Block]:
    """Drawings of cells in the folders of supernet runs and of their seeds."""
    pictures = [
        _picture(one, run, path)
        for one in found
        for run in one.runs
        for path in [run.folder / "cell.png", *sorted(run.folder.glob("seed-*/cell.png"))]
        if is_png(path)
    ]
    return [Gallery(tuple(pictures))] if pictures else []


def _picture(one: Search, run: Run, path: Path) -> Picture:
    seed = "" if path.parent == run.folder else f", {path.parent.name.replace('-', ' ')}"
    name = f"cell-{run.number}{seed.replace(', ', '-').replace(' ', '-')}"
    text = f"Cell found on {one.place} by {one.name}, {one.mode}{seed} (run {run.number})."
    return Picture(name, path.read_bytes(), f"Drawing. {text}", text, drawing=True)


def sentences(runs: Sequence[Run]) -> list[str]:
    """What DBsurf found and the best of the others; synthetic tables in sentences of their own."""
    groups: dict[tuple[str, str], list[Search]] = {}
    for one in searches(runs):
        if one.mean("test_200") is not None:
            groups.setdefault((one.mode, one.place), []).append(one)
    texts: dict[str, list[str]] = {}
    for (mode, _), group in groups.items():
        ours = next((one for one in group if one.label == OURS), group[0])
        where = "a synthetic landscape" if ours.landscape == SYNTHETIC else "NAS-Bench-201"
        texts.setdefault(f"by {mode} on {where}", []).append(_outcome(ours, group))
    return [
        f"Architecture search {kind}, mean test accuracy of the cell found: {'; '.join(found)}."
        for kind, found in texts.items()
    ]


def _outcome(ours: Search, group: list[Search]) -> str:
    """One data set: the accuracy of DBsurf, its queries, and the best other method."""
    means = {one: mean for one in group if (mean := one.mean("test_200")) is not None}
    text = f"{ours.name} {means.pop(ours).text()} %"
    if ours.landscape != SYNTHETIC:
        text = f"{ours.place}, {text}"
    asked = ours.mean("distinct_queries")
    if asked is not None:
        text += f" after {asked.text(0)} distinct queries"
    if means:
        best = max(means, key=lambda one: means[one].value)
        text += f", best of the others {best.name} {means[best].text()} %"
    return text


def identity(run: Run) -> Mapping[str, str | int | None]:
    """Kind of search, data set, n, steps, estimator, where accuracies come from, and seed."""
    searched = {"estimator": series(run) or None, "landscape": run.summary.get("landscape")}
    return {**run.chosen("mode", "dataset", "n", "steps"), **searched, **run.chosen("seed")}


def described(run: Run) -> list[str]:
    """Kind of search, data set and estimator as the paper writes them, n and steps."""
    own = identity(run)
    return [
        str(own["mode"] or ""),
        dataset_name(str(own["dataset"] or "")),
        estimator_name(series(run)),
        given("n = {}", own["n"]),
        given("{:,} steps", own["steps"]),
    ]


def measures(run: Run) -> Iterator[tuple[str, str | None, float, dict[str, Any]]]:
    """The numbers of every cell found, with the seed that found it."""
    for cell in run.summary.get("found") or []:
        seed = {"seed": cell.get("seed")}
        for name, _, value, _ in plain_numbers(cell):
            if name in FOUND:
                yield f"found_{name}", cell.get("architecture"), value, seed
