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

from catena.agents.network import QNetwork, RecurrentQNetwork


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

    def took(self, actions: np.ndarray) -> None:
        """Report the actions that were taken in each episode, if they are not those that ``act`` returned."""
        return None

    def memory(self) -> np.ndarray | None:
        """What a recurrent network remembers, one row for each episode; None for other policies."""
        return None

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
        self.last_actions = np.full(0, -1)
        """The last action of each episode, by default the best one; -1 before the first."""
        self.device = next(network.parameters()).device

    def begin(self, n: int) -> None:
        with torch.inference_mode():
            self.state = self.network.begin(n)
        self.history = None
        self.last_actions = np.full(n, -1)

    def q_values(self, observations: np.ndarray) -> np.ndarray:
        seen = torch.from_numpy(self._with_history(observations)).to(self.device)
        last = torch.from_numpy(self.last_actions).to(self.device)
        with torch.inference_mode():
            q, self.state = self.network.step(seen, last, self.state)
        values = q.cpu().numpy()
        self.last_actions = values.argmax(-1)
        return values

    def took(self, actions: np.ndarray) -> None:
        self.last_actions = np.array(actions)

    def memory(self) -> np.ndarray | None:
        if not isinstance(self.network, RecurrentQNetwork):
            return None
        with torch.inference_mode():
            return self.network.pack(self.state).float().cpu().numpy()

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
        self.last_actions = self.last_actions[rows]
        if self.history is not None:
            self.history = self.history[rows]
        if self.state is not None:
            index = torch.from_numpy(rows)
            self.state = tuple(tuple(part[index.to(part.device)] for part in layer) for layer in self.state)

    def tensors(self) -> dict[str, Tensor]:
        layers = enumerate(self.state or ())
        found = {f"state/{i}/{j}": part for i, layer in layers for j, part in enumerate(layer)}
        found["last_actions"] = torch.from_numpy(self.last_actions)
        return found if self.history is None else {**found, "history": torch.from_numpy(self.history)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.begin(1)
        self.state = self.state and tuple(
            tuple(tensors[f"state/{i}/{j}"].to(part.device) for j, part in enumerate(layer))
            for i, layer in enumerate(self.state)
        )
        self.last_actions = tensors["last_actions"].numpy()
        self.history = tensors["history"].numpy() if "history" in tensors else None
