"""Correction of text: misspelled words by an index of known words, any symbols by Markov chains."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.niche.correction.chains import McmcCorrector as McmcCorrector
    from catena.niche.correction.config import EditRates as EditRates
    from catena.niche.correction.config import SpellingConfig as SpellingConfig
    from catena.niche.correction.error_model import ErrorModel as ErrorModel
    from catena.niche.correction.error_model import read_confusions as read_confusions
    from catena.niche.correction.error_model import read_misspellings as read_misspellings
    from catena.niche.correction.index import DeleteIndex as DeleteIndex
    from catena.niche.correction.lattice import LatticeEdge as LatticeEdge
    from catena.niche.correction.lattice import LatticeSearch as LatticeSearch
    from catena.niche.correction.result import CorrectionResult as CorrectionResult
    from catena.niche.correction.text import TextCorrector as TextCorrector
    from catena.niche.correction.text import read_words as read_words

__all__ = [
    "CorrectionResult",
    "DeleteIndex",
    "EditRates",
    "ErrorModel",
    "LatticeEdge",
    "LatticeSearch",
    "McmcCorrector",
    "SpellingConfig",
    "TextCorrector",
    "read_confusions",
    "read_misspellings",
    "read_words",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CorrectionResult": ".result",
        "DeleteIndex": ".index",
        "EditRates": ".config",
        "ErrorModel": ".error_model",
        "LatticeEdge": ".lattice",
        "LatticeSearch": ".lattice",
        "McmcCorrector": ".chains",
        "SpellingConfig": ".config",
        "TextCorrector": ".text",
        "read_confusions": ".error_model",
        "read_misspellings": ".error_model",
        "read_words": ".text",
    },
)
