"""The best non-projective trees and the k best, on the CPU, as operators of torch.

Arguments are as in :mod:`catena.kernels.matrix_tree`; the loops are in :mod:`catena.kernels.arborescence_loops` and
:mod:`catena.kernels.arborescence_top`.
"""

from __future__ import annotations

from catena.kernels.arborescence_loops import best_rows
from catena.kernels.arborescence_top import top_rows
from catena.kernels.arc_searches import search_operators

best, top = search_operators("arborescence", best_rows, top_rows, power=2)
