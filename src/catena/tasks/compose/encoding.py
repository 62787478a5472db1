"""Goals, agendas and texts as ids of one vocabulary and back, saved with the weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, ITEM_SYMBOL
from catena.data.tokenize import Tokenizer, build_tokenizer, load_tokenizer
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.seq2seq.sides import VocabularyInfo
from catena.tasks.compose.config import ComposeConfig
from catena.tasks.compose.data import Composition
from catena.tasks.compose.item_words import ItemWordModel, normalize_word, split_words
from catena.tasks.config import TOKENIZER, VOCABULARY

_SPECIALS = (BEGIN_SYMBOL, END_SYMBOL, ITEM_SYMBOL)


class ComposeEncoding:
    """The tokenizer, vocabulary and item words of a model.

    Args:
        tokenizer: splits texts into tokens.
        vocabulary: the vocabulary of sources and targets.
        naming: the words that name items.
        reads_names: whether the model reads only the words that name an item.
    """

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: Vocabulary, naming: ItemWordModel, reads_names: bool = True
    ) -> None:
        self.tokenizer, self.vocabulary, self.naming, self.reads_names = tokenizer, vocabulary, naming, reads_names
        self.begin, self.end, self.item = (vocabulary.special(name) for name in _SPECIALS)

    def items(self, example: Composition) -> list[list[str]]:
        """The words of each item."""
        return [split_words(item, self.tokenizer) for item in example.items]

    def read_words(self, example: Composition) -> list[list[str]]:
        """The words of each item that the model reads, without items that have none."""
        listed = self.items(example)
        listed = [self.naming.names(item) for item in listed] if self.reads_names else listed
        return [item for item in listed if item]

    def source(self, example: Composition) -> list[int]:
        """The ids of the goal, followed by a separator and the ids of each item."""
        ids = self.vocabulary.ids(self.tokenizer.tokens(example.goal))
        for item in self.read_words(example):
            ids += [self.item, *self.vocabulary.ids(item)]
        return ids or [UNK]

    def target(self, text: str) -> list[int]:
        """The ids of a text with its end symbol."""
        return [*self.vocabulary.ids(self.tokenizer.tokens(text)), self.end]

    def text(self, ids: Iterable[int]) -> str:
        return self.tokenizer.join(self.vocabulary.tokens(ids))

    def sides(self, counts: Sequence[int]) -> VocabularyInfo:
        """Vocabulary sizes and special ids for building a model."""
        v = len(self.vocabulary)
        return VocabularyInfo(v, counts, self.begin, self.end, (PAD, self.begin, self.item), shared=True)

    def names(self) -> list[int]:
        """The number of the item word of each id; singular and plural have the same number, and -1 means none."""
        numbers: dict[str, int] = {}
        fresh, of_ids = count(), []
        for id, symbol in enumerate(self.vocabulary.symbols):
            names = id >= len(self.vocabulary.specials) and any(letter.isalpha() for letter in symbol)
            word = normalize_word(symbol)
            if names and word not in numbers:
                numbers[word] = next(fresh)
            of_ids.append(numbers[word] if names else -1)
        return of_ids

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.vocabulary.save(folder / VOCABULARY)
        self.naming.save(folder)


def fit_encoding(config: ComposeConfig, train: Sequence[Composition]) -> ComposeEncoding:
    """The encoding with the item words of train, and the vocabulary of its sources and targets."""
    tokenizer = build_tokenizer(config.tokenizer)
    listed = [[split_words(item, tokenizer) for item in example.items] for example in train]
    texts = [tokenizer.tokens(example.text) for example in train]
    naming = ItemWordModel.learn(zip(listed, texts, strict=True))
    reads_names = config.data.item_words == "naming"
    words: list[Sequence[str]] = [*texts, *(tokenizer.tokens(example.goal) for example in train)]
    words += [naming.names(item) if reads_names else item for items in listed for item in items]
    return ComposeEncoding(tokenizer, Vocabulary.count(words, config.vocabulary, _SPECIALS), naming, reads_names)


def load_encoding(folder: Path, reads_names: bool) -> ComposeEncoding:
    """Load the encoding written by :meth:`ComposeEncoding.save`."""
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    return ComposeEncoding(load_tokenizer(folder / TOKENIZER), vocabulary, ItemWordModel.load(folder), reads_names)
