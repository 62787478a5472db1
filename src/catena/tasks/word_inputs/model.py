"""Networks from sentences to vectors: the word embedding layer and the encoder over it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.data.special_tokens import BEGIN_SYMBOL
from catena.data.vocabulary import PAD, UNK
from catena.embeddings.characters import CharacterEmbedding, build_characters
from catena.embeddings.table import Embedding, EmbeddingTable, build_embedding
from catena.encoders.base import Encoder
from catena.encoders.build import build_encoder
from catena.encoders.config import EncoderConfig
from catena.encoders.layers import Dropout
from catena.tasks.pretrained import WordVectorRows, initial_vectors
from catena.tasks.word_inputs.config import WordInputConfig
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding


@runtime_checkable
class SentenceEncoderConfig(Protocol):
    """The options of a sentence encoder, in the config of any model that has one."""

    @property
    def words(self) -> WordInputConfig: ...
    @property
    def encoder(self) -> EncoderConfig: ...
    @property
    def dropout(self) -> float: ...
    @property
    def locked(self) -> bool: ...


class WordReader(nn.Module):
    """Concatenation of word embeddings, language model states, character vectors and column embeddings.

    Vectors at padding are exactly 0.

    Args:
        embedding: the word embedding.
        unknown: ``unknown[w]`` is the probability of replacing word ``w`` by the unknown word in training.
        characters: encoder of the characters of a word; None to leave it out.
        columns: an embedding table for each further column and feature of words.
        context: a language model encoder of the word embeddings; None to leave it out.
        begin: id of the symbol that ``context`` reads before the words; None for no symbol.
        dropout: dropout of the features of the concatenated vector.
    """

    unknown: Tensor

    def __init__(
        self,
        embedding: Embedding,
        unknown: Float[Tensor, " v"],
        characters: CharacterEmbedding | None,
        columns: list[EmbeddingTable],
        context: Encoder | None,
        begin: int | None,
        dropout: Dropout,
    ) -> None:
        super().__init__()
        self.embedding, self.characters, self.context = embedding, characters, context
        self.columns = nn.ModuleList(columns)
        self.begin, self.dropout = begin, dropout
        self.register_buffer("unknown", unknown, persistent=False)  # follows from the vocabulary
        self.d_out = (
            embedding.d_out
            + (characters.d_out if characters is not None else 0)
            + sum(table.d_out for table in columns)
            + (context.d_out if context is not None else 0)
        )

    def forward(self, batch: WordBatch) -> Float[Tensor, "b t d_out"]:
        ids = self._some_unknown(batch.words)
        own = self.embedding(ids)
        parts = [own]
        if self.context is not None:
            parts.append(self._in_context(own, batch.lengths))
        if self.characters is not None:
            assert batch.characters is not None
            assert batch.spellings is not None
            parts.append(self.characters(batch.characters)[batch.spellings])
        for i, table in enumerate(self.columns):
            assert batch.columns is not None
            parts.append(table(batch.columns[..., i]))
        return self.dropout(torch.cat(parts, dim=-1))

    def _some_unknown(self, words: Int[Tensor, "b t"]) -> Int[Tensor, "b t"]:
        if not self.training or not len(self.unknown):
            return words
        replaced = torch.rand(words.shape, device=words.device) < self.unknown[words]
        return torch.where(replaced, UNK, words)

    def _in_context(self, own: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"]) -> Float[Tensor, "b t d_context"]:
        assert self.context is not None
        if self.begin is None:
            return self.context(own, lengths)
        first = self.embedding(torch.full_like(lengths[:, None], self.begin))
        return self.context(torch.cat((first, own), dim=1), lengths + 1)[:, 1:]


class SentenceEncoder(nn.Module):
    """A word embedding layer, an encoder over it and dropout on its output. Vectors at padding are exactly 0."""

    def __init__(self, reader: WordReader, encoder: Encoder, dropout: Dropout) -> None:
        super().__init__()
        self.reader, self.encoder, self.dropout = reader, encoder, dropout
        self.d_out = encoder.d_out

    def forward(self, batch: WordBatch) -> Float[Tensor, "b t d_out"]:
        return self.dropout(self.encoder(self.reader(batch), batch.lengths))


def build_reader(
    settings: WordInputConfig, encoding: WordEncoding, vectors: WordVectorRows | None = None
) -> WordReader:
    """The word embedding layer of a config, with newly initialized weights.

    Args:
        settings: the config of the word inputs.
        encoding: the vocabularies.
        vectors: pretrained vectors for embedding modes other than random; zeros if None, for weights loaded later.
    """
    n = len(encoding.words)
    matrix, known = vectors or initial_vectors(settings.embedding, encoding.words, None) or (None, None)
    embedding = build_embedding(settings.embedding, n, matrix=matrix, known=known)
    characters = None
    if encoding.characters is not None:
        characters = build_characters(settings.characters, len(encoding.characters))
    sizes = [settings.d_column] * len(settings.columns) + [settings.d_feature] * len(settings.features)
    tables = zip(encoding.columns, sizes, strict=True)
    columns = [EmbeddingTable(len(vocabulary), d, scale=(3 / d) ** 0.5) for vocabulary, d in tables]
    context = None if settings.context is None else build_encoder(settings.context, embedding.d_out)
    begin = encoding.words.special(BEGIN_SYMBOL) if context and BEGIN_SYMBOL in encoding.words.specials else None
    dropout = Dropout(settings.dropout, time=1 if settings.locked else None)
    return WordReader(
        embedding, _unknown_probabilities(settings, encoding), characters, columns, context, begin, dropout
    )


def build_sentence_encoder(
    settings: SentenceEncoderConfig, encoding: WordEncoding, vectors: WordVectorRows | None = None
) -> SentenceEncoder:
    """A word embedding layer and an encoder with newly initialized weights, and pretrained word vectors if given."""
    reader = build_reader(settings.words, encoding, vectors)
    encoder = build_encoder(settings.encoder, reader.d_out)
    return SentenceEncoder(reader, encoder, Dropout(settings.dropout, time=1 if settings.locked else None))


def _unknown_probabilities(settings: WordInputConfig, encoding: WordEncoding) -> Float[Tensor, " v"]:
    """z / (z + n) for a word that occurs n times; empty if word dropout is disabled."""
    z = settings.unknown_dropout
    if not z:
        return torch.zeros(0)
    counts = torch.tensor(encoding.words.counts, dtype=torch.float32)
    probabilities = z / (z + counts)
    probabilities[PAD] = 0.0
    return probabilities
