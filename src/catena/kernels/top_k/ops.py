"""The largest numbers of each row and where they stand, on a CPU: for beams, whose rows are as wide as a vocabulary.

The plain form, ``torch.topk``, defines what is right. Rows are read in pieces whose largest number is found first, and
few pieces hold one that is large enough. Time O(n v). Nothing is compiled before the first call.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.accelerators import can_skip_kernels
from catena.kernels.common.threads import in_row_blocks

MIN_WIDTH = 256
"""Numbers of a row from which this is faster."""

MAX_K = 32
"""Numbers of a row up to which they are found so."""


def largest(x: Float[Tensor, "n v"], k: int) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
    """The ``k`` largest of each row in descending order with their indices; ties are ordered by index."""
    n, v = x.shape
    plain = x.dtype != torch.float32 or x.device.type != "cpu" or x.requires_grad
    if plain or v < MIN_WIDTH or not 0 < k <= MAX_K:
        found = x.topk(k, dim=1)
        return found.values, found.indices
    if can_skip_kernels(100 + n * v // 10):
        ranked = x.sort(dim=1, descending=True, stable=True)
        return ranked.values[:, :k], ranked.indices[:, :k]
    from catena.kernels.top_k.cpu import find_largest

    rows = np.ascontiguousarray(x.numpy())
    values = np.empty((n, k), np.float32)
    places = np.empty((n, k), np.int64)
    in_row_blocks(lambda low, high: find_largest(rows, values, places, low, high), n, n * v)
    return torch.from_numpy(values), torch.from_numpy(places)
