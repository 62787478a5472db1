"""Convolution over the characters of words on a CPU, for prediction.

``torch.nn.Conv1d`` and a maximum, as in :mod:`catena.embeddings.characters`, define what is right. Nothing is compiled
before the first call.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.accelerators import can_skip_kernels
from catena.kernels.common.ops import as_array, as_int64_array, is_plain
from catena.kernels.common.threads import in_row_blocks


def suits(characters: Int[Tensor, "n c"], table: Float[Tensor, "v d"]) -> bool:
    """Whether this is faster: without gradients on a CPU, and for as many characters as the table has rows."""
    return (
        type(table) in (Tensor, torch.nn.Parameter)
        and table.dtype in (torch.float32, torch.float64)
        and table.device.type == characters.device.type == "cpu"
        and not torch.is_grad_enabled()
        and not torch.jit.is_tracing()
        and is_plain()
        and characters.numel() >= len(table)
        and bool((characters < len(table)).all())
        and not can_skip_kernels(100 + characters.numel())
    )


def largest_windows(
    characters: Int[Tensor, "n c"],
    table: Float[Tensor, "v d"],
    filters: Float[Tensor, "f d w"],
    bias: Float[Tensor, " f"],
) -> Float[Tensor, "n f"]:
    """The maximum of each filter over the windows that are centered on a character; 0 for words without characters.

    Args:
        characters: the characters of each word, then zeros. Zeros are nowhere else.
        table: the vector of each character, 0 for character 0.
        filters: the weights.
        bias: the constants.
    """
    from catena.kernels.characters.cpu import largest_windows as run

    tables = table @ filters.permute(2, 1, 0)  # w v f
    result = table.new_empty(len(characters), len(filters))
    arrays = (as_array(tables.detach()), as_array(bias.detach()), as_int64_array(characters))
    before = (filters.shape[2] - 1) // 2
    work = characters.numel() * filters.shape[2] * len(filters)
    in_row_blocks(lambda low, high: run(*arrays, before, result.numpy(), low, high), len(characters), work)
    return result
