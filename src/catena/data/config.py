"""Configs of tokenizers, vocabularies, features of linear models, and batches, and files of configs.

These are typed values only. This module does not import torch.

Tested in tests/data/test_tokenize.py and tests/data/test_token_offsets.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, model_validator

from catena.config import Config, parse
from catena.errors import CheckpointError, ConfigError

StemLanguage = Literal[
    "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian",
    "porter", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish",
    "yiddish",
]  # fmt: skip
"""The Snowball stemmers by name. ``porter`` is Porter's original stemmer for English."""

LemmaLanguage = Literal[
    "ast", "bg", "ca", "cs", "cy", "da", "de", "el", "en", "enm", "es", "et", "fa", "fi", "fr", "ga", "gd",
    "gl", "gv", "hbs", "hi", "hu", "hy", "id", "is", "it", "ka", "la", "lb", "lt", "lv", "mk", "ms", "nb",
    "nl", "nn", "pl", "pt", "ro", "ru", "se", "sk", "sl", "sq", "sv", "sw", "tl", "tr", "uk",
]  # fmt: skip
"""The languages of simplemma's dictionaries, by ISO code."""


class BaseTokenizerConfig(Config):
    """Options of every tokenizer, applied to the text before tokenization."""

    kind: str
    """Tokenizer."""
    lowercase: bool = False
    """Convert the text to lower case."""
    normalize: Literal["none", "NFC", "NFKC"] = "none"
    """Unicode normalization: NFC composes letters and accents, NFKC also folds width and ligatures."""
    digits: Literal["keep", "fold", "split"] = "keep"
    """keep: leave digits; fold: replace each digit by 0; split: make each digit a token."""


class BaseWordTokenizerConfig(BaseTokenizerConfig):
    """Options of the tokenizers that produce whole words, applied to each word."""

    stem: StemLanguage | None = None
    """Reduce each word to its Snowball stem in this language (running, runs: run). Stems are in lower case."""
    lemmatize: LemmaLanguage | None = None
    """Replace each word by its lemma in this language (has: have; apples: apple)."""

    @model_validator(mode="after")
    def _one_of_stem_and_lemmatize(self) -> BaseWordTokenizerConfig:
        if self.stem and self.lemmatize:
            raise ValueError(
                f"stem = {self.stem!r} and lemmatize = {self.lemmatize!r} cannot be combined. Remove one of them."
            )
        return self


class WhitespaceTokenizerConfig(BaseWordTokenizerConfig):
    """Tokens separated by whitespace, for text that is tokenized already."""

    kind: Literal["whitespace"] = "whitespace"
    """Tokenizer."""


class WordTokenizerConfig(BaseWordTokenizerConfig):
    """Words, numbers and punctuation. English contractions are split (do n't); URLs, e-mails and emoji are not."""

    kind: Literal["words"] = "words"
    """Tokenizer."""
    hyphens: Literal["keep", "split"] = "keep"
    """keep: leave words with hyphens (11-year-old) whole; split: split them at each hyphen."""


class CharacterTokenizerConfig(BaseTokenizerConfig):
    """Graphemes: an accent stays with its letter, an emoji stays whole."""

    kind: Literal["characters"] = "characters"
    """Tokenizer."""


class ByteTokenizerConfig(BaseTokenizerConfig):
    """The bytes of the UTF-8 text: 256 tokens, so that no token is unknown."""

    kind: Literal["bytes"] = "bytes"
    """Tokenizer."""


class SubwordTokenizerConfig(BaseTokenizerConfig):
    """Options of the trained subword tokenizers. They are byte-level, so that no token is unknown."""

    size: int = Field(8000, ge=257)
    """Number of pieces to learn, including the 256 bytes."""


class BpeTokenizerConfig(SubwordTokenizerConfig):
    """Byte-pair encoding: repeatedly merge the most frequent pair (Sennrich et al. 2016)."""

    kind: Literal["bpe"] = "bpe"
    """Tokenizer."""
    min_count: int = Field(2, ge=1)
    """Merge only pairs that occur at least this often."""


class UnigramTokenizerConfig(SubwordTokenizerConfig):
    """Unigram pieces: the most probable segmentation under a pruned piece model (Kudo 2018)."""

    kind: Literal["unigram"] = "unigram"
    """Tokenizer."""


TokenizerConfig = Annotated[
    WhitespaceTokenizerConfig
    | WordTokenizerConfig
    | CharacterTokenizerConfig
    | ByteTokenizerConfig
    | BpeTokenizerConfig
    | UnigramTokenizerConfig,
    Field(discriminator="kind"),
]


class VocabularyConfig(Config):
    """Which symbols get their own ids. The others become ``<unk>``."""

    min_count: int = Field(1, ge=1)
    """Keep symbols that occur at least this often."""
    max_size: int | None = Field(None, gt=0)
    """Keep at most this many symbols, the most frequent ones, not counting <pad>, <unk> and other special tokens."""


class FeatureConfig(Config):
    """Sparse features of a text for linear models: n-grams of its tokens and of their characters."""

    ngrams: int = Field(2, ge=0, le=10)
    """Maximum length of token n-grams. 0: none."""
    characters: int = Field(0, ge=0, le=20)
    """Maximum length of character n-grams inside a token, with its boundaries marked. 0: none."""
    characters_from: int = Field(3, ge=1)
    """Minimum length of character n-grams."""
    values: Literal["binary", "counts", "log"] = "binary"
    """Value of a feature: 1 (binary), its count in the text (counts), or log(1 + count) (log)."""
    min_count: int = Field(1, ge=1)
    """Keep features that occur at least this often in the training data."""
    buckets: int | None = Field(None, gt=0)
    """Hash features into this many buckets instead of listing them: constant memory, some collisions."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> FeatureConfig:
        if not self.ngrams and not self.characters:
            raise ValueError("ngrams = 0 and characters = 0 leave no features. Set one of them to 1 or more.")
        if self.characters and self.characters < self.characters_from:
            raise ValueError(
                f"characters must be at least characters_from = {self.characters_from}, got {self.characters}. "
                f"Increase characters or decrease characters_from."
            )
        if self.buckets and self.min_count > 1:
            raise ValueError(
                f"min_count = {self.min_count} and buckets = {self.buckets} cannot be combined, because hashed "
                f"features are not counted. Remove one of them."
            )
        return self


class BatchConfig(Config):
    """How examples are grouped into batches."""

    batch_size: int = Field(50, gt=0)
    """Examples per batch. With batch_by = tokens, tokens per batch, including padding."""
    batch_by: Literal["examples", "tokens"] = "examples"
    """Unit of batch_size."""
    bucket: int = Field(50, ge=0)
    """Sort examples by length inside windows of about this many batches, for less padding. 0: no sorting."""
    length_noise: float = Field(0.1, ge=0, lt=1)
    """When sorting, perturb lengths by up to this fraction at random, so that batches differ between epochs."""

    @model_validator(mode="after")
    def _size_counts_the_right_thing(self) -> BatchConfig:
        if self.batch_by == "tokens" and "batch_size" not in self.model_fields_set:
            raise ValueError(
                f"batch_size must be set in tokens if batch_by = 'tokens', got the default of {self.batch_size} "
                f"examples. Set it to 4000, for example."
            )
        return self


# --- saved configs ----------------------------------------------------------------------------------------------------


FORMAT = 1
S = TypeVar("S", bound=Config)


def write_settings(path: Path, settings: Config) -> None:
    """Write a config to a file."""
    text = json.dumps({"format": FORMAT, "settings": settings.model_dump()}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def read_settings(path: Path, schema: type[S], folder_of: str, file_of: str) -> S:
    """Read a config that :func:`write_settings` wrote, into a ``schema`` with the one section ``settings``.

    Args:
        path: the file.
        schema: the config class.
        folder_of: description of the expected folder for errors: "a folder of features".
        file_of: description of the expected file for errors: "a file of features".
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} has no {path.name}, so it is not {folder_of}. Check the path.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"Cannot read {path} ({error}). Copy the model again.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("settings"), dict):
        raise CheckpointError(
            f"{path} is not {file_of} of format {FORMAT}. It is damaged or from a newer version: copy the model again."
        )
    try:
        return parse(schema, {"settings": data["settings"]}, source=str(path))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
