"""The interface of tokenizers, which convert text to tokens and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from catena.data.config import BaseTokenizerConfig
from catena.data.saved_config import write_settings

SETTINGS_FILE = "config.json"


class Tokenizer(ABC):
    """Splits text into tokens, deterministically for the same config and training texts."""

    @property
    @abstractmethod
    def settings(self) -> BaseTokenizerConfig:
        """The config it was built from."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every possible token if they are known in advance (bytes, subwords), otherwise none.

        A vocabulary with these symbols has no unknown tokens.
        """
        return ()

    @abstractmethod
    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, in order."""

    def chunks(self, text: str) -> list[str]:
        """The parts of a text that are tokenized independently by :meth:`chunk_tokens`, such as those between blanks.

        Many of them repeat in running text, so that a caller can remember what it derives from their tokens.
        """
        return [text]

    def chunk_tokens(self, chunk: str) -> Sequence[str]:
        """The tokens of a chunk; those of all chunks of a text are its tokens."""
        return self.tokens(chunk)

    @abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """The text of tokens: exact for characters, bytes and subwords; words are spaced by rules."""

    def shown(self, token: str) -> str:
        """A readable token, for pictures and tables of alignments."""
        return token

    def save(self, folder: Path) -> None:
        """Write what ``load_tokenizer`` needs to a folder, which is created if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(folder / SETTINGS_FILE, self.settings)

    def __reduce__(self) -> tuple[object, ...]:
        # Caches and compiled rules cannot be pickled; the config is enough to rebuild them.
        return type(self), (self.settings,)
