"""The engine of one machine."""

from dbsurf.runs.processes import LocalPool

__all__ = ["LocalPool"]
