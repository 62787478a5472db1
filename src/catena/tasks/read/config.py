"""Configs of reading models. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.embeddings.config import CharacterConfig, CharacterConvolutionConfig, EmbeddingConfig, NoCharacterConfig
from catena.encoders.config import EncoderConfig, HighwayConfig, Probability, RecurrentConfig, ScoreName


class BiDAFConfig(Config):
    """Bidirectional attention flow (Seo et al. 2017): an answer is a span between two positions of the text."""

    kind: Literal["bidaf"] = "bidaf"
    """The model."""
    words: EmbeddingConfig = EmbeddingConfig(d=100)
    """The word vectors. Those of a file are frozen with mode = 'static', and words outside it are trained."""
    use_words: bool = True
    """Use word vectors; otherwise only characters."""
    characters: CharacterConfig = CharacterConvolutionConfig(d=16, windows=(5,), filters=100, max_length=16)
    """The vectors of words from their characters, with a ReLU."""
    unknown_dropout: float = Field(0.0, ge=0)
    """z: in training, replace a word that occurs n times by the unknown word with probability z / (z + n)."""
    highway: HighwayConfig = HighwayConfig()
    """The highway layers over both vectors of a word."""
    contextual: EncoderConfig = RecurrentConfig(init="orthogonal")
    """The encoder of text and question, with the same weights for both."""
    score: ScoreName = "trilinear"
    """The attention score of a position of the text and a word of the question."""
    context_to_query: bool = True
    """Positions of the text attend to the question; otherwise they get the mean of its vectors."""
    query_to_context: bool = True
    """The question attends to the text; otherwise this part of the features is left out."""
    modeling: EncoderConfig = RecurrentConfig(n_layers=2, dropout=0.2, init="orthogonal")
    """The encoder of the attended text."""
    end: EncoderConfig = RecurrentConfig(init="orthogonal")
    """The encoder before the last position of the answer."""
    end_reads_start: bool = False
    """The encoder of the end also reads the attended text and the expected start, as in AllenNLP."""
    no_answer: Literal["none", "bias", "pooled"] = "none"
    """The score of no answer: none, one learned value, or a function of the positions that the model prefers."""
    dropout: Probability = 0.2
    """Probability of dropping an input of an encoder or of an output layer."""

    @model_validator(mode="after")
    def _has_inputs(self) -> BiDAFConfig:
        if not self.use_words and isinstance(self.characters, NoCharacterConfig):
            raise ValueError(
                "use_words must be true if characters.kind = 'none', got false. Use words, characters or both."
            )
        return self
