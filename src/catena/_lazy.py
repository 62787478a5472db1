"""Names that a package exports without importing their modules, and modules that are imported on first use.

A package lists its public names in ``__all__``, imports them under ``TYPE_CHECKING`` for editors and type checkers, and
resolves them on first use, so that ``import catena.structure`` does not import torch. Tested in tests/test_api.py.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: the ``__name__`` of the package.
        modules: the module of each exported name, relative to the package (``.chain``) or absolute. A module itself is
            exported under the name of an entry that ends in ``:``, as in ``{"automata": ".automaton:"}``.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        path = modules[name]
        module = importlib.import_module(path.removesuffix(":"), package)
        value = module if path.endswith(":") else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names


class LazyModule:
    """A module that is imported when one of its names is first used, such as a module of compiled kernels.

    Args:
        name: its full name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value
