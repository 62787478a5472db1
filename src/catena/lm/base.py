"""Language models: steppers with a vocabulary."""

from __future__ import annotations

from abc import abstractmethod

from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, UNK_SYMBOL
from catena.data.vocabulary import Vocabulary
from catena.search.stepper import Stepper, StepperState

SPECIALS = (BEGIN_SYMBOL, END_SYMBOL)
"""The special tokens of a language model in addition to padding and unknown: begin and end of a sequence."""


def non_text_ids(vocabulary: Vocabulary) -> list[int]:
    """The ids of special tokens that do not occur in a text: all except the unknown word and the end."""
    return [vocabulary.special(name) for name in vocabulary.specials if name not in (UNK_SYMBOL, END_SYMBOL)]


class AutoregressiveLM(Stepper[StepperState]):
    """Abstract stepper over the ids of a vocabulary.

    ``token_log_probs(ids, lengths)`` returns log p of each id given those before it. The end is not added: callers
    append ``end``.
    """

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The tokens of the ids."""
