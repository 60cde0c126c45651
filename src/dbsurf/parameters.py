"""Which of its two parameters a torch distribution was built from."""

from __future__ import annotations

from typing import Any


def given_logits(dist: Any) -> bool:
    """Whether ``dist`` was built from logits rather than probabilities.

    The other of the two is computed, and for logits clamped, when somebody asks for it: the one
    that was given is exact. Where both are there and the distribution does not tell, the
    probabilities are the safe choice, since they are never clamped.
    """
    held = dist.__dict__
    if "logits" in held and "probs" in held:
        return getattr(dist, "_param", held["probs"]) is held["logits"]
    return "logits" in held
