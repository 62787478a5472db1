"""Quantization of models to 8 bits: a quarter of the memory, and integer products.

Converted are the matrices of linear layers, recurrent layers, embedding tables and output layers; tied matrices stay
tied. Vectors, norms, convolutions, rows too long for 32-bit sums and everything else are unchanged. The rounding error
is described in :mod:`catena.kernels.linear.cpu_int8`: each row of a matrix is rounded to 255 levels.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from catena.embeddings.table import EmbeddingTable
from catena.encoders.cells import StepRecurrence
from catena.errors import ConfigError
from catena.kernels.linear.int8_weight import LONGEST, Int8Matrix, Int8Weight
from catena.outputs.scores import WordScores

_QUANTIZABLE = (nn.Linear, nn.RNNBase, EmbeddingTable, WordScores, StepRecurrence)
"""Modules whose matrices are converted."""


def quantize_int8_(model: nn.Module) -> None:
    """Replace the float matrices of a model by 8-bit ones in place. The model is on a CPU and no longer trained.

    Args:
        model: the model, which is changed.
    """
    found = list(_matrices(model))
    if not found:
        raise ConfigError(
            f"model must have a matrix that can be quantized, got a {type(model).__name__} without one. Skip it."
        )
    made: dict[int, nn.Parameter] = {}
    for module, name, weight in found:
        if weight.device.type != "cpu":
            raise ConfigError(f"device must be 'cpu' for 8-bit weights, got {weight.device}. Pass --device cpu.")
        if id(weight) not in made:
            made[id(weight)] = nn.Parameter(Int8Weight(Int8Matrix.of(weight)), requires_grad=False)
        setattr(module, name, made[id(weight)])


def _matrices(model: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    for module in model.modules():
        if isinstance(module, _QUANTIZABLE):
            for name, weight in list(module.named_parameters(recurse=False)):
                if weight.dim() == 2 and weight.dtype == torch.float32 and weight.shape[1] <= LONGEST:
                    yield module, name, weight
