"""Text to ids and back: the tokenizer and vocabulary of a language model, saved with its weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, MASK_SYMBOL
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.tasks.config import TOKENIZER, VOCABULARY
from catena.tasks.lm.config import LmConfig


class LmEncoding:
    """Converts texts to tokens and ids, and ids back to text.

    Args:
        tokenizer: splits text into tokens.
        vocabulary: maps tokens to ids.
        unit: ``"line"`` if each line is a text, ``"file"`` if each file is one.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary, unit: str) -> None:
        self.tokenizer, self.vocabulary, self.unit = tokenizer, vocabulary, unit
        self.end = vocabulary.special(END_SYMBOL)

    def tokens(self, text: str) -> list[str]:
        """The tokens of one line, with its line break if a file is one text."""
        return line_tokens(self.tokenizer, text, self.unit)

    def ids(self, text: str) -> list[int]:
        """The ids of a text, without an end symbol. The text may have several lines if a file is one text."""
        return self.vocabulary.ids(self.tokenizer.tokens(text))

    def text(self, ids: Iterable[int]) -> str:
        """The text of ids. An end symbol becomes a line break."""
        lines: list[list[int]] = [[]]
        for id in ids:
            if id == self.end:
                lines.append([])
            else:
                lines[-1].append(id)
        return "\n".join(self.tokenizer.join(self.vocabulary.tokens(line)) for line in lines)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.vocabulary.save(folder / VOCABULARY)


def line_tokens(tokenizer: Tokenizer, line: str, unit: str) -> list[str]:
    """The tokens of a line, with its line break if a file is one text."""
    return tokenizer.tokens(line + "\n" if unit == "file" else line)


def special_tokens(config: LmConfig) -> Sequence[str]:
    """The special tokens of a model's vocabulary."""
    symbols = (BEGIN_SYMBOL, END_SYMBOL)
    return (*symbols, MASK_SYMBOL) if config.objective.kind == "masked" else symbols


def load_encoding(folder: Path, unit: str) -> LmEncoding:
    """Load the encoding of a model folder."""
    return LmEncoding(load_tokenizer(folder / TOKENIZER), Vocabulary.load(folder / VOCABULARY), unit)
