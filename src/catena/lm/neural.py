r"""Neural language models: an embedding, a causal encoder and an output layer, passed in as parts.

.. math::  h_t = \mathrm{encode}(C(w_1), \dots, C(w_{t-1})) \qquad p(w_t \mid w_{<t}) = \mathrm{output}(h_t)

Bengio et al. 2003; Mikolov et al. 2010. The vector at the position of :math:`w_{t-1}` predicts :math:`w_t`: inputs
and targets are shifted by one position, and the first word is predicted from the start token.

If the encoder's vectors and the embedding's differ in size, tied weights (Press & Wolf 2017) need a linear projection
between them, which is learned, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.data.vocabulary import PAD, Vocabulary
from catena.embeddings.table import Embedding
from catena.encoders.causal import CausalEncoder
from catena.encoders.layers import Dropout
from catena.errors import ShapeError
from catena.lm.base import AutoregressiveLM
from catena.outputs.base import OutputLayer
from catena.shapes import mask_from_lengths


@dataclass(frozen=True, eq=False, slots=True)
class NeuralState:
    """The state of the encoder, and the vector that predicts the next id."""

    encoder: Any
    hidden: Float[Tensor, "n d"]


@dataclass(frozen=True, eq=False, slots=True)
class EncodedPrefix:
    """Encoded sequences.

    Args:
        raw: the encoder's vectors.
        dropped: the same after dropout.
        hidden: the same after the projection, as inputs of the output layer.
        state: the encoder's state after them; None if it was not requested.
    """

    raw: Float[Tensor, "b t d_raw"]
    dropped: Float[Tensor, "b t d_raw"]
    hidden: Float[Tensor, "b t d"]
    state: Any


@dataclass(frozen=True)
class DropoutRates:
    """Dropout rates of a neural language model.

    Args:
        input: features of the embedded tokens.
        output: features of the encoder's vectors.
        words: whole words of the vocabulary, for all their tokens in a batch (Merity et al. 2018, section 4.3).
        locked: whether the same features are dropped at all positions of a sequence (Gal & Ghahramani 2016).
    """

    input: float = 0.0
    output: float = 0.0
    words: float = 0.0
    locked: bool = False


class NeuralLanguageModel(nn.Module, AutoregressiveLM[NeuralState]):
    """A language model p(next | prefix) by a network. As a stepper it caches states: one encoder step for each id.

    Args:
        embedding: from ids to vectors.
        encoder: a causal encoder.
        output: from vectors to distributions.
        vocabulary: the tokens of the ids.
        begin: the id of the start token.
        end: the id that ends a sequence.
        drops: the dropout rates.
    """

    def __init__(
        self,
        embedding: Embedding,
        encoder: CausalEncoder,
        output: OutputLayer,
        vocabulary: Vocabulary,
        *,
        begin: int,
        end: int,
        drops: DropoutRates | None = None,
    ) -> None:
        super().__init__()
        encoder.check_causal()
        if embedding.d_out != encoder.d_in:
            raise ShapeError(
                f"encoder.d_in must be {embedding.d_out}, the size of the embedding's vectors, got {encoder.d_in}. "
                f"Build the encoder with d_in = {embedding.d_out}."
            )
        self.embedding, self.encoder, self.output = embedding, encoder, output
        same = encoder.d_out == output.d_in
        self.bridge = nn.Identity() if same else nn.Linear(encoder.d_out, output.d_in, bias=False)
        self._vocabulary = vocabulary
        self.v, self.begin, self.end = len(vocabulary), begin, end
        self.drops = drops = drops or DropoutRates()
        time = 1 if drops.locked else None
        self.drop_input, self.drop_output = Dropout(drops.input, time), Dropout(drops.output, time)

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    # --- whole sequences ----------------------------------------------------------------------------------------------

    def read(
        self, ids: Int[Tensor, "b t"], lengths: Int[Tensor, " b"] | None = None, state: Any = None
    ) -> EncodedPrefix:
        """Encode sequences from their beginning, padded if there are ``lengths``, or from an encoder's state.

        The vector at position ``i`` predicts the id after ``ids[:, i]``.
        """
        x = self.vectors(ids)
        after = None
        if lengths is not None:
            raw = self.encoder(x, lengths)
        elif state is not None:
            raw, after = self.encoder.continue_(x, state)
        else:
            raw = self.encoder.whole(x)
        dropped = self.drop_output(raw)
        return EncodedPrefix(raw, dropped, self.bridge(dropped), after)

    def vectors(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """The embedded ids, after dropout."""
        x = self.embedding(ids)
        if self.training and self.drops.words:
            kept = F.dropout(x.new_ones(self.v), self.drops.words)
            x = x * kept[ids][..., None]
        return self.drop_input(x)

    def fresh(self, b: int) -> Any:
        """The encoder's state at the beginning."""
        return self.encoder.begin(b, self.device, self.dtype)

    def token_log_probs(self, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n t"]:
        _check_lengths(ids, lengths.tolist())
        before = torch.cat((ids.new_full((len(ids), 1), self.begin), ids[:, :-1]), dim=1)[:, : ids.shape[1]]
        real = mask_from_lengths(lengths, ids.shape[1])
        hidden = self.read(before.masked_fill(~real, PAD), lengths=lengths).hidden
        found = self.output.log_prob(hidden[real], ids[real])
        return found.new_zeros(ids.shape).masked_scatter(real, found)  # in half precision more exact than the vectors

    # --- step by step -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def start(self, n: int) -> NeuralState:
        first = torch.full((n, 1), self.begin, device=self.device)
        return self._read_on(self.fresh(n), first)

    @torch.no_grad()
    def log_probs(self, state: NeuralState) -> Float[Tensor, "n v"]:
        return self.output.log_probs(state.hidden)

    @torch.no_grad()
    def top_log_probs(self, state: NeuralState, k: int) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
        return self.output.top_log_probs(state.hidden, k)

    @torch.no_grad()
    def advance(self, state: NeuralState, ids: Int[Tensor, " n"]) -> NeuralState:
        return self._read_on(state.encoder, ids[:, None])

    @torch.no_grad()
    def select(self, state: NeuralState, rows: Int[Tensor, " m"]) -> NeuralState:
        return NeuralState(self.encoder.select(state.encoder, rows), state.hidden[rows])

    @torch.no_grad()
    def join(self, states: Sequence[NeuralState]) -> NeuralState:
        return NeuralState(
            self.encoder.join([state.encoder for state in states]), torch.cat([state.hidden for state in states])
        )

    @torch.no_grad()
    def extend(self, state: NeuralState, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> NeuralState:
        counts = lengths.tolist()
        _check_lengths(ids, counts)
        if len(set(counts)) <= 1:
            t = counts[0] if counts else 0
            return self._read_on(state.encoder, ids[:, :t]) if t else state
        parts, order = [], []
        for t in sorted(set(counts)):  # rows of one length are read in one call
            rows = [row for row, count in enumerate(counts) if count == t]
            chosen = torch.tensor(rows, device=ids.device)
            part = self.select(state, chosen)
            parts.append(self._read_on(part.encoder, ids[chosen, :t]) if t else part)
            order += rows
        return self.select(self.join(parts), torch.tensor(order, device=ids.device).argsort())

    def _read_on(self, state: Any, ids: Int[Tensor, "n t"]) -> NeuralState:
        raw, after = self.encoder.continue_(self.embedding(ids), state)
        last = raw[:, -1]
        return NeuralState(after, last if isinstance(self.bridge, nn.Identity) else self.bridge(last))

    # --- device and dtype ---------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype


def _check_lengths(ids: Tensor, counts: Sequence[int]) -> None:
    if counts and not 0 <= min(counts) <= max(counts) <= ids.shape[1]:
        raise ShapeError(
            f"lengths must be from 0 to {ids.shape[1]}, the width of ids, got {min(counts)} to {max(counts)}. Fix the "
            f"lengths."
        )
