r"""Item words: the words of "2 cups all-purpose flour, sifted" by which a text mentions the item.

They are learned from examples. A word is an item word if texts often have it when their agenda has it, and rarely
otherwise:

.. math::  p(w \in \text{text} \mid w \in \text{agenda}) \ge \tfrac12
           \quad\text{and}\quad \ge 3\, p(w \in \text{text} \mid w \notin \text{agenda})

with half an example added to each count. So "flour" and "olive" are item words, and "cups", "sifted", "large" and "and"
are not. Words are compared without plural endings.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from catena.data.tokenize import Tokenizer
from catena.errors import CheckpointError

_FILE = "names.json"
_MIN_PROBABILITY, _MIN_LIFT = 0.5, 3.0


def normalize_word(word: str) -> str:
    """The word in lowercase without an English plural ending, such as tomato for tomatoes and berry for berries."""
    word = word.lower()
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 2 and word.endswith("y") else word


def split_words(text: str, tokenizer: Tokenizer) -> list[str]:
    """The words of a text, without numbers and punctuation."""
    return [token for token in tokenizer.tokens(text) if any(letter.isalpha() for letter in token)]


@dataclass(frozen=True)
class ItemWordModel:
    """The words by which texts mention items; all words are normalized.

    Args:
        probabilities: the probability that a word of the agenda is in the text.
        item_words: the words that name items.
    """

    probabilities: dict[str, float]
    item_words: frozenset[str]

    @classmethod
    def learn(cls, examples: Iterable[tuple[Sequence[Sequence[str]], Sequence[str]]]) -> ItemWordModel:
        """Learn from the words of the items and of the text of each example."""
        n, on_agenda, in_text, in_both = 0, Counter[str](), Counter[str](), Counter[str]()
        for items, text in examples:
            agenda = {normalize_word(word) for item in items for word in item}
            words = {normalize_word(word) for word in text}
            n += 1
            on_agenda.update(agenda)
            in_text.update(words)
            in_both.update(agenda & words)
        probabilities, item_words = {}, set()
        for word, count in on_agenda.items():
            probabilities[word] = (in_both[word] + 0.5) / (count + 1)
            otherwise = (in_text[word] - in_both[word] + 0.5) / (n - count + 1)
            if probabilities[word] >= max(_MIN_PROBABILITY, _MIN_LIFT * otherwise):
                item_words.add(word)
        return cls(probabilities, frozenset(item_words))

    def names(self, item: Sequence[str]) -> list[str]:
        """The words that name an item: its item words, else its unseen words, else its most probable words."""
        names = [word for word in item if normalize_word(word) in self.item_words]
        if names or not item:
            return names
        unseen = [word for word in item if normalize_word(word) not in self.probabilities]
        return unseen or [max(item, key=lambda word: self.probabilities[normalize_word(word)])]

    def mentioned(self, items: Sequence[Sequence[str]], text: Sequence[str]) -> list[bool]:
        """For each item, whether the text has a word that names it."""
        words = {normalize_word(word) for word in text}
        return [any(normalize_word(word) in words for word in self.names(item)) for item in items]

    def extra(self, items: Sequence[Sequence[str]], text: Sequence[str], goal: Sequence[str] = ()) -> set[str]:
        """The item words of a text that are neither in an item nor in the goal."""
        expected = {normalize_word(word) for item in (*items, goal) for word in item}
        return {normalize_word(word) for word in text} & self.item_words - expected

    def save(self, folder: Path) -> None:
        about = {
            "probabilities": {word: round(p, 6) for word, p in self.probabilities.items()},
            "item_words": sorted(self.item_words),
        }
        (folder / _FILE).write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> ItemWordModel:
        """Load the item words written by :meth:`save`."""
        try:
            about = json.loads((folder / _FILE).read_text(encoding="utf-8"))
            return cls(dict(about["probabilities"]), frozenset(about["item_words"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{folder / _FILE} cannot be read: {error}. Copy the model folder again.") from error
