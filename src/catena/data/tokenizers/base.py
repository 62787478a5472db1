"""What every tokenizer can do. Knows nothing of ids: text in, tokens out, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from catena.data.config import BaseTokenizerConfig
from catena.data.saved_config import write_settings

SETTINGS_FILE = "config.json"


class Tokenizer(ABC):
    """Cuts text into tokens, the same ones for the same settings and, if it is trained, the same texts."""

    @property
    @abstractmethod
    def settings(self) -> BaseTokenizerConfig:
        """What it was built from."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every token it can give, when they are known beforehand (bytes, subwords); otherwise none.

        A vocabulary that is given them never meets an unknown token.
        """
        return ()

    @abstractmethod
    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, in order; a text without any gives an empty list."""

    @abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """The text of tokens: exact for characters, bytes and subwords; words are spaced as in writing."""

    def shown(self, token: str) -> str:
        """A token for people to read: in pictures and tables of alignments."""
        return token

    def save(self, folder: Path) -> None:
        """Write what ``load_tokenizer`` needs into a folder, which is made if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(folder / SETTINGS_FILE, self.settings)

    def __reduce__(self) -> tuple[object, ...]:
        # Caches and compiled rules cannot be pickled, and the settings are enough to make them again.
        return type(self), (self.settings,)
