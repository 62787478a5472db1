"""Goals, agendas and texts as ids of one vocabulary, and back; saved beside the weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

import numpy as np

from catena.data.batches import pad
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.seq2seq.base import Source
from catena.seq2seq.sides import VocabularyInfo
from catena.tasks.compose.naming import ItemWordModel, normalize_word, split_words
from catena.tasks.compose.reading import Composition

BEGIN_SYMBOL, END_SYMBOL, ITEM_SYMBOL = SPECIALS = ("<s>", "</s>", "<item>")
TOKENIZER, VOCABULARY = "tokenizer", "vocabulary.json"


class ComposeEncoding:
    """The tokens, ids and names of a model.

    Args:
        telling: items are given to the model by the words that name them; otherwise with all their words.
    """

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: Vocabulary, naming: ItemWordModel, telling: bool = True
    ) -> None:
        self.tokenizer, self.vocabulary, self.naming, self.telling = tokenizer, vocabulary, naming, telling
        self.begin, self.end, self.item = (vocabulary.special(name) for name in SPECIALS)

    def items(self, example: Composition) -> list[list[str]]:
        """The words of each item."""
        return [split_words(item, self.tokenizer) for item in example.items]

    def shown(self, example: Composition) -> list[list[str]]:
        """The words of each item that the model is given; an item without any is left out."""
        listed = self.items(example)
        listed = [self.naming.names(item) for item in listed] if self.telling else listed
        return [item for item in listed if item]

    def source(self, example: Composition) -> list[int]:
        """The ids of the goal, and of each item after a mark."""
        ids = self.vocabulary.ids(self.tokenizer.tokens(example.goal))
        for item in self.shown(example):
            ids += [self.item, *self.vocabulary.ids(item)]
        return ids or [UNK]

    def target(self, text: str) -> list[int]:
        """The ids of a text and its end."""
        return [*self.vocabulary.ids(self.tokenizer.tokens(text)), self.end]

    def text(self, ids: Iterable[int]) -> str:
        return self.tokenizer.join(self.vocabulary.tokens(ids))

    def sources(self, examples: Sequence[Composition]) -> Source:
        """A batch of sources."""
        ids, lengths = pad([np.array(self.source(example), np.int64) for example in examples])
        return Source(ids, lengths)

    def sides(self, counts: Sequence[int]) -> VocabularyInfo:
        """What a model is told of the vocabulary, which both sides share."""
        v = len(self.vocabulary)
        return VocabularyInfo(v, counts, self.begin, self.end, (PAD, self.begin, self.item), shared=True)

    def names(self) -> list[int]:
        """What each id names: words that are one without their plural have one number, and -1 names nothing."""
        numbers: dict[str, int] = {}
        fresh, found = count(), []
        for id, symbol in enumerate(self.vocabulary.symbols):
            names = id >= len(self.vocabulary.specials) and any(letter.isalpha() for letter in symbol)
            word = normalize_word(symbol)
            if names and word not in numbers:
                numbers[word] = next(fresh)
            found.append(numbers[word] if names else -1)
        return found

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.vocabulary.save(folder / VOCABULARY)
        self.naming.save(folder)


def load_encoding(folder: Path, telling: bool) -> ComposeEncoding:
    """Read what :meth:`ComposeEncoding.save` wrote."""
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    return ComposeEncoding(load_tokenizer(folder / TOKENIZER), vocabulary, ItemWordModel.load(folder), telling)
