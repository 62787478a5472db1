"""The config of word vectors. Imports no torch."""

from __future__ import annotations

from typing import ClassVar, Literal

from catena.config import Config
from catena.data.config import TokenizerConfig, WhitespaceTokenizerConfig
from catena.vectors.config import VectorConfig


class EmbedDataConfig(Config):
    """The text."""

    PATHS: ClassVar[tuple[str, ...]] = ("train",)
    """The keys that name files."""

    train: tuple[str, ...] = ()
    """Text files, plain or compressed: words stand between blanks, a line is a sentence or a document. Of tables (.csv,
    .tsv, .jsonl, .parquet) one column is read, a row as a line."""
    format: Literal["auto", "text", "csv", "tsv", "jsonl", "parquet"] = "auto"
    """Format of the files; auto goes by the ends of their names, and text reads the lines of any file."""
    text_column: str | None = None
    """The column of tables; found by its name if omitted."""
    encoding: str | None = None
    """Encoding of the files if they are not UTF-8, such as latin-1."""

    # The command line asks every task for these; word vectors hold no text out.

    @property
    def dev(self) -> None:
        return None

    @property
    def test(self) -> None:
        return None

    @property
    def folds(self) -> None:
        return None

    @property
    def fold(self) -> None:
        return None


class EmbedConfig(VectorConfig):
    """Word vectors."""

    task: Literal["embed"] = "embed"
    """What this config is for."""
    data: EmbedDataConfig = EmbedDataConfig()
    """The text."""
    tokens: TokenizerConfig = WhitespaceTokenizerConfig()
    """How lines are cut into words; anything but whitespace (with or without lowercase) is much slower."""
