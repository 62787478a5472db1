"""Weights as files hold them: costs, so that less is better, and Infinity is impossible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catena.structure.automaton.topology import IntArray
from catena.structure.automaton.wfsa import Automaton
from catena.structure.semirings import LogSemiring, MaxSemiring, RealSemiring, Semiring, TropicalSemiring


class WeightFormat(NamedTuple):
    """How the elements of a semiring are written, and what stands for one."""

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
    """How files write the weights of a semiring."""
    if type(semiring) not in _WRITTEN:
        raise TypeError(
            f"weights over {type(semiring).__name__} have no form in files: use a machine over "
            f"{', '.join(sorted(kind.__name__ for kind in _WRITTEN))}"
        )
    return _WRITTEN[type(semiring)]


def weights_to_costs(machine: Automaton, x: Tensor) -> IntArray:
    """Elements as files hold them, in the dtype of the machine."""
    if x.dim() != 1:
        raise ValueError(f"a file holds one machine, but this one has batch axes {list(x.shape[:-1])}")
    form = written(machine.semiring)
    return (form.sign * x.detach().cpu() + 0.0).numpy()  # no minus zeros


def elements(semiring: Semiring, values: IntArray | list[float], dtype: torch.dtype) -> Tensor:
    """The inverse of :func:`costs`."""
    return written(semiring).sign * torch.as_tensor(np.asarray(values, np.float64)).to(dtype) + 0.0
