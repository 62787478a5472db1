"""Tree encoders from their configs. Register a new kind in ``_TREE_ENCODERS`` under its ``kind``.

Tested in tests/tasks/classify/trees/test_task.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catena.encoders.layers import build_activation
from catena.encoders.tree import TreeEncoder
from catena.encoders.tree_config import (
    MatrixVectorConfig,
    RecursiveConfig,
    TensorConfig,
    TreeEncoderConfig,
    TreeLSTMConfig,
)
from catena.encoders.tree_lstm import ChildSumTreeLSTM, NaryTreeLSTM
from catena.encoders.tree_recursive import MatrixVectorNetwork, RecursiveNetwork, TensorNetwork
from catena.registry import Registry

_TREE_ENCODERS: Registry[Callable[[Any, int], TreeEncoder]] = Registry("tree encoder")


def build_tree_encoder(settings: TreeEncoderConfig, d: int) -> TreeEncoder:
    """The tree encoder of a config for words with vectors of size ``d``."""
    return _TREE_ENCODERS[settings.kind](settings, d)


@_TREE_ENCODERS.register("tree_lstm")
def build_tree_lstm(settings: TreeLSTMConfig, d: int) -> TreeEncoder:
    """A Tree-LSTM in one of its two variants."""
    if settings.children == "summed":
        return ChildSumTreeLSTM(d, settings.d, settings.dropout, settings.forget_bias)
    return NaryTreeLSTM(d, settings.d, settings.most, settings.dropout, settings.forget_bias)


@_TREE_ENCODERS.register("recursive")
def build_recursive(settings: RecursiveConfig, d: int) -> RecursiveNetwork:
    """A recursive network."""
    return RecursiveNetwork(d, build_activation(settings.activation))


@_TREE_ENCODERS.register("mv_rnn")
def build_matrix_vector(settings: MatrixVectorConfig, d: int) -> MatrixVectorNetwork:
    """Matrix-vector recursion. Its input is wider than ``d``, because a word also has a matrix."""
    return MatrixVectorNetwork(d, settings.rank, build_activation(settings.activation))


@_TREE_ENCODERS.register("rntn")
def build_tensor(settings: TensorConfig, d: int) -> TensorNetwork:
    """A recursive neural tensor network."""
    return TensorNetwork(d, build_activation(settings.activation), settings.scale)
