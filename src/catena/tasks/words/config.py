"""What a tagger or a parser sees of a word. Imports no torch."""

from __future__ import annotations

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import VocabularyConfig
from catena.embeddings.config import CharacterConfig, CharacterConvolutionConfig, EmbeddingConfig
from catena.encoders.config import EncoderConfig, Probability


class WordInputConfig(Config):
    """What is seen of a word: a vector of its own, one made of its characters, and those of further columns."""

    embedding: EmbeddingConfig = EmbeddingConfig(d=100)
    """The vectors of the words: random, or of a file, kept (static) or learned (tuned)."""
    vocabulary: VocabularyConfig = VocabularyConfig()
    """Which words of train get a vector of their own; the others share that of the unknown word."""
    all_vectors: bool = False
    """With embedding.vectors: know every word of the file, not those of train alone."""
    lowercase: bool = False
    """Look words up in lower case; their characters are read as they stand."""
    digits: bool = False
    """Look words up with every digit read as 0; their characters are read as they stand."""
    unknown_dropout: float = Field(0.25, ge=0)
    """In training a word that train holds n times is read as unknown with the probability z / (z + n), where z is this
    number (Kiperwasser & Goldberg 2016, section 3.2); 0 for never."""
    characters: CharacterConfig = CharacterConvolutionConfig()
    """How the characters of a word are read: none, cnn or lstm."""
    columns: tuple[str, ...] = ()
    """Further columns of the file to read, such as the part of speech: numbers from 0 in a column file, names as in
    'upos' in CoNLL-U."""
    d_column: int = Field(25, gt=0)
    """Features of the vector of a further column."""
    dropout: Probability = 0.33
    """Probability of dropping a feature of a word's whole vector in training."""
    locked: bool = False
    """Drop the same features of all words of a sentence (variational dropout)."""
    context: EncoderConfig | None = None
    """An encoder that reads the words' own vectors first, and whose states are added to what is seen of them; set by
    `pretrained`, which names the language model that it comes from."""

    @model_validator(mode="after")
    def _fits(self) -> WordInputConfig:
        if self.all_vectors and self.embedding.vectors is None:
            raise ValueError(
                "all_vectors = true takes the words of a file of vectors, and there is none: set embedding.vectors and "
                "embedding.mode, or leave all_vectors out"
            )
        twice = [name for name in self.columns if self.columns.count(name) > 1]
        if twice:
            raise ValueError(f"columns names {twice[0]!r} more than once: leave one of them out")
        return self
