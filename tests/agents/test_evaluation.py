"""Policies, training play and evaluation episodes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from catena.agents.collector import Collector, generator_tensor, restore_generator
from catena.agents.config import DenseQConfig, EnvironmentConfig, ExplorationConfig, RecurrentQConfig
from catena.agents.environment import PlayEnvironment, episode_seed, make_environment
from catena.agents.evaluation import Episode, PlayEvaluation, play_episodes
from catena.agents.network import RecurrentQNetwork, build_q_network
from catena.agents.policy import NetworkPolicy, Policy, TablePolicy
from catena.agents.spaces import ObservationFormat
from tests.agents.tiny import GOAL, Chain, Grid, N

VECTOR = ObservationFormat((4,), "float32")


def cartpole() -> PlayEnvironment:
    return make_environment(EnvironmentConfig(name="CartPole-v1"))


def grid(slip: float = 0.0) -> PlayEnvironment:
    return make_environment(EnvironmentConfig(name="x", max_episode_steps=30), lambda: Grid(slip))


def make_policy(kind: str) -> NetworkPolicy:
    torch.manual_seed(4)
    if kind == "recurrent":
        return NetworkPolicy(build_q_network(RecurrentQConfig(sizes=(8,), d=6), VECTOR, 2))
    frames = 3 if kind == "frames" else 1
    return NetworkPolicy(build_q_network(DenseQConfig(sizes=(8,)), VECTOR, 2, frames), frames)


@pytest.mark.parametrize("kind", ["dense", "frames", "recurrent"])
def test_episodes_played_together_equal_episodes_played_one_by_one(kind: str) -> None:
    seeds = [episode_seed("test", i) for i in range(10)]
    together = play_episodes(cartpole, make_policy(kind), seeds, together=4)
    single = [play_episodes(cartpole, make_policy(kind), [seed]).episodes[0] for seed in seeds]
    assert list(together.episodes) == single
    assert len({episode.length for episode in single}) > 1


@pytest.mark.parametrize("kind", ["dense", "frames", "recurrent"])
def test_policy_step_equals_network_on_whole_episode(kind: str) -> None:
    policy = make_policy(kind)
    observations = np.random.default_rng(0).normal(size=(7, 2, 4)).astype(np.float32)  # time, episode, entry
    policy.begin(2)
    found = np.stack([policy.q_values(o) for o in observations])
    with torch.no_grad():
        if kind == "recurrent":
            last = np.concatenate((np.full((1, 2), -1), found.argmax(-1)[:-1])).T  # the best action is the default
            wanted = policy.network(torch.from_numpy(observations).transpose(0, 1), torch.from_numpy(last))
            wanted = wanted.transpose(0, 1)
        else:
            padded = np.concatenate([observations[:1]] * (policy.frames - 1) + [observations])
            stacked = [padded[t : t + policy.frames].swapaxes(0, 1) for t in range(7)]
            stacked = [s if policy.frames > 1 else s[:, 0] for s in stacked]
            wanted = torch.stack([policy.network(torch.from_numpy(s)) for s in stacked])
    assert found == pytest.approx(wanted.numpy(), abs=1e-6)


@pytest.mark.parametrize("kind", ["frames", "recurrent"])
def test_kept_episodes_keep_their_memory(kind: str) -> None:
    first, second = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    policy = make_policy(kind)
    policy.begin(3)
    policy.q_values(first)
    policy.keep(np.array([2, 0]))
    found = policy.q_values(second[[2, 0]])
    for row, i in enumerate((2, 0)):
        single = make_policy(kind)
        single.begin(1)
        single.q_values(first[[i]])
        assert found[row] == pytest.approx(single.q_values(second[[i]])[0], abs=1e-6)


def test_evaluation_of_optimal_table_is_the_distance() -> None:
    table = np.zeros((N * N, 4))
    table[:, 1] = [1.0 if cell % N < N - 1 else -1.0 for cell in range(N * N)]
    result = play_episodes(grid, TablePolicy(table + np.array([0, 0, 0.5, 0])), range(20))
    assert len(result.episodes) > 0
    for episode in result.episodes:
        environment = grid()
        row, column = divmod(int(environment.reset(episode.seed)), N)
        distance = 2 * (N - 1) - row - column
        assert episode == Episode(episode.seed, -float(distance), distance, True)


def test_evaluation_summary() -> None:
    result = PlayEvaluation((Episode(1, 4.0, 3, True), Episode(2, 8.0, 5, False)))
    assert (result.mean, result.mean_length, result.n_truncated) == (6.0, 4.0, 1)
    assert result.interval.low < 6.0 < result.interval.high
    values = result.to_dict()
    assert (values["return"], values["n_truncated"], len(values["episodes"])) == (6.0, 1, 2)
    assert result.lines()[0] == "2 episodes, epsilon 0"
    assert "return 6.00 (95 % interval" in result.lines()[1]
    assert PlayEvaluation(result.episodes[:1]).to_dict()["low"] is None
    assert "interval" not in PlayEvaluation(result.episodes[:1]).lines()[1]


# --- training play ----------------------------------------------------------------------------------------------------


def collector(policy: Policy, environment: PlayEnvironment, **options: Any) -> Collector:
    exploration = options.pop("exploration", ExplorationConfig())
    return Collector(environment, policy, exploration, seed=1, **options)


def test_epsilon_is_one_in_warmup_and_then_falls_linearly() -> None:
    exploration = ExplorationConfig(epsilon_start=0.9, epsilon_end=0.1, epsilon_steps=100)
    playing = collector(TablePolicy(np.zeros((16, 4))), grid(), exploration=exploration, warmup=10)
    expected = {0: 1.0, 9: 1.0, 10: 0.9, 60: 0.5, 110: 0.1, 500: 0.1}
    for steps, epsilon in expected.items():
        playing.steps = steps
        assert playing.epsilon == pytest.approx(epsilon)


@pytest.mark.parametrize(("epsilon", "low", "high"), [(0.0, 1.0, 1.0), (0.4, 0.65, 0.75), (1.0, 0.2, 0.3)])
def test_fraction_of_best_actions_follows_epsilon(epsilon: float, low: float, high: float) -> None:
    """A random action is the best one in a quarter of the cases."""
    table = np.zeros((16, 4))
    table[:, 2] = 1.0
    exploration = ExplorationConfig(epsilon_start=epsilon, epsilon_end=epsilon)
    playing = collector(TablePolicy(table), grid(), exploration=exploration)
    actions = [playing.step().action for _ in range(3_000)]
    assert low <= np.mean(np.array(actions) == 2) <= high


def test_policy_with_memory_reads_every_observation_even_when_exploring() -> None:
    class Counting(TablePolicy):
        has_memory = True
        read = 0

        def q_values(self, observations: np.ndarray) -> np.ndarray:
            self.read += len(observations)
            return super().q_values(observations)

    policy = Counting(np.zeros((16, 4)))
    playing = collector(policy, grid(), warmup=50)
    for _ in range(50):
        playing.step()
    assert policy.read == 50


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_memory_of_collected_steps_continues_the_episode(cell: Any) -> None:
    """From stored states, the network computes what it computes from the start of the episode."""
    torch.manual_seed(4)
    network = build_q_network(RecurrentQConfig(sizes=(8,), d=6, cell=cell, n_layers=2), VECTOR, 2)
    assert isinstance(network, RecurrentQNetwork)
    exploration = ExplorationConfig(epsilon_start=0.5, epsilon_end=0.5)
    playing = collector(NetworkPolicy(network), cartpole(), exploration=exploration)
    steps = [playing.step() for _ in range(150)]
    starts = [i for i, step in enumerate(steps) if step.begins]
    assert len(starts) > 2
    for start, end in itertools.pairwise(starts):
        episode = steps[start:end]
        seen = torch.from_numpy(np.stack([step.observation for step in episode]))[None]
        last = torch.tensor([[-1, *(step.action for step in episode[:-1])]])
        with torch.no_grad():
            wanted = network(seen, last)
            assert not torch.allclose(wanted, network(seen), atol=1e-3), "the last action matters"
            for t, step in enumerate(episode):
                state = network.unpack(torch.from_numpy(step.memory))
                assert torch.allclose(network(seen[:, t:], last[:, t:], state), wanted[:, t:], atol=1e-6)


def test_collected_steps_join_up_and_end_with_the_episode() -> None:
    playing = collector(TablePolicy(np.zeros((16, 4))), grid(slip=0.2), warmup=400)
    steps = [playing.step() for _ in range(400)]
    ends = 0
    for before, after in itertools.pairwise(steps):
        if after.begins:
            ends += 1
            assert before.terminated == (int(before.next_observation) == GOAL)
        else:
            assert not before.terminated
            assert np.array_equal(before.next_observation, after.observation)
    assert playing.episode == ends + 1
    assert len(playing.returns) == ends
    assert playing.mean_return == pytest.approx(np.mean(playing.returns))


def test_truncated_episode_is_not_terminated_in_collected_steps() -> None:
    environment = make_environment(EnvironmentConfig(name="x", max_episode_steps=5), Chain)
    playing = collector(TablePolicy(np.zeros((2, 2))), environment)
    steps = [playing.step() for _ in range(20)]
    assert [step.begins for step in steps] == [True, False, False, False, False] * 4
    assert not any(step.terminated for step in steps)
    assert list(playing.returns) == [5.0] * 4


def test_mean_return_is_nan_before_an_episode_ends() -> None:
    assert np.isnan(collector(TablePolicy(np.zeros((16, 4))), grid()).mean_return)


def test_generator_is_saved_exactly() -> None:
    rng = np.random.default_rng(3)
    rng.integers(10, size=7)
    state = generator_tensor(rng)
    wanted = rng.random(5)
    other = np.random.default_rng(0)
    restore_generator(other, state)
    assert np.array_equal(other.random(5), wanted)
