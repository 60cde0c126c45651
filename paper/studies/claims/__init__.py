"""What the pages say in words: every number with the file that it is from."""

from __future__ import annotations

from claims import advice, fair, front, league, vae

CLAIMS = [*front.CLAIMS, *advice.CLAIMS, *fair.CLAIMS, *vae.CLAIMS, *league.CLAIMS]
