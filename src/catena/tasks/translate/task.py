"""Translation as a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import nn

from catena.checkpoint import Checkpoint
from catena.data.examples import ParallelText, SourceLocation
from catena.data.reading import ReadCounter
from catena.data.vocabulary import UNK
from catena.draw.picture import Picture
from catena.errors import ConfigError, DataError
from catena.metrics.measure import Metric
from catena.search.config import BaseSearchConfig, BeamConfig, GreedyConfig
from catena.search.overrides import truncation_warning, with_max_length
from catena.seq2seq.base import EncoderDecoder
from catena.seq2seq.build import build_encoder_decoder
from catena.tasks import attention_maps, pairs
from catena.tasks.base import BaseTask, Origin, check_ensemble, check_text, first_ranked
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask
from catena.tasks.sources import Sources
from catena.tasks.text_search import STEP, choose_search
from catena.tasks.translate.candidates import (
    Candidates,
    find_candidates,
    learn_candidates,
    load_candidates,
    save_candidates,
)
from catena.tasks.translate.config import NEXT_COMMANDS, USUAL, TranslateConfig, TranslateOptions
from catena.tasks.translate.constraints import zip_constraints
from catena.tasks.translate.data import (
    PairRows,
    TranslationBatch,
    TranslationExample,
    encode_examples,
    make_batch,
    pair_log_probs,
    prepare_pairs,
    read_examples,
    to_example,
)
from catena.tasks.translate.encoding import PairEncoding
from catena.tasks.translate.predict import (
    TranslateEvaluation,
    TranslationPrediction,
    find_metric,
    missing_metrics,
)
from catena.tasks.translate.search import EnsembleModel, TranslationSearch, map_attention
from catena.tasks.writing import unknown_input_warning
from catena.training.task import BatchLoss

_REPORTED = ("bleu", "bleu_lowercase", "chrf", "ter")
"""Metrics of an evaluation, unless the config names only others."""
GUESSED = unknown_input_warning("text", "word")
_NO_ATTENTION = "this model has no attention (model.attention = 'none'), so there is no alignment to show"
_PLAIN = TranslateOptions()


class TranslateTask(NeuralTask[TranslateConfig, TranslationExample, TranslationPrediction, TranslateOptions]):
    """A translator, or an ensemble of translators.

    Args:
        config: the config of the first model.
        encoding: its tokenizers and vocabularies.
        network: its network.
        candidates: candidate target tokens of each source; None for the full vocabulary.
        others: further models with the same target vocabulary, whose probabilities are averaged with the first at every
            step.
    """

    name = "translate"
    options_class = TranslateOptions
    not_in_text = ("scores", "alignment")
    next_commands = NEXT_COMMANDS
    tie_breaker = "nats_per_token"
    quantizable = True
    encoding: PairEncoding
    encoding_class = PairEncoding

    def __init__(
        self,
        config: TranslateConfig,
        encoding: PairEncoding,
        network: EncoderDecoder,
        candidates: Candidates | None = None,
        others: Sequence[EnsembleModel] = (),
    ) -> None:
        super().__init__(config, encoding, network)
        self.translator, self.candidates, self.others = network, candidates, tuple(others)

    @property
    def models(self) -> tuple[EnsembleModel, ...]:
        """The models of the ensemble; this one is the first."""
        return (EnsembleModel(self.translator, self.encoding), *self.others)

    @property
    def networks(self) -> Sequence[nn.Module]:
        return [model.network for model in self.models]

    @property
    def searcher(self) -> TranslationSearch:
        """The search with the models and limits of this task."""
        return TranslationSearch(self.models, self.config.writing, self.candidates, self.config.longest)

    def _with(self, **sections: Any) -> TranslateTask:
        """The same models with other sections of the config."""
        config = self.config.model_copy(update=sections)
        return TranslateTask(config, self.encoding, self.translator, self.candidates, self.others)

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls, config: TranslateConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[TranslationExample]:
        if gold:
            return read_examples(config.data, path, counter)
        return map(to_example, pairs.read_sources(config.data, path, counter))

    @classmethod
    def describe_file(cls, config: TranslateConfig, path: Path) -> str:
        return pairs.describe_pairs(config.data, path, config.data.target_of(path))

    def to_example(self, item: Any) -> TranslationExample:
        if isinstance(item, TranslationExample):
            return item
        if isinstance(item, ParallelText):
            return to_example(item)
        return TranslationExample(check_text(item), "", SourceLocation("input", 0))

    @classmethod
    def split_key(cls, example: TranslationExample) -> str:
        return example.source.strip()

    # --- preparation --------------------------------------------------------------------------------------------------

    @classmethod
    def complete(cls, config: TranslateConfig, note: Callable[[str], None]) -> TranslateConfig:
        """The config with default metrics that apply; metrics set by the user must exist.

        A default metric whose package is missing is left out, and targets in lower case are scored without case.
        """
        evaluation = config.evaluation
        if not evaluation.sentences:
            return config
        if evaluation.metrics == USUAL and config.training.metric not in USUAL:
            usual: tuple[str, ...] = USUAL
            if config.lowercases_targets:
                usual = tuple("bleu_lowercase" if name == "bleu" else name for name in USUAL)
                note("targets are in lower case, so BLEU ignores case (bleu_lowercase)")
            missing, line = missing_metrics(usual, evaluation)
            left = tuple(name for name in usual if name not in missing)
            if missing:
                note(f"{line}; {left[0]} chooses the best checkpoint")
            if left != USUAL:
                return config.model_copy(update={"evaluation": evaluation.model_copy(update={"metrics": left})})
        for name in evaluation.metrics:
            find_metric(name, evaluation)
        return config

    @classmethod
    def prepare(cls, config: TranslateConfig, sources: Sources[TranslationExample], origin: Origin) -> NetworkTraining:
        """As in the base class, but pairs are stored as token numbers and their texts are not kept in memory."""
        encoding = cls.load_encoding(config, origin.folder) if origin.folder else None
        parts, lines = prepare_pairs(config, sources, encoding)
        train = parts["train"]
        encoding = train.pairs.encoding
        origin.randomness.seed_torch("weights")
        network = build_encoder_decoder(config.model, encoding.sides(train.pairs.target_counts(train.rows)))
        task = cls(config, encoding, network)
        if config.writing.candidates:
            table = learn_candidates(train, config.writing.candidates_each)
            task.candidates = find_candidates(config, encoding, table)
        return NetworkTraining(task, Dataset(train, parts["dev"], parts["test"], lines), origin.randomness)

    @classmethod
    def build_network(
        cls, config: TranslateConfig, encoding: PairEncoding, report: list[str] | None = None
    ) -> EncoderDecoder:
        return build_encoder_decoder(config.model, encoding.sides(encoding.target.vocabulary.counts))

    @classmethod
    def load(cls, config: TranslateConfig, checkpoint: Checkpoint, device: str) -> Self:
        task = super().load(config, checkpoint, device)
        if config.writing.candidates:
            table = load_candidates(checkpoint.folder, len(task.encoding.source.vocabulary))
            task.candidates = find_candidates(config, task.encoding, table)
        return task

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.candidates is not None:
            save_candidates(self.candidates.table, folder)

    # --- training -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[TranslationExample], *, gold: bool = True) -> PairRows:
        return encode_examples(examples, self.encoding)

    def collate(self, rows: PairRows, index: np.ndarray) -> TranslationBatch:
        return make_batch(rows.pairs, rows.rows[index], self.device, copies=self.models[0].copies)

    def loss(self, batch: TranslationBatch) -> BatchLoss:
        loss = self.translator.loss(batch.source, batch.targets, batch.lengths)
        return BatchLoss(loss, batch.tokens, batch.read)

    def describe_batch(self, batch: TranslationBatch) -> str:
        return (
            f"{len(batch.targets)} pairs, longest source {batch.source.ids.shape[1]}, target {batch.targets.shape[1]}"
        )

    # --- evaluation ---------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        return self.config.metric

    def find_metric(self, name: str) -> Metric:
        return find_metric(name, self.config.evaluation)

    def evaluate_rows(self, rows: PairRows) -> TranslateEvaluation:
        """All the usual metrics of the translations, and the likelihood of the references."""
        named = self.config.evaluation.metrics
        more = _REPORTED if not named or any(name in _REPORTED for name in named) else ()
        wanted = tuple(dict.fromkeys((*named, *more)))
        missing, line = missing_metrics(wanted, self.config.evaluation)
        names = tuple(name for name in wanted if name not in missing)
        return replace(self._evaluate(rows, rows.examples, names, self.config.search), missing=line)

    def evaluate_dev(self, rows: PairRows) -> TranslateEvaluation:
        """The likelihood of dev, and metrics of the translations of evenly spaced sentences of it."""
        evaluation, longest = self.config.evaluation, self.config.search.max_length
        config: BaseSearchConfig = GreedyConfig(max_length=longest)
        if evaluation.dev_beam_size > 1:
            config = BeamConfig(beam_size=evaluation.dev_beam_size, max_length=longest, normalize="gnmt")
        return self._evaluate(rows, self._spaced(rows), evaluation.metrics, config)

    def _spaced(self, rows: PairRows) -> list[TranslationExample]:
        """The evenly spaced examples that are translated at each evaluation."""
        n = min(len(rows), self.config.evaluation.sentences)
        return [rows.examples[i] for i in np.unique(np.linspace(0, len(rows) - 1, n).round().astype(int))]

    def evaluate_test(self, rows: PairRows) -> TranslateEvaluation:
        """The metrics of training, for translations by the search of the config."""
        evaluation = self.config.evaluation
        examples = rows.examples if evaluation.sentences and evaluation.metrics else []
        return self._evaluate(rows, examples, evaluation.metrics, self.config.search)

    def _evaluate(
        self,
        rows: PairRows,
        examples: Sequence[TranslationExample],
        names: tuple[str, ...],
        search: BaseSearchConfig,
    ) -> TranslateEvaluation:
        """Translate some examples, and score the references of all rows unless this is an ensemble."""
        best = [listed[0] for listed in self.searcher.translate(examples, search, _PLAIN)]
        source = self.encoding.source
        unknown = [int((source.ids(source.tokenizer.tokens(one.source)) == UNK).sum()) for one in best]
        sized: list[tuple[str, int]] = []
        log_probs = np.zeros(0)
        if not self.others:
            sized = list(zip((one.target for one in rows.examples), rows.target_lengths.tolist(), strict=True))
            log_probs = pair_log_probs(self.translator, rows, self.config.batches)
        return TranslateEvaluation(
            self.config.evaluation,
            names,
            [example.target for example in examples],
            [one.translation for one in best],
            sized,
            log_probs,
            np.array(unknown, np.int64),
            np.array([one.truncated for one in best], bool),
        )

    def show(self, rows: PairRows, result: TranslateEvaluation) -> list[str]:
        examples = self._spaced(rows)
        chosen = sorted({0, len(examples) // 2, len(examples) - 1}) if examples else []
        return [f"{examples[i].source}  →  {result.translations[i]}  (is: {examples[i].target})" for i in chosen]

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_stream(
        self, items: Iterable[Any], options: TranslateOptions | None = None
    ) -> Iterator[TranslationPrediction]:
        path = None if options is None else options.constraint
        if path is not None:
            items = (replace(self.to_example(item), constraints=own) for item, own in zip_constraints(items, path))
        return super().predict_stream(items, options)

    def predict_examples(
        self, examples: Sequence[TranslationExample], options: TranslateOptions
    ) -> list[TranslationPrediction]:
        limited = self if options.max_length is None else self._limited(options.max_length)
        ranked = limited.searcher.translate(examples, limited.search_config(options), options)
        return [first_ranked(listed, options.several and listed[0].log_prob is not None) for listed in ranked]

    def _limited(self, max_length: int) -> TranslateTask:
        """This model with at most ``max_length`` tokens per translation, for sources of any length."""
        writing = self.config.writing.model_copy(update={"extra": max_length})
        return self._with(search=with_max_length(self.config.search, max_length), writing=writing)

    def search_options(self, options: TranslateOptions) -> TranslateTask:
        limited = self if options.max_length is None else self._limited(options.max_length)
        return limited._with(search=limited.search_config(options))

    def search_config(self, options: TranslateOptions) -> BaseSearchConfig:
        """The search of the config, changed by the options."""
        return choose_search(self.config.search, options)

    # --- output -------------------------------------------------------------------------------------------------------

    def format_for(self, options: TranslateOptions) -> str:
        """Text, or tsv if several translations, scores or alignments are requested."""
        return "tsv" if options.several or options.scores or options.alignment else "text"

    def warnings(self, prediction: TranslationPrediction, options: TranslateOptions) -> Sequence[str]:
        """Warnings about truncated translations, unknown texts and missing alignments."""
        if prediction.log_prob is None:
            return []
        writing, longest = self.config.writing, self.config.search.max_length
        own = (
            f"the maximum length ({writing.ratio:g} * source tokens + {writing.extra}, rounded up to a multiple of "
            f"{STEP}, at most {min(longest, self.config.longest or longest):,})"
        )
        warnings = [] if prediction.known else [GUESSED]
        if any(one.attention == () for one in prediction.ranked):
            warnings.append(_NO_ATTENTION)
        n_truncated = sum(one.truncated for one in prediction.ranked)
        return [*warnings, *[truncation_warning("translation", options.max_length, own)] * n_truncated]

    def describe(self, top: int) -> list[str]:
        source, target = self.encoding.source.vocabulary, self.encoding.target.vocabulary
        sizes = f"{len(source):,} source tokens and {len(target):,} target tokens"
        if self.encoding.joint:
            sizes = f"{len(source):,} tokens for both sides"
        frequent = sorted(range(len(target)), key=lambda i: -target.counts[i])[:top]
        return [
            f"a translator of kind {self.config.model.kind} over {self.config.tokenizer.kind}: {sizes}",
            f"{self.n_parameters:,} parameters",
            f"most frequent target tokens: {' '.join(self.encoding.target.shown(target.tokens(frequent)))}",
        ]

    def draw(self, example: TranslationExample, options: TranslateOptions) -> Picture:
        """A heat map of the attention weights of each target token (rows) over the source tokens (columns)."""
        return attention_maps.draw(self.attention(example, options), options)

    def draw_text(self, example: TranslationExample, options: TranslateOptions) -> str:
        return attention_maps.sketch(self.attention(example, options), options)

    def attention(self, example: TranslationExample, options: TranslateOptions) -> attention_maps.AttentionMaps:
        """The attention weights for a text by layer and head.

        They are those from the translation to the text, or within one of them if the option ``within`` is set.
        """
        chosen = options.model_copy(update={"alignment": True, "n_best": 1, "samples": 0})
        prediction = self.predict([example], chosen)[0]
        if prediction.log_prob is None:
            raise DataError(
                f"The translation of {example.source!r} is empty, so there is nothing to draw. Use another text."
            )
        maps = map_attention(self.models[0], prediction, options.within)
        if not maps.layers:
            kind = f"This model of kind {self.config.model.kind!r}"
            if options.within is not None:
                raise DataError(f"{kind} has no self-attention within its {options.within}. Use a Transformer.")
            raise DataError(f"{kind} has no attention to its source to draw. Train one with model.attention.")
        return maps

    # --- other models -------------------------------------------------------------------------------------------------

    def ensemble(self, others: Sequence[BaseTask[Any, Any, Any, Any]]) -> TranslateTask:
        """An ensemble of this model and others, which averages their probabilities at every step."""
        more = list(self.others)
        for number, other in check_ensemble(TranslateTask, others):
            mine, theirs = self.encoding.target.vocabulary, other.encoding.target.vocabulary
            if mine.symbols != theirs.symbols:
                raise ConfigError(
                    f"The models of an ensemble need the same target vocabulary; the one of model {number} "
                    f"({len(theirs):,} tokens) differs from the first ({len(mine):,} tokens). Train them on the same "
                    f"pairs with the same options and different seeds, as with --seeds 3."
                )
            copies = other.models[0].copies
            if copies != self.models[0].copies or (copies and other.config.tokenizer != self.config.tokenizer):
                raise ConfigError(
                    f"An ensemble with a copy model needs only copy models with the same tokenizer; model {number} is "
                    f"of kind {other.config.model.kind!r} and does not match the first. Remove one of the two."
                )
            more += other.models
        return TranslateTask(self.config, self.encoding, self.translator, self.candidates, more)

    def export(self, to: str | None, folder: Path, quantization: str | None = None) -> None:
        """Export the model to CTranslate2 (the default) or ONNX, with its tokenizer and vocabulary."""
        from catena.tasks.translate.search import export_model

        export_model(to or "ctranslate2", self.translator, self.encoding, folder, quantization)
