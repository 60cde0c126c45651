"""What the paper reports: table 2, test accuracy of the found cells, four seeds."""

from __future__ import annotations

DATASETS = ("cifar10", "cifar100", "imagenet16-120")

# Parameterisation, method, then mean and standard error on every data set.
_ROWS = """
deterministic  DARTS        54.30  0.00   38.97  0.00   18.41 0.00
deterministic  PC-DARTS     93.41  0.00   67.48  0.00   41.32 0.22
continuous     SNAS         92.77  0.83   69.34  1.98   43.16 2.64
continuous     Few-Shot     93.88  0.25   71.49  1.41   46.43 0.19
continuous     Few-Shot-GM  94.36  0.00   73.51  0.00   46.34 0.00
continuous     DrNAS        94.36  0.00   73.51  0.00   46.34 0.00
discrete       DSNAS        93.08  0.29   31.01 16.38   41.31 0.22
discrete       GDAS         41.02  0.00   24.20  8.08   41.31 0.22
discrete       DBsurf       94.36  0.00   73.51  0.00   46.34 0.00
"""

Number = tuple[float, float]


def _table() -> dict[tuple[str, str], dict[str, Number]]:
    found = {}
    for line in _ROWS.strip().splitlines():
        kind, method, *numbers = line.split()
        pairs = zip(map(float, numbers[::2]), map(float, numbers[1::2]), strict=True)
        found[kind, method] = dict(zip(DATASETS, pairs, strict=True))
    return found


#: Mean and standard error by parameterisation and method, then by data set.
TABLE_2 = _table()
#: The paper's own method.
DBSURF = {name: mean for name, (mean, _) in TABLE_2["discrete", "DBsurf"].items()}
#: The best cell of the benchmark on each data set.
OPTIMUM = dict(zip(DATASETS, (94.37, 73.51, 47.31), strict=True))
