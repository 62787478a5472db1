"""Language models: steppers that know their vocabulary."""

from __future__ import annotations

from abc import abstractmethod

from catena.data.vocabulary import UNK_SYMBOL, Vocabulary
from catena.search.stepper import Stepper, StepperState

BEGIN_SYMBOL, END_SYMBOL = "<s>", "</s>"
SPECIALS = (BEGIN_SYMBOL, END_SYMBOL)
"""The specials that a vocabulary of a language model has beside padding and unknown: begin and end of a sequence."""


def non_text_ids(vocabulary: Vocabulary) -> list[int]:
    """The ids of the specials that no text holds: all but the unknown word and the end."""
    return [vocabulary.special(name) for name in vocabulary.specials if name not in (UNK_SYMBOL, END_SYMBOL)]


class AutoregressiveLM(Stepper[StepperState]):
    """A stepper over the ids of a vocabulary.

    ``token_log_probs(ids, lengths)`` gives log p of each id after those before it. The end is not added: callers
    append ``end``.
    """

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The symbols behind the ids."""
