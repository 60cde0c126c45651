"""The report says what the runs say: numbers chosen by hand, read back from every file of it."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dbsurf_paper.commands import main as cli
from dbsurf_paper.commands import parsing
from dbsurf_paper.experiments import registry
from dbsurf_paper.experiments.vae import Options
from dbsurf_paper.experiments.vae.report import sentences
from dbsurf_paper.report.collect import collect
from dbsurf_paper.report.document import Chart, Line, Panel, Section
from dbsurf_paper.report.write import headline
from handmade import PNG, STEPS, changed, nas_run, toy_run, unfinished_vae_run, vae_run
from htmlreader import Page

MNIST = {"loorf": (101.0, 103.0, 105.0), "dbsurf": (99.5, 100.5)}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with runs of every kind and the report on them."""
    place = tmp_path_factory.mktemp("runs")
    for estimator, values in MNIST.items():
        for seed, elbo in enumerate(values):
            vae_run(
                place,
                elbo,
                dataset="mnist",
                estimator=estimator,
                seed=seed,
                measure_variance=estimator == "dbsurf",
            )
    vae_run(place, 90.0, dataset="mnist", estimator="loorf", n=8)
    vae_run(place, 91.0, dataset="mnist", estimator="dbsurf", n=8)
    vae_run(place, 120.25, dataset="omniglot", estimator="dbsurf", learning_rate=0.001)
    unfinished_vae_run(place, 95.0, dataset="fashion-mnist")
    damaged = vae_run(place, 1.0, dataset="fashion-mnist", seed=1)
    (damaged / "summary.json").write_text("{")
    nas_run(place, [93.0, 95.0], "NAS-Bench-201", dataset="cifar10")
    nas_run(place, [90.0, 92.0], "NAS-Bench-201", dataset="cifar10", estimator="loorf")
    nas_run(place, [70.0, 72.0], "synthetic", dataset="synthetic")
    toy_run(place)
    assert cli.main(["report", str(place)]) == 0
    return place


@pytest.fixture(scope="module")
def page(made) -> Page:
    return Page((made / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def text(made) -> str:
    return (made / "report.md").read_text(encoding="utf-8")


def test_table_1_has_our_means_and_the_papers(page, text):
    table = page.table("Table 1.")
    loorf, dbsurf = table.cell("LOORF", "MNIST", "4"), table.cell("DBsurf", "MNIST", "4")
    assert loorf[0] == f"103.00 ± {2 / math.sqrt(3):.2f}"
    assert dbsurf[0] == "100.00 ± 0.50"  # standard deviation sqrt(1/2), two seeds
    assert table.cell("Source", "MNIST", "4")[1] == "20,000 steps, 2 to 3 seeds"
    rows = [row for row in table.rows if row[2][:1] == ["paper"]]
    assert rows[0][2][1] == "1,000,000 steps, 5 seeds"
    assert [cell[0] for cell in rows[0][3:]] == [
        "98.66 ± 0.25",
        "99.49 ± 0.21",
        "99.29 ± 0.15",
        "99.76 ± 0.30",
        "99.79 ± 0.08",
    ]
    assert "100.00 ± 0.50" in page.bold
    assert "103.00 ± 1.15" not in page.bold
    assert "| **100.00 ± 0.50** (runs 3–4) |" in text
    assert "The paper's runs have 1,000,000 steps and 5 seeds." in text


def test_a_row_says_what_is_unlike_the_paper(page):
    table = page.table("Table 1.")
    source = table.cell("Source", "Omniglot")
    assert source == ["here", "20,000 steps, 1 seed; learning rate 0.001"]
    assert table.cell("DBsurf", "Omniglot")[0] == "120.25"
    assert "120.25" not in page.bold  # alone in its row


def test_the_test_set_has_a_table_of_its_own(page):
    table = page.table("The same on the test set")
    assert table.cell("LOORF", "MNIST", "4")[0] == "104.00 ± 1.15"


def test_every_number_leads_to_its_runs(page):
    cell = page.table("Table 1.").cell("LOORF", "MNIST", "4")
    first, last = int(cell[1]), int(cell[-1])
    runs = page.table("Every run")
    for number in range(first, last + 1):
        row = runs.row(str(number))
        assert row[2][0] == "MNIST, LOORF, n = 4, 20,000 steps"
        assert " ".join(row[5]).startswith("dbsurf vae --dataset mnist --estimator loorf --steps")
        assert row[4] == ["200.0"]
    assert f"#run-{first}" in page.links


def test_the_headline_is_computed(page):
    shared = min(len(MNIST["loorf"]), len(MNIST["dbsurf"]))  # seeds that both have
    pairs = np.subtract(MNIST["loorf"][:shared], MNIST["dbsurf"][:shared])
    interval = stats.ttest_1samp(pairs, 0.0).confidence_interval(0.95)
    table = page.table("Differences of training")
    gap = table.cell("LOORF minus DBsurf", "MNIST", "4")
    expected = f"{interval.low:.2f} to {interval.high:.2f}".replace("-", "\N{MINUS SIGN}")
    assert gap == [f"{pairs.mean():.2f}", expected]
    assert table.cell("LOORF minus lowest", "MNIST", "4") == gap  # DBsurf is the lowest
    assert table.cell("Lead", "MNIST", "8") == ["1.00", "one seed: no interval"]
    assert "DBsurf (MNIST, 4 evaluations) and LOORF (MNIST, 8 evaluations)." in page.text
    assert "no estimator is clearly ahead after 20,000 steps" in page.text
    assert "against LOORF's: 2.00 nats lower (MNIST, 4 evaluations; not clearly) and 1.00 nats" in (
        page.text
    )
    assert "1.00 nats higher (MNIST, 8 evaluations; one seed)." in page.text
    assert "Of the paper's 3 statements" in page.text
    assert "2 hold, 1 hold in part and 0 do not hold" in page.text


def test_the_first_screen_has_sentences_a_chart_and_the_numbers(made, page):
    html = (made / "report.html").read_text(encoding="utf-8")
    opening = html.split('<section id="headline"')[1].split("</section>")[0]
    assert opening.index("clearly ahead") < opening.index("<svg")
    assert opening.count('<div role="img"') == 1
    assert '<a href="results.csv">' in html.split("</header>")[0]
    tiles = re.findall(r"<dt>(.*?)</dt>", html.split("</header>")[0])
    menu = html.split("<nav")[1].split("</nav>")[0]
    assert "Table 1" in menu
    assert "League" not in menu
    assert tiles  # and none of an experiment without runs
    assert not any("league" in tile.lower() or "sequences" in tile.lower() for tile in tiles)


def test_the_first_screen_has_the_panel_with_the_most_lines(made):
    records = registry.load("vae")
    lines = tuple(Line(name, (1.0, 2.0), (3.0, 4.0)) for name in ("loorf", "dbsurf"))
    alone, both, again = (Panel("", "x", "y", some) for some in (lines[:1], lines, lines))
    section = Section("curves", "Curves", (Chart("curves", "", (alone, both, again)),))
    *_, shown = headline(collect([made], records), records, [section]).blocks
    assert isinstance(shown, Chart)
    assert shown.panels[0] is both
    assert shown.caption == "One of 3 panels of Curves, below."


def test_points_of_a_chart_say_their_values(made):
    html = (made / "report.html").read_text(encoding="utf-8")
    told = re.findall(r"<g><title>(.*?)</title>", html)
    assert any(re.fullmatch(r"LOORF: [\d.]+ .*at 20,000 step", one) for one in told), told[:5]


def test_what_ran_is_counted(page, text):
    assert "14 runs found: 12 finished, 1 unfinished and 1 damaged." in page.text
    assert "14 runs found" in text
    runs = page.table("Every run")
    assert any("unfinished, at step 20,000 of 20,000" in " ".join(r[2]) for r in runs.rows)
    assert any("damaged: summary.json is damaged: " in " ".join(r[2]) for r in runs.rows)


def test_reaching_by_hand(page):
    """LOORF's seeds end at 101 and 103, where DBsurf's are after 0.85 and 0.75 of their ends."""
    table = page.table("Steps, evaluations of f and seconds")
    row = next(r for r in table.rows if r[2] == ["DBsurf"] and r[4] == ["2 of 2"])
    assert [cell[0] for cell in row[5:8]] == ["18,000 ± 500", "7.200 ± 0.200", "180.0 ± 5.0"]
    assert [cell[0] for cell in row[8:]] == ["0.90 ± 0.03", "0.90 ± 0.03"]


def test_variance_against_n_and_at_the_same_parameters(page, text):
    table = page.table("Trace of the covariance")
    assert table.cell("DBsurf", "MNIST", "4")[0] == "1,000.0 ± 5.0"
    assert table.cell("DBsurf", "MNIST", "8")[0] == "910.0"
    ratios = page.table("Variance over LOORF's")
    assert ratios.row("DBsurf")[1][0] == "1.000 ± 0.005"  # 99.5 and 100.5 over 100
    assert ratios.row("MDsurf")[1][0] == "0.500 ± 0.000"
    assert "figures/variance-against-n.svg" in text


def test_table_2_has_the_papers_rows_and_ours(page, text):
    table = page.table("Table 2.")
    assert [c[0] for c in table.row("DrNAS")[2:]] == [
        "94.36 ± 0.00",
        "73.51 ± 0.00",
        "46.34 ± 0.00",
    ]
    assert [c[0] for c in table.row("Optimal")[2:]] == ["94.37", "73.51", "47.31"]
    ours = table.row("ours")
    assert ours[2][0] == "94.00 ± 1.00"
    assert ours[:2] == [["ours", "here"], ["DBsurf", "by table, n = 5, 100 steps, 2 seeds"]]
    assert ours[3][0] == "–"
    costs = page.table("All searches")
    assert costs.row("synthetic landscape")[7][0] == "71.00 ± 1.00"
    assert costs.row("synthetic landscape")[8][0] == "105 ± 5"
    assert not any("71.00" in cell[0] for row in table.rows for cell in row if cell)
    assert "Searches on the synthetic landscape" in page.text
    assert "best of the others LOORF 91.00 ± 1.00 %" in page.text
    assert "figures/search-curves.svg" in text


def test_found_cells_are_shown(page):
    table = page.table("The cell that most seeds")
    row = table.row("CIFAR-10")
    assert "".join(row[2]).startswith("|nor_conv_3x3~0|+|none~0|")
    assert row[3] == ["2 of 2"]


def test_the_toy_study_is_shown(page):
    table = page.table("The paper's statements")
    assert table.row("abstract")[1:] == [["claim 2"], ["holds in part"], ["measured 2"]]
    assert sum("Figure 6." in str(image["alt"]) for image in page.images) == 1


def test_environment_is_shown(page):
    table = page.table("Where the runs were made")
    assert table.row("revision")[1] == ["abc1234"]


def test_the_page_is_whole_and_needs_nothing_else(page, made):
    assert len(page.ids) == len(set(page.ids))
    for link in set(page.links) - {"results.csv"}:
        assert link.startswith("#")
        assert link[1:] in page.ids
    for tag, attributes in page.tags:
        assert tag not in ("script", "iframe", "object")
        for name in ("src", "href", "xlink:href", "srcset"):
            value = str(attributes.get(name) or "#")
            own = (
                value == "results.csv" and tag == "a"
            )  # beside the page, for who wants the numbers
            assert own or value.startswith(("#", "data:")), (tag, value[:80])
    assert all(image["alt"] for image in page.images)
    assert all(table.caption for table in page.tables)
    assert ("html", {"lang": "en"}) in page.tags
    charts = [attributes for tag, attributes in page.tags if attributes.get("role") == "img"]
    assert charts
    assert all("Chart of" in str(chart["aria-label"]) for chart in charts)
    css = re.sub(r"<svg.*?</svg>", "", (made / "report.html").read_text(), flags=re.DOTALL)
    assert "@import" not in css
    assert not re.search(r"url\((?!#)", css)


def test_markdown_finds_its_figures(made, text):
    paths = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(paths) >= 6
    for path in paths:
        assert (made / path).stat().st_size > 0


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tidy_results(made, kind):
    read = pd.read_csv if kind == "csv" else pd.read_parquet
    table = read(made / f"results.{kind}")
    mnist = table[(table.dataset == "mnist") & (table.n == 4) & (table.state == "finished")]
    final = mnist[mnist.measure == "train_negative_elbo"].groupby("estimator").value
    assert final.apply(sorted).to_dict() == {
        "dbsurf": [99.5, 100.5],
        "loorf": [101.0, 103.0, 105.0],
    }
    last = table[(table.state == "unfinished") & (table.measure == "step")]
    assert last.value.tolist() == [20_000]
    spread = table[(table.measure == "variance_at_same_parameters") & (table.of == "mdsurf")]
    assert spread.value.tolist() == [50.0, 50.0]
    found = table[(table.measure == "found_test_200") & (table.landscape == "synthetic")]
    assert dict(zip(found.seed, found.value, strict=True)) == {0: 70.0, 1: 72.0}
    assert table[table.measure == "statements"].set_index("of").value["holds"] == 2
    assert not (table.state == "damaged").any()


def test_nothing_half_written_is_left_and_anybody_may_read(made):
    assert not [path for path in made.rglob(".*") if path.is_file()]
    assert (made / "report.html").stat().st_mode & 0o044 == 0o044


def test_what_is_missing_is_named_with_its_command(tmp_path):
    toy_run(tmp_path / "runs")
    assert cli.main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page")]) == 0
    page = Page((tmp_path / "page" / "report.html").read_text(encoding="utf-8"))
    for words in (
        "No finished VAE run, so no table 1. dbsurf sweep table1",
        "No VAE run with evaluations during training. dbsurf sweep figure1",
        "No finished architecture search, so no table 2. dbsurf sweep table2",
        "No estimator beside LOORF with evaluations",
        "No VAE run that measured its gradient's variance.",
        "No run measured all estimators at the same parameters.",
        "No finished VAE run with pictures.",
        "No run has an environment.json.",
    ):
        assert words in page.text
    assert not (tmp_path / "runs" / "report.html").exists()


def test_every_command_in_the_report_is_one(made):
    """Those behind the runs and those that would make what is missing."""
    text = (made / "report.md").read_text(encoding="utf-8")
    commands = set(re.findall(r"`(dbsurf [^`]*)`", text))
    assert {command.split()[1] for command in commands} >= {"vae", "sweep", "report"}
    for command in commands:
        found, options = parsing.parse(shlex.split(command)[1:])
        assert type(options) is found.options


def test_a_search_by_supernet_shows_its_cells_and_no_accuracy(tmp_path):
    """The cells are drawn; what the table does not know is a dash, and table 2 says so."""
    folder = nas_run(tmp_path, [0.0], "", mode="supernet", dataset="cifar10", seeds=1)
    (found,) = collect([folder], registry.every())[0].summary["found"]
    unknown = {**found, "val_12": None, "val_200": None, "test_200": None}
    changed(folder, without=("curves.csv",), landscape=None, found=[unknown])
    (folder / "cell.png").write_bytes(PNG)
    (folder / "seed-0").mkdir()
    (folder / "seed-0" / "cell.png").write_bytes(PNG)
    assert cli.main(["report", str(tmp_path)]) == 0
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "No search on NAS-Bench-201, so table 2 has the paper's rows only." in page.text
    assert "No search with curves" not in page.text  # of queries, which it does not count
    alts = [str(image["alt"]) for image in page.images]
    assert alts == [
        "Drawing. Cell found on CIFAR-10 by DBsurf, supernet (run 1).",
        "Drawing. Cell found on CIFAR-10 by DBsurf, supernet, seed 0 (run 1).",
    ]
    assert page.table("The cell that most seeds").row("CIFAR-10")[-1] == ["–"]


def test_unfinished_runs_alone_support_no_sentence(tmp_path):
    unfinished_vae_run(tmp_path, 95.0, dataset="mnist")
    assert cli.main(["report", str(tmp_path)]) == 0
    text = (tmp_path / "report.md").read_text()
    assert "No finished run." in text
    assert "No toy study" in text


def test_many_comparisons_are_counted_not_listed(tmp_path):
    for n in (2, 3, 4, 5, 6):
        vae_run(tmp_path, 100.0 + n, dataset="mnist", estimator="loorf", n=n)
        vae_run(tmp_path, 99.0 + n, dataset="mnist", estimator="dbsurf", n=n)
    first, second = sentences(collect([tmp_path], registry.every()))
    assert "ahead after 20,000 steps (the paper: 1,000,000)." in first
    assert "training -ELBO is that of DBsurf (5 of 5)." in first
    assert "against LOORF's: lower in 5 of 5; LOORF's minus DBsurf's is 1.00 nats." in second
    assert second.endswith("does not contain 0 in 0, and there is none in 5, with one seed.")


def test_runs_that_differ_only_in_how_they_were_looked_at_are_told_apart(tmp_path):
    vae_run(tmp_path / "a", 100.0, dataset="mnist")
    vae_run(tmp_path / "b", 101.0, dataset="mnist", evaluate_every=500)
    assert cli.main(["report", str(tmp_path)]) == 0
    text = (tmp_path / "report.md").read_text()
    assert "20,000 steps, 1 seed; evaluate every 500" in text
    assert "100.00 (run 1)" in text


def test_names_are_text_wherever_they_stand(tmp_path):
    nasty = '<img src=x onerror="alert(1)">|*b*$x$`'
    for estimator in ("loorf", "dbsurf"):
        for seed in (0, 1):
            folder = vae_run(tmp_path, 100.0 + seed, estimator=estimator, seed=seed)
            chosen = Options(estimator=estimator, seed=seed, steps=STEPS, dataset=nasty).config()
            changed(folder, configuration=chosen)
    odd = tmp_path / "a <b> & c"
    vae_run(odd, 99.0, dataset="mnist")
    assert cli.main(["report", str(tmp_path)]) == 0
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert "<img src=x" not in html
    assert nasty in page.text
    assert f"{odd}/" in page.text
    assert not any("onerror" in attributes for _, attributes in page.tags)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "<img" not in re.sub(r"(`+).*?\1", "", text)  # in code it is only text
    assert r"\|\*b\*$x$" in text
