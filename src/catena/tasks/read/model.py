r"""Bidirectional attention flow for reading (BiDAF): the probability of each first and last position of an answer.

.. math::
    x = \mathrm{highway}([\mathrm{word}; \max \mathrm{relu}(\mathrm{characters})]), \quad
    H = \mathrm{enc}(x), \; U = \mathrm{enc}(q), \quad G = \mathrm{flow}(H, U), \quad M = \mathrm{enc}_2(G)

.. math::
    p^1 = \mathrm{softmax}(w_1^\top [G; M]), \quad M^2 = \mathrm{enc}_3(M), \quad
    p^2 = \mathrm{softmax}(w_2^\top [G; M^2]), \quad \mathcal L = -\log p^1(y^1) - \log p^2(y^2)

Seo et al. 2017, sections 2 and 3. Every part is an argument of :class:`BiDAF`; :func:`build_bidaf` makes those of the
paper. A model with a no-answer score adds it to both softmaxes as one more position (Levy et al. 2017, section 4).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.attention.flow import AttentionFlow, AttentionFlowResult
from catena.data.vocabulary import UNK
from catena.embeddings.characters import CharacterEmbedding
from catena.embeddings.table import Embedding
from catena.encoders.base import Encoder
from catena.numerics import NEG_INF, log_sum_exp, masked_softmax
from catena.shapes import mask_from_lengths


class DistinctTokens(NamedTuple):
    """The distinct tokens of a batch; row 0 is padding."""

    words: Int[Tensor, " n"]
    characters: Int[Tensor, "n c"]


class TokenRows(NamedTuple):
    """Texts of a batch: ``rows[i, t]`` is the row of token t in :class:`DistinctTokens`."""

    rows: Int[Tensor, "b t"]
    lengths: Int[Tensor, " b"]


class AnswerLogits(NamedTuple):
    """Unnormalized log-probabilities of the first and the last position of the answer."""

    start: Float[Tensor, "b t"]
    """-inf at padding."""
    end: Float[Tensor, "b t"]
    """-inf at padding."""
    no_answer: Float[Tensor, "b 2"] | None
    """The logits of no answer, for the start and for the end; None if every question has an answer."""
    flow: AttentionFlowResult
    """The features and attention weights, for pictures."""


class TokenEmbedding(nn.Module):
    """Vectors of distinct tokens from their words and characters.

    Args:
        words: word vectors; None to leave them out.
        characters: vectors from characters, after which there is a ReLU; None to leave them out.
        mixing: layers over the concatenated vectors, which keep their size.
        unknown: ``unknown[w]`` is the probability of replacing word ``w`` by the unknown word in training; None for 0.
        dropout: the probability of dropping a feature of the vectors from characters.
    """

    unknown: Tensor | None

    def __init__(
        self,
        words: Embedding | None,
        characters: CharacterEmbedding | None,
        mixing: nn.Module,
        unknown: Float[Tensor, " v"] | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.words, self.characters, self.mixing = words, characters, mixing
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("unknown", unknown, persistent=False)  # follows from the vocabulary
        self.d_out = sum(part.d_out for part in (words, characters) if part is not None)

    def forward(self, tokens: DistinctTokens) -> Float[Tensor, "n d_out"]:
        parts = []
        if self.words is not None:
            parts.append(self.words(self._with_unknown(tokens.words)[None])[0])
        if self.characters is not None:
            parts.append(self.dropout(torch.relu(self.characters(tokens.characters))))
        return self.mixing(torch.cat(parts, dim=-1))

    def _with_unknown(self, words: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        if not self.training or self.unknown is None:
            return words
        replaced = torch.rand(words.shape, device=words.device) < self.unknown[words]
        return words.masked_fill(replaced, UNK)


class SpanOutput(nn.Module):
    """Logits of the first and the last position of the answer.

    Args:
        d_flow: the size of the attended text.
        d_modeling: the size of its encoding M.
        end: the encoder before the end; it reads M, or with ``end_reads_start`` [G; M; m; M ∘ m], where m is the
            expectation of M under the start.
        end_reads_start: whether the end depends on the start (as in AllenNLP; not in the paper).
        dropout: the probability of dropping an input of the linear layers and of ``end``.
    """

    def __init__(
        self, d_flow: int, d_modeling: int, end: Encoder, *, end_reads_start: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.end, self.end_reads_start = end, end_reads_start
        self.dropout = nn.Dropout(dropout)
        self.start_score = nn.Linear(d_flow + d_modeling, 1, bias=False)
        self.end_score = nn.Linear(d_flow + end.d_out, 1, bias=False)
        for layer in (self.start_score, self.end_score):
            nn.init.xavier_uniform_(layer.weight)

    def forward(
        self,
        flow: Float[Tensor, "b t d_flow"],
        modeled: Float[Tensor, "b t d_modeling"],
        lengths: Int[Tensor, " b"],
        mask: Bool[Tensor, "b t"],
    ) -> tuple[Float[Tensor, "b t"], Float[Tensor, "b t"]]:
        start = self._score(self.start_score, flow, modeled, mask)
        read = modeled
        if self.end_reads_start:
            expected = (masked_softmax(start, mask).to(modeled.dtype)[:, None] @ modeled).expand_as(modeled)
            read = torch.cat((flow, modeled, expected, modeled * expected), dim=-1)
        encoded = self.end(self.dropout(read), lengths)
        return start, self._score(self.end_score, flow, encoded, mask)

    def _score(
        self, layer: nn.Linear, flow: Float[Tensor, "b t d"], states: Float[Tensor, "b t e"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t"]:
        logits = layer(self.dropout(torch.cat((flow, states), dim=-1)))[..., 0]
        widest = torch.promote_types(logits.dtype, torch.float32)
        return logits.to(widest).masked_fill(~mask, NEG_INF)


class NoAnswerBias(nn.Module):
    """One learned logit of no answer for the start and one for the end (Levy et al. 2017, section 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(2))

    def forward(
        self, start: Float[Tensor, "b t"], end: Float[Tensor, "b t"], states: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b 2"]:
        return self.bias.expand(len(start), 2)


class PooledNoAnswer(nn.Module):
    """Logits of no answer from the states at the positions that start and end prefer.

    A layer of tanh units over the expectations of the states under the softmax of the start and of the end (Clark &
    Gardner 2018, section 3.3).
    """

    def __init__(self, d: int, d_hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * d, d_hidden)
        self.output = nn.Linear(d_hidden, 2)

    def forward(
        self, start: Float[Tensor, "b t"], end: Float[Tensor, "b t"], states: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b 2"]:
        weights = masked_softmax(torch.stack((start, end), dim=1))  # b 2 t
        pooled = (weights.to(states.dtype) @ states).flatten(1)
        return self.output(torch.tanh(self.hidden(pooled))).to(start.dtype)


class BiDAF(nn.Module):
    """Bidirectional attention flow from its parts.

    Args:
        embedding: vectors of the distinct tokens of a batch.
        contextual: encodes the text and the question, with the same weights.
        flow: the attention between both.
        modeling: encodes the attended text.
        output: the logits of start and end.
        no_answer: the logits of no answer; None if every question has one.
        dropout: the probability of dropping an input of ``contextual`` and ``modeling``.
        match: whether ``contextual`` also reads the two features of :func:`match_features`.
        decision: the regression that decides on no answer; by scores only if None.

    The buffers ``scale`` and ``no_answer_threshold`` are fitted on dev questions and not used here: the inverse
    temperature of the logits, and the score by which no answer must exceed the best span.
    """

    scale: Tensor
    no_answer_threshold: Tensor

    def __init__(
        self,
        embedding: TokenEmbedding,
        contextual: Encoder,
        flow: AttentionFlow,
        modeling: Encoder,
        output: SpanOutput,
        no_answer: NoAnswerBias | PooledNoAnswer | None = None,
        dropout: float = 0.0,
        *,
        match: bool = False,
        decision: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.match, self.decision = match, decision
        self.embedding, self.contextual, self.flow = embedding, contextual, flow
        self.modeling, self.output, self.no_answer = modeling, output, no_answer
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("no_answer_threshold", torch.zeros(()))

    def forward(self, tokens: DistinctTokens, context: TokenRows, question: TokenRows) -> AnswerLogits:
        """The logits of every position of the context.

        Args:
            tokens: the distinct tokens of the batch.
            context: the texts.
            question: one question for each text, none of them empty.
        """
        vectors = self.embedding(tokens)
        sides = ((context, question), (question, context))
        texts, questions = (self._encode(vectors, tokens.words, *pair) for pair in sides)
        mask = mask_from_lengths(context.lengths, context.rows.shape[1])
        flow = self.flow(texts, questions, mask, mask_from_lengths(question.lengths, question.rows.shape[1]))
        modeled = self.modeling(self.dropout(flow.features), context.lengths)
        start, end = self.output(flow.features, modeled, context.lengths, mask)
        no_answer = None if self.no_answer is None else self.no_answer(start, end, modeled)
        return AnswerLogits(start, end, no_answer, flow)

    def _encode(
        self, vectors: Float[Tensor, "n d"], words: Int[Tensor, " n"], texts: TokenRows, others: TokenRows
    ) -> Float[Tensor, "b t d_out"]:
        read = self.dropout(F.embedding(texts.rows, vectors))
        if self.match:
            read = torch.cat((read, match_features(words, texts, others).to(read.dtype)), dim=-1)
        return self.contextual(read, texts.lengths)


def match_features(words: Int[Tensor, " n"], texts: TokenRows, others: TokenRows) -> Bool[Tensor, "b t 2"]:
    """Whether the other text has the same token, and the same known word (Chen et al. 2017, section 3.2).

    Args:
        words: the words of the distinct tokens.
        texts: the texts that get the features.
        others: the other text of each.
    """
    real = mask_from_lengths(others.lengths, others.rows.shape[1])[:, None]  # b 1 s
    own, other = words[texts.rows], words[others.rows]
    tokens = (texts.rows[..., None] == others.rows[:, None]) & real
    known = (own[..., None] == other[:, None]) & real & (own != UNK)[..., None]
    return torch.stack((tokens.any(dim=-1), known.any(dim=-1)), dim=-1)


def answer_log_probs(
    logits: AnswerLogits, n_paragraphs: int = 1
) -> tuple[Float[Tensor, "q t1"], Float[Tensor, "q t1"]]:
    """Log-probabilities of the first and the last position, with one softmax over the texts of a question.

    Args:
        logits: of ``q * n_paragraphs`` texts.
        n_paragraphs: the number of successive texts that belong to one question.

    Returns:
        For start and end, column 0 means no answer (-inf without such a score), and column ``1 + p * t + i`` is
        position i of text p of the question.
    """
    q = len(logits.start) // n_paragraphs
    columns = []
    for side, positions in enumerate((logits.start, logits.end)):
        none = positions.new_full((q, 1), NEG_INF)
        if logits.no_answer is not None:
            none = logits.no_answer[:, side].view(q, n_paragraphs).mean(1, keepdim=True)
        joined = torch.cat((none, positions.reshape(q, -1)), dim=1)
        columns.append(joined - log_sum_exp(joined, dim=1)[:, None])
    return columns[0], columns[1]


def span_loss(
    logits: AnswerLogits, starts: Int[Tensor, " q"], ends: Int[Tensor, " q"], n_paragraphs: int = 1
) -> Float[Tensor, ""]:
    """The mean over questions of -log p(start) - log p(end).

    Args:
        logits: of ``q * n_paragraphs`` texts; the first text of each question has the answer.
        starts: the first positions; -1 for no answer.
        ends: the last positions; -1 for no answer.
        n_paragraphs: the number of successive texts with one common softmax (Clark & Gardner 2018, section 3.2).
    """
    first, last = answer_log_probs(logits, n_paragraphs)
    # position -> column of answer_log_probs
    picked = first.gather(1, starts[:, None] + 1) + last.gather(1, ends[:, None] + 1)
    return -picked.mean()
