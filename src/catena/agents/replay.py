"""Experience replay: a ring of the last steps, from which steps or sequences are sampled uniformly.

Slot i holds the observation o_i, the action a_i, the reward and whether the episode terminated; the next observation is
in slot i + 1. So each observation is stored once, and the last k observations before a step can be read from the ring
(Mnih et al. 2015 store one frame of 84 × 84 bytes per step instead of eight). An episode ends with a slot that holds
only its final observation. Such a slot, and the newest one, whose action is not yet known, are never sampled.

Lin 1992; Mnih et al. 2015, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catena.errors import DataError

_FIELDS = ("observations", "actions", "rewards", "terminated", "has_action", "is_start", "memory")


@dataclass(frozen=True)
class Transitions:
    """Steps that were sampled independently. Row i of each array belongs to step i.

    With several frames, axis 1 of the observations is the frame, oldest first.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    next_observations: np.ndarray
    terminated: np.ndarray


@dataclass(frozen=True)
class Sequences:
    """Parts of episodes. Entry [i, t] belongs to step t of sequence i.

    ``observations`` has one more step than the other arrays, the next observation of the last step. ``mask`` is True
    for steps that have a loss; it excludes the burn-in and what follows the end of the episode.

    Args:
        observations: the observations.
        actions: the action taken in each.
        rewards: the reward of each step.
        terminated: whether the episode terminated with the step.
        mask: the steps with a loss.
        last_actions: the action before each observation; -1 at the beginning of an episode, or if it was overwritten.
        memory: what the agent remembered before the first observation; None if the replay does not store it.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    mask: np.ndarray
    last_actions: np.ndarray | None = None
    memory: np.ndarray | None = None


class ReplayBuffer:
    """Ring of ``capacity`` slots.

    Args:
        capacity: the number of slots.
        shape: the shape of one observation.
        dtype: the type in which observations are stored.
        frames: the number of last observations in a sampled observation. Before the start of an episode, its first
            observation is repeated.
        d_memory: size of what a recurrent agent remembers, which is stored with each step; 0 stores nothing.

    Writing costs O(1), sampling O(1) for each step. Memory: see :func:`replay_bytes`.
    """

    def __init__(
        self, capacity: int, shape: tuple[int, ...], dtype: str = "float32", frames: int = 1, d_memory: int = 0
    ) -> None:
        self.capacity, self.frames = capacity, frames
        self.observations = np.zeros((capacity, *shape), dtype)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.terminated = np.zeros(capacity, np.bool_)
        self.has_action = np.zeros(capacity, np.bool_)
        self.is_start = np.zeros(capacity, np.bool_)
        self.memory = np.zeros((capacity, d_memory), np.float32)
        """What the agent remembered before the observation of the slot."""
        self.position = 0
        """The slot that is written next; if the ring is full, the oldest one."""
        self.size = 0
        """The number of slots that were written."""
        self.n_steps = 0
        """The number of slots with an action."""

    def __len__(self) -> int:
        return self.n_steps

    # --- writing ------------------------------------------------------------------------------------------------------

    def begin(self, observation: np.ndarray) -> None:
        """Store the first observation of an episode."""
        self._write(observation, is_start=True)

    def add(
        self,
        action: int,
        reward: float,
        terminated: bool,
        observation: np.ndarray,
        memory: np.ndarray | None = None,
    ) -> None:
        """Store the action taken in the newest observation, and the observation that followed.

        Args:
            action: the action.
            reward: its reward.
            terminated: whether the episode terminated.
            observation: the observation that followed.
            memory: what the agent remembered before the newest observation.
        """
        newest = (self.position - 1) % self.capacity
        if memory is not None:
            self.memory[newest] = memory
        self.actions[newest] = action
        self.rewards[newest] = reward
        self.terminated[newest] = terminated
        self.has_action[newest] = True
        self.n_steps += 1
        self._write(observation, is_start=False)

    def _write(self, observation: np.ndarray, is_start: bool) -> None:
        slot = self.position
        self.n_steps -= int(self.has_action[slot])
        self.observations[slot] = observation
        self.has_action[slot] = False
        self.is_start[slot] = is_start
        self.position = (slot + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    # --- sampling -----------------------------------------------------------------------------------------------------

    def sample_slots(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Slots with an action, sampled uniformly with replacement."""
        if not self.can_sample:
            raise DataError("The replay has no step to sample. Play some steps first.")
        slots = rng.integers(self.size, size=n)
        while len(wrong := np.flatnonzero(~self._may_sample(slots))):
            slots[wrong] = rng.integers(self.size, size=len(wrong))
        return slots

    @property
    def can_sample(self) -> bool:
        """Whether there is a step to sample."""
        return bool(self._may_sample(np.arange(self.size)).any()) if self.n_steps <= self.frames else True

    def _may_sample(self, slots: np.ndarray) -> np.ndarray:
        """Whether a slot has an action and all frames before it are still there."""
        return self.has_action[slots] & (self._n_older(slots) >= self.frames - 1)

    def _n_older(self, slots: np.ndarray) -> np.ndarray:
        """The number of older slots in the ring. Slot 0 of a ring that is not full starts an episode."""
        if self.size < self.capacity:
            return np.full_like(slots, self.capacity)
        return (slots - self.position) % self.capacity

    def sample(self, n: int, rng: np.random.Generator) -> Transitions:
        """Sample ``n`` steps."""
        slots = self.sample_slots(n, rng)
        after = (slots + 1) % self.capacity
        return Transitions(
            self.stack(slots), self.actions[slots], self.rewards[slots], self.stack(after), self.terminated[slots]
        )

    def stack(self, slots: np.ndarray) -> np.ndarray:
        """The observations at slots, each with the ``frames - 1`` before it in the same episode."""
        if self.frames == 1:
            return self.observations[slots]
        before = np.empty((len(slots), self.frames), np.int64)
        here = slots
        for frame in reversed(range(self.frames)):
            before[:, frame] = here
            here = np.where(self.is_start[here], here, (here - 1) % self.capacity)
        return self.observations[before]

    def sample_sequences(self, n: int, length: int, burn_in: int, rng: np.random.Generator) -> Sequences:
        """Sample ``n`` sequences of up to ``length`` steps, each after up to ``burn_in`` steps of the same episode.

        The first step with a loss is sampled uniformly among all steps.
        """
        first = self.sample_slots(n, rng)
        back = self._steps_back(first, burn_in)
        slots = (first - back)[:, None] + np.arange(burn_in + length + 1)  # n t+1
        slots %= self.capacity
        here, time = slots[:, :-1], np.arange(burn_in + length)
        since = (time >= back[:, None]) & (time < back[:, None] + length)
        known = np.logical_and.accumulate(self.has_action[here], axis=1)  # ends before the final or newest slot
        return Sequences(
            self.observations[slots],
            self.actions[here],
            self.rewards[here],
            self.terminated[here],
            since & known,
            self._last_actions(slots),
            self.memory[slots[:, 0]] if self.memory.shape[1] else None,
        )

    def _last_actions(self, slots: np.ndarray) -> np.ndarray:
        """The action before each slot; -1 if the slot begins an episode, or if the one before it was overwritten."""
        known = ~self.is_start[slots] & (self._n_older(slots) > 0)
        return np.where(known, self.actions[(slots - 1) % self.capacity], -1)

    def _steps_back(self, slots: np.ndarray, most: int) -> np.ndarray:
        """How many steps, up to ``most``, lie before each slot in its episode and are still in the ring."""
        before = (slots[:, None] - np.arange(most + 1)) % self.capacity
        starts = self.is_start[before]
        back = np.where(starts.any(1), starts.argmax(1), most)
        return np.minimum(back, self._n_older(slots))

    # --- saving -------------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """The content for a checkpoint; only slots that were written."""
        named = {name: torch.from_numpy(getattr(self, name)[: self.size]) for name in _FIELDS}
        return {**named, "counts": torch.tensor([self.position, self.size, self.n_steps])}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the content that :meth:`tensors` returned."""
        self.position, self.size, self.n_steps = (int(count) for count in tensors["counts"])
        for name in _FIELDS:
            getattr(self, name)[: self.size] = tensors[name].numpy()


def replay_bytes(capacity: int, observation_bytes: int, d_memory: int = 0) -> int:
    """The memory of a replay buffer: an observation, an action, a reward, three flags and floats for each slot."""
    return capacity * (observation_bytes + 8 + 4 + 3 + 4 * d_memory)
