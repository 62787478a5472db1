"""A response model with its encoding, which scores, ranks and generates responses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.data.exchanges import Exchange
from catena.data.vocabulary import PAD, UNK
from catena.lm.base import AutoregressiveLM
from catena.search.build import search, wrap_stepper
from catena.search.config import BaseSearchConfig
from catena.search.forbid_ids import ForbidIds
from catena.tasks.converse.data import USER_INPUT_LOCATION
from catena.tasks.converse.model import EncodedContext, ResponseBatch, ResponseModel, TurnEncoding
from catena.tasks.converse.predict import ScoredResponse
from catena.tasks.converse.rankers import Ranker, content_words
from catena.tasks.converse.ranking import RankingExample

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
