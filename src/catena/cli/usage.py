"""What is wrong with a command itself, as against what it was given to work on."""

from __future__ import annotations

from catena.errors import CatenaError


class UsageError(CatenaError):
    """The command was not understood: a flag that is not known, a word that is missing. Ends with exit code 2."""

    exit_code = 2
