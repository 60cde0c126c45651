"""The locks of a sweep's runs."""

from dbsurf.runs.lock import exclusive, holder

__all__ = ["exclusive", "holder"]
