"""Deep Q-networks as a task of the training loop: play, replay, targets, loss."""

from __future__ import annotations

import copy
import os
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from catena.agents.base import AgentTask, MakeEnvironment, PlayPlan, select_group
from catena.agents.collector import Collector, generator_tensor, restore_generator
from catena.agents.config import DQNConfig, PlayConfig, RecurrentQConfig
from catena.agents.network import QNetwork, RecurrentQNetwork
from catena.agents.policy import NetworkPolicy, Policy
from catena.agents.replay import ReplayBuffer, Sequences, Transitions, replay_bytes
from catena.agents.targets import gather_actions, q_targets, td_loss
from catena.errors import ConfigError
from catena.training.task import Batch, BatchLoss, EpochPlan


class DQNTask(AgentTask):
    """A deep Q-network that learns from replayed steps.

    Args:
        config: the config of the run, whose model is a deep Q-network.
        make: makes an environment.
        network: the Q-network, on its device.
    """

    def __init__(self, config: PlayConfig, make: MakeEnvironment, network: QNetwork) -> None:
        super().__init__(config, make)
        self.network = network
        self.device = next(network.parameters()).device
        self.settings = cast(DQNConfig, config.model)
        self.target = None if self.settings.target == "none" else copy.deepcopy(network).requires_grad_(False)
        seen, replay = self.environment.observations, self.settings.replay
        self.replay_bytes = replay_bytes(replay.capacity, seen.n_bytes, self._d_memory)
        check_replay_fits(self.replay_bytes, replay.capacity)
        self.replay = ReplayBuffer(
            replay.capacity, seen.shape, seen.dtype, config.environment.frames, d_memory=self._d_memory
        )
        self.rng = self.randomness.numpy("replay")
        self._collector = self.make_collector(self.policy(), replay.warmup)

    @property
    def model(self) -> nn.Module:
        return self.network

    @property
    def collector(self) -> Collector:
        return self._collector

    @property
    def _d_memory(self) -> int:
        """The size of the recurrent state that is stored with each step; 0 if there is none."""
        if not isinstance(self.network, RecurrentQNetwork) or not self.settings.network.stored_state:  # type: ignore[union-attr]
            return 0
        return self.network.pack(self.network.begin(1)).shape[-1]

    def policy(self) -> Policy:
        return NetworkPolicy(self.network, self.config.environment.frames)

    def epoch(self, number: int) -> EpochPlan:
        return PlayPlan(self.config.epoch_steps // self.settings.train_every, self._batch)

    def before_step(self, step: int) -> None:
        """Update the target network."""
        if self.target is None:
            return
        rate = self.settings.target_rate
        if self.settings.target == "copy":
            rate = 1.0 if step % self.settings.target_every == 0 else 0.0
        if step == 0:
            rate = 1.0
        if rate > 0:
            online = [parameter.detach() for parameter in self.network.parameters()]
            torch._foreach_lerp_(list(self.target.parameters()), online, rate)

    # --- batches ------------------------------------------------------------------------------------------------------

    def _batch(self, i: int) -> tuple[Transitions | Sequences, int]:
        """Play, then sample a batch. Also returns the number of steps played, for the reported speed."""
        settings, before = self.settings, self.collector.steps
        while self.collector.steps < settings.replay.warmup:
            self._play_step()
        if settings.normalize and before == 0:
            self._fit_input()
        for _ in range(settings.train_every):
            self._play_step()
        network, n = settings.network, settings.replay.batch_size
        played = self.collector.steps - before
        if isinstance(network, RecurrentQConfig):
            return self.replay.sample_sequences(n, network.length, network.burn_in, self.rng), played
        return self.replay.sample(n, self.rng), played

    def _fit_input(self) -> None:
        """Fit the standardization of all networks to the observations of the random steps."""
        for network in (self.network, self.target):
            if network is not None and network.input.normalize:
                network.input.fit(self.replay.observations[: self.replay.size])

    def _play_step(self) -> None:
        step = self.collector.step()
        if step.begins:
            self.replay.begin(step.observation)
        memory = step.memory if self.replay.memory.shape[1] else None
        self.replay.add(step.action, step.reward, step.terminated, step.next_observation, memory)

    def describe_batch(self, batch: Batch) -> str:
        return f"{len(batch[0].actions)} steps or sequences"

    # --- loss ---------------------------------------------------------------------------------------------------------

    def loss(self, batch: Batch) -> BatchLoss:
        sampled, played = batch
        total = self._sequence_loss(sampled) if isinstance(sampled, Sequences) else self._step_loss(sampled)
        return BatchLoss(total, items=len(sampled.actions), tokens=played)

    def _step_loss(self, batch: Transitions) -> Tensor:
        q = gather_actions(self.network(self._to(batch.observations)), self._to(batch.actions))
        after = self._to(batch.next_observations)
        with torch.no_grad():
            next_q = (self.target or self.network)(after)
            chosen_by = self.network(after) if self._chooses_apart else None
        return td_loss(q, self._targets(batch, next_q, chosen_by), self.settings.loss)

    def _sequence_loss(self, batch: Sequences) -> Tensor:
        network = cast(RecurrentQNetwork, self.network)
        given = (
            self._to(batch.observations),
            None if batch.last_actions is None else self._to(batch.last_actions),
            None if batch.memory is None else network.unpack(self._to(batch.memory)),
        )
        online = network(*given)  # b t+1 a
        with torch.no_grad():
            next_q = online[:, 1:] if self.target is None else self.target(*given)[:, 1:]
        chosen_by = online[:, 1:].detach() if self._chooses_apart else None
        q = gather_actions(online[:, :-1], self._to(batch.actions))
        targets = self._targets(batch, next_q, chosen_by)
        return td_loss(q, targets, self.settings.loss, self._to(batch.mask))

    @property
    def _chooses_apart(self) -> bool:
        """Whether the online network chooses the next action and another network values it."""
        return self.settings.double and self.target is not None

    def _targets(self, batch: Transitions | Sequences, next_q: Tensor, chosen_by: Tensor | None) -> Tensor:
        clip = self.settings.reward_clip
        rewards = batch.rewards if clip is None else np.clip(batch.rewards, -clip, clip)
        return q_targets(
            self._to(rewards), self._to(batch.terminated), next_q.detach(), self.settings.discount, chosen_by
        )

    def _to(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    # --- saving -------------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        target = {} if self.target is None else self.target.state_dict()
        groups = {
            "replay": self.replay.tensors(),
            "collector": self.collector.tensors(),
            "target": target,
            "sampling": {"generator": generator_tensor(self.rng)},
        }
        return {f"{group}/{name}": tensor for group, named in groups.items() for name, tensor in named.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.replay.restore(select_group(tensors, "replay"))
        self.collector.restore(select_group(tensors, "collector"))
        if self.target is not None:
            self.target.load_state_dict(select_group(tensors, "target"))
        restore_generator(self.rng, tensors["sampling/generator"])

    def summary(self) -> list[str]:
        replay, size = self.settings.replay, format_bytes(self.replay_bytes)
        return [
            *super().summary(),
            f"replay: {replay.capacity:,} observations, {size} in memory and in each checkpoint",
            f"play: {replay.warmup:,} random steps first, then an update after every {self.settings.train_every} steps",
        ]


def check_replay_fits(needed: int, capacity: int) -> None:
    """Raise ConfigError if a replay needs more memory than the machine has."""
    if not hasattr(os, "sysconf"):
        return
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > 0.8 * memory:
        raise ConfigError(
            f"replay.capacity must fit into the memory of this machine, {format_bytes(memory)}, got {capacity:,}, "
            f"which needs {format_bytes(needed)}. Use --capacity {int(0.5 * memory / needed * capacity)} or less."
        )


def format_bytes(n: int) -> str:
    """A number of bytes in few characters.

    >>> format_bytes(2_350_000)
    '2.4 MB'
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n / 1000:.1f} kB"
