"""Generative conversation models: their training task and predictor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn

from catena.checkpoint import CONFIG, Checkpoint
from catena.config import to_toml
from catena.data.batches import BatchPlan
from catena.data.dialogue import Exchange
from catena.data.vocabulary import PAD
from catena.errors import DataError
from catena.lm.neural_build import build_neural
from catena.metrics.measure import signature
from catena.randomness import Randomness
from catena.search.config import BaseSearchConfig, GreedyConfig, RankingConfig, SampleConfig
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.sides import VocabularyInfo
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PredictOptions,
    ReadOptions,
)
from catena.tasks.converse.config import (
    WHAT_NEXT,
    WRITING,
    ConverseConfig,
    GenerativeConfig,
    Seq2SeqResponseConfig,
)
from catena.tasks.converse.dataset import ConverseDataset
from catena.tasks.converse.encoding import distinct_texts, learn_tokenizer, learn_vocabulary, word_vectors
from catena.tasks.converse.index import RetrievedResponse
from catena.tasks.converse.picture import response_attention
from catena.tasks.converse.predictor import ConversePredictor, Reply
from catena.tasks.converse.questions import build_ranking_examples, compute_scores
from catena.tasks.converse.response_generator import NGRAMS, ResponseGenerator
from catena.tasks.converse.writing import (
    MARKS,
    DialogueLM,
    ResponseModel,
    Seq2SeqResponseModel,
    WritingBatch,
    WritingEncoding,
    load_writing_encoding,
)
from catena.tasks.looks import AttentionMaps, draw, sketch
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.tasks.searching import best_search, drawn_search, truncation_warning, with_max_length
from catena.training.task import BatchLoss, EpochPlan, Evaluation

if TYPE_CHECKING:
    from catena.draw.picture import Picture


class WritingTask(NeuralTask):
    """Training task of a model that generates responses: its data and metric."""

    what_next = WHAT_NEXT

    def __init__(
        self,
        config: ConverseConfig,
        data: ConverseDataset,
        scribe: ResponseGenerator,
        device: torch.device,
        randomness: Randomness,
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
        self._test = build_ranking_examples(data.test, config.evaluation, format, more) if data.test else []

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
        return BatchedEpoch(BatchPlan.shuffled(self._lengths, self.config.batches, generator), self.batch)

    def batch(self, rows: np.ndarray) -> WritingBatch:
        """A batch of the training pairs at ``rows``."""
        pairs = [self._pairs[int(row)] for row in rows]
        return WritingBatch.of([c for c, _ in pairs], [r for _, r in pairs], self.device)

    def loss(self, batch: WritingBatch) -> BatchLoss:
        total, n = self.scribe.author.loss(batch)
        return BatchLoss(total, n, n)

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
        return scores | compute_scores(self._test, self.scribe.standings(self._test), self.config.evaluation)

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


# --- building and loading ---------------------------------------------------------------------------------------------


def new_generative(
    config: ConverseConfig, data: ConverseDataset, device: torch.device, randomness: Randomness
) -> WritingTask:
    """The training task of a new generative model, with an n-gram model of the turns of train."""
    from catena.lm.ngram.model import NgramModel

    settings = config.model
    assert isinstance(settings, GenerativeConfig | Seq2SeqResponseConfig)
    texts = distinct_texts(data.train)
    if data.old is not None:
        encoding = load_writing_encoding(data.old, config.data.max_length)
    else:
        tokenizer = learn_tokenizer(config, data)
        vocabulary = learn_vocabulary(config, tokenizer, texts, MARKS, None)
        encoding = WritingEncoding(tokenizer, vocabulary, config.data.max_length)
    sentences = [encoding.response(text)[:-1].tolist() for text in texts]
    ngram = NgramModel.train_ids(sentences, encoding.vocabulary, settings.ngram_order)
    counts = np.bincount(np.concatenate([encoding.response(text) for text in texts]), minlength=ngram.v)
    author = build_author(config, encoding, counts.tolist(), fresh=True)
    author.network.to(device)
    data.lines.append(f"{len(encoding.vocabulary):,} symbols; n-grams of {len(texts):,} turns for comparison")
    data.lines += encoding.vocabulary.notes()
    return WritingTask(
        config, data, ResponseGenerator(author, encoding, ngram, device, _at_once(config)), device, randomness
    )


def build_author(
    config: ConverseConfig, encoding: WritingEncoding, counts: Sequence[int], fresh: bool
) -> ResponseModel:
    """The response model of a config, initialized by torch's global generator.

    Args:
        config: the config of the run.
        encoding: the tokenizer and vocabulary.
        counts: frequency of each id in train.
        fresh: start from the word vectors of the config, if it names a file.
    """
    settings, vocabulary = config.model, encoding.vocabulary
    if isinstance(settings, GenerativeConfig):
        matrix, known = word_vectors(settings.network.embedding, vocabulary, fresh)
        vectors = None if matrix is None or known is None else (matrix, known)
        network = build_neural(settings.network, vocabulary, counts, begin=MARKS[0], vectors=vectors)
        return DialogueLM(network, (encoding.me, encoding.you), settings.learn == "dialogue")
    assert isinstance(settings, Seq2SeqResponseConfig)
    never = (PAD, encoding.begin, encoding.me, encoding.you)
    sides = VocabularyInfo(len(vocabulary), list(counts), encoding.begin, encoding.end, never, shared=True)
    return Seq2SeqResponseModel(build_encoder_decoder(settings.network, sides))


def _at_once(config: ConverseConfig) -> int:
    return config.evaluation.texts_at_once


def load_generative(config: ConverseConfig, checkpoint: Checkpoint, device: torch.device) -> WritingPredictor:
    """Load a generative model from a checkpoint."""
    from catena.lm.ngram.model import NgramModel

    encoding = load_writing_encoding(checkpoint.folder, config.data.max_length)
    author = build_author(config, encoding, encoding.vocabulary.counts, fresh=False)
    checkpoint.load_into(author.network)
    author.network.to(device).eval()
    ngram = NgramModel.load(checkpoint.folder / NGRAMS)
    return WritingPredictor(config, ResponseGenerator(author, encoding, ngram, device, _at_once(config)))


class WritingPredictor(ConversePredictor):
    """A trained model that generates responses."""

    def __init__(self, config: ConverseConfig, scribe: ResponseGenerator) -> None:
        self.config, self.ranker, self.scribe = config, scribe, scribe

    @property
    def networks(self) -> list[torch.nn.Module]:
        return [self.scribe.author.network]

    supported_options: ClassVar[frozenset[str]] = ConversePredictor.supported_options | {
        "beam_size",
        "max_length",
        "layer",
        "head",
        "word",
        "within",
    }

    def reply(self, contexts: Sequence[Exchange], options: PredictOptions) -> list[tuple[RetrievedResponse, ...]]:
        generator = Randomness(options.seed).torch("reply")
        return self.written(contexts, self._search(options), generator, options.n_best)

    def searching(self, options: PredictOptions) -> WritingPredictor:
        """This predictor with the search of the options."""
        self.check(options)
        evaluation = self.config.evaluation.model_copy(update={"search": self._search(options)})
        return WritingPredictor(self.config.model_copy(update={"evaluation": evaluation}), self.scribe)

    def _search(self, options: PredictOptions) -> BaseSearchConfig:
        """The search of the config, changed by the options."""
        search: BaseSearchConfig = self.config.evaluation.search
        if options.beam_size is not None:
            search = best_search(search, options.n_best, options.beam_size)
        return search if options.max_length is None else with_max_length(search, options.max_length)

    def remarks(self, prediction: Reply) -> list[str]:
        """Warnings about truncated responses and unknown contexts."""
        own = f"evaluation.search.max_length = {self.config.evaluation.search.max_length}"
        words = truncation_warning("response", prediction.options.max_length, own)
        cut = sum(found.finished is False for found in prediction.responses)
        return [*super().remarks(prediction), *[words] * cut]

    def written(
        self, contexts: Sequence[Exchange], settings: BaseSearchConfig, generator: torch.Generator, n: int = 1
    ) -> list[tuple[RetrievedResponse, ...]]:
        """``n`` responses to each context: finished ones in the order of the search, then truncated ones.

        Sampled responses are sorted by probability, most probable first.
        """
        found = self.scribe.write(contexts, _for_so_many(settings, n), generator) if contexts else []
        if isinstance(settings, RankingConfig):
            return [tuple(row[:n]) for row in found]
        return [tuple(sorted(row, key=lambda one: (not one.finished, -one.score))[:n]) for row in found]

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
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
        return EvaluationReport({**scores, **ranked.scores}, {**signed, **ranked.signatures}, (*ranked.lines, *lines))

    def looks(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> AttentionMaps:
        """The attention weights of the response to a context, by layer and head."""
        author = self.scribe.author
        if not isinstance(author, Seq2SeqResponseModel):
            raise DataError(
                f"model.kind must be 'seq2seq' to draw attention to the context, got {self.config.model.kind!r}. Train "
                "a model of kind seq2seq."
            )
        exchange = self.exchange(item)
        found = self.reply([exchange], options)[0] if exchange.context else ()
        if not found:
            raise DataError(f"The response to {item!r} is empty, so there is nothing to draw. Use another context.")
        looks = response_attention(author, self.scribe.encoding, exchange, found[0].text, options.within)
        if not looks.layers:
            where = "to its context" if options.within is None else f"within its {options.within}"
            kind = self.config.model.network.kind  # type: ignore[union-attr]
            raise DataError(f"This network of kind {kind!r} has no attention {where}. Use a Transformer.")
        return looks

    def picture(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """A heat map of the attention weights of each response token (rows) over the context (columns)."""
        return draw(self.looks(item, options), options)

    def sketch(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        """The heat map as text for a terminal."""
        return sketch(self.looks(item, options), options)

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.scribe.author.network.parameters())
        return [
            f"a conversation model of kind {self.config.model.kind}, which generates responses: {n:,} parameters, "
            f"{len(self.scribe.encoding.vocabulary):,} symbols",
            f"context: the last {self.config.data.window} turns",
        ]


def _for_so_many(settings: BaseSearchConfig, n: int) -> BaseSearchConfig:
    """The search with ``n`` results."""
    if isinstance(settings, SampleConfig):
        return drawn_search(settings, max(n, settings.n))
    if isinstance(settings, RankingConfig) or (isinstance(settings, GreedyConfig) and n > 1):
        return best_search(settings, n)
    return settings
