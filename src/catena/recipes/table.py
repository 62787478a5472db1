"""The recipes that come with Catena: configs whose heading holds the command, the protocol, the score and the time."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from catena.errors import UnknownNameError
from catena.registry import did_you_mean

_SUFFIX = ".toml"


def recipe_names() -> list[str]:
    """The recipes, such as ``mr-cnn-rand``."""
    return sorted(f.name.removesuffix(_SUFFIX) for f in files("catena.recipes").iterdir() if f.name.endswith(_SUFFIX))


def recipe_path(name: str) -> Path:
    """Where a recipe lies, in a clone or in an installed package."""
    if name not in recipe_names():
        raise UnknownNameError(f"no recipe is called {name!r}: {did_you_mean(name, recipe_names())}")
    return Path(str(files("catena.recipes").joinpath(name + _SUFFIX)))


def find_config(given: str) -> Path:
    """The config file that a person means: a path, or the name of a recipe where there is no such file."""
    return recipe_path(given) if not Path(given).exists() and given in recipe_names() else Path(given)
