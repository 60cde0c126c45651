"""Neural architecture search on NAS-Bench-201 (section 4.3, appendix C.2, table 2)."""

from dbsurf.experiments.nas.command import run
from dbsurf.experiments.nas.options import PRESETS, Options

__all__ = ["PRESETS", "Options", "run"]
