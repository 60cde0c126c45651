"""Puts what the studies' files say now in the place of the numbers in the pages' words.

Run with `python paper/studies/renew_numbers.py` after a study has written its files, then read the
sentences that it prints: their numbers are right again, their other words may not be.
"""

from __future__ import annotations

from claims import CLAIMS
from claims.claim import ROOT


def main() -> None:
    for claim in CLAIMS:
        path = ROOT / claim.page
        text = path.read_text()
        try:
            renewed = claim.renewed(text)
        except ValueError as error:
            print(f"{claim.page}: {claim.text}: {error}")
            continue
        if not claim.matches(text):
            print(f"{claim.page} no longer has: {claim.text}")
        if renewed != text:
            path.write_text(renewed)
            print(f"{claim.page}: {claim.matches(renewed)[0][0]}")


if __name__ == "__main__":
    main()
