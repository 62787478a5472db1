"""Goals, agendas and texts as ids of one vocabulary and back, saved with the weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

import numpy as np

from catena.data.batches import pad
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, ITEM_SYMBOL
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.seq2seq.base import Source
from catena.seq2seq.sides import VocabularyInfo
from catena.tasks.compose.naming import ItemWordModel, normalize_word, split_words
from catena.tasks.compose.reading import Composition

SPECIALS = (BEGIN_SYMBOL, END_SYMBOL, ITEM_SYMBOL)
TOKENIZER, VOCABULARY = "tokenizer", "vocabulary.json"


class ComposeEncoding:
    """The tokenizer, vocabulary and item words of a model.

    With the last argument True (the default), the model reads only the words that name an item.

    Args:
        tokenizer: splits texts into tokens.
        vocabulary: the vocabulary of sources and targets.
        naming: the words that name items.
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
        """The words of each item that the model reads, without items that have none."""
        listed = self.items(example)
        listed = [self.naming.names(item) for item in listed] if self.telling else listed
        return [item for item in listed if item]

    def source(self, example: Composition) -> list[int]:
        """The ids of the goal, followed by a separator and the ids of each item."""
        ids = self.vocabulary.ids(self.tokenizer.tokens(example.goal))
        for item in self.shown(example):
            ids += [self.item, *self.vocabulary.ids(item)]
        return ids or [UNK]

    def target(self, text: str) -> list[int]:
        """The ids of a text with its end symbol."""
        return [*self.vocabulary.ids(self.tokenizer.tokens(text)), self.end]

    def text(self, ids: Iterable[int]) -> str:
        return self.tokenizer.join(self.vocabulary.tokens(ids))

    def sources(self, examples: Sequence[Composition]) -> Source:
        """A batch of sources."""
        ids, lengths = pad([np.array(self.source(example), np.int64) for example in examples])
        return Source(ids, lengths)

    def sides(self, counts: Sequence[int]) -> VocabularyInfo:
        """Vocabulary sizes and special ids for building a model."""
        v = len(self.vocabulary)
        return VocabularyInfo(v, counts, self.begin, self.end, (PAD, self.begin, self.item), shared=True)

    def names(self) -> list[int]:
        """The number of the item word of each id; singular and plural have the same number, and -1 means none."""
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
    """Load the encoding written by :meth:`ComposeEncoding.save`."""
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    return ComposeEncoding(load_tokenizer(folder / TOKENIZER), vocabulary, ItemWordModel.load(folder), telling)
