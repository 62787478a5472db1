"""Text to ids and back: the tokeniser and the vocabulary of a language model, saved beside its weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from catena.data.tokenise import Tokeniser, load_tokeniser
from catena.data.vocabulary import Vocabulary
from catena.lm.base import END_SYMBOL, SPECIALS
from catena.lm.neural_masked import MASK_SYMBOL
from catena.tasks.kept import TOKENISER, VOCABULARY
from catena.tasks.lm.settings import LmConfig


class LmEncoding:
    """The tokens and ids of texts."""

    def __init__(self, tokeniser: Tokeniser, vocabulary: Vocabulary, unit: str) -> None:
        self.tokeniser, self.vocabulary, self.unit = tokeniser, vocabulary, unit
        self.end = vocabulary.special(END_SYMBOL)

    def tokens(self, text: str) -> list[str]:
        """The tokens of one line; where a file is one text, with its line end."""
        return line_tokens(self.tokeniser, text, self.unit)

    def ids(self, text: str) -> list[int]:
        """The ids of a text, which may have several lines where a file is one text; no end is added."""
        return self.vocabulary.ids(self.tokeniser.tokens(text))

    def text(self, ids: Iterable[int]) -> str:
        """The text of ids; an end becomes a line end."""
        lines: list[list[int]] = [[]]
        for id in ids:
            if id == self.end:
                lines.append([])
            else:
                lines[-1].append(id)
        return "\n".join(self.tokeniser.join(self.vocabulary.tokens(line)) for line in lines)

    def save(self, folder: Path) -> None:
        self.tokeniser.save(folder / TOKENISER)
        self.vocabulary.save(folder / VOCABULARY)


def line_tokens(tokeniser: Tokeniser, line: str, unit: str) -> list[str]:
    """The tokens of a line; where a file is one text, its line end is a part of it."""
    return tokeniser.tokens(line + "\n" if unit == "file" else line)


def specials_of(config: LmConfig) -> Sequence[str]:
    """The specials of a model's vocabulary."""
    return (*SPECIALS, MASK_SYMBOL) if config.objective.kind == "masked" else SPECIALS


def load_encoding(folder: Path, unit: str) -> LmEncoding:
    """Read the encoding of a model folder."""
    return LmEncoding(load_tokeniser(folder / TOKENISER), Vocabulary.load(folder / VOCABULARY), unit)
