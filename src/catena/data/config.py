"""The choices that turn text into ids: tokens, vocabulary, features of linear models, batches.

Typed values only. Knows nothing of how tokens are made, and imports no torch.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config

StemLanguage = Literal[
    "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian",
    "porter", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish",
    "yiddish",
]  # fmt: skip
"""The Snowball stemmers, by their own names; ``porter`` is Porter's first one, for English."""

LemmaLanguage = Literal[
    "ast", "bg", "ca", "cs", "cy", "da", "de", "el", "en", "enm", "es", "et", "fa", "fi", "fr", "ga", "gd",
    "gl", "gv", "hbs", "hi", "hu", "hy", "id", "is", "it", "ka", "la", "lb", "lt", "lv", "mk", "ms", "nb",
    "nl", "nn", "pl", "pt", "ro", "ru", "se", "sk", "sl", "sq", "sv", "sw", "tl", "tr", "uk",
]  # fmt: skip
"""The languages of simplemma's dictionaries, by ISO code."""


class BaseTokenizerConfig(Config):
    """What every tokenizer may do to a text before it cuts it."""

    kind: str
    """How text is cut into tokens."""
    lowercase: bool = False
    """Write everything in lower case."""
    normalize: Literal["none", "NFC", "NFKC"] = "none"
    """Unicode normalization: NFC joins letters with their accents, NFKC also folds width and ligatures."""
    digits: Literal["keep", "fold", "split"] = "keep"
    """Digits stay as they are, all become 0 (fold), or each becomes a token of its own (split)."""


class BaseWordTokenizerConfig(BaseTokenizerConfig):
    """What the tokenizers that give whole words may do to each of them."""

    stem: StemLanguage | None = None
    """Cut each word to its Snowball stem in this language (running, runs: run). Stems are in lower case."""
    lemmatize: LemmaLanguage | None = None
    """Replace each word by its dictionary form in this language (has: have; apples: apple)."""

    @model_validator(mode="after")
    def _one_of_stem_and_lemmatize(self) -> BaseWordTokenizerConfig:
        if self.stem and self.lemmatize:
            raise ValueError(
                f"stem = {self.stem!r} and lemmatize = {self.lemmatize!r} are two ways to do the same: "
                f"leave one of them out"
            )
        return self


class WhitespaceTokenizerConfig(BaseWordTokenizerConfig):
    """Tokens stand between blanks: for text that is tokenized already."""

    kind: Literal["whitespace"] = "whitespace"
    """How text is cut into tokens."""


class WordTokenizerConfig(BaseWordTokenizerConfig):
    """Words, numbers and punctuation; English contractions in two (do n't); URLs, e-mails and emoji whole."""

    kind: Literal["words"] = "words"
    """How text is cut into tokens."""
    hyphens: Literal["keep", "split"] = "keep"
    """Words with hyphens (11-year-old) stay whole, or are cut at each hyphen (split)."""


class CharacterTokenizerConfig(BaseTokenizerConfig):
    """Characters as a reader sees them (graphemes): an accent stays with its letter, an emoji stays whole."""

    kind: Literal["characters"] = "characters"
    """How text is cut into tokens."""


class ByteTokenizerConfig(BaseTokenizerConfig):
    """The bytes of the UTF-8 text: 256 tokens, and nothing is ever unknown."""

    kind: Literal["bytes"] = "bytes"
    """How text is cut into tokens."""


class SubwordTokenizerConfig(BaseTokenizerConfig):
    """What the trained tokenizers share. They stand on bytes, so nothing is ever unknown."""

    size: int = Field(8000, ge=257)
    """Pieces to learn, the 256 bytes among them."""


class BpeTokenizerConfig(SubwordTokenizerConfig):
    """Byte-pair encoding: the most frequent neighbors are joined again and again (Sennrich et al. 2016)."""

    kind: Literal["bpe"] = "bpe"
    """How text is cut into tokens."""
    min_count: int = Field(2, ge=1)
    """Join two neighbors only when they stand together at least so often."""


class UnigramTokenizerConfig(SubwordTokenizerConfig):
    """Unigram pieces: the most likely cut under a piece model that is pruned from many (Kudo 2018)."""

    kind: Literal["unigram"] = "unigram"
    """How text is cut into tokens."""


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
    """Which symbols get an id of their own; the others share ``<unk>``."""

    min_count: int = Field(1, ge=1)
    """Keep symbols that occur at least so often."""
    max_size: int | None = Field(None, gt=0)
    """Keep at most so many symbols, the most frequent; <pad>, <unk> and other specials are not counted."""


class FeatureConfig(Config):
    """Sparse features of a text for linear models: n-grams of its tokens and of their characters."""

    ngrams: int = Field(2, ge=0, le=10)
    """The longest n-gram of tokens; 0 for none."""
    characters: int = Field(0, ge=0, le=20)
    """The longest n-gram of characters inside a token, its two ends marked; 0 for none."""
    characters_from: int = Field(3, ge=1)
    """The shortest n-gram of characters."""
    values: Literal["binary", "counts", "log"] = "binary"
    """A feature's value is 1, how often it occurs in the text, or log(1 + that)."""
    min_count: int = Field(1, ge=1)
    """Keep features that occur at least so often in the training data."""
    buckets: int | None = Field(None, gt=0)
    """Hash features into so many buckets instead of listing them: constant memory, some collisions."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> FeatureConfig:
        if not self.ngrams and not self.characters:
            raise ValueError("ngrams = 0 and characters = 0 leave no features: set one of them to 1 or more")
        if self.characters and self.characters < self.characters_from:
            raise ValueError(
                f"characters = {self.characters} is below characters_from = {self.characters_from}, which "
                f"leaves no n-grams of characters: raise characters or lower characters_from"
            )
        if self.buckets and self.min_count > 1:
            raise ValueError(
                f"min_count = {self.min_count} needs a list of features, and buckets = {self.buckets} keeps "
                f"none: leave one of them out"
            )
        return self


class BatchConfig(Config):
    """How examples are put together for one step."""

    batch_size: int = Field(50, gt=0)
    """Examples in a batch; with batch_by = tokens, tokens in it, padding included."""
    batch_by: Literal["examples", "tokens"] = "examples"
    """What batch_size counts."""
    bucket: int = Field(50, ge=0)
    """Sort examples by length inside windows of about so many batches, for less padding; 0 for no sorting."""
    length_noise: float = Field(0.1, ge=0, lt=1)
    """When sorting, lengths are off by up to this share at random, so that batches differ between epochs."""

    @model_validator(mode="after")
    def _size_counts_the_right_thing(self) -> BatchConfig:
        if self.batch_by == "tokens" and "batch_size" not in self.model_fields_set:
            raise ValueError(
                f"batch_by = 'tokens' needs a batch_size in tokens, and the default {self.batch_size} counts "
                f"examples: set batch_size too, to some thousands"
            )
        return self
