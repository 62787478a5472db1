"""Options of correction: rates of errors, and how misspellings are corrected. Does not import torch.

Tested in tests/niche/correction/test_candidates.py and tests/niche/correction/test_spelling.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from catena.errors import ConfigError


@dataclass(frozen=True)
class EditRates:
    """Probability of each edit error at a symbol, and of a substitution within the symbol's confusions.

    Args:
        insert: of an insertion before a symbol.
        delete: of a deletion.
        substitute: of a substitution.
        transpose: of an exchange with the next symbol.
        near: that a substitution is one of the confusions of the symbol.
    """

    insert: float = 0.006
    delete: float = 0.01
    substitute: float = 0.012
    transpose: float = 0.004
    near: float = 0.8

    def __post_init__(self) -> None:
        wrong = {name: rate for name, rate in vars(self).items() if not 0 <= rate <= 1}
        if wrong or self.insert == 1 or self.delete + self.substitute + self.transpose > 1:
            raise ConfigError(
                "rates must be from 0 to 1, insert below 1, and delete + substitute + transpose at most 1, got "
                f"{vars(self)}. Lower the rates."
            )


@dataclass(frozen=True)
class SpellingConfig:
    """How misspellings are corrected.

    Args:
        real_words: the factor on the probability that a known word is a misspelling of another; 0 never changes a known
            word.
        new_words: the factor on the probability that an unknown word is correct as it is, such as a name; 0 always
            replaces an unknown word if any known word is similar.
        max_edits: the largest number of edits in an unknown word, 1 or 2; in a known word it is 1.
        lm_weight: the exponent of the language model's probability; above 1 gives it more weight than the errors.
        beam_size: the number of corrections of a text that are compared at each word.
    """

    real_words: float = 0.3
    new_words: float = 0.3
    max_edits: int = 2
    lm_weight: float = 0.8
    beam_size: int = 32

    def __post_init__(self) -> None:
        for name in ("real_words", "new_words"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be from 0 to 1, got {getattr(self, name)}. Use 0.01.")
        if self.max_edits not in (1, 2):
            raise ConfigError(f"max_edits must be 1 or 2, got {self.max_edits}. Use 2.")
        if not 0 < self.lm_weight < math.inf:
            raise ConfigError(f"lm_weight must be above 0 and finite, got {self.lm_weight}. Use 1.")
        if self.beam_size < 1:
            raise ConfigError(f"beam_size must be 1 or more, got {self.beam_size}. Use 32.")
