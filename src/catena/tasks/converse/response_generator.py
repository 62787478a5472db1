"""A response model with its encoding, which scores, ranks and generates responses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.data.dialogue import Exchange
from catena.data.vocabulary import PAD, UNK
from catena.lm.base import AutoregressiveLM
from catena.metrics.diversity import distinct
from catena.randomness import Randomness
from catena.search.build import search, wrap_stepper
from catena.search.config import BaseSearchConfig
from catena.search.without import ForbidIds
from catena.tasks.converse.dataset import context_response_pairs
from catena.tasks.converse.index import RetrievedResponse
from catena.tasks.converse.predictor import USER_INPUT_LOCATION
from catena.tasks.converse.questions import RankingExample
from catena.tasks.converse.rankers import Ranker, content_words
from catena.tasks.converse.writing import EncodedContext, ResponseModel, WritingBatch, WritingEncoding

NGRAMS = "ngrams.bin"
_EMPTY_CONTEXT = Exchange((), (), USER_INPUT_LOCATION)
"""An empty context."""


class ResponseGenerator(Ranker):
    """Scores, ranks and generates responses with a response model.

    As a ranker its score is the mean over tokens of log p(token | context) - log p(token): otherwise frequent responses
    would win for every context (Li et al. 2016, section 3).

    Args:
        author: the response model.
        encoding: its tokenizer and vocabulary.
        ngram: an n-gram model whose perplexity is reported for comparison.
        device: the device of the model.
        at_once: number of texts in a batch.
    """

    def __init__(
        self,
        author: ResponseModel,
        encoding: WritingEncoding,
        ngram: AutoregressiveLM[Any],
        device: torch.device,
        at_once: int,
    ) -> None:
        self.author, self.encoding, self.ngram, self.device, self.at_once = author, encoding, ngram, device, at_once

    # --- scoring ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def log_probs(self, pairs: Sequence[tuple[Exchange, str]]) -> list[np.ndarray]:
        """log p of each token of responses given their contexts, with end symbols."""
        contexts = [self.encoding.context(exchange) for exchange, _ in pairs]
        responses = [self.response(text, context) for (_, text), context in zip(pairs, contexts, strict=True)]
        found: list[np.ndarray] = [np.zeros(0)] * len(pairs)
        training = self.author.network.training
        self.author.network.eval()
        sizes = np.array([len(c) + len(r) for c, r in zip(contexts, responses, strict=True)], np.int64)
        for rows in BatchPlan.by_length(sizes, BatchConfig(batch_size=self.at_once)):
            own = [responses[int(row)] for row in rows]
            batch = WritingBatch.of([contexts[int(row)] for row in rows], own, self.device)
            flat = self.author.log_probs(batch).double().cpu().numpy()
            ends = np.cumsum([0, *(len(ids) for ids in own)])
            for row, (low, high) in zip(rows, pairwise(ends.tolist()), strict=True):
                found[int(row)] = flat[low:high]
        self.author.network.train(training)
        return found

    def response(self, text: str, context: EncodedContext) -> np.ndarray:
        """The ids of a response, with the extra ids of copied words if the model copies."""
        return self.encoding.response(text, context.new if self.author.copies else ())

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

    def scores(self, questions: Sequence[RankingExample]) -> list[np.ndarray]:
        pairs = [(question.exchange, text) for question in questions for text in question.candidates]
        after = self.log_probs(pairs)
        texts = list(dict.fromkeys(text for _, text in pairs))
        alone = dict(zip(texts, self.log_probs([(_EMPTY_CONTEXT, text) for text in texts]), strict=True))
        gains = iter([float((own - alone[text]).mean()) for own, (_, text) in zip(after, pairs, strict=True)])
        return [np.array([next(gains) for _ in question.candidates]) for question in questions]

    def knows(self, exchange: Exchange) -> bool:
        tokens = [token for turn in exchange.context for token in self.encoding.tokenizer.tokens(turn)]
        return self.author.copies or any(id != UNK for id in self.encoding.vocabulary.ids(content_words(tokens)))

    def perplexities(self, part: Sequence[Exchange]) -> tuple[dict[str, float], int]:
        """Perplexities of the model and the n-gram model on the correct responses, and their number of tokens."""
        pairs = list(context_response_pairs(part))
        own = np.concatenate(self.log_probs(pairs))
        other = np.concatenate(self.ngram_log_probs([text for _, text in pairs]))
        nats, theirs = -float(own.mean()), -float(other.mean())
        scores = {"perplexity": math.exp(min(nats, 700)), "nats_per_token": nats}
        return {**scores, "ngram_perplexity": math.exp(min(theirs, 700))}, len(own)

    # --- generation ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def write(
        self, contexts: Sequence[Exchange], settings: BaseSearchConfig, generator: torch.Generator
    ) -> list[list[RetrievedResponse]]:
        """Generated responses to contexts with their log-probabilities; ``<unk>`` is never generated."""
        found: list[list[RetrievedResponse]] = []
        self.author.network.eval()
        for low in range(0, len(contexts), self.at_once):
            read = [self.encoding.context(one) for one in contexts[low : low + self.at_once]]
            stepper, state = self.author.begun(WritingBatch.asked(read, self.device))
            searched = search(settings, wrap_stepper(settings, ForbidIds(stepper, [UNK])), state, generator)
            found += [
                [RetrievedResponse(self.encoding.text(h.ids, one.new), h.log_prob, h.finished) for h in row]
                for one, row in zip(read, searched, strict=True)
            ]
        return found

    def diversity(self, contexts: Sequence[Exchange], settings: BaseSearchConfig) -> dict[str, float]:
        """distinct-1 and distinct-2 of one generated response per context."""
        if not contexts:
            return {}
        generator = Randomness(0).torch("written")
        texts = [row[0].text if row else "" for row in self.write(contexts, settings, generator)]
        tokens = [self.encoding.tokenizer.tokens(text) for text in texts]
        return {f"distinct_{n}": distinct(tokens, n) for n in (1, 2)}

    def save(self, folder: Path) -> None:
        self.encoding.save(folder)
        self.ngram.save(folder / NGRAMS)  # type: ignore[attr-defined]
