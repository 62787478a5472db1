"""Tabular Q-learning as a task of the training loop, for a finite number of states."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from catena.agents.base import AgentTask, MakeEnvironment, PlayPlan, select_group
from catena.agents.collector import Collector
from catena.agents.config import PlayConfig, QTableConfig
from catena.agents.policy import Policy, TablePolicy
from catena.training.task import Batch, BatchLoss, EpochPlan

_STEPS = 100
"""Environment steps in one step of the training loop."""


class QTable(nn.Module):
    """The table ``q[s, a]`` of a finite number of states."""

    def __init__(self, n_states: int, n_actions: int, initial: float = 0.0) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.full((n_states, n_actions), initial, dtype=torch.float64))


class QTableTask(AgentTask):
    r"""Tabular Q-learning: :math:`Q(s, a) \leftarrow (1 - \alpha) Q(s, a) + \alpha (r + \gamma \max_{a'} Q(s', a'))`.

    Each action depends on the table after the previous update, so the updates are made while a batch is played, and
    the loss that the loop sees has the gradient 0. Watkins & Dayan 1992.

    Args:
        config: the config of the run, whose model is a table.
        make: makes an environment with a finite number of states.
        table: the table.
    """

    def __init__(self, config: PlayConfig, make: MakeEnvironment, table: QTable) -> None:
        super().__init__(config, make)
        self.table = table
        self.settings = cast(QTableConfig, config.model)
        self.values = table.q.detach().numpy()  # the same memory
        self.rate = cast(float, config.training.learning_rate)
        self._collector = self.make_collector(self.policy())

    @property
    def model(self) -> nn.Module:
        return self.table

    @property
    def collector(self) -> Collector:
        return self._collector

    def policy(self) -> Policy:
        return TablePolicy(self.values)

    def epoch(self, number: int) -> EpochPlan:
        return PlayPlan(-(-self.config.epoch_steps // _STEPS), self._batch)

    def _batch(self, i: int) -> list[float]:
        """Play some steps, update the table after each, and return the temporal difference errors."""
        n = min(_STEPS, self.config.epoch_steps - i * _STEPS)
        return [self._update() for _ in range(n)]

    def _update(self) -> float:
        step = self.collector.step()
        return update_table_(
            self.values,
            int(step.observation),
            step.action,
            step.reward,
            int(step.next_observation),
            step.terminated,
            rate=self.rate,
            discount=self.settings.discount,
        )

    def loss(self, batch: Batch) -> BatchLoss:
        squared = 0.5 * float(np.square(batch).mean())
        return BatchLoss(0.0 * self.table.q.sum() + squared, items=len(batch), tokens=len(batch))

    def describe_batch(self, batch: Batch) -> str:
        return f"{len(batch)} steps"

    def tensors(self) -> dict[str, Tensor]:
        return {f"collector/{name}": tensor for name, tensor in self.collector.tensors().items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.collector.restore(select_group(tensors, "collector"))


def update_table_(
    table: np.ndarray,
    state: int,
    action: int,
    reward: float,
    next_state: int,
    terminated: bool,
    *,
    rate: float,
    discount: float,
) -> float:
    """Update ``table[state, action]`` in place by one step and return the temporal difference error before it."""
    target = reward if terminated else reward + discount * float(table[next_state].max())
    error = target - float(table[state, action])
    table[state, action] += rate * error
    return error
