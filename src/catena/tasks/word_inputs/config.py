"""The config of the word inputs of taggers and parsers. Imports no torch.

Tested in tests/tasks/word_inputs/test_encoding.py and tests/tasks/word_inputs/test_model.py.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import VocabularyConfig
from catena.embeddings.config import CharacterConfig, CharacterConvolutionConfig, EmbeddingConfig
from catena.encoders.config import EncoderConfig, Probability
from catena.tasks.tag.features.templates import check_word_feature


class WordInputConfig(Config):
    """Vectors of a word: its embedding, a vector of its characters, and embeddings of further columns."""

    embedding: EmbeddingConfig = EmbeddingConfig(d=100)
    """Word embeddings: random, or from a file of vectors, fixed (static) or trained (tuned)."""
    vocabulary: VocabularyConfig = VocabularyConfig()
    """Words of train that get their own embedding; all others are unknown words."""
    all_vectors: bool = False
    """With embedding.vectors: add every word of the file to the vocabulary, not only those of train."""
    lowercase: bool = False
    """Look up words in lowercase. Their characters keep their case."""
    digits: bool = False
    """Look up words with every digit replaced by 0. Their characters keep the digits."""
    unknown_dropout: float = Field(0.25, ge=0)
    """Word dropout: in training a word that occurs n times is replaced by the unknown word with probability
    z / (z + n), where z is this value (Kiperwasser & Goldberg 2016, section 3.2). 0 disables it."""
    characters: CharacterConfig = CharacterConvolutionConfig()
    """Encoder of the characters of a word: none, cnn or lstm."""
    columns: tuple[str, ...] = ()
    """Further input columns of the file, such as the part of speech: numbers from 0 in a column file, names such as
    'upos' in CoNLL-U."""
    d_column: int = Field(25, gt=0)
    """Embedding size of a further column."""
    features: tuple[str, ...] = ()
    """Features of a word with embeddings of their own: lower, shape, outline, prefix2, suffix3, lower_prefix2,
    lower_suffix3 and so on. Values that occur only once in train have the vector of unknown values."""
    d_feature: int = Field(20, gt=0)
    """Embedding size of a feature."""
    dropout: Probability = 0.33
    """Dropout probability of the features of a word vector."""
    locked: bool = False
    """Drop the same features of all words of a sentence (variational dropout)."""
    context: EncoderConfig | None = None
    """An encoder of the word embeddings whose states are concatenated to the word vectors. Set by `pretrained`, from
    the language model that it names."""

    @model_validator(mode="after")
    def _fits(self) -> WordInputConfig:
        if self.all_vectors and self.embedding.vectors is None:
            raise ValueError(
                "all_vectors = true needs a file of vectors. Set embedding.vectors and embedding.mode, or remove "
                "all_vectors."
            )
        twice = [name for name in self.columns if self.columns.count(name) > 1]
        if twice:
            raise ValueError(f"columns must be distinct, got {twice[0]!r} more than once. Remove one of them.")
        for name in self.features:
            check_word_feature(name)
        return self
