"""Models that generate responses: turns as ids, and two models of p(response | context) with one interface.

A context is ``<you> hello there </s> <me> hi </s> … <me>``: every turn starts with a speaker symbol, ``<me>`` for the
one who responds, and ends with ``</s>``. The last id is the speaker symbol of the response.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.data.batches import pad
from catena.data.exchanges import Exchange
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, ME_SYMBOL, YOU_SYMBOL
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.lm.base import SPECIALS
from catena.lm.neural import NeuralLanguageModel
from catena.search.stepper import Stepper
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.config import TOKENIZER, VOCABULARY

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
