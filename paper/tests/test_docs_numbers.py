"""Every number of the front pages is made by a study, or has its source among the claims."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fair_numbers
import page_numbers
import vae_numbers
from page_numbers import Claim

ROOT = Path(__file__).parents[2]
CLAIMS = [*page_numbers.CLAIMS, *fair_numbers.CLAIMS, *vae_numbers.CLAIMS]
PAGES = ("README.md",)
PAGES += tuple(f"docs/{name}.md" for name in ("index", "choose", "reproduce", "fair", "vae"))

NUMBER = re.compile(
    r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d+|\.\d+)(?:e-?\d+)?(?!\w|[.,]\d)"
)
PART = r"(?:[A-Z]\.)?\d+(?:\.\d+)*"  # of the paper: 2, 4.1, A.4
LEVELS = r"[\d./]+(?:(?:,| and|, and| to) [\d./]+)*"  # of a parameter: 2, 4 and 8
#: What is no statement about a measurement, in the order in which it is taken out.
IGNORED = [
    re.compile(r"^---\n.*?^---\n", re.DOTALL | re.MULTILINE),  # the head of a page
    re.compile(r"<!-- ([\w -]+) -->.*?<!-- end of \1 -->", re.DOTALL),  # written by a study
    re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE),
    re.compile(r"`[^`\n]*`"),
    re.compile(r"\$[^$]*\$"),
    re.compile(r"\]\([^)]*\)"),  # where a link leads
    re.compile(r"<[^>]*>"),
    re.compile(r"^#+ .*$", re.MULTILINE),
    re.compile(r"^ *\d+\. ", re.MULTILINE),  # the numbers of a list
    re.compile(r"\b(?:19|20)\d\d\b(?!,\d)"),  # years
    re.compile(r"NAS-Bench-201|CIFAR-100?|ImageNet16-120|GTX 1080|Apache-2\.0"),
    re.compile(
        rf"\b(?:[Tt]ables?|[Ff]igures?|[Ss]ections?|[Aa]ppendix|propositions?) {PART}"
        rf"(?:(?:,| and|, and) {PART})*"
    ),
    re.compile(rf"\b(?:n|p|α) = {LEVELS}"),  # at which parameters
    re.compile(r"(?<![\w.,])[01](?![\w.,]*\d)"),  # 0 and 1: "between 0 and 1", "1/n"
]


def blank(match: re.Match[str]) -> str:
    """Spaces in place of what was found, so that lines keep their numbers."""
    return re.sub(r"[^\n]", " ", match[0])


def prose(text: str) -> str:
    """A page without what is no statement about a measurement."""
    for pattern in IGNORED:
        text = pattern.sub(blank, text)
    return text


def places(claim: Claim, text: str) -> list[tuple[int, int]]:
    """Where the claim's words stand on the page; a line may break between any two of them."""
    words = r"\s+".join(re.escape(word) for word in claim.text.split())
    return [match.span() for match in re.finditer(words, text)]


@pytest.mark.parametrize("page", PAGES)
def test_every_number_has_a_source(page):
    text = (ROOT / page).read_text()
    known = [span for claim in CLAIMS if claim.page == page for span in places(claim, text)]
    bare = prose(text)
    unknown = [
        f"{page}:{bare.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for match in NUMBER.finditer(bare)
        if not any(first <= match.start() and match.end() <= last for first, last in known)
    ]
    assert not unknown, (
        "numbers without a source: write them by a study between two marks, or add the words that "
        "they stand in to paper/tests/page_numbers.py, with the file that they are from or the "
        "reason why there is none:\n" + "\n".join(unknown)
    )


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.page}: {claim.text}"[:60])
def test_a_number_is_what_its_source_says(claim):
    text = (ROOT / claim.page).read_text()
    assert places(claim, text), f"{claim.page} no longer has {claim.text!r}: take it out here too"
    if not isinstance(claim.source, str):
        found = NUMBER.findall(prose(claim.text))
        assert found == claim.source(), f"{claim.page}: {claim.text!r}"


def test_a_number_without_a_source_is_found():
    text = "In table 1 of 2023, section 4.2, see [.5](a-1.md) and `x[3]`:\n\n## 7 words\n\n"
    text += "it is 12,345 or .25."
    assert NUMBER.findall(prose(text)) == [".5", "12,345", ".25"]
    assert NUMBER.findall(prose("<!-- a b --> 3 <!-- end of a b --> 4 ± 0.1, 3e-4 and -2")) == [
        "4", "0.1", "3e-4", "2",
    ]  # fmt: skip
