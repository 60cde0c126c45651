"""Distributions as coordinates: `coordinates` opens one, `register_distribution` adds a type.

Laws with structure (`KSubset` and others) are torch distributions of their own.
"""

from dbsurf.distributions import (  # noqa: F401 (they register_distribution laws)
    counts,
    joint,
    scipy_laws,
    structured_coordinates,
)
from dbsurf.distributions.base import (
    ByLogits,
    Combination,
    Coordinates,
    coordinates,
    register_distribution,
)
from dbsurf.distributions.bits import Bits
from dbsurf.distributions.categories import Categories, OneHot, Points
from dbsurf.distributions.finite import Finite
from dbsurf.distributions.generic import ByLogProb
from dbsurf.distributions.k_subset import KSubset
from dbsurf.distributions.log_partition import LogPartition
from dbsurf.distributions.markov_chain import MarkovChain
from dbsurf.distributions.plackett_luce import PlackettLuce
from dbsurf.distributions.spanning_tree import SpanningTree, complete_graph
from dbsurf.distributions.structured import Structure, StructuredDistribution
from dbsurf.distributions.vectors import Vectors

__all__ = [
    "Bits",
    "ByLogProb",
    "ByLogits",
    "Categories",
    "Combination",
    "Coordinates",
    "Finite",
    "KSubset",
    "LogPartition",
    "MarkovChain",
    "OneHot",
    "PlackettLuce",
    "Points",
    "SpanningTree",
    "Structure",
    "StructuredDistribution",
    "Vectors",
    "complete_graph",
    "coordinates",
    "register_distribution",
]


def __getattr__(name: str) -> object:
    """Names of version 0.1 give an error that says the new one."""
    if name == "register":
        raise AttributeError("dbsurf.distributions.register is now called register_distribution")
    raise AttributeError(f"module 'dbsurf.distributions' has no attribute {name!r}")
