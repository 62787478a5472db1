r"""The initial state of a recurrent decoder.

* ``copy``: the encoder's last states, layer by layer (Sutskever et al. 2014, section 2);
* ``map``: :math:`\tanh(W h)` of each layer's last h (Bahdanau et al. 2015, appendix A.2.2);
* ``mean``: :math:`\tanh(W \bar h)` of the mean of the top layer's states;
* ``zero``: zeros; the decoder needs attention.

The memory cells of an LSTM are copied with ``copy``, and start at 0 otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.encoders.cells import CellState
from catena.registry import Registry


class StateBridge(nn.Module, ABC):
    """Abstract map from encoder layers to decoder layers, ``n_layers`` of ``d`` units and ``n_states`` states."""

    def __init__(self, n_layers: int, d: int, n_states: int) -> None:
        super().__init__()
        self.n_layers, self.d, self.n_states = n_layers, d, n_states

    @abstractmethod
    def forward(
        self, states: Float[Tensor, "b s d"], lengths: Int[Tensor, " b"], last_states: Sequence[CellState]
    ) -> list[CellState]:
        """The first states of the decoder's layers, from all top-layer states and the last states of each layer."""

    def with_zeros(self, h: Float[Tensor, "b d"]) -> CellState:
        """A layer's state with this h, and zeros otherwise."""
        return (h, *(torch.zeros_like(h) for _ in range(self.n_states - 1)))


BRIDGES: Registry[type[StateBridge]] = Registry("bridge")


@BRIDGES.register("copy")
class Copy(StateBridge):
    """The last states, unchanged."""

    def forward(
        self, states: Float[Tensor, "b s d"], lengths: Int[Tensor, " b"], last_states: Sequence[CellState]
    ) -> list[CellState]:
        return list(last_states)


@BRIDGES.register("map")
class Map(StateBridge):
    """A projection of each layer's last state."""

    def __init__(self, n_layers: int, d: int, n_states: int) -> None:
        super().__init__(n_layers, d, n_states)
        self.maps = nn.ModuleList(nn.Linear(d, d) for _ in range(n_layers))

    def forward(
        self, states: Float[Tensor, "b s d"], lengths: Int[Tensor, " b"], last_states: Sequence[CellState]
    ) -> list[CellState]:
        pairs = zip(self.maps, last_states, strict=True)
        return [self.with_zeros(torch.tanh(to_first(last[0]))) for to_first, last in pairs]


@BRIDGES.register("mean")
class Mean(StateBridge):
    """Projections of the mean state, one for each layer."""

    def __init__(self, n_layers: int, d: int, n_states: int) -> None:
        super().__init__(n_layers, d, n_states)
        self.maps = nn.ModuleList(nn.Linear(d, d) for _ in range(n_layers))

    def forward(
        self, states: Float[Tensor, "b s d"], lengths: Int[Tensor, " b"], last_states: Sequence[CellState]
    ) -> list[CellState]:
        mean = states.sum(dim=1) / lengths.clamp_min(1)[:, None]
        return [self.with_zeros(torch.tanh(to_first(mean))) for to_first in self.maps]


@BRIDGES.register("zero")
class Zero(StateBridge):
    """Nothing."""

    def forward(
        self, states: Float[Tensor, "b s d"], lengths: Int[Tensor, " b"], last_states: Sequence[CellState]
    ) -> list[CellState]:
        return [self.with_zeros(torch.zeros_like(states[:, 0])) for _ in range(self.n_layers)]
