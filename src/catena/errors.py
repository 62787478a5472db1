"""Exception classes of Catena.

Messages are written at the raise, where the values are. A message names the input, the requirement, the actual value
and a cure. The command line prints only the message and shows the traceback with ``--debug``.
"""

from __future__ import annotations

from collections.abc import Sequence


class CatenaError(Exception):
    """Base class of all errors that the user can fix."""


class ConfigError(CatenaError, ValueError):
    """A config file or command line option has an invalid value. The message lists all invalid values."""


class InvalidValuesError(ConfigError):
    """Values of a config are invalid. ``problems`` has a sentence about each."""

    def __init__(self, *args: object, problems: Sequence[str] = ()) -> None:
        super().__init__(*args)
        self.problems = tuple(problems)


class FormatError(CatenaError, ValueError):
    """A data file is not in the format it was read as. The message names the file and the line."""


class DataError(CatenaError, ValueError):
    """The data was read but cannot be used, for example because it is empty or has only one label."""


class ShapeError(CatenaError, ValueError):
    """Tensors have wrong types, or shapes that do not fit together."""


class TooLongError(ShapeError, DataError):
    """A text is longer than the model can read, such as one with learned positions."""


class StepperError(CatenaError, ValueError):
    """A stepper violates a requirement of the search algorithms."""


class ImpossibleError(CatenaError, ValueError):
    """A constraint allows no structure, so there is no distribution."""


class DivergentSumError(CatenaError, ArithmeticError):
    """An infinite sum (a closure, or the paths of a cyclic automaton) has no finite value."""


class LimitError(CatenaError, RuntimeError):
    """A result would be larger, or a search longer, than a given limit."""


class DivergedError(CatenaError, ArithmeticError):
    """Training diverged: the loss is nan or infinite."""


class CheckpointError(CatenaError, RuntimeError):
    """A run or checkpoint folder is missing, damaged, or belongs to another model."""


class UnknownNameError(CatenaError, KeyError):
    """A name is not in a registry. The message lists the most similar names."""

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return str(self.args[0]) if self.args else ""


class MissingExtraError(CatenaError, ImportError):
    """An optional package is not installed. The message contains the install command."""


class OutOfMemoryError(CatenaError, RuntimeError):
    """The device is out of memory. The message contains the batch size, the longest example and a cure."""
