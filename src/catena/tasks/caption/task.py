"""Captions of pictures as a task.

Pictures are decoded, or their features read, once before training. Every caption of a picture is a training example;
dev and test are scored by one generated caption for each picture against all its references. Tested in
tests/tasks/caption/test_task.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from catena.data.augment import FLIP_COLUMN, N_IMAGE_UNIFORMS, augment_images, to_unit_scale
from catena.data.batches import BatchPlan, pad
from catena.data.examples import SourceLocation
from catena.data.media_batches import RowStore
from catena.data.readers.captions import CaptionedPicture
from catena.data.reading import ReadCounter
from catena.draw.picture import Picture
from catena.errors import ConfigError, DataError
from catena.metrics.measure import Metric
from catena.metrics.translation import words_only
from catena.randomness import Randomness
from catena.search.config import BaseSearchConfig, GreedyConfig
from catena.search.overrides import best_search, truncation_warning, with_max_length
from catena.seq2seq.caption import CaptionModel, GridReader, PictureSource
from catena.tasks.base import BaseTask, Origin, blocks, check_ensemble, first_ranked
from catena.tasks.caption.config import NEXT_COMMANDS, WORD_COMMANDS, WORD_LOSS, CaptionConfig, CaptionOptions
from catena.tasks.caption.data import (
    CaptionEncoding,
    CaptionExample,
    CaptionRows,
    describe_file,
    list_pictures,
    load_examples,
    load_parts,
    split_key,
)
from catena.tasks.caption.predict import CaptionEvaluation, CaptionPrediction, WordEvaluation, find_metric
from catena.tasks.caption.prepare import complete_config, describe_rows, start_encoder, without_long
from catena.tasks.caption.search import CaptionSearch, build_source, draw_attention, pixel_source, sketch_attention
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask, PlannedEpoch
from catena.tasks.sources import Sources
from catena.tasks.text_search import choose_search
from catena.tasks.translate.constraints import zip_constraints
from catena.training.task import BatchLoss, EpochPlan

_BLOCK = 64
"""Number of pictures of a stream that are loaded together."""
_SCORED_TOGETHER = 64
"""Number of captions whose log-probabilities are computed together."""
_PLAIN = CaptionOptions()
_FREE_OPTIONS = ("augmentation", "directions", "dropout")
"""Options of the model in which a run may differ from the one that it starts from."""


@dataclass(frozen=True, eq=False)
class CaptionBatch:
    """Pictures and captions on the device; ``tokens`` does not count padding.

    ``mixing`` has the weight with which each picture is mixed with the one before, None for no mixing.
    """

    source: PictureSource
    targets: Tensor
    lengths: Tensor
    tokens: int
    mixing: Tensor | None = None


class CaptionTask(NeuralTask[CaptionConfig, CaptionExample, CaptionPrediction, CaptionOptions]):
    """A model of captions, or an ensemble of them.

    Args:
        config: the config of the first model.
        encoding: its tokenizer and vocabulary.
        network: its network.
        others: further networks with the same vocabulary, whose probabilities are averaged with the first.
    """

    name = "caption"
    options_class = CaptionOptions
    formats = ("tsv", "text", "csv", "jsonl")
    not_in_text = ("scores", "attention")
    next_commands = NEXT_COMMANDS
    reads_split_columns = False
    stream_block = 256
    tie_breaker = "nats_per_token"
    encoding: CaptionEncoding
    encoding_class = CaptionEncoding

    def __init__(
        self,
        config: CaptionConfig,
        encoding: CaptionEncoding,
        network: CaptionModel,
        others: Sequence[CaptionModel] = (),
    ) -> None:
        super().__init__(config, encoding, network)
        self.model, self.others = network, tuple(others)
        self.trains_words = config.objective == "words"
        self._store: tuple[Any, RowStore] | None = None

    @property
    def networks(self) -> Sequence[nn.Module]:
        return (self.model, *self.others)

    @property
    def searcher(self) -> CaptionSearch:
        """The search with the networks of this task."""
        return CaptionSearch((self.model, *self.others), self.encoding, self.config.search.max_length)

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls, config: CaptionConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[CaptionExample]:
        for block in blocks(list_pictures(config.data, path, counter, gold=gold), _BLOCK):
            yield from load_examples(config, block, counter)

    @classmethod
    def describe_file(cls, config: CaptionConfig, path: Path) -> str:
        return describe_file(config.data, path)

    def to_example(self, item: Any) -> CaptionExample:
        if isinstance(item, CaptionExample):
            return item
        if not isinstance(item, str | Path):
            raise DataError(f"a picture must be the path of a file, got {type(item).__name__}. Pass paths.")
        counter = ReadCounter()
        picture = CaptionedPicture(Path(item), (), SourceLocation(str(item), 1))
        found = load_examples(self.config, [picture], counter)
        counter.check_none_dropped()
        return found[0]

    @classmethod
    def split_key(cls, example: CaptionExample) -> str:
        return split_key(example.path)

    @classmethod
    def check_model(cls, theirs: Any, config: Any, folder: Path) -> None:
        """As in the base class, but pictures may be changed, and features dropped, in other ways than before."""
        free = {name: getattr(config.model, name) for name in _FREE_OPTIONS}
        super().check_model(theirs.model_copy(update={"model": theirs.model.model_copy(update=free)}), config, folder)

    # --- preparation --------------------------------------------------------------------------------------------------

    @classmethod
    def complete(cls, config: CaptionConfig, note: Callable[[str], None]) -> CaptionConfig:
        return complete_config(config, note)

    @classmethod
    def prepare(cls, config: CaptionConfig, sources: Sources[CaptionExample], origin: Origin) -> NetworkTraining:
        """As in the base class, but pictures are listed first and then loaded together into one array."""
        lines = sources.describe()
        pictures, contents, parts = load_parts(config, sources)
        captions = [caption for i in parts["train"] for caption in pictures[i].captions]
        old = origin.folder
        encoding = CaptionEncoding.fit(config, captions) if old is None else cls.load_encoding(config, old)
        origin.randomness.seed_torch("weights")
        task = cls(config, encoding, CaptionModel(config.model, encoding.sides(len(captions))))
        start_encoder(task.model, config.model, contents, parts["train"])
        made = {part: task._rows(contents, [pictures[i] for i in index], index) for part, index in parts.items()}
        made["train"], n_long = without_long(made["train"], config.data.max_length)
        lines.append(sources.counter.counts(len(pictures)).sentence())
        lines += describe_rows(made, n_long, config.data.max_length)
        lines += [f"vocabulary: {len(encoding.vocabulary):,} words", task._describe_grid()]
        training = NetworkTraining(task, Dataset(made["train"], made["dev"], made["test"], lines), origin.randomness)
        if task.trains_words:
            training.what_next = WORD_COMMANDS
        return training

    @classmethod
    def fit_encoding(cls, config: CaptionConfig, train: Sequence[CaptionExample], origin: Origin) -> CaptionEncoding:
        return CaptionEncoding.fit(config, [caption for example in train for caption in example.captions])

    @classmethod
    def build_network(
        cls, config: CaptionConfig, encoding: CaptionEncoding, report: list[str] | None = None
    ) -> CaptionModel:
        return CaptionModel(config.model, encoding.sides())

    def encode(self, examples: Sequence[CaptionExample], *, gold: bool = True) -> CaptionRows:
        pictures = [CaptionedPicture(e.path, e.captions if gold else (), e.location) for e in examples]
        return self._rows([example.content for example in examples], pictures, np.arange(len(examples)))

    def _rows(self, contents: Any, pictures: list[CaptionedPicture], own: np.ndarray) -> CaptionRows:
        pairs = [(i, caption) for i, one in zip(own.tolist(), pictures, strict=True) for caption in one.captions]
        targets = [self.encoding.ids(caption) for _, caption in pairs]
        lengths = np.array([len(ids) for ids in targets], np.int64)
        return CaptionRows(contents, pictures, own, np.array([i for i, _ in pairs], np.int64), targets, lengths)

    # --- training -----------------------------------------------------------------------------------------------------

    def epoch(self, rows: CaptionRows, number: int, randomness: Randomness) -> EpochPlan:
        config, generator = self.config.batches, randomness.numpy("batches", number)
        directed = self._directed(rows)

        def source(index: np.ndarray, counted: np.ndarray) -> PictureSource:
            """The changed pictures at ``index`` of the contents; the changes are functions of ``counted``."""
            reader = self.model.pictures
            if not isinstance(reader, GridReader):
                return self._source(rows, index)
            uniforms = randomness.uniforms(
                "augment", number, torch.from_numpy(counted).to(self.device), N_IMAGE_UNIFORMS
            )
            if directed is not None:
                uniforms[torch.from_numpy(directed[index]).to(self.device), FLIP_COLUMN] = 1.0
            pixels = self._stored(rows).take(index)
            return pixel_source(
                self.model, augment_images(pixels, uniforms, self.config.model.augmentation, reader.pixels.mean)
            )

        def batch(index: np.ndarray) -> CaptionBatch:
            return self._batch(source(rows.rows[index], index), rows, index, mixing(index))

        def mixing(counted: np.ndarray) -> Tensor | None:
            if not self.config.mixup:
                return None
            u = randomness.uniforms("mixup", number, torch.from_numpy(counted).to(self.device), 2)
            return torch.where(u[:, 0] < self.config.mixup, u[:, 1], 1.0)

        def batch_of_pictures(groups: np.ndarray) -> CaptionBatch:
            own, index, repeated = _join([captions[i] for i in groups.tolist()], rows)
            return self._batch(source(own, own).repeat(repeated.to(self.device)), rows, index, mixing(own))

        if not config.by_picture:
            return PlannedEpoch(BatchPlan.shuffled(rows.lengths, config, generator), batch)
        captions = rows.by_picture()
        longest = np.array([rows.lengths[index].max() for index in captions])
        return PlannedEpoch(BatchPlan.shuffled(longest, config, generator), batch_of_pictures)

    def _directed(self, rows: CaptionRows) -> np.ndarray | None:
        """Whether each picture of the contents must not be flipped; None if no picture is flipped."""
        words = {word.lower() for word in self.config.model.directions}
        if not self.config.model.augmentation.flip or not words:
            return None
        directed = np.zeros(len(rows.contents), bool)
        for i, one in zip(rows.own.tolist(), rows.pictures, strict=True):
            directed[i] = any(not words.isdisjoint(words_only(caption).split()) for caption in one.captions)
        return directed

    def collate(self, rows: CaptionRows, index: np.ndarray) -> CaptionBatch:
        return self._batch(self._source(rows, rows.rows[index]), rows, index)

    def _batch(
        self, source: PictureSource, rows: CaptionRows, index: np.ndarray, mixing: Tensor | None = None
    ) -> CaptionBatch:
        targets, lengths = pad([rows.targets[i] for i in index.tolist()])
        return CaptionBatch(source, targets.to(self.device), lengths.to(self.device), int(lengths.sum()), mixing)

    def _source(self, rows: CaptionRows, index: np.ndarray) -> PictureSource:
        """The pictures at ``index`` of the contents, from the memory of the GPU if they fit there."""
        if not isinstance(rows.contents, np.ndarray):
            return build_source(self.model, [rows.contents[i] for i in index.tolist()])
        taken = self._stored(rows).take(index)
        if isinstance(self.model.pictures, GridReader):
            return pixel_source(self.model, to_unit_scale(taken))
        lengths = torch.full((len(taken),), taken.shape[1], device=taken.device)
        return PictureSource.build(taken, lengths, taken.shape[1])

    def _stored(self, rows: CaptionRows) -> RowStore:
        if self._store is None or self._store[0] is not rows.contents:
            self._store = rows.contents, RowStore(np.asarray(rows.contents), self.device)
        return self._store[1]

    def loss(self, batch: CaptionBatch) -> BatchLoss:
        if self.trains_words:
            losses = self.model.word_losses(batch.source, batch.targets, batch.lengths, batch.mixing)
            return BatchLoss(losses.mean(), len(losses), batch.tokens)
        return BatchLoss(self.model.loss(batch.source, batch.targets, batch.lengths), batch.tokens, batch.tokens)

    def describe_batch(self, batch: CaptionBatch) -> str:
        return f"{len(batch.targets)} captions, longest {batch.targets.shape[1]} tokens"

    # --- evaluation ---------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        if self.trains_words:
            return WORD_LOSS
        return "bleu_4" if self.config.evaluation.pictures else "perplexity"

    def find_metric(self, name: str) -> Metric:
        return find_metric(name, self.config.evaluation.cut)

    def evaluate_rows(self, rows: CaptionRows) -> CaptionEvaluation | WordEvaluation:
        return self._evaluate(rows, np.arange(len(rows.pictures)), self.config.search)

    def evaluate_dev(self, rows: CaptionRows) -> CaptionEvaluation | WordEvaluation:
        """The likelihood of dev, and captions of evenly spaced pictures of it."""
        evaluation, longest = self.config.evaluation, self.config.search.max_length
        search: BaseSearchConfig = GreedyConfig(max_length=longest)
        if evaluation.dev_beam_size > 1:
            search = best_search(self.config.search, 1, evaluation.dev_beam_size)
        return self._evaluate(rows, self._spaced(rows), search)

    def _spaced(self, rows: CaptionRows) -> np.ndarray:
        n = min(len(rows.pictures), self.config.evaluation.pictures)
        return np.unique(np.linspace(0, len(rows.pictures) - 1, n).round().astype(int))

    def evaluate_test(self, rows: CaptionRows) -> CaptionEvaluation | WordEvaluation:
        chosen = np.arange(len(rows.pictures)) if self.config.evaluation.pictures else np.arange(0)
        return self._evaluate(rows, chosen, self.config.search)

    def _evaluate(
        self, rows: CaptionRows, chosen: np.ndarray, search: BaseSearchConfig
    ) -> CaptionEvaluation | WordEvaluation:
        """Describe the chosen pictures, and score the references of all unless this is an ensemble."""
        if self.trains_words:
            return self._evaluate_words(rows)
        pictures = [rows.pictures[i] for i in chosen]
        examples = [
            CaptionExample(one.path, one.captions, one.location, rows.contents[rows.own[i]])
            for i, one in zip(chosen, pictures, strict=True)
        ]
        best = [listed[0] for listed in self.searcher.describe(examples, search, _PLAIN)]
        sized: list[tuple[str, int]] = []
        if not self.others:
            texts = (caption for one in rows.pictures for caption in one.captions)
            sized = list(zip(texts, rows.lengths.tolist(), strict=True))
        return CaptionEvaluation(
            self.config.evaluation.cut,
            [one.captions for one in pictures],
            [one.caption for one in best],
            sized,
            [] if self.others else self._log_probs(rows).tolist(),
            np.array([one.truncated for one in best], bool),
        )

    @torch.no_grad()
    def _evaluate_words(self, rows: CaptionRows) -> WordEvaluation:
        losses: list[float] = []
        captions = rows.by_picture()
        for low in range(0, len(captions), _SCORED_TOGETHER):
            own, index, repeated = _join(captions[low : low + _SCORED_TOGETHER], rows)
            batch = self._batch(self._source(rows, own).repeat(repeated.to(self.device)), rows, index)
            losses += self.model.word_losses(batch.source, batch.targets, batch.lengths).tolist()
        return WordEvaluation([one.captions for one in rows.pictures if one.captions], losses)

    @torch.no_grad()
    def _log_probs(self, rows: CaptionRows) -> np.ndarray:
        """log p of each reference."""
        log_probs, order = np.zeros(len(rows)), np.argsort(rows.lengths, kind="stable")
        for low in range(0, len(order), _SCORED_TOGETHER):
            index = order[low : low + _SCORED_TOGETHER]
            batch = self.collate(rows, index)
            tokens = self.model.token_log_probs(batch.source, batch.targets, batch.lengths)
            log_probs[index] = tokens.double().sum(dim=1).cpu().numpy()
        return log_probs

    def show(self, rows: CaptionRows, result: CaptionEvaluation | WordEvaluation) -> list[str]:
        if isinstance(result, WordEvaluation):
            return []
        chosen = self._spaced(rows).tolist()
        picked = sorted({0, len(chosen) // 2, len(chosen) - 1}) if chosen else []
        return [
            f"{rows.pictures[chosen[k]].path.name}  →  {result.captions[k]}  (is: {result.references[k][0]})"
            for k in picked
        ]

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_stream(
        self, items: Iterable[Any], options: CaptionOptions | None = None
    ) -> Iterator[CaptionPrediction]:
        path = None if options is None else options.constraint
        if path is not None:
            items = (replace(self.to_example(item), constraints=own) for item, own in zip_constraints(items, path))
        return super().predict_stream(items, options)

    def predict_examples(self, examples: Sequence[CaptionExample], options: CaptionOptions) -> list[CaptionPrediction]:
        if self.trains_words:
            raise ConfigError(
                "objective must be 'captions' to predict captions, got 'words'. Train with --init-from RUN --objective "
                "captions."
            )
        ranked = self.searcher.describe(examples, self._search(options), options)
        return [first_ranked(listed, options.several) for listed in ranked]

    def _search(self, options: CaptionOptions) -> BaseSearchConfig:
        own: BaseSearchConfig = self.config.search
        return choose_search(own if options.max_length is None else with_max_length(own, options.max_length), options)

    def search_options(self, options: CaptionOptions) -> CaptionTask:
        config = self.config.model_copy(update={"search": self._search(options)})
        return CaptionTask(config, self.encoding, self.model, self.others)

    def warnings(self, prediction: CaptionPrediction, options: CaptionOptions) -> Sequence[str]:
        """A warning about truncated captions."""
        own = f"search.max_length = {self.config.search.max_length}"
        words = truncation_warning("caption", options.max_length, own)
        return [words] * sum(one.truncated for one in prediction.ranked)

    def describe(self, top: int) -> list[str]:
        vocabulary, model = self.encoding.vocabulary, self.config.model
        frequent = sorted(range(len(vocabulary)), key=lambda i: -vocabulary.counts[i])[:top]
        blind = ", blind" * model.blind
        return [
            f"a model of captions with {model.kind} attention over {model.encoder.kind}{blind}: "
            f"{self.n_parameters:,} parameters",
            self._describe_grid(),
            f"{len(vocabulary):,} words; the most frequent: {' '.join(vocabulary.tokens(frequent))}",
        ]

    def _describe_grid(self) -> str:
        return f"a picture has {self.model.n_positions} positions of {self.model.pictures.d_out} values"

    def draw(self, example: CaptionExample, options: CaptionOptions) -> Picture:
        """The picture with the part that each word attends to, one panel for each word."""
        return draw_attention(self._attended(example, options), self.model, self.config)

    def draw_text(self, example: CaptionExample, options: CaptionOptions) -> str:
        """The attention of each word as a grid of shades."""
        return sketch_attention(self._attended(example, options), self.model, self.config)

    def _attended(self, example: CaptionExample, options: CaptionOptions) -> CaptionPrediction:
        chosen = options.model_copy(update={"attention": True, "n_best": 1, "samples": 0})
        return self.predict([example], chosen)[0]

    # --- other models -------------------------------------------------------------------------------------------------

    def ensemble(self, others: Sequence[BaseTask[Any, Any, Any, Any]]) -> CaptionTask:
        """An ensemble of this model and others, which averages their probabilities at every step."""
        more = list(self.others)
        for number, other in check_ensemble(CaptionTask, others):
            if other.encoding.vocabulary.symbols != self.encoding.vocabulary.symbols:
                raise ConfigError(
                    f"The models of an ensemble must have the same vocabulary, got another one in model {number}. "
                    f"Train them on the same captions with other seeds, as with --seeds 3."
                )
            if _reads(other.config) != _reads(self.config):
                raise ConfigError(
                    f"The models of an ensemble must read pictures in the same way, got other features or sizes in "
                    f"model {number}. Remove it."
                )
            more += [other.model, *other.others]
        return CaptionTask(self.config, self.encoding, self.model, more)


def _join(captions: Sequence[np.ndarray], rows: CaptionRows) -> tuple[np.ndarray, np.ndarray, Tensor]:
    """The indices of some pictures in the contents, of their captions, and of the picture of each caption in both."""
    index = np.concatenate(captions)
    own = rows.rows[[one[0] for one in captions]]
    return own, index, torch.from_numpy(np.repeat(np.arange(len(captions)), [len(one) for one in captions]))


def _reads(config: CaptionConfig) -> Any:
    """What determines the contents of pictures."""
    return config.data.features or config.model.input
