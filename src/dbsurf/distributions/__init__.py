"""Distributions as independent coordinates: `coordinates` opens one, `register` adds a type."""

from dbsurf.distributions import counts, joint, scipy_laws  # noqa: F401 (they register laws)
from dbsurf.distributions.base import ByLogits, Combination, Coordinates, coordinates, register
from dbsurf.distributions.bits import Bits
from dbsurf.distributions.categories import Categories, OneHot, Points
from dbsurf.distributions.finite import Finite
from dbsurf.distributions.generic import ByLogProb

__all__ = [
    "Bits",
    "ByLogProb",
    "ByLogits",
    "Categories",
    "Combination",
    "Coordinates",
    "Finite",
    "OneHot",
    "Points",
    "coordinates",
    "register",
]
