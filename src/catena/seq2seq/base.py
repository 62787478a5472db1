r"""The interface of encoder-decoders: a distribution over target sequences for each source.

.. math::  p(y \mid x) = \prod_t p(y_t \mid y_{<t}, x)

Sutskever et al. 2014; Bahdanau et al. 2015. Knows ids, no tokens and no files. The target's last id is ``end``, which
the caller appends; the mark of the beginning is added here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.outputs.base import OutputLayer
from catena.search.stepper import Stepper
from catena.shapes import checked_lengths, mask_from_lengths, match_shape


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """Padded sources.

    Args:
        ids: of the source vocabulary.
        lengths: how many of them are real, at least 1: there must be a place to look at.
        copies: for models that copy, the id of each token in the target vocabulary; one that it lacks has an id of
            its own from ``v`` on, counted anew in each source. None where nothing is copied.
        n_new: how many such ids beyond ``v`` the batch has room for.
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
    """What a decoder has of its sources.

    Args:
        states: a vector for each source token; exactly 0 beyond the length.
        lengths: of the sources.
        source: what was read.
        more: whatever else the decoder starts from, the rows first, such as the last states of the encoder.
    """

    states: Float[Tensor, "b s d"]
    lengths: Int[Tensor, " b"]
    source: Source
    more: tuple[Tensor, ...] = field(default=())

    def select(self, rows: Int[Tensor, " m"]) -> Memory:
        """The memory of the given rows, in their order; rows may be repeated and left out."""
        more = tuple(x[rows] for x in self.more)
        return Memory(self.states[rows], self.lengths[rows], self.source.select(rows), more)


def real_targets(n: int, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Bool[Tensor, "b t"]:
    """True where the targets of ``n`` sources are real; raises where there are not as many, or a length is beyond them.

    On a GPU lengths are taken as they are: asking there would make every step wait for the device.
    """
    t = match_shape("targets", tuple(targets.shape), "b t", b=n)["t"]
    match_shape("the lengths of targets", tuple(lengths.shape), "b", b=n)
    checked_lengths("the lengths of targets", lengths, t)
    return mask_from_lengths(lengths, t)


class EncoderDecoder(nn.Module, ABC):
    """p(target | source). Laws for each kind are in ``tests/laws/seq2seq_laws.py``.

    ``targets`` hold ``end`` as their last real id, and ``lengths`` count it.
    """

    v: int
    """The size of the target vocabulary."""
    begin: int
    """The target id that is read before everything else."""
    end: int
    """The target id that ends a sequence."""

    @abstractmethod
    def encode(self, source: Source) -> Memory:
        """Read the sources."""

    @abstractmethod
    def loss(self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        """The mean over target tokens of what training makes small."""

    @abstractmethod
    def token_log_probs(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        """``[i, t]`` is log p(targets[i, t] | targets[i, :t], source i); 0 beyond the length."""

    @abstractmethod
    def attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t s"]]:
        """Where the decoder looks when it predicts each target token: a tensor for each layer that looks at the
        source, ``[i, head, t, s]``; an empty list where none does."""

    def source_attention(self, source: Source) -> list[Float[Tensor, "b h s s"]]:
        """How the tokens of each source look at each other: of each layer ``[i, head, t, s]``, where ``t`` looks at
        ``s``; an empty list where none do."""
        return []

    def target_attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t t"]]:
        """The same of targets: where the decoder looks among what it has read when it predicts each token, the mark of
        the beginning first; an empty list where it does not."""
        return []

    @abstractmethod
    def stepper(self, source: Source) -> Stepper[Any]:
        """The target as a stepper, to be searched. ``start(n)`` begins one row for each source, so ``n`` is their
        number; rows that are selected take their source with them. No gradients."""

    def set_progress(self, step: int) -> None:
        """Told before each step of a training how many came before it; for models that train by a schedule."""

    def shifted(self, targets: Int[Tensor, "b t"]) -> Int[Tensor, "b t"]:
        """What is read when each target is predicted: the one before it, and first the mark of the beginning."""
        return torch.cat((targets.new_full((len(targets), 1), self.begin), targets[:, :-1]), dim=1)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


class VectorDecoder(EncoderDecoder):
    """An encoder-decoder that makes a vector for each position, of which an output layer makes a distribution."""

    output: OutputLayer

    @abstractmethod
    def hidden(self, memory: Memory, before: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """The vectors that predict what comes after each of ``before``, which starts with ``begin``."""

    def loss(self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        real = real_targets(len(source), targets, lengths)
        return self.output.loss(self.hidden(self.encode(source), self.shifted(targets))[real], targets[real])

    def token_log_probs(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        real = real_targets(len(source), targets, lengths)
        hidden = self.hidden(self.encode(source), self.shifted(targets))
        found = self.output.log_prob(hidden[real], targets[real])
        return found.new_zeros(targets.shape).masked_scatter(real, found)  # in half precision finer than the vectors
