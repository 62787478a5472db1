"""Policies: from the observations of several episodes to one action for each.

A policy plays n episodes that began together. It holds what it remembers of them: the last frames, and the state of a
recurrent network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.agents.network import QNetwork


class Policy(ABC):
    """Greedy actions of several episodes."""

    has_memory: bool = False
    """Whether an action depends on earlier observations of the episode."""

    @abstractmethod
    def begin(self, n: int) -> None:
        """Begin ``n`` episodes."""

    @abstractmethod
    def q_values(self, observations: np.ndarray) -> np.ndarray:
        """Read one observation of each episode; ``q[i, a]`` is the value of action ``a`` in episode ``i``."""

    def act(self, observations: np.ndarray) -> np.ndarray:
        """Read one observation of each episode and return the best actions; the first of several best ones."""
        return self.q_values(observations).argmax(-1)

    def keep(self, rows: np.ndarray) -> None:
        """Forget all episodes except those at ``rows``."""
        return None

    def tensors(self) -> dict[str, Tensor]:
        """What the policy remembers, for a checkpoint."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`tensors` returned."""
        return None


class TablePolicy(Policy):
    """The greedy policy of a table ``q[s, a]``."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def begin(self, n: int) -> None:
        pass

    def q_values(self, observations: np.ndarray) -> np.ndarray:
        return self.table[observations]


class NetworkPolicy(Policy):
    """The greedy policy of a Q-network, always with its current weights.

    Args:
        network: the network.
        frames: the number of last observations that it reads.
    """

    def __init__(self, network: QNetwork, frames: int = 1) -> None:
        self.network, self.frames = network, frames
        self.has_memory = network.has_memory or frames > 1
        self.state: Any = None
        self.history: np.ndarray | None = None

    def begin(self, n: int) -> None:
        with torch.no_grad():
            self.state = self.network.begin(n)
        self.history = None

    def q_values(self, observations: np.ndarray) -> np.ndarray:
        device = next(self.network.parameters()).device
        seen = torch.from_numpy(self._with_history(observations)).to(device)
        with torch.no_grad():
            q, self.state = self.network.step(seen, self.state)
        return q.cpu().numpy()

    def _with_history(self, observations: np.ndarray) -> np.ndarray:
        """The last frames of each episode, oldest first; the first observation is repeated."""
        if self.frames == 1:
            return observations
        if self.history is None:
            self.history = np.repeat(observations[:, None], self.frames, axis=1)
        else:
            self.history = np.concatenate((self.history[:, 1:], observations[:, None]), axis=1)
        return self.history

    def keep(self, rows: np.ndarray) -> None:
        if self.history is not None:
            self.history = self.history[rows]
        if self.state is not None:
            index = torch.from_numpy(rows)
            self.state = tuple(tuple(part[index.to(part.device)] for part in layer) for layer in self.state)

    def tensors(self) -> dict[str, Tensor]:
        layers = enumerate(self.state or ())
        found = {f"state/{i}/{j}": part for i, layer in layers for j, part in enumerate(layer)}
        return found if self.history is None else {**found, "history": torch.from_numpy(self.history)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.begin(1)
        self.state = self.state and tuple(
            tuple(tensors[f"state/{i}/{j}"].to(part.device) for j, part in enumerate(layer))
            for i, layer in enumerate(self.state)
        )
        self.history = tensors["history"].numpy() if "history" in tensors else None
