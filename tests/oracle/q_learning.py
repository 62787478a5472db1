"""Q-learning by simple loops: value iteration, the tabular update, targets and losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Outcomes = Callable[[int, int], Sequence[tuple[float, int, float, bool]]]
"""Maps a state and an action to (probability, next state, reward, terminated) of each outcome."""
Step = tuple[int, int, float, int, bool]
"""State, action, reward, next state, terminated."""


def value_iteration(outcomes: Outcomes, n_states: int, n_actions: int, discount: float) -> list[list[float]]:
    """The optimal Q, by repeated application of the Bellman equation until nothing changes by more than 1e-12."""
    q = [[0.0] * n_actions for _ in range(n_states)]
    while True:
        new = [
            [
                sum(p * (r + (0.0 if end else discount * max(q[s2]))) for p, s2, r, end in outcomes(s, a))
                for a in range(n_actions)
            ]
            for s in range(n_states)
        ]
        change = max(abs(x - y) for old_row, row in zip(q, new, strict=True) for x, y in zip(old_row, row, strict=True))
        q = new
        if change < 1e-12:
            return q


def learn(steps: Sequence[Step], start: Sequence[Sequence[float]], rate: float, discount: float) -> list[list[float]]:
    """The table after new Q(s, a) = (1 - rate) Q(s, a) + rate (r + discount max Q(s', .)) for each step in order."""
    q = [list(row) for row in start]
    for s, a, r, s2, terminated in steps:
        target = r if terminated else r + discount * max(q[s2])
        q[s][a] = (1 - rate) * q[s][a] + rate * target
    return q


def target(
    reward: float, terminated: bool, next_q: Sequence[float], discount: float, chosen_by: Sequence[float] | None = None
) -> float:
    """The target of one step; with ``chosen_by``, the action that is best there is valued by ``next_q``."""
    if terminated:
        return reward
    if chosen_by is None:
        return reward + discount * max(next_q)
    best = 0
    for action in range(len(chosen_by)):
        if chosen_by[action] > chosen_by[best]:
            best = action
    return reward + discount * next_q[best]


def huber(error: float) -> float:
    """Half the square of an error up to 1, then linear."""
    return 0.5 * error * error if abs(error) <= 1 else abs(error) - 0.5
