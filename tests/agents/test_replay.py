"""The replay ring against a list of all steps ever played."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from catena.agents.replay import ReplayBuffer, replay_bytes
from catena.errors import DataError


@dataclass
class History:
    """Plays episodes of random lengths whose observations are distinct numbers, and remembers every step."""

    buffer: ReplayBuffer
    seed: int = 0
    steps: dict[float, tuple[int, float, bool, float]] = field(default_factory=dict)
    """observation -> action, reward, terminated, next observation"""
    episodes: list[list[float]] = field(default_factory=list)
    """The observations of each episode."""

    def play(self, n: int) -> None:
        rng = np.random.default_rng(self.seed)
        time, left = 0.0, 0
        for _ in range(n):
            if left == 0:
                left = int(rng.integers(1, 9))
                time += 1
                self.buffer.begin(np.array(time, np.float32))
                self.episodes.append([time])
            left -= 1
            action, reward, terminated = int(rng.integers(3)), float(rng.integers(9)), left == 0 and rng.random() < 0.5
            memory = np.array([time, -time], np.float32)[: self.buffer.memory.shape[1]]
            self.buffer.add(action, reward, terminated, np.array(time + 1, np.float32), memory)
            self.steps[time] = (action, reward, terminated, time + 1)
            self.episodes[-1].append(time + 1)
            time += 1

    def kept(self) -> set[float]:
        """The observations of steps that must still be there: those in the newest ``capacity`` observations."""
        every = [o for episode in self.episodes for o in episode]
        return set(every[-self.buffer.capacity :]) & self.steps.keys()

    def frames(self, observation: float, n: int) -> list[float]:
        episode = next(e for e in self.episodes if observation in e)
        i = episode.index(observation)
        return [episode[max(0, i - n + 1 + k)] for k in range(n)]


@pytest.mark.parametrize("n", [1, 5, 49, 50, 51, 130, 400])
def test_samples_are_exactly_the_newest_steps(n: int) -> None:
    history = History(ReplayBuffer(50, ()))
    history.play(n)
    batch = history.buffer.sample(3_000, np.random.default_rng(1))
    for o, a, r, after, end in zip(
        batch.observations, batch.actions, batch.rewards, batch.next_observations, batch.terminated, strict=True
    ):
        assert history.steps[float(o)] == (a, r, end, after)
    assert set(batch.observations.tolist()) == history.kept()
    assert len(history.buffer) == len(history.kept())


def test_unwritten_slots_are_never_sampled() -> None:
    history = History(ReplayBuffer(1_000, ()))
    history.play(3)
    assert 0.0 not in history.buffer.sample(500, np.random.default_rng(0)).observations


def test_empty_replay_raises_error() -> None:
    buffer = ReplayBuffer(10, ())
    buffer.begin(np.array(1, np.float32))
    with pytest.raises(DataError, match="has no step to sample"):
        buffer.sample(1, np.random.default_rng(0))


@pytest.mark.parametrize("n", [30, 400])
def test_sampling_is_uniform_by_chi_square(n: int) -> None:
    history = History(ReplayBuffer(50, ()))
    history.play(n)
    draws = 40_000
    found = history.buffer.sample(draws, np.random.default_rng(5)).observations
    counts = np.unique(found, return_counts=True)[1]
    k = len(history.kept())
    assert len(counts) == k
    statistic = float(((counts - draws / k) ** 2 / (draws / k)).sum())
    assert statistic < (k - 1) + 4 * (2 * (k - 1)) ** 0.5


@pytest.mark.parametrize("n", [10, 60, 400])
def test_frames_are_the_last_observations_of_the_episode(n: int) -> None:
    history = History(ReplayBuffer(50, (), frames=4))
    history.play(n)
    batch = history.buffer.sample(1_000, np.random.default_rng(2))
    assert len(batch.observations) > 0
    for frames, after in zip(batch.observations, batch.next_observations, strict=True):
        assert frames.tolist() == history.frames(float(frames[-1]), 4)
        assert after.tolist() == history.frames(history.steps[float(frames[-1])][3], 4)


@pytest.mark.parametrize(("n", "length", "burn_in"), [(12, 4, 3), (400, 4, 3), (400, 3, 0), (400, 1, 9), (400, 20, 2)])
def test_sequences_equal_episodes(n: int, length: int, burn_in: int) -> None:
    history = History(ReplayBuffer(50, (), d_memory=2))
    history.play(n)
    batch = history.buffer.sample_sequences(2_000, length, burn_in, np.random.default_rng(3))
    kept = history.kept()
    firsts = set()
    assert batch.memory is not None
    assert batch.last_actions is not None
    for row in range(2_000):
        steps = np.flatnonzero(batch.mask[row])
        first, last = steps[0], steps[-1]
        assert steps.tolist() == list(range(first, last + 1))
        assert last - first < length
        assert first <= burn_in
        seen = batch.observations[row].tolist()
        episode = next(e for e in history.episodes if seen[first] in e)
        at = episode.index(seen[first])
        assert seen[: last + 2] == episode[at - first : at + last - first + 2], "observations of one episode"
        played = [o for o in episode[:-1] if o in kept]
        assert first == min(burn_in, played.index(seen[first])), "the burn-in is as long as it can be"
        assert last - first + 1 == min(length, len(played) - played.index(seen[first])), "so are the steps with a loss"
        assert batch.memory[row].tolist() == [seen[0], -seen[0]], "what was remembered before the first observation"
        before = [*episode[: at - first][-1:], *seen[: last + 1]]
        known = [history.steps[o][0] if o in kept else -1 for o in before]
        assert batch.last_actions[row, : last + 2].tolist() == [-1] * (last + 2 - len(known)) + known
        for t in steps:
            wanted = history.steps[seen[t]]
            assert wanted == (batch.actions[row, t], batch.rewards[row, t], batch.terminated[row, t], seen[t + 1])
        firsts.add(seen[first])
    assert firsts == kept, "every step may be the first with a loss"


def test_restored_replay_samples_and_continues_the_same() -> None:
    one, two = (ReplayBuffer(50, (2,), "uint8", d_memory=1) for _ in range(2))

    def play(buffer: ReplayBuffer, times: range) -> None:
        for time in times:
            if time % 7 == 0:
                buffer.begin(np.array([time, 0], np.uint8))
            memory = np.array([time], np.float32)
            buffer.add(time % 3, float(time), time % 7 == 6, np.array([time, 1], np.uint8), memory)

    for start, end in ((0, 20), (20, 90), (90, 130)):
        play(one, range(start, end))
        two.restore({name: tensor.clone() for name, tensor in one.tensors().items()})
        batches = [buffer.sample(64, np.random.default_rng(end)) for buffer in (one, two)]
        assert np.array_equal(batches[0].observations, batches[1].observations)
        assert np.array_equal(batches[0].rewards, batches[1].rewards)
    play(one, range(130, 170))
    play(two, range(130, 170))
    for name, tensor in one.tensors().items():
        assert tensor.equal(two.tensors()[name])


def test_replay_bytes_are_the_size_of_the_arrays() -> None:
    buffer = ReplayBuffer(100, (84, 84), "uint8", d_memory=7)
    size = sum(array.nbytes for array in vars(buffer).values() if isinstance(array, np.ndarray))
    assert replay_bytes(100, 84 * 84, 7) == size
