"""The examples in the docstrings are correct."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import catena.draw

MODULES = [found.name for found in pkgutil.walk_packages(catena.draw.__path__, "catena.draw.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
