"""The cells of NAS-Bench-201: four nodes, an operation on each of the six edges between them.

A cell is six integers, one operation an edge, edges in the benchmark's order.
"""

from __future__ import annotations

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NODES = 4
#: From node to node, in the order in which the benchmark writes them.
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
