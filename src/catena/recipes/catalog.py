"""The recipes of Catena: configs whose header has the command, the protocol, the score and the time.

Tested in tests/test_recipes.py.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from catena.errors import UnknownNameError
from catena.registry import did_you_mean

_SUFFIX = ".toml"


def recipe_names() -> list[str]:
    """Return the names of the recipes, such as ``mr-cnn-rand``."""
    return sorted(f.name.removesuffix(_SUFFIX) for f in files("catena.recipes").iterdir() if f.name.endswith(_SUFFIX))


def recipe_path(name: str) -> Path:
    """Return the path of a recipe, in a clone or in an installed package."""
    if name not in recipe_names():
        raise UnknownNameError(f"Unknown recipe {name!r}: {did_you_mean(name, recipe_names())}")
    return Path(str(files("catena.recipes").joinpath(name + _SUFFIX)))


def find_config(given: str) -> Path:
    """Return the config file of a path, or of a recipe name if there is no such file."""
    return recipe_path(given) if not Path(given).exists() and given in recipe_names() else Path(given)
