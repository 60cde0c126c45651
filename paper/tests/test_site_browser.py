"""The documentation in a real browser, opened from disk, as wide as a phone."""

from __future__ import annotations

import base64
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chromium import Browser

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed"),
    pytest.mark.skipif(not importlib.util.find_spec("material"), reason="the theme is missing"),
]

ROOT = Path(__file__).parents[2]
COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(place)],
        cwd=ROOT,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools"), "NO_MKDOCS_2_WARNING": "1"},
    )
    return place


@pytest.fixture(scope="module")
def browser():
    with Browser(str(PROGRAM), seconds=600) as found:  # on crowded cores, too
        yield found


def test_every_page_fits_a_phone_loads_nothing_from_elsewhere_and_is_quiet(browser, site):
    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    assert len(pages) > 40
    for page in pages:
        browser.open(page, 390)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390, page.name
        assert browser.evaluate("window.innerWidth") == 390, page.name
        assert not [event for event in browser.events if event[0] in COMPLAINTS], page.name
        requests = [
            parameters["request"]["url"]
            for method, parameters in browser.events
            if method == "Network.requestWillBeSent"
        ]
        assert all(url.startswith(("file:", "data:", "blob:")) for url in requests), page.name


def test_no_signature_of_the_reference_is_cut_off(browser, site):
    for page in sorted((site / "api").glob("*.html")):
        browser.open(page, 1440)
        cut = """[...document.querySelectorAll('.doc-signature code')].filter(
            code => code.scrollWidth > code.clientWidth + 1).map(code => code.textContent)"""
        assert browser.evaluate(cut) == [], page.name


def test_the_theme_can_be_switched(browser, site):
    browser.open(site / "index.html", 1440)
    scheme = "document.body.getAttribute('data-md-color-scheme')"
    before = browser.evaluate(scheme)
    browser.evaluate("document.querySelector('label[for^=__palette]:not([hidden])').click()")
    assert {before, browser.evaluate(scheme)} == {"default", "slate"}


def test_the_cheat_sheet_is_one_sheet_of_paper(browser, site):
    browser.open(site / "cheatsheet.html", 1440)
    printed = browser.ask("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]  # A4
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))) == 1
