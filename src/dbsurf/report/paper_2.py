"""What the paper reports: table 2, test accuracy of the cell found, mean and standard error."""

from __future__ import annotations

SEEDS = 4
DATASETS = ("cifar10", "cifar100", "imagenet16-120")
# Parameterization, method, then mean and standard error for each data set.
ROWS: tuple[tuple[str, str, tuple[tuple[float, float], ...]], ...] = (
    ("Deterministic", "DARTS", ((54.30, 0.00), (38.97, 0.00), (18.41, 0.00))),
    ("Deterministic", "PC-DARTS", ((93.41, 0.00), (67.48, 0.00), (41.32, 0.22))),
    ("Continuous", "SNAS", ((92.77, 0.83), (69.34, 1.98), (43.16, 2.64))),
    ("Continuous", "Few Shot", ((93.88, 0.25), (71.49, 1.41), (46.43, 0.19))),
    ("Continuous", "Few Shot GM", ((94.36, 0.00), (73.51, 0.00), (46.34, 0.00))),
    ("Continuous", "DrNAS", ((94.36, 0.00), (73.51, 0.00), (46.34, 0.00))),
    ("Discrete", "DSNAS", ((93.08, 0.29), (31.01, 16.38), (41.31, 0.22))),
    ("Discrete", "GDAS", ((41.02, 0.00), (24.20, 8.08), (41.31, 0.22))),
    ("Discrete", "DBsurf", ((94.36, 0.00), (73.51, 0.00), (46.34, 0.00))),
)
OPTIMUM = (94.37, 73.51, 47.31)
