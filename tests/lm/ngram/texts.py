"""Small texts of ids and of words, and models of them, for the tests of n-gram models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import strategies as st

from catena.data.vocabulary import Vocabulary
from catena.lm.base import SPECIALS
from catena.lm.ngram.model import NgramModel
from tests.oracle.ngram import BEGIN, END

LETTERS = "abcde"
FIRST = 4
"""The id of "a": after padding, unknown, begin and end."""
EVENTS: list[object] = [1, *range(FIRST, FIRST + 3), END]
"""The events over three letters, for the oracle: the unknown word, the letters, the end."""

sentences = st.lists(st.lists(st.sampled_from([1, FIRST, FIRST + 1, FIRST + 2]), max_size=6), max_size=8)
orders = st.integers(1, 4)


def letters(n: int = 3) -> Vocabulary:
    return Vocabulary(list(LETTERS[:n]), specials=SPECIALS)


def trained(text: list[list[int]], order: int, **options: object) -> NgramModel:
    return NgramModel.train_ids(text, letters(), order, **options)  # type: ignore[arg-type]


def histories(order: int) -> Iterator[tuple[object, ...]]:
    """All histories over the letters, from the begin of a sentence or from its middle."""
    words = [event for event in EVENTS if event != END]
    for length in range(order):
        yield from itertools.product(words, repeat=length)
        if length < order - 1:
            yield from ((BEGIN, *rest) for rest in itertools.product(words, repeat=length))


def state_after(model: NgramModel, history: tuple[object, ...]) -> int:
    """The state of a history that need not begin a sentence."""
    import numpy as np

    state = np.zeros(1, np.int64)
    for word in history:
        state = model.packed.step(state, np.array([model.begin if word == BEGIN else word], np.int64))[0]
    return int(state[0])
