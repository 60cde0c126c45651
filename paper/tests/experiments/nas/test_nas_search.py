"""Table searches: what they ask for, what they choose, and the folder they leave."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import dbsurf
from dbsurf_paper.commands.main import main
from dbsurf_paper.experiments.nas import TableOptions, space
from dbsurf_paper.experiments.nas.landscape import synthetic_columns
from dbsurf_paper.experiments.nas.table_search import methods, search, trace
from dbsurf_paper.experiments.nas.table_search.trace import Trace

SHORT = TableOptions(dataset="synthetic", steps=40, seeds=3)
VAL = synthetic_columns()["synthetic", "val", 12]


def silent(step: int, note: str) -> None:
    pass


# --- accounting -----------------------------------------------------------------------------------

# Two searches; accuracies of the cells 0 to 5 are given below.
QUERIES = np.array([[0, 3], [1, 3], [0, 4], [2, 0], [1, 5], [3, 5]])
MODES = np.array([[0, 5], [1, 4], [2, 3]])  # two queries a step
TWELVE = np.zeros(space.SIZE)
TWELVE[:6] = [1.0, 3.0, 2.0, 3.0, 5.0, 4.0]
FULL = np.zeros(space.SIZE)
FULL[:6] = [9.0, 1.0, 7.0, 8.0, 2.0, 6.0]


@pytest.fixture
def followed() -> tuple[Trace, trace.Distinct]:
    asked = Trace(QUERIES, MODES, 2)
    return asked, asked.distinct()


def test_distinct_cells_in_the_order_of_their_first_query(followed):
    _, distinct = followed
    np.testing.assert_array_equal(distinct.counts, [4, 4])
    np.testing.assert_array_equal(distinct.cells, [[0, 1, 2, 3], [3, 4, 0, 5]])
    np.testing.assert_array_equal(distinct.moments, [[0, 1, 3, 5], [0, 2, 3, 4]])


def test_the_best_so_far_is_the_earliest_of_equals(followed):
    _, distinct = followed
    found = trace.best(distinct, TWELVE, [1, 2, 3, 4])
    np.testing.assert_array_equal(found, [[0, 3], [1, 4], [1, 4], [1, 4]])
    # Points beyond the end are the end.
    np.testing.assert_array_equal(trace.best(distinct, TWELVE, [9]), [[1, 4]])


def test_finalists_are_chosen_among_by_full_training(followed):
    _, distinct = followed
    found = trace.finalists(distinct, TWELVE, FULL, 2, [1, 2, 3, 4])
    # First search: {0}, {0, 1}, {1, 2}, {1, 3}. Second: {3}, {3, 4}, {3, 4}, {4, 5}.
    np.testing.assert_array_equal(found, [[0, 3], [0, 3], [2, 3], [3, 5]])
    one = trace.finalists(distinct, TWELVE, FULL, 1, [1, 2, 3, 4])
    np.testing.assert_array_equal(one, trace.best(distinct, TWELVE, [1, 2, 3, 4]))


def test_finalists_do_not_depend_on_the_points_between(followed):
    generator = np.random.default_rng(0)
    queries = generator.integers(space.SIZE, size=(300, 4))
    distinct = Trace(queries, None, 1).distinct()
    first, second = generator.permutation(space.SIZE) * 1.0, generator.random(space.SIZE)
    fine = trace.finalists(distinct, first, second, 7, range(1, 301))
    coarse = trace.finalists(distinct, first, second, 7, [10, 150, 300])
    np.testing.assert_array_equal(fine[[9, 149, 299]], coarse)
    for seed in range(4):  # by definition
        cells = distinct.cells[seed, :150]
        top = cells[np.argsort(-first[cells])[:7]]
        assert coarse[1, seed] == top[second[top].argmax()]


def test_searches_of_different_length_stay_where_they_ended():
    distinct = Trace(np.array([[0, 3], [1, 3], [2, 3]]), None, 1).distinct()
    np.testing.assert_array_equal(distinct.counts, [3, 1])
    found = trace.best(distinct, TWELVE, [1, 2, 3])
    np.testing.assert_array_equal(found, [[0, 3], [1, 3], [1, 3]])
    found = trace.finalists(distinct, TWELVE, FULL, 2, [1, 2, 3])
    np.testing.assert_array_equal(found, [[0, 3], [0, 3], [2, 3]])


def test_the_mode_is_that_of_the_step_in_which_a_cell_was_new(followed):
    asked, distinct = followed
    found = trace.mode(asked, distinct, [1, 2, 3, 4])
    np.testing.assert_array_equal(found, [[0, 5], [0, 4], [1, 4], [2, 3]])
    np.testing.assert_array_equal(trace.mode(asked, distinct, [4, 5])[-1], MODES[-1])


def test_the_last_mode_counts_even_if_the_last_steps_brought_nothing_new():
    asked = Trace(np.array([[0, 1], [2, 1], [0, 1], [0, 1]]), MODES[[0, 1]], 2)
    found = trace.mode(asked, asked.distinct(), [1, 2])
    np.testing.assert_array_equal(found, [[0, 4], [1, 4]])


def test_points_of_curves_end_at_the_last():
    assert trace.grid(3) == [1, 2, 3]
    assert trace.grid(1) == [1]
    assert trace.grid(1_234)[-2:] == [1_200, 1_234]
    assert trace.grid(space.SIZE)[-1] == space.SIZE


def test_reaching_a_target():
    accuracies = np.array([[1.0, 5.0, 1.0], [3.0, 2.0, 1.0], [4.0, 9.0, 2.0]])
    assert trace.first_reach(accuracies, 3.0, [10, 20, 30]) == [20, 10, None]


def test_standard_error_of_known_numbers():
    assert trace.error_of(np.array([1.0, 3.0])) == pytest.approx(1.0)
    assert trace.error_of(np.array([2.0])) is None


# --- searching ------------------------------------------------------------------------------------


def test_a_policy_finds_the_only_good_edge():
    """Accuracy counts the edges with operation 3: the mode must become 3 on all of them."""
    validation = (space.cells() == 3).sum(1).astype(float)
    found = methods.gradient_search(
        validation,
        dbsurf.DBsurf(5, validate=False),
        seeds=4,
        steps=60,
        rate=0.2,
        generator=torch.Generator().manual_seed(0),
        show=silent,
    )
    assert found.queries.shape == (300, 4)
    assert (found.modes[-1] == space.to_index((3,) * 6)).all()


def test_exact_asks_for_every_cell_once_and_follows_the_expectation():
    validation = (space.cells() == 3).sum(1).astype(float)
    found = methods.gradient_search(
        validation,
        dbsurf.get("exact"),
        seeds=100,
        steps=2,
        rate=0.01,
        generator=torch.Generator(),
        show=silent,
    )
    assert sorted(found.queries[:, 0]) == list(range(space.SIZE))
    # From the uniform law only the logit of operation 3 gains, on every edge.
    np.testing.assert_array_equal(found.modes, [[space.to_index((3,) * 6)]] * 2)


def test_random_search_asks_for_no_cell_twice():
    found = methods.random_search(500, seeds=3, generator=np.random.default_rng(0))
    assert found.queries.shape == (500, 3)
    assert all(len(set(column)) == 500 for column in found.queries.T)
    whole = methods.random_search(10**6, seeds=2, generator=np.random.default_rng(0))
    assert whole.queries.shape == (space.SIZE, 2)


def evolve(queries: int, **words: int) -> Trace:
    settings = {"seeds": 3, "population": 10, "tournament": 4} | words
    generator = np.random.default_rng(1)
    return methods.evolution(VAL, queries, generator=generator, show=silent, **settings)


def test_a_child_differs_from_somebody_alive_in_one_edge():
    cells = space.cells()[evolve(200).queries]  # (Q, seeds, 6)
    for query in range(10, 200):
        alive, child = cells[query - 10 : query], cells[query]
        assert ((alive != child).sum(-1) == 1).any(0).all()


def test_evolution_with_a_tournament_of_all_follows_the_best_alive():
    found = evolve(300, population=5, tournament=64)
    values = VAL[found.queries]
    assert values[-50:].mean() > values[:50].mean() + 2
    assert evolve(4, population=10).queries.shape == (4, 3)


# --- the run --------------------------------------------------------------------------------------


def test_a_finished_folder(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["--dataset", "synthetic", "--steps", "40", "--seeds", "3"]
    assert main(["nas", "table", *words, "--out", str(out)]) == 0
    assert "over 3 searches" in capsys.readouterr().out
    files = {path.name for path in out.iterdir()}
    assert files == {"config.json", "environment.json", "rows.json", "summary.json", "curves.csv"}
    summary = json.loads((out / "summary.json").read_text())
    config = json.loads((out / "config.json").read_text())["configuration"]
    assert summary["experiment"] == "nas"
    assert summary["landscape"] == "synthetic"
    assert summary["configuration"] == config == replace(SHORT).config()
    assert config["seeds"] == 3
    assert "channels" not in config  # of the other mode
    assert [cell["seed"] for cell in summary["found"]] == [0, 1, 2]
    columns = synthetic_columns()
    for cell in summary["found"]:
        assert space.to_string(space.from_index(cell["index"])) == cell["architecture"]
        for name, split, epochs in (("val_12", "val", 12), ("test_200", "test", 200)):
            assert cell[name] == columns["synthetic", split, epochs][cell["index"]]
        assert cell["queries"] == 40 * 5 + 30
        assert cell["distinct_queries"] <= 200
    tests = [cell["test_200"] for cell in summary["found"]]
    assert summary["test_200"] == pytest.approx(np.mean(tests))
    assert summary["test_200_error"] == pytest.approx(np.std(tests, ddof=1) / np.sqrt(3))
    assert set(summary["by_choice"]) == {"mode", "best", "finalists"}
    curves = pd.read_csv(out / "curves.csv")
    wanted = ["distinct_queries", "val_12", "test_200", "test_200_error"]
    assert list(curves)[:4] == wanted
    assert curves["val_12"].is_monotonic_increasing
    assert curves["test_200"].iloc[-1] == pytest.approx(summary["test_200"], abs=1e-3)


@pytest.mark.parametrize(
    ("estimator", "extras"),
    [
        ("loorf", ()),
        ("reinforce", ("baseline=running-mean",)),
        ("dbsurf", ("alpha=preserve",)),
        ("exact", ()),
        ("random", ()),
        ("evolution", ()),
    ],
)
def test_every_method_runs(tmp_path, estimator, extras):
    options = replace(SHORT, estimator=estimator, estimator_options=extras, steps=12)
    found = search.run_table(replace(options, out=tmp_path / "run"))
    assert len(found["found"]) == 3
    assert ("mode" in found["by_choice"]) == (estimator not in ("random", "evolution"))


def test_a_choice_is_what_it_says(tmp_path):
    for choice in ("mode", "best", "finalists"):
        found = search.run_table(replace(SHORT, choice=choice, out=tmp_path / choice))
        assert found["choice"] == choice
        assert all(cell["index"] == cell[f"{choice}_index"] for cell in found["found"])
    random = replace(SHORT, estimator="random", choice="mode", out=tmp_path / "random")
    assert search.run_table(random)["choice"] == "best"


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    options = replace(SHORT, out=tmp_path / "run")
    first = search.run_table(options)
    monkeypatch.setattr(search, "search_all", None)
    assert search.run_table(options) == first
    with pytest.raises(ValueError, match="another configuration: steps"):
        search.run_table(replace(options, steps=41))


def test_a_broken_run_starts_over(tmp_path):
    options = replace(SHORT, out=tmp_path / "run")
    first = search.run_table(options)
    (tmp_path / "run" / "summary.json").unlink()
    again = search.run_table(replace(options, resume=True))
    assert first["found"] == again["found"]


@pytest.mark.parametrize("estimator", ["dbsurf", "evolution"])
def test_a_seed_does_not_depend_on_its_neighbours(tmp_path, estimator):
    """Not even across the border of a block, at 100."""
    options = replace(SHORT, estimator=estimator, steps=15)
    many = search.run_table(replace(options, seed=98, seeds=4, out=tmp_path / "many"))
    for number, cell in enumerate(many["found"]):
        one = replace(options, seed=98 + number, seeds=1, out=tmp_path / str(number))
        assert search.run_table(one)["found"] == [cell]


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--dataset", "cifar10"], "nasbench201 is not in "),
        (["--estimator", "dbsruf"], "estimator must be one of .*random, evolution, got 'dbsruf'"),
        (["--estimator", "arms", "--n", "4"], "arms: dist must be Bernoulli"),
        (["--estimator", "disarm", "--n", "4"], "disarm: dist must be Bernoulli"),
        (["--estimator", "dbsurf", "--estimator-options", "debias=true"], "must be Bernoulli"),
        (["--estimator", "dbsurf", "--estimator-options", "beta=1"], "options of DBsurf must be"),
        (["--estimator", "random", "--estimator-options", "alpha=1"], "must be empty for random"),
        (["--estimator", "loorf", "--n", "1"], "n must be at least 2|n must be"),
        (["--n", "0"], "n must be"),
        (["--seeds", "-1"], "seeds must be at least 1, got -1"),
        (["--logits-rate", "0"], "logits_rate must be above 0, got 0"),
        (["--finalists", "0"], "finalists must be at least 1, got 0"),
        (["--estimator", "evolution", "--population", "0"], "population must be at least 1"),
    ],
)
def test_bad_input_ends_with_one_line_and_leaves_nothing(tmp_path, capsys, words, reason):
    dataset = [] if "--dataset" in words else ["--dataset", "synthetic"]
    place = ["--out", str(tmp_path / "run"), "--data-dir", str(tmp_path / "data")]
    assert main(["nas", "table", *dataset, *words, *place]) == 2
    error = capsys.readouterr().err
    assert re.search(reason, error)
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_only_data_sets_of_the_table_are_accepted(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["nas", "table", "--dataset", "mnist"])
    assert stopped.value.code == 2
    assert "cifar10" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["nas", "table", "--help"])
    assert "{cifar10,cifar100,imagenet16-120,synthetic}" in capsys.readouterr().out


def test_the_way_to_search_must_be_named(capsys):
    assert main(["nas", "tables"]) == 2
    assert "nas must be followed by one of table, supernet, got 'tables'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["nas"])
    assert stopped.value.code == 0
    assert "supernet" in capsys.readouterr().out


def test_a_damaged_table_is_named(tmp_path, capsys):
    data = Path(os.environ.get("DBSURF_DATA", "-")) / "nasbench201.npz"
    if not data.is_file():
        pytest.skip("nasbench201.npz is not here")
    with np.load(data) as table:
        arrays = {name: table[name].copy() for name in table.files}
    arrays["acc"][17, 3] += 1
    np.savez(tmp_path / "nasbench201.npz", **arrays)
    assert main(["nas", "table", "--data-dir", str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "corrupt: sha256 of cifar100_test_200 must be" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
