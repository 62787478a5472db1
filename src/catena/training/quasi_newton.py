r"""Quasi-Newton methods for smooth functions of many variables, with an optional L1 penalty.

L-BFGS (Liu & Nocedal 1989) stores the last few steps and changes of the gradient and derives from them a direction that
accounts for curvature. A line search with the strong Wolfe conditions (Nocedal & Wright 2006, algorithms 3.5 and 3.6)
chooses the step size. With :math:`\lambda \|w\|_1` it is OWL-QN (Andrew & Gao 2007): the gradient is replaced by the
steepest one-sided derivative, and a step never leaves its orthant, so that weights become exactly zero.

The objective is any function of a vector. The whole state can be saved and restored exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from catena.errors import DivergedError
from catena.kernels.common.vector_math import add_times, dot

_Vector = Float64[np.ndarray, " n"]
Function = Callable[[Float64[np.ndarray, " n"]], tuple[float, Float64[np.ndarray, " n"]]]
"""The value of the smooth part and its gradient."""

ENOUGH, FLAT = 1e-4, 0.9
"""The constants of the Wolfe conditions: sufficient decrease and curvature."""
_TRIALS = 25
"""Maximum number of points tried along one direction."""


class LineSearchResult(NamedTuple):
    """A point with a lower objective."""

    point: _Vector
    value: float
    gradient: _Vector


@dataclass
class QuasiNewton:
    """A minimization in progress. :meth:`step` performs one iteration.

    Args:
        function: the smooth part of the objective and its gradient.
        point: the current point.
        l1: weight of the sum of absolute values.
        memory: number of past steps that are stored.
    """

    function: Function
    point: _Vector
    l1: float = 0.0
    memory: int = 6

    def __post_init__(self) -> None:
        self.point = np.array(self.point, np.float64)
        self.iteration = 0
        self.evaluations = 0
        self.moves: list[_Vector] = []
        self.changes: list[_Vector] = []
        self.value, self.gradient = np.nan, np.zeros(0)

    @property
    def objective(self) -> float:
        """The objective at the current point: the smooth part plus the L1 penalty."""
        self._begin()
        return self.value + self.l1 * float(np.abs(self.point).sum())

    @property
    def steepest(self) -> _Vector:
        """The gradient. With an L1 penalty, the steepest one-sided derivative, or 0 where none descends."""
        self._begin()
        if self.l1 == 0:
            return self.gradient
        return _one_sided(self.gradient, self.point, self.l1)

    @property
    def is_at_rest(self) -> bool:
        """Whether the pseudogradient is at most 1e-5 times the norm of the point (at least 1)."""
        return length(self.steepest) <= 1e-5 * max(1.0, length(self.point))

    def step(self) -> bool:
        """Perform one iteration. False if no point along the direction is better (converged or stuck)."""
        steepest = self.steepest
        direction = self._direction(steepest)
        if self.l1 > 0:
            direction[direction * steepest >= 0] = 0.0  # the others would leave the orthant
        if not dot(direction, steepest) < 0:
            self.moves, self.changes = [], []
            direction = -steepest
        found = self._search(direction, steepest)
        if found is None and self.moves:
            self.moves, self.changes = [], []  # the curvature may be misleading: try the pseudogradient itself
            found = self._search(-steepest, steepest)
        if found is None:
            return False
        point, value, gradient = found
        self._remember(point - self.point, gradient - self.gradient)
        self.point, self.value, self.gradient = point, value, gradient
        self.iteration += 1
        return True

    # --- save and restore -------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """The state that :meth:`restore` needs in addition to the function."""
        self._begin()
        n = len(self.point)
        return {
            "point": self.point,
            "gradient": self.gradient,
            "moves": np.array(self.moves).reshape(-1, n),
            "changes": np.array(self.changes).reshape(-1, n),
            "numbers": np.array([self.value, float(self.iteration), float(self.evaluations)]),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the state that :meth:`arrays` returned."""
        n = len(self.point)
        shapes: dict[str, tuple[int, ...]] = {"point": (n,), "gradient": (n,), "numbers": (3,)}
        shapes |= dict.fromkeys(("moves", "changes"), (len(arrays["moves"]), n))
        for name, shape in shapes.items():
            if arrays[name].shape != shape or arrays[name].dtype != np.float64:
                raise ValueError(
                    f"{name} must be float64 of shape {shape}, got {arrays[name].dtype} of shape "
                    f"{arrays[name].shape}. Restore the state of the same problem."
                )
        self.point, self.gradient = np.array(arrays["point"]), np.array(arrays["gradient"])
        self.moves, self.changes = [np.array(x) for x in arrays["moves"]], [np.array(x) for x in arrays["changes"]]
        self.value = float(arrays["numbers"][0])
        self.iteration, self.evaluations = int(arrays["numbers"][1]), int(arrays["numbers"][2])

    # --- the parts of a step ----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not len(self.gradient):
            self.value, self.gradient = self._evaluate(self.point)
            if not np.isfinite(self.value):
                raise DivergedError(f"The objective is {self.value} at the initial point. Start from another point.")

    def _evaluate(self, point: _Vector) -> tuple[float, _Vector]:
        self.evaluations += 1
        value, gradient = self.function(point)
        return float(value), gradient

    def _direction(self, steepest: _Vector) -> _Vector:
        """The two-loop recursion of Nocedal & Wright (2006), algorithm 7.4."""
        d = -steepest
        if not self.moves:
            return d / max(1.0, length(steepest))
        shares = []
        for move, change in zip(reversed(self.moves), reversed(self.changes), strict=True):
            share = dot(move, d) / dot(move, change)
            add_times(d, -share, change)
            shares.append(share)
        d *= dot(self.moves[-1], self.changes[-1]) / dot(self.changes[-1], self.changes[-1])
        for move, change, share in zip(self.moves, self.changes, reversed(shares), strict=True):
            add_times(d, share - dot(change, d) / dot(move, change), move)
        return d

    def _remember(self, move: _Vector, change: _Vector) -> None:
        # Without curvature along the step, the directions from the memory would not descend.
        if dot(move, change) > 1e-12 * dot(change, change):
            self.moves.append(move)
            self.changes.append(change)
            del self.moves[: -self.memory], self.changes[: -self.memory]

    def _search(self, direction: _Vector, steepest: _Vector) -> LineSearchResult | None:
        return self._search_orthant(direction, steepest) if self.l1 > 0 else self._search_line(direction, steepest)

    def _search_orthant(self, direction: _Vector, steepest: _Vector) -> LineSearchResult | None:
        """Halve the step until the decrease is sufficient, without sign changes (Andrew & Gao 2007, section 3.2)."""
        orthant = np.where(self.point != 0, np.sign(self.point), -np.sign(steepest))
        before, size = self.objective, 1.0
        for _ in range(_TRIALS):
            point = self.point + size * direction
            point[point * orthant <= 0] = 0.0
            value, gradient = self._evaluate(point)
            objective = value + self.l1 * float(np.abs(point).sum())
            if objective <= before + ENOUGH * dot(steepest, point - self.point) and np.isfinite(objective):
                return LineSearchResult(point, value, gradient) if objective < before else None
            size *= 0.5
        return None

    def _search_line(self, direction: _Vector, steepest: _Vector) -> LineSearchResult | None:
        """A point that satisfies the strong Wolfe conditions, or the best point found."""
        line = _Line(self, direction, dot(direction, steepest))
        return line.search()


class _Line:
    """The function along a direction."""

    def __init__(self, at: QuasiNewton, direction: _Vector, derivative: float) -> None:
        self.at, self.direction = at, direction
        self.value, self.derivative = at.value, derivative
        self.best: LineSearchResult | None = None
        self.trials = 0

    def _try(self, size: float) -> tuple[float, float, _Vector, _Vector]:
        """(value, derivative along the line, point, gradient)."""
        self.trials += 1
        point = self.at.point + size * self.direction
        value, gradient = self.at._evaluate(point)
        if np.isfinite(value) and value < (self.value if self.best is None else self.best.value):
            self.best = LineSearchResult(point, value, gradient)
        return value, dot(gradient, self.direction), point, gradient

    def search(self) -> LineSearchResult | None:
        """Increase the step until it brackets a good one, then zoom in."""
        low, low_value, low_rate = 0.0, self.value, self.derivative
        size = 1.0
        while self.trials < _TRIALS:
            value, derivative, point, gradient = self._try(size)
            if (
                not np.isfinite(value)
                or value > self.value + ENOUGH * size * self.derivative
                or (low > 0 and value >= low_value)
            ):
                return self._zoom(low, low_value, low_rate, size, value, derivative)
            if abs(derivative) <= -FLAT * self.derivative:
                return LineSearchResult(point, value, gradient)
            if derivative >= 0:
                return self._zoom(size, value, derivative, low, low_value, low_rate)
            low, low_value, low_rate = size, value, derivative
            size *= 2.0
        return self.best

    def _zoom(
        self,
        low: float,
        low_value: float,
        low_rate: float,
        high: float,
        high_value: float,
        high_rate: float,
    ) -> LineSearchResult | None:
        """Bisect between two steps. ``low`` is the better end; a good step lies between the two."""
        while self.trials < _TRIALS and abs(high - low) > 1e-12:
            size = _between(low, low_value, low_rate, high, high_value, high_rate)
            value, derivative, point, gradient = self._try(size)
            if not np.isfinite(value) or value > self.value + ENOUGH * size * self.derivative or value >= low_value:
                high, high_value, high_rate = size, value, derivative
                continue
            if abs(derivative) <= -FLAT * self.derivative:
                return LineSearchResult(point, value, gradient)
            if derivative * (high - low) >= 0:
                high, high_value, high_rate = low, low_value, low_rate
            low, low_value, low_rate = size, value, derivative
        return self.best


def _between(low: float, low_value: float, low_rate: float, high: float, high_value: float, high_rate: float) -> float:
    """The minimum of the cubic through two ends and their derivatives, away from the ends; else the midpoint."""
    middle, width = (low + high) / 2, abs(high - low)
    if not (np.isfinite(high_value) and np.isfinite(high_rate)):
        return middle
    d1 = low_rate + high_rate - 3 * (low_value - high_value) / (low - high)
    inside = d1 * d1 - low_rate * high_rate
    if inside < 0:
        return middle
    d2 = np.sign(high - low) * np.sqrt(inside)
    divisor = high_rate - low_rate + 2 * d2
    size = high - (high - low) * (high_rate + d2 - d1) / divisor if divisor != 0 else middle
    return float(np.clip(size, min(low, high) + 0.1 * width, max(low, high) - 0.1 * width))


def length(x: _Vector) -> float:
    """The Euclidean norm."""
    return float(np.sqrt(dot(x, x)))


def _one_sided(gradient: _Vector, point: _Vector, l1: float) -> _Vector:
    """The derivative of ``f + l1 |w|`` in its descending direction; 0 where it ascends on both sides."""
    right, left = gradient + l1, gradient - l1
    at_zero = np.where(right < 0, right, np.where(left > 0, left, 0.0))
    return np.where(point > 0, right, np.where(point < 0, left, at_zero))
