"""Weights as files hold them: costs, so that less is better, and Infinity is impossible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catena.structure.automaton.topology import Array
from catena.structure.automaton.value import Automaton
from catena.structure.semirings import Log, Max, Real, Semiring, Tropical


class Written(NamedTuple):
    """How the elements of a semiring are written, and what stands for one."""

    sign: float
    one: float
    zero: float


WRITTEN: dict[type[Semiring], Written] = {
    Log: Written(-1.0, 0.0, np.inf),
    Max: Written(-1.0, 0.0, np.inf),
    Tropical: Written(1.0, 0.0, np.inf),
    Real: Written(1.0, 1.0, 0.0),
}


def written(semiring: Semiring) -> Written:
    """How files write the weights of a semiring."""
    if type(semiring) not in WRITTEN:
        raise TypeError(
            f"weights over {type(semiring).__name__} have no form in files: use a machine over "
            f"{', '.join(sorted(kind.__name__ for kind in WRITTEN))}"
        )
    return WRITTEN[type(semiring)]


def costs(machine: Automaton, x: Tensor) -> Array:
    """Elements as files hold them, in the dtype of the machine."""
    if x.dim() != 1:
        raise ValueError(f"a file holds one machine, but this one has batch axes {list(x.shape[:-1])}")
    form = written(machine.semiring)
    return (form.sign * x.detach().cpu() + 0.0).numpy()  # no minus zeros


def elements(semiring: Semiring, values: Array | list[float], dtype: torch.dtype) -> Tensor:
    """The inverse of :func:`costs`."""
    return written(semiring).sign * torch.as_tensor(np.asarray(values, np.float64)).to(dtype) + 0.0
