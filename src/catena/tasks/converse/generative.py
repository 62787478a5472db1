"""Models that generate responses, as a task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import nn

from catena.checkpoint import Checkpoint
from catena.data.conversations import Exchange
from catena.data.vocabulary import PAD, UNK
from catena.errors import DataError
from catena.lm.base import AutoregressiveLM
from catena.lm.neural_build import build_neural
from catena.metrics.measure import Metric
from catena.randomness import Randomness
from catena.search.config import BaseSearchConfig, GreedyConfig, RankingConfig, SampleConfig
from catena.search.overrides import best_search, drawn_search, truncation_warning, with_max_length
from catena.seq2seq.base import VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.tasks.attention_maps import AttentionMaps, draw, sketch
from catena.tasks.base import DataParts, Origin
from catena.tasks.converse.config import (
    LIKELIHOODS,
    ConverseConfig,
    GenerativeConfig,
    GenerativeOptions,
    Seq2SeqResponseConfig,
)
from catena.tasks.converse.data import (
    context_response_pairs,
    describe_parts,
    distinct_responses,
    distinct_texts,
    fit_tokenizer,
    fit_vocabulary,
    training_exchanges,
)
from catena.tasks.converse.evaluation import LIKELIHOOD_METRICS, GenerativeEvaluation, Groups
from catena.tasks.converse.model import (
    MARKS,
    DialogueLM,
    EncodedContext,
    ResponseBatch,
    ResponseGenerator,
    ResponseModel,
    Seq2SeqResponseModel,
    TurnEncoding,
    load_turn_encoding,
    response_attention,
)
from catena.tasks.converse.predict import ResponsePrediction, ScoredResponse
from catena.tasks.converse.task import ConverseTask
from catena.tasks.neural import Dataset, NeuralTask
from catena.tasks.pretrained import initial_vectors
from catena.training.device import choose_device
from catena.training.task import BatchLoss

if TYPE_CHECKING:
    from catena.draw.picture import Picture

_NGRAMS = "ngrams.bin"


class GenerativeRows:
    """Exchanges, and their training pairs as ids, which are made when they are first used."""

    def __init__(self, exchanges: Sequence[Exchange], config: ConverseConfig, generator: ResponseGenerator) -> None:
        self.exchanges, self.config, self.generator = exchanges, config, generator

    def __len__(self) -> int:
        return len(self.exchanges)

    @cached_property
    def pairs(self) -> list[tuple[EncodedContext, np.ndarray]]:
        """The context and the response of each training pair."""
        pairs = []
        for exchange in training_exchanges(self.exchanges, self.config.data):
            context = self.generator.encoding.context(exchange)
            pairs += [(context, self.generator.response(text, context)) for text in exchange.responses]
        return pairs

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.array([len(context) + len(response) for context, response in self.pairs])


class GenerativeTask(
    NeuralTask[ConverseConfig, Exchange, ResponsePrediction, GenerativeOptions], ConverseTask[GenerativeOptions]
):
    """A model that generates responses: a language model over dialogues, or an encoder-decoder.

    Args:
        config: the config.
        encoding: the tokenizer and vocabulary.
        network: the network.
        ngram: an n-gram model of the turns of train, whose perplexity is reported for comparison.
    """

    options_class = GenerativeOptions
    quantizable = True
    generates = True
    encoding: TurnEncoding

    def __init__(
        self, config: ConverseConfig, encoding: TurnEncoding, network: nn.Module, ngram: AutoregressiveLM[Any]
    ) -> None:
        super().__init__(config, encoding, network)
        self.response_model = _response_model(config, encoding, network)
        self.generator = ResponseGenerator(self.response_model, encoding, ngram, config.evaluation.texts_at_once)

    @property
    def ranker(self) -> ResponseGenerator:
        return self.generator

    # --- preparation --------------------------------------------------------------------------------------------------

    @classmethod
    def new(cls, config: ConverseConfig, train: Sequence[Exchange], origin: Origin, report: list[str]) -> Self:
        """As in the base class, with an n-gram model of the turns of train."""
        from catena.lm.ngram.model import NgramModel

        encoding = cls.choose_encoding(config, train, origin)
        ids = [encoding.response(text) for text in distinct_texts(train)]
        ngram = NgramModel.train_ids([one[:-1].tolist() for one in ids], encoding.vocabulary, _ngram_order(config))
        counts = np.bincount(np.concatenate(ids), minlength=ngram.v)
        origin.randomness.seed_torch("weights")
        task = cls(config, encoding, _build_network(config, encoding, counts.tolist(), report), ngram)
        task.more_distractors = distinct_responses(train)
        report.append(f"{len(encoding.vocabulary):,} symbols; n-grams of {len(ids):,} turns for comparison")
        return task

    @classmethod
    def fit_encoding(cls, config: ConverseConfig, train: Sequence[Exchange], origin: Origin) -> TurnEncoding:
        tokenizer = fit_tokenizer(config, train)
        vocabulary = fit_vocabulary(config, tokenizer, distinct_texts(train), MARKS, None)
        return TurnEncoding(tokenizer, vocabulary, config.data.max_length)

    @classmethod
    def load_encoding(cls, config: ConverseConfig, folder: Path) -> TurnEncoding:
        return load_turn_encoding(folder, config.data.max_length)

    @classmethod
    def build_network(
        cls, config: ConverseConfig, encoding: TurnEncoding, report: list[str] | None = None
    ) -> nn.Module:
        return _build_network(config, encoding, encoding.vocabulary.counts, report)

    @classmethod
    def load(cls, config: ConverseConfig, checkpoint: Checkpoint, device: str) -> Self:
        from catena.lm.ngram.model import NgramModel

        encoding = cls.load_encoding(config, checkpoint.folder)
        network = cls.build_network(config, encoding)
        checkpoint.load_into(network)
        ngram = NgramModel.load(checkpoint.folder / _NGRAMS)
        return cls(config, encoding, network.to(choose_device(device)).eval(), ngram)

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.generator.ngram.save(folder / _NGRAMS)  # type: ignore[attr-defined]

    def encode(self, examples: Sequence[Exchange], *, gold: bool = True) -> GenerativeRows:
        return GenerativeRows(examples, self.config, self.generator)

    def summarize(self, parts: DataParts[Exchange], data: Dataset) -> list[str]:
        return [*describe_parts(parts, self.config.data), *self.encoding.vocabulary.notes()]

    # --- training -----------------------------------------------------------------------------------------------------

    def collate(self, rows: GenerativeRows, index: np.ndarray) -> ResponseBatch:
        pairs = [rows.pairs[i] for i in index]
        return ResponseBatch.of([context for context, _ in pairs], [ids for _, ids in pairs], self.device)

    def loss(self, batch: ResponseBatch) -> BatchLoss:
        total, n = self.response_model.loss(batch)
        return BatchLoss(total, n, n)

    def describe_batch(self, batch: ResponseBatch) -> str:
        return f"{len(batch.contexts)} contexts, longest {batch.contexts.shape[1]} tokens"

    # --- evaluation ---------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        return LIKELIHOODS[0]

    def find_metric(self, name: str) -> Metric:
        return LIKELIHOOD_METRICS[name] if name in LIKELIHOOD_METRICS else super().find_metric(name)

    def evaluate_rows(self, rows: GenerativeRows) -> GenerativeEvaluation:
        return self._evaluate(rows.exchanges, self.ranking_examples(rows.exchanges))

    def evaluate_dev(self, rows: GenerativeRows) -> GenerativeEvaluation:
        """The likelihood of dev, without ranking, which would take longer."""
        return self._evaluate(rows.exchanges, [])

    def _evaluate(self, exchanges: Sequence[Exchange], groups: Groups) -> GenerativeEvaluation:
        pairs = context_response_pairs(exchanges)
        answered = [exchange for exchange in exchanges if exchange.responses]
        return GenerativeEvaluation(
            self.config,
            groups,
            self.generator.ranks(groups) if groups else [],
            texts=[text for _, text in pairs],
            log_probs=self.generator.log_probs(pairs),
            ngram_log_probs=self.generator.ngram_log_probs([text for _, text in pairs]),
            unknown=self._unknown_fraction(pairs),
            generated=self._generated_tokens(answered[: self.config.evaluation.written]),
        )

    def _unknown_fraction(self, pairs: Sequence[tuple[Exchange, str]]) -> float:
        ids = [self.generator.response(text, self.encoding.context(exchange)) for exchange, text in pairs]
        return float((np.concatenate(ids) == UNK).mean())

    def _generated_tokens(self, contexts: Sequence[Exchange]) -> list[list[str]]:
        """The tokens of one generated response to each context, for its diversity."""
        search = self.config.evaluation.search
        responses = self.generator.generate(contexts, search, Randomness(0).torch("written"))
        return [self.encoding.tokenizer.tokens(row[0].text if row else "") for row in responses]

    def show(self, rows: GenerativeRows, result: GenerativeEvaluation) -> list[str]:
        shown = rows.exchanges[:3]
        responses = self.generator.generate(shown, self.config.evaluation.search, Randomness(0).torch("samples"))
        return [f"{e.context[-1]}  →  {row[0].text if row else ''}" for e, row in zip(shown, responses, strict=True)]

    # --- prediction ---------------------------------------------------------------------------------------------------

    def respond(self, contexts: Sequence[Exchange], options: GenerativeOptions) -> list[list[ScoredResponse]]:
        generator = Randomness(options.seed).torch("reply")
        return self.generate(contexts, self._search(options), generator, options.n_best)

    def generate(
        self, contexts: Sequence[Exchange], search: BaseSearchConfig, generator: torch.Generator, n: int = 1
    ) -> list[list[ScoredResponse]]:
        """``n`` responses to each context: finished ones in the order of the search, then truncated ones.

        Sampled responses are sorted by probability, most probable first.
        """
        responses = self.generator.generate(contexts, _with_results(search, n), generator)
        if isinstance(search, RankingConfig):
            return [row[:n] for row in responses]
        return [sorted(row, key=lambda one: (not one.finished, -one.score))[:n] for row in responses]

    def search_options(self, options: GenerativeOptions) -> GenerativeTask:
        evaluation = self.config.evaluation.model_copy(update={"search": self._search(options)})
        config = self.config.model_copy(update={"evaluation": evaluation})
        return GenerativeTask(config, self.encoding, self._network, self.generator.ngram)

    def _search(self, options: GenerativeOptions) -> BaseSearchConfig:
        """The search of the config, changed by the options."""
        search: BaseSearchConfig = self.config.evaluation.search
        if options.beam_size is not None:
            search = best_search(search, options.n_best, options.beam_size)
        return search if options.max_length is None else with_max_length(search, options.max_length)

    def warnings(self, prediction: ResponsePrediction, options: GenerativeOptions) -> Sequence[str]:
        """Warnings about truncated responses and unknown contexts."""
        own = f"evaluation.search.max_length = {self.config.evaluation.search.max_length}"
        words = truncation_warning("response", options.max_length, own)
        n_truncated = sum(bool(one.truncated) for one in prediction.ranked)
        return [*super().warnings(prediction, options), *[words] * n_truncated]

    # --- reports ------------------------------------------------------------------------------------------------------

    def attention(self, example: Exchange, options: GenerativeOptions) -> AttentionMaps:
        """The attention weights of the response to a context, by layer and head."""
        model = self.response_model
        if not isinstance(model, Seq2SeqResponseModel):
            raise DataError(
                f"model.kind must be 'seq2seq' to draw attention to the context, got {self.config.model.kind!r}. Train "
                "a model of kind seq2seq."
            )
        response = self.predict_examples([example], options)[0].response
        if response is None:
            shown = " ".join(example.context)
            raise DataError(f"The response to {shown!r} is empty, so there is nothing to draw. Use another context.")
        maps = response_attention(model, self.encoding, self.truncate(example), response, options.within)
        if not maps.layers:
            where = "to its context" if options.within is None else f"within its {options.within}"
            kind = self.config.model.network.kind  # type: ignore[union-attr]
            raise DataError(f"This network of kind {kind!r} has no attention {where}. Use a Transformer.")
        return maps

    def draw(self, example: Exchange, options: GenerativeOptions) -> Picture:
        """A heat map of the attention weights of each response token (rows) over the context (columns)."""
        return draw(self.attention(example, options), options)

    def draw_text(self, example: Exchange, options: GenerativeOptions) -> str:
        """The heat map as text for a terminal."""
        return sketch(self.attention(example, options), options)

    def describe(self, top: int) -> list[str]:
        return [
            f"a conversation model of kind {self.config.model.kind}, which generates responses: "
            f"{self.n_parameters:,} parameters, {len(self.encoding.vocabulary):,} symbols",
            f"context: the last {self.config.data.window} turns",
        ]


def _build_network(
    config: ConverseConfig, encoding: TurnEncoding, counts: Sequence[int], report: list[str] | None
) -> nn.Module:
    """The network of a config, initialized by torch's global generator.

    Args:
        config: the config of the run.
        encoding: the tokenizer and vocabulary.
        counts: frequency of each id in train.
        report: as in :func:`~catena.tasks.pretrained.initial_vectors`.
    """
    settings, vocabulary = config.model, encoding.vocabulary
    if isinstance(settings, GenerativeConfig):
        vectors = initial_vectors(settings.network.embedding, vocabulary, report)
        return build_neural(settings.network, vocabulary, counts, begin=MARKS[0], vectors=vectors)
    assert isinstance(settings, Seq2SeqResponseConfig)
    never = (PAD, encoding.begin, encoding.me, encoding.you)
    sides = VocabularyInfo(len(vocabulary), list(counts), encoding.begin, encoding.end, never, shared=True)
    return build_encoder_decoder(settings.network, sides)


def _response_model(config: ConverseConfig, encoding: TurnEncoding, network: Any) -> ResponseModel:
    if isinstance(config.model, GenerativeConfig):
        return DialogueLM(network, (encoding.me, encoding.you), config.model.learn == "dialogue")
    return Seq2SeqResponseModel(network)


def _ngram_order(config: ConverseConfig) -> int:
    assert isinstance(config.model, GenerativeConfig | Seq2SeqResponseConfig)
    return config.model.ngram_order


def _with_results(search: BaseSearchConfig, n: int) -> BaseSearchConfig:
    """The search with ``n`` results."""
    if isinstance(search, SampleConfig):
        return drawn_search(search, max(n, search.n))
    if isinstance(search, RankingConfig) or (isinstance(search, GreedyConfig) and n > 1):
        return best_search(search, n)
    return search
