"""The config of word vectors. Imports no torch."""

from __future__ import annotations

from typing import ClassVar, Literal

from catena.config import Config
from catena.data.config import TokenizerConfig, WhitespaceTokenizerConfig
from catena.vectors.config import VectorConfig


class EmbedDataConfig(Config):
    """The text."""

    PATHS: ClassVar[tuple[str, ...]] = ("train",)
    """The options that name files."""

    train: tuple[str, ...] = ()
    """Text files, plain or compressed, with words separated by spaces and a sentence or document per line. Of tables
    (.csv, .tsv, .jsonl, .parquet) one column is read, each row as a line."""
    format: Literal["auto", "text", "csv", "tsv", "jsonl", "parquet"] = "auto"
    """Format of the files. auto detects it from the file name; text reads the lines of any file."""
    text_column: str | None = None
    """Text column of tables. Detected by name if not set."""
    encoding: str | None = None
    """Encoding of the files if they are not UTF-8, such as latin-1."""

    # The command line reads these options of every task; word vectors have no dev or test set.

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
    """The task this config is for."""
    data: EmbedDataConfig = EmbedDataConfig()
    """The text."""
    tokens: TokenizerConfig = WhitespaceTokenizerConfig()
    """Tokenizer of lines. All kinds except whitespace (with or without lowercase) are much slower."""
