"""Models that write responses, as the training loop sees them and as they are asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from catena.checkpoint import CONFIG, Checkpoint
from catena.config import to_toml
from catena.data.batches import BatchPlan, pad
from catena.data.dialogue import Exchange
from catena.data.settings import BatchSettings
from catena.data.vocabulary import PAD, UNK
from catena.decoding.build import prepared, search
from catena.decoding.settings import GreedySettings, RankingSettings, SampleSettings, SearchLimits
from catena.decoding.without import Without
from catena.lm.base import LanguageModel
from catena.lm.neural_build import build_neural
from catena.metrics.diversity import distinct
from catena.metrics.measure import signature
from catena.randomness import Randomness
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.sides import Sides
from catena.tasks.application import AS_TRAINED, Asking, Reading, Report
from catena.tasks.converse.dataset import Dataset, pairs_of
from catena.tasks.converse.encoding import learn_tokeniser, learn_vocabulary, texts_of, word_vectors
from catena.tasks.converse.index import Found
from catena.tasks.converse.predictor import ASKED, ConversePredictor, Reply
from catena.tasks.converse.questions import Question, questions_of, scores_of
from catena.tasks.converse.rankers import Ranker, words_of
from catena.tasks.converse.settings import (
    WHAT_NEXT,
    WRITING,
    ConverseConfig,
    GenerativeSettings,
    Seq2seqSettings,
)
from catena.tasks.converse.writing import (
    MARKS,
    Author,
    Context,
    DialogueAuthor,
    Seq2seqAuthor,
    WritingBatch,
    WritingEncoding,
    load_writing_encoding,
)
from catena.tasks.looped import PlannedEpoch, TestedTask
from catena.tasks.searching import best_search, cut_remark, drawn_search, up_to
from catena.training.task import EpochPlan, Evaluation, LossOutput

NGRAMS = "ngrams.bin"
SILENCE = Exchange((), (), ASKED)
"""A context in which nothing was said."""


class Scribe(Ranker):
    """An author with its encoding: scores responses and writes them. ``ngram`` is what the author is compared with.

    As a ranker it prefers responses that are more likely after the context than without any, for each of their tokens:
    otherwise common ones would win everywhere (Li et al. 2016, section 3).
    """

    def __init__(
        self,
        author: Author,
        encoding: WritingEncoding,
        ngram: LanguageModel[Any],
        device: torch.device,
        at_once: int,
    ) -> None:
        self.author, self.encoding, self.ngram, self.device, self.at_once = author, encoding, ngram, device, at_once

    # --- scoring ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def log_probs(self, pairs: Sequence[tuple[Exchange, str]]) -> list[np.ndarray]:
        """log p of each token of responses, the end among them, after their contexts."""
        contexts = [self.encoding.context(exchange) for exchange, _ in pairs]
        responses = [self.response(text, context) for (_, text), context in zip(pairs, contexts, strict=True)]
        found: list[np.ndarray] = [np.zeros(0)] * len(pairs)
        training = self.author.network.training
        self.author.network.eval()
        sizes = np.array([len(c) + len(r) for c, r in zip(contexts, responses, strict=True)], np.int64)
        for rows in BatchPlan.by_length(sizes, BatchSettings(batch_size=self.at_once)):
            own = [responses[int(row)] for row in rows]
            batch = WritingBatch.of([contexts[int(row)] for row in rows], own, self.device)
            flat = self.author.log_probs(batch).double().cpu().numpy()
            ends = np.cumsum([0, *(len(ids) for ids in own)])
            for row, (low, high) in zip(rows, pairwise(ends.tolist()), strict=True):
                found[int(row)] = flat[low:high]
        self.author.network.train(training)
        return found

    def response(self, text: str, context: Context) -> np.ndarray:
        """The ids of a response, those of words that can only be copied among them if the author copies."""
        return self.encoding.response(text, context.new if self.author.copies else ())

    def ngram_log_probs(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The same by n-grams, without a context."""
        responses = [self.encoding.response(text) for text in texts]
        found = []
        for low in range(0, len(responses), self.at_once):
            part = responses[low : low + self.at_once]
            ids, lengths = pad(part, PAD)
            rows = self.ngram.token_log_probs(ids, lengths).double().numpy()
            found += [row[: len(own)] for row, own in zip(rows, part, strict=True)]
        return found

    def scores(self, questions: Sequence[Question]) -> list[np.ndarray]:
        pairs = [(question.exchange, text) for question in questions for text in question.candidates]
        after = self.log_probs(pairs)
        texts = list(dict.fromkeys(text for _, text in pairs))
        alone = dict(zip(texts, self.log_probs([(SILENCE, text) for text in texts]), strict=True))
        gains = iter([float((own - alone[text]).mean()) for own, (_, text) in zip(after, pairs, strict=True)])
        return [np.array([next(gains) for _ in question.candidates]) for question in questions]

    def knows(self, exchange: Exchange) -> bool:
        tokens = [token for turn in exchange.context for token in self.encoding.tokeniser.tokens(turn)]
        return self.author.copies or any(id != UNK for id in self.encoding.vocabulary.ids(words_of(tokens)))

    def perplexities(self, part: Sequence[Exchange]) -> tuple[dict[str, float], int]:
        """Perplexity on the right responses of a part, that of the n-grams on the same, and their tokens."""
        pairs = list(pairs_of(part))
        own = np.concatenate(self.log_probs(pairs))
        other = np.concatenate(self.ngram_log_probs([text for _, text in pairs]))
        nats, theirs = -float(own.mean()), -float(other.mean())
        scores = {"perplexity": math.exp(min(nats, 700)), "nats_per_token": nats}
        return {**scores, "ngram_perplexity": math.exp(min(theirs, 700))}, len(own)

    # --- writing ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def write(
        self, contexts: Sequence[Exchange], settings: SearchLimits, generator: torch.Generator
    ) -> list[list[Found]]:
        """Responses to contexts by a search, with their log-probabilities; unknown words are never written."""
        found: list[list[Found]] = []
        self.author.network.eval()
        for low in range(0, len(contexts), self.at_once):
            read = [self.encoding.context(one) for one in contexts[low : low + self.at_once]]
            stepper, state = self.author.begun(WritingBatch.asked(read, self.device))
            searched = search(settings, prepared(settings, Without(stepper, [UNK])), state, generator)
            found += [
                [Found(self.encoding.text(h.ids, one.new), h.log_prob, h.finished) for h in row]
                for one, row in zip(read, searched, strict=True)
            ]
        return found

    def diversity(self, contexts: Sequence[Exchange], settings: SearchLimits) -> dict[str, float]:
        """distinct-1 and distinct-2 of one response to each context."""
        if not contexts:
            return {}
        generator = Randomness(0).torch("written")
        texts = [row[0].text if row else "" for row in self.write(contexts, settings, generator)]
        tokens = [self.encoding.tokeniser.tokens(text) for text in texts]
        return {f"distinct_{n}": distinct(tokens, n) for n in (1, 2)}

    def save(self, folder: Path) -> None:
        self.encoding.save(folder)
        self.ngram.save(folder / NGRAMS)  # type: ignore[attr-defined]


class WritingTask(TestedTask):
    """An author, its data and its metric."""

    what_next = WHAT_NEXT

    def __init__(
        self, config: ConverseConfig, data: Dataset, scribe: Scribe, device: torch.device, randomness: Randomness
    ) -> None:
        self.config, self.data, self.scribe, self.device, self.randomness = config, data, scribe, device, randomness
        encoding = scribe.encoding
        contexts = [encoding.context(exchange) for exchange in data.taught]
        self._pairs = [
            (contexts[i], scribe.response(text, contexts[i]))
            for i, exchange in enumerate(data.taught)
            for text in exchange.responses
        ]
        self._lengths = np.array([len(c) + len(r) for c, r in self._pairs])
        more = data.responses()
        format = data.formats.get("test", data.formats["train"])
        self._test = questions_of(data.test, config.evaluation, format, more) if data.test else []

    @property
    def model(self) -> nn.Module:
        return self.scribe.author.network

    @property
    def metric(self) -> str:
        return WRITING[0]

    @property
    def higher_is_better(self) -> bool:
        return False

    def epoch(self, number: int) -> EpochPlan:
        generator = self.randomness.numpy("batches", number)
        return PlannedEpoch(BatchPlan.shuffled(self._lengths, self.config.batches, generator), self.batch)

    def batch(self, rows: np.ndarray) -> WritingBatch:
        """Some pairs of train as tensors."""
        pairs = [self._pairs[int(row)] for row in rows]
        return WritingBatch.of([c for c, _ in pairs], [r for _, r in pairs], self.device)

    def loss(self, batch: WritingBatch) -> LossOutput:
        total, n = self.scribe.author.loss(batch)
        return LossOutput(total, n, n)

    def evaluate(self) -> Evaluation:
        scores, _ = self.scribe.perplexities(self.data.dev)
        shown = self.data.dev[: self.config.evaluation.written]
        scores |= self.scribe.diversity(shown, self.config.evaluation.search)
        return Evaluation(scores, self._samples())

    def test_scores(self) -> dict[str, float]:
        if not self.data.test:
            return {}
        scores, _ = self.scribe.perplexities(self.data.test)
        shown = self.data.test[: self.config.evaluation.written]
        scores |= self.scribe.diversity(shown, self.config.evaluation.search)
        return scores | scores_of(self._test, self.scribe.standings(self._test))

    def _samples(self) -> list[str]:
        shown = self.data.dev[:3]
        found = self.scribe.write(shown, self.config.evaluation.search, Randomness(0).torch("samples"))
        return [f"{e.context[-1]}  →  {row[0].text if row else ''}" for e, row in zip(shown, found, strict=True)]

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.scribe.save(folder)

    def describe_batch(self, batch: WritingBatch) -> str:
        return f"{len(batch.contexts)} contexts, longest {batch.contexts.shape[1]} tokens"

    def summary(self) -> Sequence[str]:
        return self.data.lines


# --- making and loading -----------------------------------------------------------------------------------------------


def new_generative(config: ConverseConfig, data: Dataset, device: torch.device, randomness: Randomness) -> WritingTask:
    """An author with fresh weights, and n-grams of the turns of train."""
    from catena.lm.ngram.model import NgramModel

    settings = config.model
    assert isinstance(settings, GenerativeSettings | Seq2seqSettings)
    texts = texts_of(data.train)
    if data.old is not None:
        encoding = load_writing_encoding(data.old, config.data.max_length)
    else:
        tokeniser = learn_tokeniser(config, data)
        vocabulary = learn_vocabulary(config, tokeniser, texts, MARKS, None)
        encoding = WritingEncoding(tokeniser, vocabulary, config.data.max_length)
    sentences = [encoding.response(text)[:-1].tolist() for text in texts]
    ngram = NgramModel.train_ids(sentences, encoding.vocabulary, settings.ngram_order)
    counts = np.bincount(np.concatenate([encoding.response(text) for text in texts]), minlength=ngram.v)
    author = build_author(config, encoding, counts.tolist(), fresh=True)
    author.network.to(device)
    data.lines.append(f"{len(encoding.vocabulary):,} symbols; n-grams of {len(texts):,} turns for comparison")
    return WritingTask(config, data, Scribe(author, encoding, ngram, device, _at_once(config)), device, randomness)


def build_author(config: ConverseConfig, encoding: WritingEncoding, counts: Sequence[int], fresh: bool) -> Author:
    """The author of a config, with weights drawn from torch's generator; a ``fresh`` one starts from the file of word
    vectors that the config names, if it does."""
    settings, vocabulary = config.model, encoding.vocabulary
    if isinstance(settings, GenerativeSettings):
        matrix, known = word_vectors(settings.network.embedding, vocabulary, fresh)
        vectors = None if matrix is None or known is None else (matrix, known)
        network = build_neural(settings.network, vocabulary, counts, begin=MARKS[0], vectors=vectors)
        return DialogueAuthor(network, (encoding.me, encoding.you), settings.learn == "dialogue")
    assert isinstance(settings, Seq2seqSettings)
    never = (PAD, encoding.begin, encoding.me, encoding.you)
    sides = Sides(len(vocabulary), list(counts), encoding.begin, encoding.end, never, shared=True)
    return Seq2seqAuthor(build_encoder_decoder(settings.network, sides))


def _at_once(config: ConverseConfig) -> int:
    return config.evaluation.texts_at_once


def load_generative(config: ConverseConfig, checkpoint: Checkpoint, device: torch.device) -> WritingPredictor:
    """Read a model that writes."""
    from catena.lm.ngram.model import NgramModel

    encoding = load_writing_encoding(checkpoint.folder, config.data.max_length)
    author = build_author(config, encoding, encoding.vocabulary.counts, fresh=False)
    checkpoint.load_into(author.network)
    author.network.to(device).eval()
    ngram = NgramModel.load(checkpoint.folder / NGRAMS)
    return WritingPredictor(config, Scribe(author, encoding, ngram, device, _at_once(config)))


class WritingPredictor(ConversePredictor):
    """A model that writes responses."""

    def __init__(self, config: ConverseConfig, scribe: Scribe) -> None:
        self.config, self.ranker, self.scribe = config, scribe, scribe

    @property
    def networks(self) -> list[torch.nn.Module]:
        return [self.scribe.author.network]

    asks: ClassVar[frozenset[str]] = ConversePredictor.asks | {"max_length"}

    def reply(self, contexts: Sequence[Exchange], asking: Asking) -> list[tuple[Found, ...]]:
        generator = Randomness(asking.seed).torch("reply")
        return self.written(contexts, self._search(asking.max_length), generator, asking.nbest)

    def searching(self, asking: Asking) -> WritingPredictor:
        """The same with another search."""
        self.check(asking)
        evaluation = self.config.evaluation.model_copy(update={"search": self._search(asking.max_length)})
        return WritingPredictor(self.config.model_copy(update={"evaluation": evaluation}), self.scribe)

    def _search(self, max_length: int | None) -> SearchLimits:
        search = self.config.evaluation.search
        return search if max_length is None else up_to(search, max_length)

    def remarks(self, prediction: Reply) -> list[str]:
        """That responses were cut, and at what length."""
        own = f"evaluation.search.max_length = {self.config.evaluation.search.max_length}"
        words = cut_remark("response", prediction.asking.max_length, own)
        cut = sum(found.finished is False for found in prediction.responses)
        return [*super().remarks(prediction), *[words] * cut]

    def written(
        self, contexts: Sequence[Exchange], settings: SearchLimits, generator: torch.Generator, n: int = 1
    ) -> list[tuple[Found, ...]]:
        """``n`` responses to each context by a search: those that came to their end, the likeliest first, then those
        that were cut."""
        found = self.scribe.write(contexts, _for_so_many(settings, n), generator) if contexts else []
        return [tuple(sorted(row, key=lambda one: (not one.finished, -one.score))[:n]) for row in found]

    def evaluate(self, path: Path, reading: Reading = AS_TRAINED) -> Report:
        ranked = super().evaluate(path, reading)
        groups, _ = self.questions(path, reading)
        part = [group[0].exchange for group in groups]
        scores, tokens = self.scribe.perplexities(part)
        shown = part[: self.config.evaluation.written]
        scores |= self.scribe.diversity(shown, self.config.evaluation.search)
        kind = {"tokens": self.config.tokenizer.kind, "ends": "counted"}
        signed = {name: signature(name, tokens, kind) for name in scores}
        signed |= {name: signature(name, len(shown)) for name in scores if name.startswith("distinct")}
        lines = [f"{name} {value:.4f}   {signed[name]}" for name, value in scores.items()]
        return Report({**scores, **ranked.scores}, {**signed, **ranked.signatures}, (*ranked.lines, *lines))

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.scribe.author.network.parameters())
        return [
            f"a model of conversation of kind {self.config.model.kind}, which writes its responses: {n:,} parameters, "
            f"{len(self.scribe.encoding.vocabulary):,} symbols",
            f"it reads the last {self.config.data.window} turns",
        ]


def _for_so_many(settings: SearchLimits, n: int) -> SearchLimits:
    """A search that finds ``n`` texts."""
    if isinstance(settings, SampleSettings):
        return drawn_search(settings, max(n, settings.n))
    if isinstance(settings, RankingSettings) or (isinstance(settings, GreedySettings) and n > 1):
        return best_search(settings, n)
    return settings
