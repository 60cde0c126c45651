"""SpotCheck: straight-through with a learned curvature, checked by a few flips, without bias."""

from dbsurf.estimators.spotcheck.estimator import SpotCheck

__all__ = ["SpotCheck"]
