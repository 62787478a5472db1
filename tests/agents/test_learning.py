"""Agents that learn values known from value iteration, and the difference between termination and truncation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from catena.agents.agent import DQN, QLearning
from catena.agents.config import DenseQConfig
from catena.agents.dqn import DQNTask
from catena.agents.network import build_q_network
from catena.agents.replay import Sequences, Transitions
from catena.agents.spaces import ObservationFormat
from catena.agents.tabular import QTable, QTableTask, update_table_
from tests.agents.tiny import GOAL, Chain, Grid, N, Pixels, Recall, make_dqn, make_task, move
from tests.oracle import q_learning as oracle

STATES, ACTIONS = N * N, 4
RANDOM = {
    "exploration.epsilon_end": 1.0,
    "environment.max_episode_steps": 50,
    "evaluation.dev_episodes": 2,
    "evaluation.test_episodes": 2,
}
"""Only random actions, so that every state is visited, and short evaluations."""


def grid_outcomes(slip: float) -> oracle.Outcomes:
    def outcomes(cell: int, action: int) -> list[tuple[float, int, float, bool]]:
        chances = [(1 - slip, action), *((slip / 4, other) for other in range(4))]  # style: a local of probabilities
        return [(p, move(cell, a), -1.0, move(cell, a) == GOAL) for p, a in chances]

    return outcomes


def grid_steps(n: int, seed: int = 0) -> list[oracle.Step]:
    rng = np.random.default_rng(seed)
    steps, cell = [], int(rng.integers(GOAL))
    for _ in range(n):
        action = int(rng.integers(ACTIONS))
        after = move(cell, action)
        steps.append((cell, action, -1.0, after, after == GOAL))
        cell = int(rng.integers(GOAL)) if after == GOAL else after
    return steps


def test_value_iteration_of_grid_is_minus_the_distance() -> None:
    q = oracle.value_iteration(grid_outcomes(0.0), STATES, ACTIONS, 1.0)
    assert GOAL > 0
    for cell in range(GOAL):
        row, column = divmod(cell, N)
        assert max(q[cell]) == -((N - 1 - row) + (N - 1 - column))


def test_table_equals_loop_step_by_step() -> None:
    steps = grid_steps(2_000)
    start = np.random.default_rng(1).normal(size=(STATES, ACTIONS))  # also of the goal, whose values must not matter
    table = start.copy()
    for s, a, r, s2, end in steps:
        update_table_(table, s, a, r, s2, end, rate=0.3, discount=0.9)
    assert table == pytest.approx(np.array(oracle.learn(steps, start.tolist(), 0.3, 0.9)), abs=1e-12)


def test_linear_network_on_states_equals_table() -> None:
    """With squared loss, batches of one step and plain gradient descent, the rate is the step size of the table."""
    steps = grid_steps(300, seed=1)
    agent = make_dqn(Grid, sizes=(), target="none", loss="squared", discount=0.9)
    task = make_task(agent)
    assert isinstance(task, DQNTask)
    network = task.network.double()
    assert [tuple(p.shape) for p in network.parameters()] == [(ACTIONS, STATES)]
    start = network.get_parameter("output.weight").T.tolist()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.3)
    for s, a, r, s2, end in steps:
        batch = Transitions(np.array([s]), np.array([a]), np.array([r], np.float32), np.array([s2]), np.array([end]))
        optimizer.zero_grad()
        task.loss((batch, 1)).total.backward()
        optimizer.step()
    wanted = np.array(oracle.learn(steps, start, 0.3, 0.9))
    assert pytest.approx(wanted, abs=1e-6) == network.get_parameter("output.weight").detach().numpy().T


def test_q_learning_finds_values_of_grid() -> None:
    agent = QLearning(Grid, steps=20_000, learning_rate=0.5, discount=0.95, settings=RANDOM)
    agent.fit()
    wanted = np.array(oracle.value_iteration(grid_outcomes(0.0), STATES, ACTIONS, 0.95))
    assert agent.table[:GOAL] == pytest.approx(wanted[:GOAL], abs=1e-6)
    for cell in range(GOAL):
        assert wanted[cell, agent.act(cell)] == pytest.approx(wanted[cell].max())


def test_q_learning_finds_values_of_slippery_grid_on_average() -> None:
    agent = QLearning(
        Grid,
        environment_options={"slip": 0.3},
        steps=60_000,
        epoch_steps=60_000,
        learning_rate=0.02,
        discount=0.9,
        settings=RANDOM,
    )
    agent.fit()
    wanted = np.array(oracle.value_iteration(grid_outcomes(0.3), STATES, ACTIONS, 0.9))
    assert np.abs(agent.table[:GOAL] - wanted[:GOAL]).mean() < 0.15


@pytest.mark.parametrize("steps", [4, 7])
def test_truncated_chain_keeps_its_value_in_table(steps: int) -> None:
    """Every value is 1 / (1 - discount) = 5. With truncation taken for termination it is at most 4.2."""
    agent = QLearning(
        Chain, steps=6_000, learning_rate=0.5, discount=0.8, settings={"environment.max_episode_steps": steps}
    ).fit()
    assert agent.table == pytest.approx(np.full((2, 2), 5.0), abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"sizes": ()},
        {"sizes": (8,), "double": False},
        {"sizes": (), "target": "none", "loss": "squared"},
        {"network": "recurrent", "sizes": (), "settings": {"model.network.d": 8, "model.network.burn_in": 3}},
    ],
    ids=["linear", "dense", "no-target", "recurrent"],
)
def test_truncated_chain_keeps_its_value_in_network(options: dict[str, Any]) -> None:
    """Every value is 1 / (1 - discount) = 2.5. With truncation taken for termination it is at most 2.2.

    The recurrent network has the same fixed point as the dense one, because the chain is fully observed.
    """
    settings = {"environment.max_episode_steps": 4, **options.pop("settings", {})}
    settings |= {"evaluation.dev_episodes": 1, "evaluation.test_episodes": 2}
    if options.get("network") == "recurrent":
        settings["model.network.length"] = 4
    agent = DQN(
        Chain,
        steps=1_300,
        epoch_steps=1_200,
        learning_rate=0.03,
        discount=0.6,
        train_every=2,
        warmup=100,
        batch_size=8,
        target_every=20,
        device="cpu",
        settings=settings,
        **options,
    ).fit()
    agent.begin()
    for state in (0, 1, 0, 1):
        assert agent.q_values(state) == pytest.approx([2.5, 2.5], abs=0.1)


def test_recurrent_network_remembers_what_dense_one_cannot() -> None:
    options: dict[str, Any] = {
        "steps": 1_300,
        "epoch_steps": 1_200,
        "warmup": 100,
        "learning_rate": 0.01,
        "discount": 0.5,
        "target_every": 20,
        "train_every": 4,
        "batch_size": 16,
        "epsilon_steps": 500,
        "device": "cpu",
        "environment_options": {"length": 2},
    }
    settings = {"model.network.d": 8, "model.network.length": 2, "model.network.burn_in": 1}
    recurrent = DQN(Recall, network="recurrent", sizes=(), settings=settings, **options).fit()
    assert recurrent.test is not None
    assert recurrent.test.mean == 1.0
    dense = DQN(Recall, sizes=(16,), **options).fit()
    assert dense.test is not None
    assert dense.test.mean < 0.5


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_convolution_reads_images(dtype: str) -> None:
    settings = {"model.network.channels": (8,), "model.network.windows": (3,), "model.network.strides": (1,)}
    agent = DQN(
        Pixels,
        network="convolution",
        sizes=(32,),
        steps=1_000,
        epoch_steps=800,
        warmup=200,
        learning_rate=0.01,
        discount=0.0,
        train_every=4,
        epsilon_steps=500,
        environment_options={"dtype": dtype},
        device="cpu",
        settings=settings,
    ).fit()
    assert agent.test is not None
    assert agent.test.mean > 4.0


def test_table_loss_has_zero_gradient_and_reports_errors() -> None:
    task = make_task(QLearning(Grid, epoch_steps=250, steps=250))
    assert isinstance(task, QTableTask)
    assert len(task.epoch(1)) == 3
    assert [len(task.epoch(1).batch(i)) for i in range(3)] == [100, 100, 50]
    loss = task.loss([1.0, -3.0])
    assert loss.total.item() == 2.5
    (gradient,) = torch.autograd.grad(loss.total, list(task.model.parameters()))
    assert not gradient.any()


def test_initial_value_fills_table() -> None:
    assert (QTable(3, 2, 1.5).q == 1.5).all()


def test_target_network_is_copied_or_averaged() -> None:
    torch.manual_seed(0)
    for target, settings in (("copy", {}), ("average", {"model.target_rate": 0.25})):
        task = make_task(make_dqn(target=target, target_every=3, settings=settings))
        assert isinstance(task, DQNTask)
        assert task.target is not None
        task.before_step(0)
        before = task.target.get_parameter("output.bias").clone()
        with torch.no_grad():
            task.network.get_parameter("output.bias").add_(1.0)
        task.before_step(1)
        moved = task.target.get_parameter("output.bias") - before
        assert moved == pytest.approx(0.0 if target == "copy" else 0.25)
        task.before_step(3)
        moved = task.target.get_parameter("output.bias") - before
        assert moved == pytest.approx(1.0 if target == "copy" else 0.4375)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("target", ["copy", "none"])
def test_loss_of_steps_equals_loop(double: bool, target: str) -> None:
    task, rng = make_task(make_dqn(double=double, target=target, discount=0.9)), np.random.default_rng(0)
    assert isinstance(task, DQNTask)
    other = _separate(task)
    before, after = rng.normal(size=(2, 6, 4)).astype(np.float32)
    actions, terminated = rng.integers(2, size=6), rng.random(6) < 0.4
    rewards = rng.normal(size=6).astype(np.float32)
    q, online, valued = values(task.network, before), values(task.network, after), values(other, after)
    losses = []
    for i in range(6):
        chosen_by = online[i] if double else None
        y = oracle.target(float(rewards[i]), bool(terminated[i]), valued[i], 0.9, chosen_by)
        losses.append(oracle.huber(y - q[i][actions[i]]))
    found = task.loss((Transitions(before, actions, rewards, after, terminated), 1)).total.item()
    assert found == pytest.approx(sum(losses) / 6, rel=1e-5)


@pytest.mark.parametrize("stored", [False, True], ids=["zero", "stored"])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("target", ["copy", "none"])
def test_loss_of_sequences_equals_loop(double: bool, target: str, stored: bool) -> None:
    settings = {"model.network.d": 5, "model.network.stored_state": stored, "model.network.last_action": stored}
    agent = make_dqn(network="recurrent", double=double, target=target, discount=0.9, settings=settings)
    task, rng = make_task(agent), np.random.default_rng(0)
    assert isinstance(task, DQNTask)
    other = _separate(task)
    observations = rng.normal(size=(4, 6, 4)).astype(np.float32)
    actions, terminated, mask = rng.integers(2, size=(4, 5)), rng.random((4, 5)) < 0.3, rng.random((4, 5)) < 0.6
    rewards = rng.normal(size=(4, 5)).astype(np.float32)
    given: tuple[np.ndarray, ...] = ()
    if stored:
        given = rng.integers(-1, 2, size=(4, 6)), rng.normal(size=(4, 10)).astype(np.float32)
    online, valued = values(task.network, observations, *given), values(other, observations, *given)
    losses = []
    for i, t in zip(*np.nonzero(mask), strict=True):
        chosen_by = online[i][t + 1] if double else None
        y = oracle.target(float(rewards[i, t]), bool(terminated[i, t]), valued[i][t + 1], 0.9, chosen_by)
        losses.append(oracle.huber(y - online[i][t][actions[i, t]]))
    found = task.loss((Sequences(observations, actions, rewards, terminated, mask, *given), 1)).total.item()
    assert found == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def _separate(task: DQNTask) -> torch.nn.Module:
    """The network that values next states, with other weights than the online network if there is a target."""
    if task.target is None:
        return task.network
    with torch.no_grad():
        for parameter in task.target.parameters():
            parameter.mul_(-1.7)
    return task.target


def values(network: torch.nn.Module, observations: np.ndarray, *given: np.ndarray) -> Any:
    """The values of observations; of sequences also with the last actions, and with h and c of an LSTM before them."""
    with torch.no_grad():
        if not given:
            return network(torch.from_numpy(observations)).tolist()
        last, memory = (torch.from_numpy(array) for array in given)
        return network(torch.from_numpy(observations), last, ((memory[:, :5], memory[:, 5:]),)).tolist()


@pytest.mark.parametrize("network", ["dense", "recurrent"])
def test_observations_are_standardized_by_the_random_steps(network: Any) -> None:
    settings = {"model.normalize": True, "environment.observe": (0, 2)}
    task = make_task(make_dqn(network=network, settings=settings))
    assert isinstance(task, DQNTask)
    task.before_step(0)
    task.epoch(1).batch(0)
    played = task.replay.observations[: task.replay.size]
    random = played[: len(played) - task.settings.train_every].astype(np.float64)
    assert task.target is not None
    for fitted in (task.network, task.target):
        seen = fitted.input(torch.from_numpy(played), torch.float32).numpy()
        assert seen == pytest.approx((played - random.mean(0)) / random.std(0), abs=1e-4)
    before = task.network.input.get_buffer("mean").clone()
    task.epoch(1).batch(1)
    assert torch.equal(task.network.input.get_buffer("mean"), before)


def test_constant_observations_are_only_centered() -> None:
    layer = build_q_network(DenseQConfig(), ObservationFormat((2,), "float32"), 3, normalize=True).input
    layer.fit(np.array([[1.0, 5.0], [3.0, 5.0]], np.float32))
    seen = layer(torch.tensor([[3.0, 5.0], [1.0, 6.0]]), torch.float32)
    assert seen.tolist() == [[1.0, 0.0], [-1.0, 1.0]]


def test_rewards_are_clipped_in_training_only() -> None:
    task = make_task(make_dqn(target="none", loss="squared", discount=0.0, settings={"model.reward_clip": 2.0}))
    assert isinstance(task, DQNTask)
    ones = np.ones((3, 4), np.float32)
    rewards = np.array([-9.0, 0.5, 7.0], np.float32)
    batch = Transitions(ones, np.zeros(3, np.int64), rewards, ones, np.zeros(3, np.bool_))
    q = task.network(torch.ones(3, 4))[:, 0]
    wanted = 0.5 * (torch.tensor([-2.0, 0.5, 2.0]) - q).square().mean()
    assert task.loss((batch, 1)).total.item() == pytest.approx(wanted.item(), rel=1e-6)


def test_bytes_are_divided_by_255_and_states_are_one_hot() -> None:
    torch.manual_seed(0)
    image = build_q_network(DenseQConfig(sizes=()), ObservationFormat((2, 2), "uint8"), 3)
    floats = build_q_network(DenseQConfig(sizes=()), ObservationFormat((2, 2), "float32"), 3)
    floats.load_state_dict(image.state_dict())
    x = torch.tensor([[[0, 51], [102, 255]]], dtype=torch.uint8)
    assert torch.allclose(image(x), floats(x.float() / 255))
    states = build_q_network(DenseQConfig(sizes=(4,)), ObservationFormat((), "int64", 5), 3)
    first = states.get_submodule("hidden")[0]  # type: ignore[index]
    assert torch.allclose(states(torch.tensor([2])), states.output(torch.relu(first.weight[:, 2] + first.bias)))
