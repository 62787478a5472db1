r"""The interface of encoder-decoders: a distribution over target sequences for each source.

.. math::  p(y \mid x) = \prod_t p(y_t \mid y_{<t}, x)

Sutskever et al. 2014; Bahdanau et al. 2015. Works on ids only. The target's last id is ``end``, which
the caller appends; the start token is added here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.embeddings.table import EmbeddingTable
from catena.errors import ConfigError
from catena.outputs.base import OutputLayer
from catena.outputs.build import build_output
from catena.outputs.config import OutputConfig
from catena.search.stepper import Stepper
from catena.shapes import checked_lengths, mask_from_lengths, match_shape


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """A batch of padded sources.

    Args:
        ids: of the source vocabulary.
        lengths: the number of real ids of each row, at least 1.
        copies: for models that copy, the id of each token in the target vocabulary; a token that is not in it has an id
            from ``v`` on, numbered within each source. None for models that do not copy.
        n_new: the maximum number of such ids from ``v`` on in the batch.
    """

    ids: Int[Tensor, "b s"]
    lengths: Int[Tensor, " b"]
    copies: Int[Tensor, "b s"] | None = None
    n_new: int = 0

    def __post_init__(self) -> None:
        b = match_shape("the ids of a source", tuple(self.ids.shape), "b s")["b"]
        match_shape("the lengths of a source", tuple(self.lengths.shape), "b", b=b)
        checked_lengths("the lengths of a source", self.lengths, self.ids.shape[1], least=1)

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, rows: Int[Tensor, " m"]) -> Source:
        """The sources of the given rows."""
        copies = None if self.copies is None else self.copies[rows]
        return Source(self.ids[rows], self.lengths[rows], copies, self.n_new)

    def to(self, device: torch.device) -> Source:
        """The same on another device."""
        copies = None if self.copies is None else self.copies.to(device)
        return Source(self.ids.to(device), self.lengths.to(device), copies, self.n_new)


@dataclass(frozen=True, eq=False, slots=True)
class Memory:
    """The output of an encoder, as the input of a decoder.

    Args:
        states: a vector for each source token; exactly 0 at padding.
        lengths: of the sources.
        source: the sources.
        more: other tensors that the decoder starts from, rows first, such as the last states of the encoder.
    """

    states: Float[Tensor, "b s d"]
    lengths: Int[Tensor, " b"]
    source: Source
    more: tuple[Tensor, ...] = field(default=())

    def select(self, rows: Int[Tensor, " m"]) -> Memory:
        """The memory of the given rows in the given order; rows may be repeated or left out."""
        more = tuple(x[rows] for x in self.more)
        return Memory(self.states[rows], self.lengths[rows], self.source.select(rows), more)


def real_targets(n: int, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Bool[Tensor, "b t"]:
    """True at the real targets of ``n`` sources; raises ShapeError if the number of rows or a length does not fit.

    On a GPU lengths are not checked: a check would make every step wait for the device.
    """
    t = match_shape("targets", tuple(targets.shape), "b t", b=n)["t"]
    match_shape("the lengths of targets", tuple(lengths.shape), "b", b=n)
    checked_lengths("the lengths of targets", lengths, t)
    return mask_from_lengths(lengths, t)


class EncoderDecoder(nn.Module, ABC):
    """Abstract model of p(target | source). ``tests/laws/seq2seq_laws.py`` tests each kind.

    ``targets`` have ``end`` as their last real id, and ``lengths`` include it.
    """

    v: int
    """The size of the target vocabulary."""
    begin: int
    """The target id of the start token."""
    end: int
    """The target id that ends a sequence."""

    @abstractmethod
    def encode(self, source: Source) -> Memory:
        """Encode the sources."""

    @abstractmethod
    def loss(self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        """The mean training loss over target tokens."""

    @abstractmethod
    def token_log_probs(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        """``[i, t]`` is log p(targets[i, t] | targets[i, :t], source i); 0 at padding."""

    @abstractmethod
    def attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t s"]]:
        """The attention weights over the source for each target token, one tensor for each layer with such attention.

        ``[i, head, t, s]``; an empty list for models without attention.
        """

    def source_attention(self, source: Source) -> list[Float[Tensor, "b h s s"]]:
        """The self-attention weights of the encoder, one tensor for each layer.

        ``[i, head, t, s]`` is the weight of ``s`` for query ``t``; an empty list for models without self-attention.
        """
        return []

    def target_attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t t"]]:
        """The self-attention weights of the decoder for each target token, with the start token first.

        An empty list for models without self-attention.
        """
        return []

    @abstractmethod
    def stepper(self, source: Source) -> Stepper[Any]:
        """The target as a stepper, for search, without gradients.

        ``start(n)`` begins one row for each source, so ``n`` is their number; selected rows keep their source.
        """

    def set_progress(self, step: int) -> None:
        """Called before each training step with the number of steps so far, for models that train by a schedule."""

    def shifted(self, targets: Int[Tensor, "b t"]) -> Int[Tensor, "b t"]:
        """The decoder inputs for these targets: shifted right by one, with the start token first."""
        return torch.cat((targets.new_full((len(targets), 1), self.begin), targets[:, :-1]), dim=1)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


class VectorDecoder(EncoderDecoder):
    """Abstract encoder-decoder with a vector for each position and an output layer."""

    output: OutputLayer

    @abstractmethod
    def hidden(self, memory: Memory, before: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """The vectors that predict the id after each of ``before``, which starts with ``begin``."""

    def loss(self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        real = real_targets(len(source), targets, lengths)
        return self.output.loss(self.hidden(self.encode(source), self.shifted(targets))[real], targets[real])

    def token_log_probs(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        real = real_targets(len(source), targets, lengths)
        hidden = self.hidden(self.encode(source), self.shifted(targets))
        found = self.output.log_prob(hidden[real], targets[real])
        return found.new_zeros(targets.shape).masked_scatter(real, found)  # in half precision more exact


@dataclass(frozen=True)
class VocabularyInfo:
    """Sizes and special ids of the two vocabularies of a model.

    Args:
        n_source: the size of the source vocabulary.
        counts: the count of each target id, including ``end``; one for each id of the vocabulary.
        begin: the target id of the start token.
        end: the target id that ends a sequence.
        forbidden: target ids that never occur, such as padding and ``begin``.
        shared: whether both sides have one vocabulary, so that they can use one embedding table.
    """

    n_source: int
    counts: Sequence[int]
    begin: int
    end: int
    forbidden: tuple[int, ...] = ()
    shared: bool = False

    @property
    def v(self) -> int:
        return len(self.counts)


_Share = Literal["auto", "all", "output", "embeddings", "none"]


def build_tables(
    share: _Share, output: OutputConfig, d: int, sides: VocabularyInfo
) -> tuple[EmbeddingTable, EmbeddingTable, OutputLayer]:
    """The tables of source and target and the output layer, tied according to ``share``.

    They may have tables in common (Vaswani et al. 2017, section 3.4). Rows have variance 1 / d, which a factor of √d
    makes 1.
    """
    if share == "auto":
        share = "all" if sides.shared else "output"
    if share in ("all", "embeddings") and not sides.shared:
        raise ConfigError(
            f"share must be 'output' or 'none' if source and target have different vocabularies, got {share!r}. Change "
            "it, or train one tokenizer for both sides."
        )
    scale = math.sqrt(3 / d)
    target = EmbeddingTable(sides.v, d, scale=scale)
    source = target if share in ("all", "embeddings") else EmbeddingTable(sides.n_source, d, scale=scale)
    tied: nn.Parameter | None = target.weight if share in ("all", "output") else None
    return source, target, build_output(output, d, sides.counts, tied=tied, forbidden=sides.forbidden)
