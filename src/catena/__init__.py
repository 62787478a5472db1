"""Catena: sequence models, from n-grams to Transformers, on your own machine.

The names below are imported on first use, so that ``import catena`` does not import torch.
"""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports
from catena.version import __version__ as __version__

if TYPE_CHECKING:
    from catena.tasks.caption.estimator import Captioner as Captioner
    from catena.tasks.classify.estimator import TextClassifier as TextClassifier
    from catena.tasks.compose.estimator import Composer as Composer
    from catena.tasks.converse.estimator import Responder as Responder
    from catena.tasks.embed.estimator import WordVectors as WordVectors
    from catena.tasks.lm.estimator import LanguageModel as LanguageModel
    from catena.tasks.lm.sound.estimator import SoundModel as SoundModel
    from catena.tasks.load import load as load
    from catena.tasks.load import train as train
    from catena.tasks.parse.estimator import Parser as Parser
    from catena.tasks.point.estimator import Pointer as Pointer
    from catena.tasks.read.estimator import Reader as Reader
    from catena.tasks.regress.estimator import Regressor as Regressor
    from catena.tasks.tag.estimator import Tagger as Tagger
    from catena.tasks.transduce.estimator import Transducer as Transducer
    from catena.tasks.translate.estimator import Translator as Translator

__all__ = [
    "Captioner",
    "Composer",
    "LanguageModel",
    "Parser",
    "Pointer",
    "Reader",
    "Regressor",
    "Responder",
    "SoundModel",
    "Tagger",
    "TextClassifier",
    "Transducer",
    "Translator",
    "WordVectors",
    "__version__",
    "load",
    "train",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Captioner": "catena.tasks.caption.estimator",
        "Composer": "catena.tasks.compose.estimator",
        "LanguageModel": "catena.tasks.lm.estimator",
        "Parser": "catena.tasks.parse.estimator",
        "Pointer": "catena.tasks.point.estimator",
        "Reader": "catena.tasks.read.estimator",
        "Regressor": "catena.tasks.regress.estimator",
        "Responder": "catena.tasks.converse.estimator",
        "SoundModel": "catena.tasks.lm.sound.estimator",
        "Tagger": "catena.tasks.tag.estimator",
        "TextClassifier": "catena.tasks.classify.estimator",
        "Transducer": "catena.tasks.transduce.estimator",
        "Translator": "catena.tasks.translate.estimator",
        "WordVectors": "catena.tasks.embed.estimator",
        "load": "catena.tasks.load",
        "train": "catena.tasks.load",
    },
)
