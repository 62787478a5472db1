"""Models that give p(next | prefix)."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.lm.base import AutoregressiveLM as AutoregressiveLM
    from catena.lm.mixture import CacheModel as CacheModel
    from catena.lm.mixture import LinearMixture as LinearMixture
    from catena.lm.neural import NeuralLanguageModel as NeuralLanguageModel
    from catena.lm.neural_masked import MaskedLanguageModel as MaskedLanguageModel
    from catena.lm.ngram.arpa import read_arpa as read_arpa
    from catena.lm.ngram.arpa import write_arpa as write_arpa
    from catena.lm.ngram.model import NgramModel as NgramModel
    from catena.lm.wavenet import WaveNet as WaveNet

__all__ = [
    "AutoregressiveLM",
    "CacheModel",
    "LinearMixture",
    "MaskedLanguageModel",
    "NeuralLanguageModel",
    "NgramModel",
    "WaveNet",
    "read_arpa",
    "write_arpa",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AutoregressiveLM": ".base",
        "CacheModel": ".mixture",
        "LinearMixture": ".mixture",
        "MaskedLanguageModel": ".neural_masked",
        "NeuralLanguageModel": ".neural",
        "NgramModel": ".ngram.model",
        "WaveNet": ".wavenet",
        "read_arpa": ".ngram.arpa",
        "write_arpa": ".ngram.arpa",
    },
)
