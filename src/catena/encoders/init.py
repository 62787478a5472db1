r"""Initialization of weights, mainly of recurrent layers.

* ``default``: uniform in ±1/√d, as in torch;
* ``identity``: recurrent matrices are the identity, so that a ReLU network first sums its inputs (Le et
  al. 2015, section 2); the others as ``xavier``;
* ``orthogonal``: recurrent matrices are random and orthogonal, so that gradients keep their norm (Saxe et al.
  2014); the others as ``xavier``;
* ``xavier``: uniform in ±√(6 / (fan in + fan out)) (Glorot & Bengio 2010, equation 16);
* ``he``: normal with variance 2 / fan in (He et al. 2015, equation 10);
* ``depth_scaled``: as ``xavier``, layer l (from 1) divided by √l (Zhang et al. 2019, section 4).

A matrix of several gates is initialized block by block. Biases are 0, except with ``default``; the forget gate's
bias is set last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from catena.encoders.cells import Recurrence
from catena.encoders.config import InitName

_is_loading: ContextVar[bool] = ContextVar("catena_is_loading", default=False)


@contextmanager
def build_to_load() -> Iterator[None]:
    """Context that builds networks whose weights are loaded afterwards, without orthogonal initial weights."""
    token = _is_loading.set(True)
    try:
        yield
    finally:
        _is_loading.reset(token)


def orthogonal_(weight: Tensor) -> None:
    """Fill a matrix with a random orthogonal one, except in :func:`build_to_load`."""
    if _is_loading.get():
        weight.new_empty(weight.shape).normal_()  # as many random values, so that what is sampled later is the same
    else:
        nn.init.orthogonal_(weight)


@torch.no_grad()
def init_weights(recurrence: Recurrence, init: InitName, layer: int = 1, forget_bias: float | None = None) -> None:
    """Initialize the weights of a recurrent layer in place.

    Args:
        recurrence: the layer.
        init: the name of the initialization.
        layer: the index of the layer in a stack, counted from 1.
        forget_bias: the bias of the forget gate; unchanged if None.
    """
    if init != "default":
        for block in recurrence.input_blocks():
            _draw(block, init if init in ("he", "depth_scaled") else "xavier", layer)
        for block in recurrence.recurrent_blocks():
            _draw(block, init, layer)
        for vector in recurrence.vectors():
            vector.zero_()
    if forget_bias is not None:
        for i, bias in enumerate(recurrence.forget_biases()):
            bias.fill_(forget_bias if i == 0 else 0.0)


@torch.no_grad()
def depth_scale_init(part: nn.Module, layer: int) -> None:
    """Divide every matrix of a layer by the square root of its index, from 1 (Zhang et al. 2019, section 4)."""
    for module in part.modules():
        if isinstance(module, nn.Linear):
            module.weight /= math.sqrt(layer)


def _draw(block: Tensor, init: str, layer: int) -> None:
    if init == "identity":
        nn.init.eye_(block)
    elif init == "orthogonal":
        orthogonal_(block)
    elif init == "he":
        nn.init.kaiming_normal_(block, nonlinearity="relu")
    else:
        nn.init.xavier_uniform_(block, gain=1 / math.sqrt(layer) if init == "depth_scaled" else 1.0)
