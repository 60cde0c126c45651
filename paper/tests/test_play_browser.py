"""The page to play with, in a real browser: its numbers are the library's, and it is quiet."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch.distributions import Bernoulli, Independent

import dbsurf
from chromium import Browser
from dbsurf import laws, samplers

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "play.html"
COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
DRAWS = 40_000  # a variance is then known to about 1 %


@pytest.fixture(scope="module")
def browser():
    with Browser(str(PROGRAM)) as found:
        yield found


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_fits_loads_nothing_and_is_quiet(browser, width, dark):
    browser.open(PAGE, width, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    requests = [
        parameters["request"]["url"]
        for method, parameters in browser.events
        if method == "Network.requestWillBeSent"
    ]
    assert [url for url in requests if not url.startswith("data:")] == [PAGE.resolve().as_uri()]
    # Every place of every slider draws without a complaint.
    browser.evaluate(
        """for (const slider of document.querySelectorAll('input'))
             for (const end of [slider.min, slider.max, slider.value]) {
               slider.value = end; slider.dispatchEvent(new Event('input'));
             }
           for (const button of document.querySelectorAll('button')) button.click();"""
    )
    assert "NaN" not in browser.evaluate("document.body.innerHTML.split('<script')[0]")
    assert not [event for event in browser.events if event[0] in COMPLAINTS]


def test_every_control_has_a_name_and_every_picture_words(browser):
    browser.open(PAGE, 1440)
    assert browser.evaluate("[...document.querySelectorAll('input')].every(i => i.labels.length)")
    assert browser.evaluate(
        "[...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-label'))"
    )
    assert browser.evaluate("document.documentElement.lang") == "en"


def test_a_key_moves_a_slider_and_the_numbers_follow(browser):
    browser.open(PAGE, 1440)
    before = browser.evaluate("at('ratios').innerText")
    browser.evaluate("at('d').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key="ArrowRight", windowsVirtualKeyCode=39)
    assert browser.evaluate("at('d-out').value") == "2"
    assert browser.evaluate("at('ratios').innerText") != before


def variance(estimator: dbsurf.Estimator, p: float, d: int) -> float:
    """Variance of the estimate for one bit, f the sum of d bits."""
    law = Independent(Bernoulli(torch.full((DRAWS, d), p)), 1)
    generator = torch.Generator().manual_seed(0)
    found = estimator.estimate(lambda x: x.sum(-1), law, generator=generator).grad
    return found.var(0).mean().item()


@pytest.mark.parametrize("d", [1, 5])
@pytest.mark.parametrize(("p", "n"), [(0.3, 2), (0.3, 4), (0.8, 4), (0.1, 6)])
def test_the_ratios_of_the_first_panel_are_the_librarys(browser, p, n, d):
    browser.open(PAGE, 1440)
    ours = {
        "antithetic": dbsurf.LeaveOneOut(n, sampler=samplers.Antithetic(), debias=True),
        "spread": dbsurf.MDsurf(n),
    }
    independent = variance(dbsurf.LOORF(n), p, d)
    for kind, estimator in ours.items():
        shown = browser.evaluate(f"ratio('{kind}', {p}, {n}, {d})")
        assert shown == pytest.approx(variance(estimator, p, d) / independent, abs=0.05)


@pytest.mark.parametrize(("p", "n"), [(0.3, 4), (0.5, 4), (0.05, 8), (0.95, 16)])
def test_with_one_bit_the_first_panel_has_the_exact_law(browser, p, n):
    browser.open(PAGE, 1440)
    probs = torch.tensor(p, dtype=torch.float64)
    independent = laws.relative_moments(laws.iid_count_law(probs, n), probs)
    for kind, law, differ in (
        ("antithetic", laws.antithetic_count_law, laws.antithetic_disagreement),
        ("spread", laws.min_discrepancy_count_law, laws.min_discrepancy_disagreement),
    ):
        mean, spread = laws.relative_moments(law(probs, n), probs)
        expected = (spread / mean**2 / independent[1]).item()
        assert browser.evaluate(f"ratio('{kind}', {p}, {n}, 1)") == pytest.approx(
            expected, abs=1e-9
        )
        c = laws.debias_factor(lambda q, differ=differ: differ(q, n), probs).item()
        assert browser.evaluate(f"moments('{kind}', {p}, {n}, 3).c") == pytest.approx(c)


@pytest.mark.parametrize(("p", "bend"), [(0.8, 1.0), (0.3, 2.0)])
def test_the_second_panel_has_the_librarys_numbers(browser, p, bend):
    browser.open(PAGE, 1440)
    weights = torch.tensor(browser.evaluate("WEIGHTS"))

    def f(x):
        return torch.tanh(bend * ((x - p) @ weights + 0.8)) / bend

    truth = dbsurf.exact(f, Independent(Bernoulli(torch.full((8,), p)), 1)).grad
    shown = browser.evaluate(f"curved({p}, {bend}, 0).truth")
    assert shown == pytest.approx(truth.tolist(), abs=1e-5)

    law = Independent(Bernoulli(torch.full((DRAWS, 8), p)), 1)
    generator = torch.Generator().manual_seed(0)
    loorf = dbsurf.LOORF(4).estimate(f, law, generator=generator).grad
    straight = dbsurf.StraightThrough(4).estimate(f, law, generator=generator).grad
    ratio = straight.var(0).sum() / loorf.var(0).sum()
    bias = (straight.mean(0) - truth).square().sum() / truth.square().sum()
    found = browser.evaluate(
        f"(({{plain, bias, loorf}}) => [plain, bias, loorf])(curved({p}, {bend}, 0))"
    )
    assert found[0] == pytest.approx(ratio.item(), rel=0.05)
    assert found[1] == pytest.approx(bias.item(), rel=0.1)
    assert found[2] == pytest.approx(loorf.var(0).sum().item(), rel=0.05)


@pytest.mark.parametrize("learned", [0.0, 1.0])
def test_checks_leave_no_bias_and_the_variance_that_the_page_shows(browser, learned):
    """Two samples, one of eight bits of each flipped: drawn here anew from the page's states."""
    browser.open(PAGE, 1440)
    p, d = 0.8, 8
    page = browser.evaluate(
        f"""(() => {{ const r = curved({p}, 1, {learned}); return {{truth: r.truth,
            checked: r.checked * r.loorf, mass: r.states.map(s => s.mass),
            guess: r.states.map(s => s.guess), effect: r.states.map(s => s.effect)}}; }})()"""
    )
    guess, effect = torch.tensor(page["guess"]), torch.tensor(page["effect"])
    generator = torch.Generator().manual_seed(0)
    state = torch.multinomial(
        torch.tensor(page["mass"]), 2 * DRAWS, replacement=True, generator=generator
    )
    chosen = torch.randint(d, (2 * DRAWS,), generator=generator)
    picked = d * torch.nn.functional.one_hot(chosen, d)
    estimate = p * (1 - p) * (guess[state] + picked * (effect - guess)[state])
    estimate = estimate.view(DRAWS, 2, d).mean(1)
    error = (estimate.mean(0) - torch.tensor(page["truth"])) / (estimate.std(0) / DRAWS**0.5)
    assert error.abs().max() < 5  # standard errors; with eight bits, one test in 200,000 fails
    assert page["checked"] == pytest.approx(estimate.var(0).sum().item(), rel=0.05)
