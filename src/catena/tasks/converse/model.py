"""Models that generate responses, and contexts as ids: language models and encoder-decoders with one interface.

A context is ``<you> hello there </s> <me> hi </s> … <me>``: every turn starts with a speaker symbol, ``<me>`` for the
one who responds, and ends with ``</s>``. The last id is the speaker symbol of the response.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.data.conversations import Exchange
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, ME_SYMBOL, YOU_SYMBOL
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.lm.base import SPECIALS, AutoregressiveLM
from catena.lm.neural import NeuralLanguageModel
from catena.search.build import search, wrap_stepper
from catena.search.config import BaseSearchConfig
from catena.search.forbid_ids import ForbidIds
from catena.search.stepper import Stepper
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.attention_maps import AttentionMaps
from catena.tasks.config import TOKENIZER, VOCABULARY
from catena.tasks.converse.data import USER_INPUT_LOCATION
from catena.tasks.converse.evaluation import RankingExample
from catena.tasks.converse.predict import ScoredResponse
from catena.tasks.converse.rankers import Ranker, content_words

MARKS = (*SPECIALS, ME_SYMBOL, YOU_SYMBOL)
"""The special tokens of the vocabulary: begin, end of a turn, and the speakers."""


@dataclass(frozen=True, eq=False)
class EncodedContext:
    """A context as ids.

    Args:
        copies: the ids for a copy model, in which words outside the vocabulary of size ``v`` have extra ids from ``v``.
        new: the words of the extra ids.
    """

    ids: np.ndarray
    copies: np.ndarray
    new: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


class TurnEncoding:
    """Encodes the last ``max_length`` ids of contexts and the first of responses."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary, max_length: int) -> None:
        self.tokenizer, self.vocabulary, self.max_length = tokenizer, vocabulary, max_length
        self.begin, self.end = vocabulary.special(BEGIN_SYMBOL), vocabulary.special(END_SYMBOL)
        self.me, self.you = vocabulary.special(ME_SYMBOL), vocabulary.special(YOU_SYMBOL)

    def context(self, exchange: Exchange) -> EncodedContext:
        """The ids of the turns and the speaker symbol of the response."""
        ids: list[int] = []
        words: list[str] = []
        for turn, own in zip(exchange.context, exchange.own, strict=True):
            tokens = self.tokenizer.tokens(turn)
            ids += [self.me if own else self.you, *self.vocabulary.ids(tokens), self.end]
            words += ["", *tokens, ""]
        ids, words = [*ids[-self.max_length :], self.me], [*words[-self.max_length :], ""]
        new: dict[str, int] = {}
        size = len(self.vocabulary)
        copies = [
            size + new.setdefault(word, len(new)) if id == UNK else id for id, word in zip(ids, words, strict=True)
        ]
        return EncodedContext(np.array(ids, np.int64), np.array(copies, np.int64), tuple(new))

    def response(self, text: str, new: Sequence[str] = ()) -> np.ndarray:
        """The ids of a response with its end symbol; the words ``new`` have ids after the vocabulary."""
        copied = {word: len(self.vocabulary) + i for i, word in enumerate(new)}
        tokens = self.tokenizer.tokens(text)[: self.max_length]
        ids = [copied.get(token, id) if id == UNK else id
               for token, id in zip(tokens, self.vocabulary.ids(tokens), strict=True)]  # fmt: skip
        return np.array([*ids, self.end], np.int64)

    def text(self, ids: Sequence[int], new: Sequence[str] = ()) -> str:
        """The text of ids."""
        size = len(self.vocabulary)
        return self.tokenizer.join([new[id - size] if id >= size else self.vocabulary.tokens([id])[0] for id in ids])

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.vocabulary.save(folder / VOCABULARY)


def load_turn_encoding(folder: Path, max_length: int) -> TurnEncoding:
    """Load the encoding written by :meth:`TurnEncoding.save`."""
    return TurnEncoding(load_tokenizer(folder / TOKENIZER), Vocabulary.load(folder / VOCABULARY), max_length)


@dataclass(frozen=True, eq=False)
class ResponseBatch:
    """Padded contexts and responses."""

    contexts: Int[Tensor, "b s"]
    context_lengths: Int[Tensor, " b"]
    responses: Int[Tensor, "b t"]
    response_lengths: Int[Tensor, " b"]
    n_responses: int
    copies: Int[Tensor, "b s"]
    n_new: int

    @classmethod
    def of(
        cls, contexts: Sequence[EncodedContext], responses: Sequence[np.ndarray], device: torch.device
    ) -> ResponseBatch:
        sides = [[context.ids for context in contexts], responses]
        tensors = [x.to(device) for side in sides for x in pad(side, PAD)]
        copies = pad([context.copies for context in contexts], PAD)[0].to(device)
        n_new = max((len(context.new) for context in contexts), default=0)
        return cls(tensors[0], tensors[1], tensors[2], tensors[3], sum(map(len, responses)), copies, n_new)

    @classmethod
    def of_contexts(cls, contexts: Sequence[EncodedContext], device: torch.device) -> ResponseBatch:
        """A batch of contexts without responses."""
        return cls.of(contexts, [np.zeros(0, np.int64)] * len(contexts), device)


class ResponseModel(ABC):
    """Model of p(response | context): a language model over dialogues or an encoder-decoder."""

    network: nn.Module
    copies: bool = False
    """Whether the model can copy context words that are outside the vocabulary."""

    @abstractmethod
    def loss(self, batch: ResponseBatch) -> tuple[Float[Tensor, ""], int]:
        """The training loss, a mean over predicted tokens, and their number."""

    @abstractmethod
    def log_probs(self, batch: ResponseBatch) -> Float[Tensor, " n"]:
        """log p of every token of the responses, concatenated."""

    @abstractmethod
    def start(self, batch: ResponseBatch) -> tuple[Stepper[Any], Any]:
        """A stepper and its state after the contexts of a batch, to generate responses from."""


class DialogueLM(ResponseModel):
    """A language model over dialogues.

    Args:
        network: the language model.
        marks: ids of the speaker symbols, which are never predicted.
        all_turns: also train on every turn of the context.
    """

    def __init__(self, network: NeuralLanguageModel, marks: Sequence[int], all_turns: bool) -> None:
        self.network: NeuralLanguageModel = network
        self.marks, self.all_turns = list(marks), all_turns

    def loss(self, batch: ResponseBatch) -> tuple[Float[Tensor, ""], int]:
        whole, lengths = self._joined(batch)
        positions = torch.arange(whole.shape[1], device=whole.device)
        scored = positions < lengths[:, None]
        if not self.all_turns:
            scored = scored & (positions >= batch.context_lengths[:, None])
        for mark in self.marks:
            scored = scored & (whole != mark)
        hidden = self.network.read(self._shifted(whole), lengths).hidden
        return self.network.output.loss(hidden[scored], whole[scored]), int(scored.sum())

    def log_probs(self, batch: ResponseBatch) -> Float[Tensor, " n"]:
        whole, lengths = self._joined(batch)
        positions = torch.arange(whole.shape[1], device=whole.device)
        scored = (positions < lengths[:, None]) & (positions >= batch.context_lengths[:, None])
        hidden = self.network.read(self._shifted(whole), lengths).hidden
        return self.network.output.log_prob(hidden[scored], whole[scored])

    def start(self, batch: ResponseBatch) -> tuple[Stepper[Any], Any]:
        state = self.network.start(len(batch.contexts))
        return self.network, self.network.extend(state, batch.contexts, batch.context_lengths)

    def _joined(self, batch: ResponseBatch) -> tuple[Int[Tensor, "b u"], Int[Tensor, " b"]]:
        """Each context followed by its response, and the total lengths."""
        lengths = batch.context_lengths + batch.response_lengths
        whole = batch.contexts.new_full((len(lengths), batch.contexts.shape[1] + batch.responses.shape[1]), PAD)
        whole[:, : batch.contexts.shape[1]] = batch.contexts
        steps = torch.arange(batch.responses.shape[1], device=whole.device)
        whole.scatter_(1, batch.context_lengths[:, None] + steps, batch.responses)
        return whole, lengths

    def _shifted(self, whole: Int[Tensor, "b u"]) -> Int[Tensor, "b u"]:
        return torch.cat((whole.new_full((len(whole), 1), self.network.begin), whole[:, :-1]), dim=1)


class Seq2SeqResponseModel(ResponseModel):
    """An encoder-decoder from context to response."""

    def __init__(self, network: EncoderDecoder) -> None:
        self.network: EncoderDecoder = network
        self.copies = bool(getattr(network, "copies", False))

    def source(self, batch: ResponseBatch) -> Source:
        """The contexts as a source of the encoder-decoder."""
        if not self.copies:
            return Source(batch.contexts, batch.context_lengths)
        return Source(batch.contexts, batch.context_lengths, batch.copies, batch.n_new)

    def loss(self, batch: ResponseBatch) -> tuple[Float[Tensor, ""], int]:
        return self.network.loss(self.source(batch), batch.responses, batch.response_lengths), batch.n_responses

    def log_probs(self, batch: ResponseBatch) -> Float[Tensor, " n"]:
        found = self.network.token_log_probs(self.source(batch), batch.responses, batch.response_lengths)
        return found[torch.arange(found.shape[1], device=found.device) < batch.response_lengths[:, None]]

    def start(self, batch: ResponseBatch) -> tuple[Stepper[Any], Any]:
        stepper = self.network.stepper(self.source(batch))
        return stepper, stepper.start(len(batch.contexts))


# --- scores and generation --------------------------------------------------------------------------------------------


_EMPTY_CONTEXT = Exchange((), (), USER_INPUT_LOCATION)
"""An empty context."""


class ResponseGenerator(Ranker):
    """Scores, ranks and generates responses with a response model.

    As a ranker its score is the mean over tokens of log p(token | context) - log p(token): otherwise frequent responses
    would win for every context (Li et al. 2016, section 3).

    Args:
        model: the response model.
        encoding: its tokenizer and vocabulary.
        ngram: an n-gram model whose perplexity is reported for comparison.
        at_once: number of texts in a batch.
    """

    def __init__(
        self, model: ResponseModel, encoding: TurnEncoding, ngram: AutoregressiveLM[Any], at_once: int
    ) -> None:
        self.model, self.encoding, self.ngram, self.at_once = model, encoding, ngram, at_once

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self.model.network.parameters()).device

    # --- scoring ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def log_probs(self, pairs: Sequence[tuple[Exchange, str]]) -> list[np.ndarray]:
        """log p of each token of responses given their contexts, with end symbols."""
        contexts = [self.encoding.context(exchange) for exchange, _ in pairs]
        responses = [self.response(text, context) for (_, text), context in zip(pairs, contexts, strict=True)]
        found: list[np.ndarray] = [np.zeros(0)] * len(pairs)
        training = self.model.network.training
        self.model.network.eval()
        sizes = np.array([len(c) + len(r) for c, r in zip(contexts, responses, strict=True)], np.int64)
        for rows in BatchPlan.by_length(sizes, BatchConfig(batch_size=self.at_once)):
            own = [responses[int(row)] for row in rows]
            batch = ResponseBatch.of([contexts[int(row)] for row in rows], own, self.device)
            flat = self.model.log_probs(batch).double().cpu().numpy()
            ends = np.cumsum([0, *(len(ids) for ids in own)])
            for row, (low, high) in zip(rows, pairwise(ends.tolist()), strict=True):
                found[int(row)] = flat[low:high]
        self.model.network.train(training)
        return found

    def response(self, text: str, context: EncodedContext) -> np.ndarray:
        """The ids of a response, with the extra ids of copied words if the model copies."""
        return self.encoding.response(text, context.new if self.model.copies else ())

    def ngram_log_probs(self, texts: Sequence[str]) -> list[np.ndarray]:
        """log p of each token of texts under the n-gram model, without a context."""
        responses = [self.encoding.response(text) for text in texts]
        found = []
        for low in range(0, len(responses), self.at_once):
            part = responses[low : low + self.at_once]
            ids, lengths = pad(part, PAD)
            rows = self.ngram.token_log_probs(ids, lengths).double().numpy()
            found += [row[: len(own)] for row, own in zip(rows, part, strict=True)]
        return found

    def scores(self, examples: Sequence[RankingExample]) -> list[np.ndarray]:
        pairs = [(example.exchange, text) for example in examples for text in example.candidates]
        after = self.log_probs(pairs)
        texts = list(dict.fromkeys(text for _, text in pairs))
        alone = dict(zip(texts, self.log_probs([(_EMPTY_CONTEXT, text) for text in texts]), strict=True))
        gains = iter([float((own - alone[text]).mean()) for own, (_, text) in zip(after, pairs, strict=True)])
        return [np.array([next(gains) for _ in example.candidates]) for example in examples]

    def knows(self, exchange: Exchange) -> bool:
        tokens = [token for turn in exchange.context for token in self.encoding.tokenizer.tokens(turn)]
        return self.model.copies or any(id != UNK for id in self.encoding.vocabulary.ids(content_words(tokens)))

    # --- generation ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def generate(
        self, contexts: Sequence[Exchange], settings: BaseSearchConfig, generator: torch.Generator
    ) -> list[list[ScoredResponse]]:
        """Generated responses to contexts with their log-probabilities; ``<unk>`` is never generated."""
        found: list[list[ScoredResponse]] = []
        self.model.network.eval()
        for low in range(0, len(contexts), self.at_once):
            read = [self.encoding.context(one) for one in contexts[low : low + self.at_once]]
            stepper, state = self.model.start(ResponseBatch.of_contexts(read, self.device))
            searched = search(settings, wrap_stepper(settings, ForbidIds(stepper, [UNK])), state, generator)
            found += [
                [ScoredResponse(self.encoding.text(h.ids, one.new), h.log_prob, h.finished) for h in row]
                for one, row in zip(read, searched, strict=True)
            ]
        return found


# --- attention maps ---------------------------------------------------------------------------------------------------


@torch.no_grad()
def response_attention(
    model: Seq2SeqResponseModel, encoding: TurnEncoding, exchange: Exchange, response: str, within: str | None
) -> AttentionMaps:
    """The attention weights of a response to its context, or within one of them.

    Args:
        model: the model.
        encoding: its tokenizer and vocabulary.
        exchange: the context.
        response: the response.
        within: ``"source"`` or ``"target"`` for self-attention; None for attention to the context.
    """
    context = encoding.context(exchange)
    ids = encoding.response(response, context.new if model.copies else ())
    batch = ResponseBatch.of([context], [ids], model.network.device)
    source = model.source(batch)
    read = tuple(_read(encoding, context))
    written = (*map(encoding.tokenizer.shown, encoding.tokenizer.tokens(response)[: len(ids) - 1]), END_SYMBOL)
    if within == "source":
        return AttentionMaps(_plain(model.network.source_attention(source)), read, read, "read", "attended to")
    if within == "target":
        layers = model.network.target_attention(source, batch.responses, batch.response_lengths)
        return AttentionMaps(_plain(layers), written, (BEGIN_SYMBOL, *written[:-1]), "written", "after")
    return AttentionMaps(
        _plain(model.network.attention(source, batch.responses, batch.response_lengths)), written, read
    )


def _read(encoding: TurnEncoding, context: EncodedContext) -> list[str]:
    """The tokens of a context in readable form, with the speaker symbols."""
    size = len(encoding.vocabulary)
    ids = context.copies.tolist()
    names = [context.new[id - size] if id >= size else encoding.vocabulary.tokens([id])[0] for id in ids]
    return [encoding.tokenizer.shown(name) for name in names]


def _plain(layers: Sequence[Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(weights[0].float().cpu().numpy() for weights in layers)
