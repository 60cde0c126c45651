"""The bars of a run."""

from dbsurf.progress import StepBar, share_bar

__all__ = ["StepBar", "share_bar"]
