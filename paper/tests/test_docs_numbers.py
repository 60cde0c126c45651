"""Every number of the pages below is made by a study, or has its source among the claims."""

from __future__ import annotations

import re

import pytest

from claims import CLAIMS
from claims.claim import NUMBER, PARAMETER, ROOT, Claim, sized

PAGES = ("README.md",)
PAGES += tuple(
    f"docs/{name}.md"
    for name in ("index", "choose", "reproduce", "fair", "vae", "league", "quadratic")
)

PART = r"(?:[A-Z]\.)?\d+(?:\.\d+)*"  # of the paper: 2, 4.1, A.4
LEVELS = r"[\d./]+(?:(?:,| and|, and| to) [\d./]+)*"  # of a parameter: 2, 4 and 8
#: What is no statement about a measurement, in the order in which it is taken out.
IGNORED = [
    re.compile(r"^---\n.*?^---\n", re.DOTALL | re.MULTILINE),  # the head of a page
    re.compile(r"<!-- ([\w -]+) -->.*?<!-- end of \1 -->", re.DOTALL),  # written by a study
    re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE),
    re.compile(r"`[^`\n]*`"),
    re.compile(r"\$\$.*?\$\$", re.DOTALL),
    re.compile(r"\$[^$]*\$"),
    re.compile(r"\]\([^)]*\)"),  # where a link leads
    re.compile(r"<[^>]*>"),
    re.compile(r"^#+ .*$", re.MULTILINE),
    re.compile(r"^ *\d+\. ", re.MULTILINE),  # the numbers of a list
    re.compile(r"\b(?:19|20)\d\d\b(?!,\d)"),  # years
    re.compile(r"NAS-Bench-201|CIFAR-100?|ImageNet16-120|GTX 1080|Apache-2\.0"),
    re.compile(
        rf"\b(?:(?:[Tt]able|[Ff]igure|[Ss]ection|[Aa]ppendix|[Pp]roposition) {PART}"
        rf"|(?:[Tt]ables|[Ff]igures|[Ss]ections|[Pp]ropositions) {PART}"
        rf"(?:(?:,| and|, and) {PART})*)"
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


@pytest.mark.parametrize("page", PAGES)
def test_every_number_has_a_source(page):
    text = (ROOT / page).read_text()
    known = [
        match.span() for claim in CLAIMS if claim.page == page for match in claim.matches(text)
    ]
    bare = prose(text)
    unknown = [
        f"{page}:{bare.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for match in NUMBER.finditer(bare)
        if not any(first <= match.start() and match.end() <= last for first, last in known)
    ]
    assert not unknown, (
        "numbers without a source: write them by a study between two marks, or add the words that "
        "they stand in to paper/studies/claims, with the file that they are from or the "
        "reason why there is none:\n" + "\n".join(unknown)
    )


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.page}: {claim.text}"[:60])
def test_a_number_is_what_its_source_says(claim):
    found = claim.matches((ROOT / claim.page).read_text())
    assert found, f"{claim.page} no longer has {claim.text!r}: take it out here too"
    if callable(claim.source):
        computed = claim.source()
        for match in found:
            wrong = f"{claim.page}: {match[0]!r}; paper/studies/renew_numbers.py changes it"
            assert list(match.groups()) == computed, wrong


def test_a_number_without_a_source_is_found():
    text = "In table 1 of 2023, section 4.2, see [.5](a-1.md) and `x[3]`:\n\n## 7 words\n\n"
    text += "it is 12,345 or .25."
    assert NUMBER.findall(prose(text)) == [".5", "12,345", ".25"]
    assert NUMBER.findall(prose("in section 4.2, 3.1 nats; sections 2 and 4.1")) == ["3.1"]
    assert NUMBER.findall(prose("<!-- a b --> 3 <!-- end of a b --> 4 ± 0.1, 3e-4 and -2")) == [
        "4", "0.1", "3e-4", "2",
    ]  # fmt: skip


def test_a_page_is_renewed():
    claim = Claim("page.md", "has {} of {},", lambda: [".25", "1,000"])
    other = Claim("page.md", "in 2 rows", PARAMETER)
    text = "It has .5 of\n20, in 2 rows. It has 3 of 4, too."
    assert claim.renewed(text) == "It has .25 of\n1,000, in 2 rows. It has .25 of 1,000, too."
    assert claim.renewed(claim.renewed(text)) == claim.renewed(text)
    assert other.renewed(text) == text


def test_a_number_whose_sign_changes_needs_other_words():
    assert sized([0.25, -1.5], "+-", 2) == [".25", "1.50"]
    with pytest.raises(ValueError, match="signs must be"):
        sized([0.25, 1.5], "+-", 2)
    claim = Claim("page.md", "is {} ahead", lambda: ["-.3"])
    with pytest.raises(ValueError, match="numbers must be without a sign"):
        claim.renewed("it is .5 ahead")
