"""Torch operators for sums over edits, over all targets of each source or over all edits to one target; and searches.

Rows of the batch are on the first axis: ``substitute`` ``[b, t, v + 1, v]``, ``insert`` ``[b, t + 1, v + 1, v]``,
``delete`` ``[b, t, v + 1]``, ``end`` ``[b, v + 1]``; ``targets`` ``[b, s]`` and their lengths, or None for all
targets. All computation is in float64 on the CPU. The gradients, one for each score, are saved for the backward pass.

The loops are in :mod:`catena.kernels.edits.cpu` and :mod:`catena.kernels.edits.cpu_search`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena._lazy import LazyModule
from catena.accelerators import can_skip_kernels
from catena.errors import DivergentSumError
from catena.kernels.common.ops import as_int64_array
from catena.kernels.common.sums import RowSums
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.edits.reference import log_sum_reference
from catena.kernels.edits.reference_search import best_edits_reference, following_reference, strings_reference

_cpu = LazyModule("catena.kernels.edits.cpu")
_search = LazyModule("catena.kernels.edits.cpu_search")

Scores = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""The scores of one source, in float64: substitutions, insertions, deletions, the end."""


def log_sum(
    substitute: Tensor,
    insert: Tensor,
    delete: Tensor,
    end: Tensor,
    lengths: Tensor,
    targets: Tensor | None = None,
    target_lengths: Tensor | None = None,
) -> Tensor:
    """The log of the summed weights of each row: nan where a score that is read is nan or +inf.

    Raises :class:`DivergentSumError` where the sum over all targets is infinite.
    """
    return SUMS.log_partition(substitute, insert, delete, end, lengths, targets, target_lengths)


def diverges(row: int) -> DivergentSumError:
    """The error for a source whose insertions weigh too much."""
    return DivergentSumError(
        f"The sum over all targets of source {row} diverges, because what may be inserted at one position weighs 1 or "
        "more. Lower the scores of insertions."
    )


def _sum(keep: bool, *arguments: Any) -> tuple[Tensor, ...]:
    substitute, targets = arguments[0], arguments[5]
    scores = [x.detach().cpu().double().contiguous().numpy() for x in arguments[:4]]
    gradients = [np.zeros_like(x) for x in scores]
    found = np.empty(len(scores[0]))
    n, y, m = (None if x is None else as_int64_array(x) for x in arguments[4:])
    divergent: list[int] = []

    def run(low: int, high: int) -> None:
        if y is None:
            divergent.append(_cpu.totals(*scores, n, low, high, found, *gradients))
        else:
            _cpu.paths(*scores, n, y, m, low, high, found, *gradients)

    in_row_blocks(run, len(found), (20 if targets is None else 2) * substitute.numel())
    for row in sorted(row for row in divergent if row >= 0):
        raise diverges(row)
    return tuple(torch.from_numpy(x).to(substitute) for x in (found, *gradients))


def best_targets(
    scores: Scores, n: int, wanted: int, width: int, most: int
) -> tuple[list[tuple[float, tuple[int, ...]]], float] | None:
    """The best targets of one source of ``n`` symbols, found by beam search, with their log-probs.

    Args:
        scores: the scores of the source.
        n: the number of its symbols.
        wanted: the number of targets.
        width: the number of prefixes of each length that the beam keeps.
        most: the largest length of a target.

    Returns:
        The targets, best first, and the greatest log-prob of all targets with a prefix that was dropped. None if the
        sum over all targets diverges.
    """
    v = len(scores[3]) - 1
    # measured on an AMD EPYC, 1 thread: 0.1 ms a length, and 0.03 µs for each symbol at each position of a prefix
    steps = (most + 1) * (100 + 10 * n + 0.03 * width * n * v)
    if can_skip_kernels(int(30 * (n + v) + 1e-3 * n * v**3 + steps)):
        return _best_targets_reference(scores, n, wanted, width, most)
    beta = np.empty((n + 1, v + 1))
    if not _cpu.following(*scores, n, beta):
        return None
    found, lengths, weights = np.empty(wanted * most, np.int64), np.empty(wanted, np.int64), np.empty(wanted)
    count, dropped = _search.strings(*scores, beta, n, wanted, width, most, found, lengths, weights)
    log_z = float(beta[0, 0])
    rows = zip(weights[:count].tolist(), found.reshape(wanted, most), lengths, strict=False)
    return [(weight - log_z, tuple(row[:m].tolist())) for weight, row, m in rows], dropped - log_z


def _best_targets_reference(
    scores: Scores, n: int, wanted: int, width: int, most: int
) -> tuple[list[tuple[float, tuple[int, ...]]], float] | None:
    beta = following_reference(*scores, n)
    if beta is None:
        return None
    log_z = float(beta[0, 0])
    listed, dropped = strings_reference(*scores, beta, n, wanted, width, most)
    return [(weight - log_z, ids) for weight, ids in listed], dropped - log_z


def best_edits(scores: Scores, y: np.ndarray, n: int) -> list[int] | None:
    """The edits of the best way to write a target: 0 deletes, 1 inserts, 2 substitutes. None if there is none."""
    substitute, insert, delete, _ = scores
    if can_skip_kernels(5 * (n + 1) * (len(y) + 1)):
        return best_edits_reference(substitute, insert, delete, y.tolist(), n)
    edits = np.empty(n + len(y), np.int64)
    count = _cpu.best_edits(substitute, insert, delete, y, n, edits)
    return None if count < 0 else edits[:count].tolist()


def _float64_reference(
    substitute: Tensor, insert: Tensor, delete: Tensor, end: Tensor, lengths: Tensor, targets: Tensor | None,
    target_lengths: Tensor | None,
) -> Tensor:  # fmt: skip
    wide = (substitute.double(), insert.double(), delete.double(), end.double())
    return log_sum_reference(*wide, lengths, targets, target_lengths).to(substitute.dtype)


SUMS = RowSums(
    "edit",
    _float64_reference,
    4,
    sum_rows=_sum,
    kept=lambda *arguments: tuple(x.new_empty(x.shape) for x in arguments[:4]),
    n_kept=4,
)
