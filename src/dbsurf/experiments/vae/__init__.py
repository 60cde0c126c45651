"""Binary VAEs on real data (section 4.2, appendix C.1, table 1, figure 1)."""

from dbsurf.experiments.vae.job import run, train
from dbsurf.experiments.vae.options import PRESETS, Options

__all__ = ["PRESETS", "Options", "run", "train"]
