"""The page in a real browser: it loads nothing, complains of nothing, and fits a phone."""

from __future__ import annotations

import base64
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from chromium import Browser
from dbsurf_paper.commands import main as cli
from handmade import nas_run, toy_run, unfinished_vae_run, vae_run

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")

COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("browser")
    for estimator in ("dbsurf", "doublecv", "arms", "disarm", "loorf", "mdsurf"):
        for n in (2, 4):
            vae_run(place, 100.0 + n, dataset="mnist", estimator=estimator, n=n)
    vae_run(place, 101.0, dataset="a-data-set-with-a-rather-long-name-" * 3)
    unfinished_vae_run(place, 95.0, dataset="fashion-mnist")
    nas_run(place, [93.0, 95.0], "NAS-Bench-201", dataset="cifar10")
    nas_run(place, [70.0, 72.0], "synthetic", dataset="synthetic")
    toy_run(place)
    assert cli.main(["report", str(place)]) == 0
    return place / "report.html"


@pytest.fixture(scope="module")
def browser():
    with Browser(str(PROGRAM)) as found:
        yield found


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_and_is_quiet(browser, page, width, dark):
    browser.open(page, width, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("window.innerWidth") == width
    outside = """[...document.querySelectorAll('body *')].filter(
        e => e.getBoundingClientRect().right > innerWidth + 1
             && !e.closest('.scroll, .picture, svg, .skip')).length"""
    assert browser.evaluate(outside) == 0
    assert not [event for event in browser.events if event[0] in COMPLAINTS]
    requests = [
        parameters["request"]["url"]
        for method, parameters in browser.events
        if method == "Network.requestWillBeSent"
    ]
    assert requests
    assert all(url.startswith(("file://", "data:")) for url in requests)
    assert len([url for url in requests if url.startswith("file://")]) == 1
    assert browser.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")


def test_the_printed_page_is_as_wide_as_a4(browser, page):
    browser.open(page, 688)  # A4 between margins of 14 mm, at 96 dots an inch
    browser.ask("Emulation.setEmulatedMedia", media="print")
    wide = """[...document.querySelectorAll('main *')].filter(
        e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('svg'))
        .map(e => e.outerHTML.slice(0, 80))"""
    assert browser.evaluate(wide) == []
    printed = browser.ask("Page.printToPDF", preferCSSPageSize=True)["data"]
    sizes = set(re.findall(rb"/MediaBox\s*\[([^]]*)\]", base64.b64decode(printed)))
    assert {tuple(round(float(side)) for side in size.split()[2:]) for size in sizes} == {
        (595, 842)
    }
    browser.ask("Emulation.setEmulatedMedia", media="")


def test_links_of_the_contents_lead_somewhere(browser, page):
    browser.open(page, 1280)
    links = browser.evaluate("[...document.querySelectorAll('nav a')].map(a => a.hash)")
    assert len(set(links)) == len(links) >= 10
    for link in links:
        assert browser.evaluate(f"document.querySelector('{link} h2') !== null")


def test_light_and_dark_can_both_be_read(browser, page):
    """Text and figures stand out from the ground by at least 7 to 1, as WCAG's AAA asks."""
    script = """(() => {
        const shine = element => {
            const [r, g, b] = getComputedStyle(element[0])[element[1]].match(/[\\d.]+/g).map(Number)
                .map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b;
        };
        const ground = shine([document.body, 'backgroundColor']);
        const ratio = x => (Math.max(x, ground) + .05) / (Math.min(x, ground) + .05);
        const axis = document.querySelector('.panels text');
        return [ratio(shine([document.body, 'color'])), ratio(shine([axis, 'fill']))];
    })()"""
    grounds = set()
    for dark in (False, True):
        browser.open(page, 1280, dark=dark)
        assert min(browser.evaluate(script)) > 7
        grounds.add(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_sections_do_not_overlap(browser, page):
    for width in (1280, 390):
        browser.open(page, width)
        edges = browser.evaluate(
            "[...document.querySelectorAll('section')].map(s => s.getBoundingClientRect())"
            ".map(r => [r.top, r.bottom])"
        )
        for (_, bottom), (top, _) in pairwise(edges):
            assert bottom <= top
