"""compare ranks estimators as a long independent run does, and says why it recommends one."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Independent, Poisson

import dbsurf
from dbsurf import measure
from dbsurf.compare import Row, _every, _recommend
from dbsurf.comparison import Comparison

f64 = torch.float64
PROBS = torch.linspace(0.15, 0.85, 6, dtype=f64)


def additive(x: Tensor) -> Tensor:
    return (x - 0.49).square().sum(-1)


def interacting(x: Tensor) -> Tensor:
    return (x[..., 1:] * x[..., :-1]).sum(-1) * 2 - x[..., 0] * x[..., 5] + x.sum(-1).square() / 4


def network(dtype: torch.dtype = f64):
    torch.manual_seed(4)
    layers = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).to(dtype)
    layers.requires_grad_(False)
    return lambda x: layers(x)[..., 0] * 3


def scored(x: Tensor) -> Tensor:
    values = torch.tensor([1.0, -2.0, 0.5], dtype=f64)
    return values[x].sum(-1) + values[x].prod(-1)


PROBLEMS = {
    "additive": (lambda: additive, lambda: Independent(Bernoulli(PROBS), 1)),
    "interacting": (lambda: interacting, lambda: Independent(Bernoulli(PROBS), 1)),
    "network": (network, lambda: Independent(Bernoulli(PROBS), 1)),
    "categorical": (
        lambda: scored,
        lambda: Independent(Categorical(torch.tensor([[0.2, 0.5, 0.3]] * 4, dtype=f64)), 1),
    ),
}


def long_run(f, dist, label: str) -> tuple[float, float]:
    """Mean squared error of an estimator, by 40,000 estimates at once; and its standard error."""
    estimator = dbsurf.get(label)
    batch = dist.expand((40_000,))
    for _ in range(300 if estimator.learns else 0):  # as compare does
        estimator.estimate(f, dist)
    estimator.eval()
    error = (estimator.estimate(f, batch).grad - dbsurf.exact(f, dist).grad).flatten(1)
    square = error.square().sum(-1)
    return square.mean().item(), square.std().item() / 200


# Of every kind one: all of them would take a minute and a half.
SEVERAL = ["LOORF(4)", "DBsurf(4)", "MDsurf(4)", "DisARM(4)", "DoubleCV(4)", "QuadraticCV(3)"]
SEVERAL += ["MuProp(3)", "ReinMax(4)"]


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_order_is_that_of_a_long_independent_run(name):
    """Wherever the long run tells two estimators clearly apart, compare has them in that order."""
    make, law = PROBLEMS[name]
    f, dist, n, draws = make(), law(), 4, 300
    random = torch.Generator().manual_seed(1)
    chosen = None if name == "categorical" else SEVERAL
    found = dbsurf.compare(f, dist, n, draws=draws, estimators=chosen, generator=random)
    order = [row.estimator for row in found.rows]
    truth = {label: long_run(f, dist, label) for label in order}
    checked = 0
    for i, better in enumerate(order):
        for worse in order[i + 1 :]:
            (a, da), (b, db) = truth[better], truth[worse]
            # The noise of compare itself: its draws are fewer by 40,000 / draws.
            noise = 5 * math.hypot(da, db) * math.sqrt(40_000 / draws)
            checked += abs(a - b) > noise
            assert a < b + noise, f"{better} before {worse}, but {a} > {b}"
    assert checked >= 2  # a categorical law has three contenders
    for row in found.rows:
        if row.learns:  # trained on other draws in the long run: it may have learned more or less
            continue
        interval = row.variance_high - row.variance
        assert abs(row.mean_squared_error - truth[row.estimator][0]) < 4 * interval + 1e-12


def test_rows_fields_table_and_frame():
    found = dbsurf.compare(additive, Independent(Bernoulli(PROBS), 1), 4, draws=40)
    labels = set(_every(4))
    assert {row.estimator for row in found.rows} == labels - set(found.left_out)
    structured = {label for label, why in found.left_out.items() if "log-partition" in why}
    assert structured == {
        "MarginalGradient(4)",
        "StructuredCV(4)",
        'StructuredCV(4, form="quadratic")',
    }
    others = {k: why for k, why in found.left_out.items() if k not in structured}
    assert others == {
        "REBAR(1)": "it cannot evaluate f 4 times",
        "VIMCO(4)": "estimators must have the objective E[f], got VIMCO(4), whose objective is "
        "log-mean-exp",
        "LocalExpectation(1)": "it evaluates f 7 times for this law, not 4",
        "IndeCateR(1)": "it evaluates f 12 times for this law, not 4",
    }
    assert all(isinstance(dbsurf.get(label), dbsurf.Estimator) for label in labels)
    built = found.build()
    assert built.training
    assert repr(built) == repr(dbsurf.get(found.recommended))
    assert all(row.evaluations == 4 for row in found.rows)
    assert all(row.variance_low <= row.variance <= row.variance_high for row in found.rows)
    assert all(row.milliseconds > 0 for row in found.rows)
    assert all((row.bias == 0) or not row.unbiased for row in found.rows)
    errors = [row.mean_squared_error for row in found.rows]
    assert errors == sorted(errors)
    loorf = next(row for row in found.rows if row.estimator == "LOORF(4)")
    assert loorf.relative_variance == 1
    text = str(found)
    assert f"Use {found.recommended}: " in text
    assert "the exact gradient" in text
    assert all(row.estimator in text for row in found.rows)  # none is cut
    assert max(map(len, text.splitlines())) <= 80
    assert len(found.to_frame()) == len(found.rows)


def test_the_page_and_the_figure_say_what_the_table_says():
    rows = [
        row("Exact()", 0.0),
        row("ReinMax(4)", 0.25, bias=0.25, needs_grad_f=True),
        row("RELAX(1, <own>)", 0.5, needs_grad_f=True, learns=True),
        row("LOORF(4)", 1.0),
    ]
    left_out = {"UnorderedSet(4)": "it takes categorical laws only"}
    found = Comparison(rows, "RELAX(1, <own>)", "a & b", "the exact gradient", left_out)
    page = found._repr_html_()
    ElementTree.fromstring(f"<div>{page.replace('<br>', '<br/>')}</div>")  # well formed
    assert page.startswith("<p><b>Use <code>RELAX(1, &lt;own&gt;)</code></b>: a &amp; b.</p>")
    assert page.count("<tr>") == 5
    assert "<b><code>RELAX(1, &lt;own&gt;)</code></b>" in page
    assert "bias against the exact gradient<br>left out: UnorderedSet(4); it takes" in page

    pytest.importorskip("matplotlib", reason="the figure needs it").use("agg")
    ax = found.plot()
    assert ax.get_title(loc="left") == "Use RELAX(1, <own>): 0.5 of LOORF's variance"
    names = {label.get_text(): label.get_fontweight() for label in ax.get_yticklabels()}
    assert names == {"LOORF(4)": "normal", "RELAX(1, <own>)": "bold", "ReinMax(4)": "normal"}
    kinds = [text.get_text() for text in ax.get_legend().get_texts()]
    assert kinds == ["unbiased, f a black box", "unbiased, uses the gradient of f", "biased"]
    assert found.plot(ax) is ax


def test_what_does_not_apply_is_left_out_with_its_reason():
    logits = torch.zeros(3, dtype=f64)
    found = dbsurf.compare(lambda x: x.double(), Categorical(logits=logits), 3, draws=20)
    assert "dist must be Bernoulli, got Categorical" in found.left_out["ARMS(3)"]
    assert found.left_out["DisARM(2)"] == "dist must be Bernoulli, got Categorical"
    assert "left out: " in str(found)
    hidden = dbsurf.compare(
        lambda x: x.detach().sum(-1), Independent(Bernoulli(PROBS), 1), 2, draws=20
    )
    assert hidden.left_out["DoubleCV(2)"] == "f is not differentiable in x"


def test_only_some_estimators_and_a_sampled_reference():
    wide = Independent(Bernoulli(torch.full((15,), 0.3, dtype=f64)), 1)
    calls = []
    found = dbsurf.compare(
        additive, wide, 2, draws=10, estimators=["DBsurf", "mdsurf"], progress=calls.append
    )
    assert {row.estimator for row in found.rows} == {"LOORF(2)", "DBsurf(2)", "MDsurf(2)"}
    assert found.reference == "the mean of 100 estimates by LOORF"
    assert calls[-1] == 1
    infinite = dbsurf.compare(
        lambda x: x.square(), Poisson(torch.tensor(3.0, dtype=f64)), 2, draws=10
    )
    assert "LOORF" in infinite.reference


def test_recommendation_prefers_fewer_strings_among_equals():
    """n = 2 in one dimension: ARMS, DisARM and MDsurf are the same; DoubleCV needs the gradient."""
    dist = Independent(Bernoulli(torch.tensor([0.5], dtype=f64)), 1)
    found = dbsurf.compare(additive, dist, 2, draws=100)
    best = next(row for row in found.rows if row.estimator == found.recommended)
    assert best.unbiased
    assert not best.needs_grad_f
    assert best.variance == pytest.approx(0, abs=1e-20)
    assert "no significant difference from" in found.reason
    assert len(found.reason) < 450  # many are as good, and few are named


@pytest.mark.parametrize("n", [3, 4, 5])
def test_an_estimator_with_flips_or_checks_uses_every_evaluation(n):
    """Also where the default for its number of samples would use fewer or more."""
    dist, names = Independent(Bernoulli(PROBS), 1), ["BitFlip", "SpotCheck", "UGC"]
    found = dbsurf.compare(additive, dist, n, draws=10, estimators=names)
    assert all(row.evaluations == n for row in found.rows)
    assert all(dbsurf.get(row.estimator).evaluations == n for row in found.rows)
    labels = {label for label in _every(n) if label.startswith(tuple(names))}
    assert labels == {row.estimator for row in found.rows} - {f"LOORF({n})"}


def test_progress_is_printed_for_people_and_told_to_functions(capsys, monkeypatch):
    dist = Independent(Bernoulli(PROBS), 1)
    settings = {"draws": 10, "estimators": ["SpotCheck"]}

    def printed(progress) -> str:
        dbsurf.compare(additive, dist, 2, progress=progress, **settings)
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err

    assert printed(None) == ""  # no terminal
    assert printed(False) == ""
    lines = printed(True).split("\r")
    assert lines[-3:] == ["compare: 100 %", " " * 14, ""]  # wiped out at the end
    monkeypatch.setattr("sys.ps1", ">>> ", raising=False)  # a prompt or a notebook
    assert printed(None).split("\r") == lines
    shares = []
    assert printed(shares.append) == ""
    assert shares == sorted(set(shares))
    assert shares[-1] == 1
    assert len(shares) <= 101


def test_few_draws_are_no_verdict_on_those_that_learn():
    rows = [row("plain", 1.0), row("state", 3.0, learns=True)]
    assert "only 100 estimates to learn from: raise draws" in _recommend(rows, draws=100)[1]
    assert "raise draws" not in _recommend(rows, draws=1000)[1]
    assert "raise draws" in _recommend([row("learned", 0.1, learns=True), *rows], draws=100)[1]
    for alone in ([row("plain", 1.0), row("other", 3.0)], [row("learned", 1.0, learns=True)]):
        assert "raise draws" not in _recommend(alone, draws=100)[1]


def test_bad_input():
    dist = Independent(Bernoulli(PROBS), 1)
    with pytest.raises(ValueError, match="progress must be True, False, None or a function, got 1"):
        dbsurf.compare(additive, dist, 2, progress=1)
    with pytest.raises(ValueError, match="n must be an integer >= 2 for compare, got 1"):
        dbsurf.compare(additive, dist, 1)
    with pytest.raises(ValueError, match="draws must be an integer >= 10, got 3"):
        dbsurf.compare(additive, dist, 2, draws=3)
    with pytest.raises(ValueError, match="f must return one floating-point tensor of shape"):
        dbsurf.compare(lambda x: x, dist, 2)
    with pytest.raises(ValueError, match="n must be an even integer >= 2 for DisARM, got 3"):
        dbsurf.compare(additive, dist, 3, estimators=["DisARM(3)"])


def row(label: str, variance: float, bias: float = 0.0, **more: bool) -> Row:
    settings = {"unbiased": bias == 0, "needs_grad_f": False, "learns": False, **more}
    settings["grad_f"] = "yes" if settings["needs_grad_f"] else "no"
    return Row(
        estimator=label,
        evaluations=4,
        variance=variance,
        variance_low=0.9 * variance,
        variance_high=1.1 * variance,
        relative_variance=variance,
        relative_low=0.9 * variance,
        relative_high=1.1 * variance,
        bias=bias,
        mean_squared_error=variance + bias**2,
        milliseconds=1.0,
        **settings,
    )


def test_the_recommendation_by_its_rules():
    assert _recommend([row("best", 1.0), row("worse", 2.0)])[0] == "best"
    # No significant difference: the one without a bias, then the one without the gradient of f.
    assert _recommend([row("biased", 1.0, 0.1), row("unbiased", 1.05)])[0] == "unbiased"
    assert _recommend([row("grad", 1.0, needs_grad_f=True), row("plain", 1.1)])[0] == "plain"
    chosen, reason = _recommend([row("grad", 1.0, needs_grad_f=True), row("plain", 1.5)])
    assert chosen == "grad"
    assert "uses the gradient of f" in reason
    assert "no significant difference" not in reason
    assert "lags behind" in _recommend([row("state", 1.0, learns=True), row("other", 3.0)])[1]
    # A bias stays where the variance goes: it is said, not recommended.
    chosen, reason = _recommend([row("biased", 0.1, 0.1), row("unbiased", 1.0)])
    assert chosen == "unbiased"
    assert "biased has a smaller mean squared error here, 0.11 against 1, but a bias" in reason


def test_every_estimator_of_the_library_is_known():
    called = {type(build()) for build in _every(4).values()}
    every = {type(dbsurf.get(name, 4)) for name in dbsurf.available()}
    assert every - called == {dbsurf.Exact}  # it has no variance


def test_what_would_enumerate_too_many_states_is_left_out():
    wide = Independent(Bernoulli(torch.full((12,), 0.3, dtype=f64)), 1)
    found = dbsurf.compare(additive, wide, 6, draws=10)
    assert "4,096 states" in found.left_out["UnorderedSet(6)"]
    assert "REBAR(2)" in [one.estimator for one in found.rows]


def test_nothing_is_recommended_from_nothing():
    rare = Independent(Bernoulli(torch.full((3,), 1e-5, dtype=f64)), 1)
    found = dbsurf.compare(additive, rare, 2, draws=50)
    assert found.recommended == "LOORF(2)"
    assert "too few to compare anything; raise draws" in found.reason


def test_the_noise_of_the_mean_is_taken_out_of_the_bias():
    """DBsurf with alpha 0 is LOORF: said to be biased, it would show a bias of noise only."""
    dist = Independent(Bernoulli(PROBS), 1)
    found = []
    for seed in range(8):
        rows = dbsurf.compare(
            interacting,
            dist,
            4,
            draws=60,
            estimators=["DBsurf(4, debias=True)"],
            generator=torch.Generator().manual_seed(seed),
        ).rows
        found.append(next(r for r in rows if r.estimator == "DBsurf(4, debias=True)"))
    truth, _ = long_run(interacting, dist, "DBsurf(4, debias=True)")
    noise = sum(r.variance / 60 for r in found) / 8  # what the mean of 60 estimates is off by
    square = sum(r.bias**2 for r in found) / 8
    assert truth < 1.2 * sum(r.variance for r in found) / 8  # hardly any bias at all
    assert square < 0.7 * noise


def test_a_gradient_of_f_that_is_not_finite_leaves_double_cv_out():
    dist = Independent(Bernoulli(PROBS), 1)
    found = dbsurf.compare(lambda x: x.sqrt().sum(-1), dist, 2, draws=20)
    assert "f must have a finite gradient" in found.left_out["DoubleCV(2)"]


def test_a_black_box_is_compared_with_what_can_be_tried():
    """numpy inside f, and an array as its answer: no gradient, no crash."""

    def simulator(x: Tensor) -> np.ndarray:
        bits = x.numpy()
        return bits.sum(-1) ** 2 + bits[..., 0]

    found = dbsurf.compare(simulator, Independent(Bernoulli(PROBS), 1), 4, draws=40)
    tried = {row.estimator for row in found.rows}
    assert {"LOORF(4)", "MDsurf(4)", 'QuadraticCV(4, uses="values")'} <= tried
    for label in ("DoubleCV(4)", "QuadraticCV(3)"):
        assert found.left_out[label].startswith("f is not differentiable in x: Can't call numpy()")
    assert found.build().n == 4


def test_a_ratio_of_nothing_to_nothing_is_a_dash():
    still = Independent(Bernoulli(torch.zeros(3, dtype=f64)), 1)
    found = dbsurf.compare(additive, still, 2, draws=10)
    assert "nan" not in str(found)
    assert all(math.isnan(row.relative_variance) for row in found.rows)


def test_names_that_are_calls():
    assert dbsurf.get('Reinforce(2, baseline="running-mean")').baseline == "running-mean"
    for bad in ("LOORF(", "LOORF(open('x'))", "a.b(2)", "LOORF(n)", "(" * 5000):
        with pytest.raises(ValueError, match="name must be"):
            dbsurf.get(bad)


def test_parts_of_a_study_of_ones_own():
    E, problem = dbsurf.DoubleCV(2), measure.Problem(network(), Independent(Bernoulli(PROBS), 1))
    for call in (
        lambda: measure.spread(E, problem, 1),
        lambda: measure.long_run(E, problem, 1),
    ):
        with pytest.raises(ValueError, match="draws must be an integer >= 2, got 1"):
            call()
    with pytest.raises(ValueError, match="rounds must be an integer >= 1, got 0"):
        measure.milliseconds({"E": E}, problem, 0)
    with pytest.raises(ValueError, match=r"count must be an integer >= 1, got 2\.5"):
        measure.with_evaluations(dbsurf.LOORF, 2.5)

    def broken(x: Tensor) -> Tensor:
        raise RuntimeError("no answer")

    for call in (
        lambda: measure.spread(E, measure.Problem(broken, problem.dist), 2),
        lambda: measure.long_run(E, measure.Problem(broken, problem.dist), 2),
        lambda: measure.Problem(broken, problem.dist).evaluations(E),
    ):
        with pytest.raises(RuntimeError, match="no answer"):
            call()
        assert E.training  # as it was
