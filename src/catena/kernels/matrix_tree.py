"""Torch operators of sums over non-projective dependency trees on the CPU: log Z and arc probabilities.

The loops are in :mod:`catena.kernels.matrix_tree_loops` and :mod:`catena.kernels.matrix_tree_wide`.
"""

from __future__ import annotations

from catena.kernels.arc_sums import arc_sum
from catena.kernels.matrix_tree_loops import sum_rows
from catena.kernels.matrix_tree_plain import plain_log_partition
from catena.kernels.matrix_tree_wide import rescue_rows

log_partition, log_partition_and_marginals = arc_sum(
    "matrix_tree", (sum_rows, rescue_rows), plain_log_partition, keep=True
)
