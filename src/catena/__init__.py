"""Catena: sequence models, from n-grams to Transformers, on your own machine.

The names below are imported on first use, so that ``import catena`` does not import torch.
"""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports
from catena.version import __version__ as __version__

if TYPE_CHECKING:
    from catena.tasks.classify.estimator import TextClassifier as TextClassifier
    from catena.tasks.load import load as load
    from catena.tasks.tag.estimator import Tagger as Tagger
    from catena.vectors.table import WordVectors as WordVectors

__all__ = ["Tagger", "TextClassifier", "WordVectors", "__version__", "load"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Tagger": "catena.tasks.tag.estimator",
        "TextClassifier": "catena.tasks.classify.estimator",
        "WordVectors": "catena.vectors.table",
        "load": "catena.tasks.load",
    },
)
