"""The best relation of each arc by biaffine scores, on a CPU, for prediction.

See :mod:`catena.kernels.dependency.cpu_relations`. Nothing is compiled before the first call.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.kernels.common.ops import as_lengths
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.linear.ops import weight_mark


class PackedRelations:
    """Scores of relations with packed weights.

    Args:
        weight: ``weight[q, i, j]`` multiplies number ``i`` of the head and ``j`` of the dependent; the last ``j`` is
            for a number 1 behind each dependent.
    """

    def __init__(self, weight: Float[Tensor, "k i j"]) -> None:
        from catena.kernels.linear.cpu import pack_panels, round_up_to_panel

        self.weight, self._made_of = weight, weight_mark(weight)
        self.k, self.d, _ = weight.shape
        flat = weight.detach().flatten(0, 1).numpy()
        self.panels = pack_panels(flat[:, :-1].T)
        self.bias = np.zeros(round_up_to_panel(len(flat)), np.float32)
        self.bias[: len(flat)] = flat[:, -1]

    def is_current(self, weight: Float[Tensor, "k i j"]) -> bool:
        """Whether these are the weights, and they have not changed since."""
        return self.weight is weight and self._made_of == weight_mark(weight)

    def __call__(
        self, heads: Float[Tensor, "b n d"], dependents: Float[Tensor, "b n d"], lengths: Int[Tensor, "b"]
    ) -> tuple[Float[Tensor, "b n n"], Int[Tensor, "b n n"], Float[Tensor, "b n n"]]:
        """For every arc ``[b, h, m]`` to a word, the best score, its relation, and log Σ exp of all scores."""
        from catena.kernels.dependency.cpu_relations import summarize_relations

        b, n, _ = heads.shape
        best, total = torch.zeros(b, n, n), torch.zeros(b, n, n)
        which = torch.zeros(b, n, n, dtype=torch.int64)
        arrays = (heads.contiguous().numpy(), dependents.contiguous().numpy(), as_lengths(lengths, n - 1))
        results = (best.numpy(), which.numpy(), total.numpy())

        def run(low: int, high: int) -> None:
            summarize_relations(*arrays, self.panels, self.bias, self.k, self.d, low, high, *results)

        in_row_blocks(run, b, b * n * self.panels.size)
        return best, which, total
