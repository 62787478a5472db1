"""The kinds of error a user may meet. Classes only: the words stay where the values are, at the raise.

Every message names the thing, what it must be, what it is, and the cure. The command line prints the message
alone and keeps the traceback for ``--debug``.
"""


class CatenaError(Exception):
    """Something the user can put right. All of Catena's own errors are of this kind."""


class ConfigError(CatenaError, ValueError):
    """A config file or a flag holds a value that cannot be used. The message lists all."""


class FormatError(CatenaError, ValueError):
    """A data file is not in the format it was read as. The message names the file and the line."""


class DataError(CatenaError, ValueError):
    """The data was read, but cannot serve the purpose: empty, one label only, nothing left over."""


class ShapeError(CatenaError, ValueError):
    """Tensors whose sizes do not fit together."""


class StepperError(CatenaError, ValueError):
    """A stepper that breaks a law which searches rely on."""


class ImpossibleError(CatenaError, ValueError):
    """A constraint that no structure fulfills: nothing is left to distribute probability over."""


class DivergentSumError(CatenaError, ArithmeticError):
    """An infinite sum (the closure of an element, the paths of a cyclic machine) that has no finite value."""


class LimitError(CatenaError, RuntimeError):
    """A result that would be larger, or a search longer, than the limit that was set for it."""


class DivergedError(CatenaError, ArithmeticError):
    """Training went wrong in its numbers: the loss is nan or infinite."""


class CheckpointError(CatenaError, RuntimeError):
    """A run or checkpoint folder is missing, damaged, or made by another model."""


class UnknownNameError(CatenaError, KeyError):
    """A name that is not in a registry. The message lists the nearest ones."""

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return str(self.args[0]) if self.args else ""


class MissingExtraError(CatenaError, ImportError):
    """An optional package is not installed. The message holds the exact install line."""


class OutOfMemoryError(CatenaError, RuntimeError):
    """The device has no memory left. The message holds the batch size, the longest example and the cure."""
