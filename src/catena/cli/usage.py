"""The error for an invalid command line."""

from __future__ import annotations

from catena.errors import CatenaError


class UsageError(CatenaError):
    """The command line is invalid: an unknown option or a missing argument. The exit code is 2."""

    exit_code = 2
