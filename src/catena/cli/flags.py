"""Flags from typed values: each verb has a frozen dataclass whose docstrings are its help; tyro reads it.

Flags that set a key of a task's config are taken out first (:func:`catena.config.split_flags`), so that a mistake in
any flag is answered with the nearest name among all of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from catena.config import KIND, Config, flag_table, keys
from catena.errors import CatenaError
from catena.registry import did_you_mean

F = TypeVar("F")


class UsageError(CatenaError):
    """The command was not understood."""


@dataclass(frozen=True)
class Machine:
    """Flags of every verb that runs a model."""

    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1, mps."""
    threads: int | None = None
    """CPU threads; all cores if not set."""
    seed: int = 0
    """The seed of everything that is drawn at random."""


def parse_flags(
    flags: type[F], argv: Sequence[str], prog: str, description: str, config: type[Config] | None = None
) -> F:
    """Read a verb's flags, or raise :class:`UsageError`; ``--help`` prints the help and leaves by SystemExit."""
    import tyro

    if "--help" in argv or "-h" in argv:
        _print_help(flags, prog, description, config)
        raise SystemExit(0)
    _check_names(flags, argv, config)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return tyro.cli(flags, args=list(argv), prog=prog, description=description)
    except SystemExit:
        raise UsageError(_plain(said.getvalue()) + f"\nsee '{prog} --help'") from None


def _print_help(flags: type, prog: str, description: str, config: type[Config] | None) -> None:
    import tyro

    with contextlib.suppress(SystemExit):
        tyro.cli(flags, args=["--help"], prog=prog, description=description)
    if config is not None:
        sys.stdout.write("\n".join(_config_help(config)) + "\n")


def _config_help(config: type[Config]) -> list[str]:
    """Every key of the config as a flag, in sections, with its choices or default and its meaning."""
    lines = [
        "",
        "Keys of the config. Each is a flag; the last part of its name will do where it says enough.",
    ]
    short = flag_table(config)
    section: tuple[str, ...] | None = None
    for key in sorted(keys(config), key=lambda key: len(key.path) > 1):  # stable: top keys first, then as in the file
        if key.path[:-1] != section:
            section = key.path[:-1]
            lines += ["", f"[{'.'.join(section) or 'top'}]"]
        leaf = short.get(key.path[-1])
        name = key.path[-1] if leaf is not None and leaf.path == key.path else key.dotted
        of = f"  [{', '.join(key.kinds)}]" if key.kinds and key.path[-1] != KIND else ""
        default = "" if key.path[-1] == KIND and key.kinds else f" (default: {_shown(key.field.default)})"
        lines.append(f"  --{name.replace('_', '-')} {'|'.join(key.choices)}".rstrip() + default + of)
        if words := " ".join((key.field.description or "").split()):
            lines += textwrap.wrap(words, 96, initial_indent="      ", subsequent_indent="      ")
    return lines


def _shown(value: object) -> str:
    return (
        ",".join(map(str, value)) or "none"
        if isinstance(value, tuple)
        else str(value).lower()
        if value is None
        else str(value)
    )


def _check_names(flags: type, argv: Sequence[str], config: type[Config] | None) -> None:
    """Refuse unknown flags, all at once, each with the nearest known one."""
    known = {field.name for field in dataclasses.fields(flags)}
    known |= {f"no_{name}" for name in known}
    names = known | set(flag_table(config) if config else ())
    problems = []
    for word in argv:
        if word == "--":
            break
        name = word[2:].partition("=")[0].replace("-", "_")
        if word.startswith("--") and name not in known:
            problems.append(f"there is no flag {word.partition('=')[0]}: {did_you_mean(name, names)}")
    if problems:
        raise UsageError(
            "; ".join(problems).replace("_", "-") if len(problems) == 1 else "\n  - ".join(["", *problems])
        )


def _plain(said: str) -> str:
    """tyro's framed message without its frame."""
    kept = [line.strip("│╭╮╰╯─ ").strip() for line in said.splitlines()]
    kept = [line for line in kept if line and "full helptext" not in line and not set(line) <= set("─-")]
    return "; ".join(kept) or "the command was not understood"
