"""Binary VAEs on real data (section 4.2, appendix C.1, table 1, figure 1)."""

from dbsurf.experiments.vae.options import PRESETS, Options
from dbsurf.experiments.vae.run import run, train

__all__ = ["PRESETS", "Options", "run", "train"]
