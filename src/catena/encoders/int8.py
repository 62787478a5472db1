"""A model whose matrices are held in 8 bits: a quarter of the memory, and products in whole numbers.

Converted are the matrices of linear maps, recurrences, tables of vectors and scores of words; a table that several
parts share stays one. Vectors, norms, convolutions, rows too long for sums of 32 bits and whatever is read in another
way are left as they are. What is lost is said in :mod:`catena.kernels.int8_products`: each row of a matrix is rounded
to 255 levels of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from catena.embeddings.table import EmbeddingTable
from catena.encoders.cells import StepRecurrence
from catena.errors import ConfigError
from catena.kernels.int8_weight import LONGEST, Int8Matrix, Int8Weight
from catena.outputs.scores import WordScores

_QUANTIZABLE = (nn.Linear, nn.RNNBase, EmbeddingTable, WordScores, StepRecurrence)
"""Modules whose matrices are converted."""


def quantize_int8_(model: nn.Module) -> None:
    """Put matrices of 8 bits in the place of float ones. The model is on a CPU and is not trained any more."""
    found = list(_matrices(model))
    if not found:
        raise ConfigError(
            f"{type(model).__name__} has no matrix that can be held in 8 bits: leave the quantization out"
        )
    made: dict[int, nn.Parameter] = {}
    for module, name, weight in found:
        if weight.device.type != "cpu":
            raise ConfigError(f"weights of 8 bits are for a CPU, and the model is on {weight.device}: say --device cpu")
        if id(weight) not in made:
            made[id(weight)] = nn.Parameter(Int8Weight(Int8Matrix.of(weight)), requires_grad=False)
        setattr(module, name, made[id(weight)])


def _matrices(model: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    for module in model.modules():
        if isinstance(module, _QUANTIZABLE):
            for name, weight in list(module.named_parameters(recurse=False)):
                if weight.dim() == 2 and weight.dtype == torch.float32 and weight.shape[1] <= LONGEST:
                    yield module, name, weight
