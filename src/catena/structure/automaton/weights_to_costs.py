"""Conversion of weights to the costs in files, where less is better and Infinity is impossible.

Tested in tests/structure/automaton/test_text.py and tests/structure/automaton/test_openfst.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catena.structure.automaton.segments import IntArray
from catena.structure.automaton.wfsa import Automaton
from catena.structure.semirings import LogSemiring, MaxSemiring, RealSemiring, Semiring, TropicalSemiring


class WeightFormat(NamedTuple):
    """The sign of costs in files, and the costs of one and zero."""

    sign: float
    one: float
    zero: float


_WRITTEN: dict[type[Semiring], WeightFormat] = {
    LogSemiring: WeightFormat(-1.0, 0.0, np.inf),
    MaxSemiring: WeightFormat(-1.0, 0.0, np.inf),
    TropicalSemiring: WeightFormat(1.0, 0.0, np.inf),
    RealSemiring: WeightFormat(1.0, 1.0, 0.0),
}


def written(semiring: Semiring) -> WeightFormat:
    """The file format of the weights of a semiring."""
    if type(semiring) not in _WRITTEN:
        raise TypeError(
            f"{type(semiring).__name__} has no file format. Use an automaton over "
            f"{', '.join(sorted(kind.__name__ for kind in _WRITTEN))}."
        )
    return _WRITTEN[type(semiring)]


def weights_to_costs(machine: Automaton, x: Tensor) -> IntArray:
    """Weights as costs, in the dtype of the automaton."""
    if x.dim() != 1:
        raise ValueError(
            f"machine must have no batch axes in a file, got {list(x.shape[:-1])}. Write one file for each automaton."
        )
    form = written(machine.semiring)
    return (form.sign * x.detach().cpu() + 0.0).numpy()  # + 0.0 avoids minus zeros


def elements(semiring: Semiring, values: IntArray | list[float], dtype: torch.dtype) -> Tensor:
    """The inverse of :func:`weights_to_costs`."""
    return written(semiring).sign * torch.as_tensor(np.asarray(values, np.float64)).to(dtype) + 0.0
