"""Catena: sequence models, from n-grams to Transformers, on your own machine.

The names below are imported when they are first used, so that ``import catena`` costs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from catena.version import __version__

if TYPE_CHECKING:
    from catena.tasks.classify.estimator import TextClassifier
    from catena.tasks.load import load
    from catena.tasks.tag.estimator import Tagger
    from catena.vectors.table import WordVectors

_HOME = {
    "load": "catena.tasks.load",
    "TextClassifier": "catena.tasks.classify.estimator",
    "Tagger": "catena.tasks.tag.estimator",
    "WordVectors": "catena.vectors.table",
}

__all__ = ["Tagger", "TextClassifier", "WordVectors", "__version__", "load"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'catena' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
