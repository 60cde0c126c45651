"""What the paper reports: table 1, final training -ELBO after 1e6 steps, five seeds.

(The paper's header says ELBO; the numbers are negative ELBOs.)
"""

from __future__ import annotations

STEPS, SEEDS = 1_000_000, 5

_COLUMNS = ("dbsurf", "doublecv", "arms", "disarm", "loorf")
# Data set and n, then mean and standard error of every column.
_ROWS = """
fashion-mnist 2  237.07 0.28  237.24 0.04  237.49 0.27  237.44 0.13  237.26 0.16
fashion-mnist 4  236.08 0.14  236.56 0.26  236.91 0.09  237.11 0.17  236.71 0.21
fashion-mnist 6  235.32 0.24  236.66 0.09  237.02 0.11  236.75 0.18  236.94 0.17
fashion-mnist 8  235.66 0.26  236.63 0.22  236.36 0.17  236.55 0.29  236.66 0.24
mnist         2   99.20 0.16  100.31 0.19  100.64 0.40  100.33 0.42  100.56 0.22
mnist         4   98.66 0.25   99.49 0.21   99.29 0.15   99.76 0.30   99.79 0.08
mnist         6   98.29 0.17   99.53 0.33   99.15 0.46   99.58 0.25   99.10 0.15
mnist         8   98.56 0.29   99.20 0.49   98.79 0.35   99.41 0.20   99.69 0.47
omniglot      2  114.47 0.08  114.76 0.14  114.61 0.08  114.77 0.17  114.83 0.16
omniglot      4  113.88 0.12  114.09 0.21  114.05 0.13  114.36 0.15  114.25 0.20
omniglot      6  113.59 0.06  113.60 0.09  113.63 0.15  113.93 0.16  114.01 0.17
omniglot      8  113.24 0.08  113.75 0.16  113.60 0.15  114.03 0.05  113.59 0.06
"""


def _cells() -> dict[tuple[str, int, str], tuple[float, float]]:
    found = {}
    for line in _ROWS.strip().splitlines():
        dataset, n, *numbers = line.split()
        for column, estimator in enumerate(_COLUMNS):
            mean, error = numbers[2 * column : 2 * column + 2]
            found[dataset, int(n), estimator] = float(mean), float(error)
    return found


#: Mean and standard error by data set, n and estimator.
TABLE_1 = _cells()
