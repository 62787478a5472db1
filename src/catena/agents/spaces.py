"""What an agent sees and does: observations as arrays of one shape and type, actions as indices from 0.

Values are stored in their own type, which is small for images, and converted by the network that reads them, which
divides unsigned bytes by 255.

Tested in tests/agents/test_environment.py and tests/agents/test_targets.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from catena.errors import DataError
from catena.extras import require


@dataclass(frozen=True)
class ObservationFormat:
    """The form in which observations are stored.

    Args:
        shape: the shape of one observation; () for the index of a state.
        dtype: ``float32``, ``uint8``, ``bool``, or ``int64`` for the index of a state.
        n_states: the number of states if an observation is an index; otherwise 0.
        start: the smallest index in the environment.
        indices: the entries of the observation vector that are kept; all if empty.
    """

    shape: tuple[int, ...]
    dtype: str
    n_states: int = 0
    start: int = 0
    indices: tuple[int, ...] = ()

    @property
    def n_bytes(self) -> int:
        """The memory of one observation."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    @property
    def n_features(self) -> int:
        """The number of input values of a dense network for one observation."""
        return self.n_states or int(np.prod(self.shape, dtype=np.int64))

    def encode(self, observation: Any) -> np.ndarray:
        """An observation of the environment in the stored form. Raise DataError if it has another shape or nan."""
        if self.n_states:
            return np.asarray(int(observation) - self.start, dtype=np.int64)
        array = np.asarray(observation, dtype=self.dtype)
        if self.indices:
            array = array[list(self.indices)]
        if array.shape != self.shape:
            raise DataError(
                f"An observation must have shape {self.shape}, got {array.shape}. Make it agree with the environment's "
                f"observation_space."
            )
        if self.dtype == "float32" and not np.isfinite(array).all():
            raise DataError(f"An observation must be finite, got {array.tolist()!r:.60}. Correct the environment.")
        return array

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ObservationFormat:
        """The format that :meth:`to_dict` wrote."""
        return cls(**{**values, "shape": tuple(values["shape"]), "indices": tuple(values["indices"])})


def observation_format(space: Any, name: str, indices: Sequence[int] = ()) -> ObservationFormat:
    """The stored form of the observations of a Gymnasium space.

    Args:
        space: a Box, Discrete or MultiBinary space.
        name: the environment, for error messages.
        indices: the entries of an observation vector that the agent sees; all if empty.
    """
    spaces = require("gymnasium.spaces", "agents", "playing")
    if isinstance(space, spaces.Discrete):
        found = ObservationFormat((), "int64", int(space.n), int(space.start))
    elif isinstance(space, spaces.MultiBinary):
        found = ObservationFormat(tuple(space.shape), "bool")
    elif isinstance(space, spaces.Box):
        kept = space.dtype.name if space.dtype.name in ("uint8", "bool") else "float32"
        found = ObservationFormat(tuple(space.shape), kept)
    else:
        raise DataError(
            f"The observation space of {name} must be Box, Discrete or MultiBinary, got {space!s:.60}. Wrap the "
            f"environment with gymnasium.wrappers.FlattenObservation."
        )
    return _select(found, name, tuple(indices)) if indices else found


def _select(found: ObservationFormat, name: str, indices: tuple[int, ...]) -> ObservationFormat:
    if len(found.shape) != 1 or max(indices) >= found.shape[0]:
        raise DataError(
            f"environment.observe must be indices of a vector, got {', '.join(map(str, indices))} for observations of "
            f"shape {found.shape} of {name}. Use indices below the length of the vector."
        )
    return ObservationFormat((len(indices),), found.dtype, indices=indices)


@dataclass(frozen=True)
class ActionFormat:
    """``n`` actions with indices from 0. The environment numbers them from ``start``."""

    n: int
    start: int = 0


def action_format(space: Any, name: str) -> ActionFormat:
    """The actions of a Gymnasium space, which must be Discrete."""
    spaces = require("gymnasium.spaces", "agents", "playing")
    if not isinstance(space, spaces.Discrete):
        raise DataError(
            f"The action space of {name} must be Discrete for Q-learning, got {space!s:.60}. Choose an environment "
            f"with a finite number of actions, or wrap it so that an index selects an action."
        )
    return ActionFormat(int(space.n), int(space.start))
