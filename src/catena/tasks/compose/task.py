"""Composition as a task: the models, their batches, generated texts and likelihoods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from catena.data.batches import pad
from catena.data.files import shorten
from catena.data.reading import ReadCounter
from catena.data.vocabulary import UNK
from catena.errors import DataError
from catena.metrics.measure import Metric
from catena.metrics.text_table import width
from catena.search.build import search, wrap_stepper
from catena.search.config import BaseSearchConfig
from catena.search.forbid_ids import ForbidIds
from catena.search.hypothesis import Hypothesis
from catena.search.overrides import best_search, drawn_search, truncation_warning, with_max_length
from catena.seq2seq.base import EncoderDecoder, Source
from catena.seq2seq.checklist import ChecklistModel
from catena.seq2seq.checklist_config import ChecklistConfig
from catena.seq2seq.recurrent_build import build_recurrent
from catena.tasks.base import DataParts, Origin, first_ranked
from catena.tasks.compose.config import METRICS, NEXT_COMMANDS, ComposeConfig, ComposeOptions
from catena.tasks.compose.data import (
    SEPARATOR,
    ComposeEncoding,
    Composition,
    fit_encoding,
    load_encoding,
    read_compositions,
    split_words,
    to_composition,
)
from catena.tasks.compose.predict import ComposeEvaluation, CompositionPrediction, find_metric
from catena.tasks.neural import Dataset, NeuralTask
from catena.training.task import BatchLoss

if TYPE_CHECKING:
    from catena.draw.picture import Picture


_TEXTS_AT_ONCE = 64
"""Number of texts generated or scored in one batch."""


def build_model(config: ComposeConfig, encoding: ComposeEncoding, counts: Sequence[int]) -> EncoderDecoder:
    """The model of a config, with newly initialized weights."""
    sides = encoding.sides(counts)
    if isinstance(config.model, ChecklistConfig):
        return ChecklistModel(config.model, sides, encoding.item, encoding.names())
    return build_recurrent(config.model, sides)


@torch.no_grad()
def generate(
    model: EncoderDecoder, sources: Sequence[np.ndarray], settings: BaseSearchConfig, generator: torch.Generator
) -> list[list[Hypothesis]]:
    """The generated texts of each source as ids, best first; ``<unk>`` is never generated.

    Args:
        model: the encoder-decoder.
        sources: the ids of goals and items.
        settings: the search.
        generator: source of random numbers for sampling.
    """
    generated: list[list[Hypothesis]] = [[] for _ in sources]
    for rows in _buckets([len(ids) for ids in sources]):
        source = Source(*pad([sources[row] for row in rows])).to(model.device)
        stepper: Any = wrap_stepper(settings, ForbidIds(model.stepper(source), [UNK]))
        for row, listed in zip(rows, search(settings, stepper, stepper.start(len(rows)), generator), strict=True):
            generated[row] = listed
    return generated


@torch.no_grad()
def text_log_probs(model: EncoderDecoder, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> np.ndarray:
    """log p of each target, with its end symbol, given its source."""
    log_probs = np.zeros(len(targets))
    for rows in _buckets([len(ids) for ids in targets]):
        source = Source(*pad([sources[row] for row in rows])).to(model.device)
        ids, lengths = (x.to(model.device) for x in pad([targets[row] for row in rows]))
        log_probs[rows] = model.token_log_probs(source, ids, lengths).double().sum(-1).cpu().numpy()
    return log_probs


def _buckets(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Batches of row indices of similar length."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    for low in range(0, len(order), _TEXTS_AT_ONCE):
        yield order[low : low + _TEXTS_AT_ONCE]


# --- the task ---------------------------------------------------------------------------------------------------------


_SHADES = " ░▒▓█"


@dataclass(frozen=True, eq=False)
class ComposeRows:
    """Examples with their sources and targets as ids; ``lengths`` are of the targets as truncated in training."""

    examples: list[Composition]
    sources: list[np.ndarray]
    targets: list[np.ndarray]
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.examples)


@dataclass(frozen=True, eq=False)
class ComposeBatch:
    """Padded sources and targets; ``tokens`` does not count padding."""

    source: Source
    targets: Tensor
    lengths: Tensor
    tokens: int


class ComposeTask(NeuralTask[ComposeConfig, Composition, CompositionPrediction, ComposeOptions]):
    """A model of p(text | goal, items).

    An input is a :class:`Composition`, whose text is ignored, a pair of goal and items, or a line with both.
    """

    name = "compose"
    options_class = ComposeOptions
    not_in_text = ("scores",)
    next_commands = NEXT_COMMANDS
    encoding: ComposeEncoding

    def __init__(self, config: ComposeConfig, encoding: ComposeEncoding, network: EncoderDecoder) -> None:
        super().__init__(config, encoding, network)
        self.model = network

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls, config: ComposeConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[Composition]:
        return read_compositions(config.data, path, counter, gold=gold)

    def to_example(self, item: Any) -> Composition:
        return to_composition(item, self.config.data)

    @classmethod
    def split_key(cls, example: Composition) -> str:
        return example.goal.lower()

    def usable(self, example: Composition) -> Composition | str:
        data = self.config.data
        if not example.goal and not example.items:
            return "without a goal and items"
        is_long = len(self.encoding.tokenizer.tokens(example.text)) > data.max_length
        return f"longer than max_length={data.max_length}" if is_long and data.too_long == "drop" else example

    # --- preparation --------------------------------------------------------------------------------------------------

    @classmethod
    def new(cls, config: ComposeConfig, train: Sequence[Composition], origin: Origin, report: list[str]) -> Self:
        """As in the base class; the output layer starts from the frequencies of the words in train."""
        encoding = cls.choose_encoding(config, train, origin)
        counts = Counter(id for example in train for id in encoding.target(example.text))
        origin.randomness.seed_torch("weights")
        return cls(
            config, encoding, build_model(config, encoding, [counts[i] for i in range(len(encoding.vocabulary))])
        )

    @classmethod
    def fit_encoding(cls, config: ComposeConfig, train: Sequence[Composition], origin: Origin) -> ComposeEncoding:
        return fit_encoding(config, train)

    @classmethod
    def load_encoding(cls, config: ComposeConfig, folder: Path) -> ComposeEncoding:
        return load_encoding(folder, config.data.item_words == "naming")

    @classmethod
    def build_network(
        cls, config: ComposeConfig, encoding: ComposeEncoding, report: list[str] | None = None
    ) -> EncoderDecoder:
        return build_model(config, encoding, [1] * len(encoding.vocabulary))

    def encode(self, examples: Sequence[Composition], *, gold: bool = True) -> ComposeRows:
        sources = [np.array(self.encoding.source(example), np.int64) for example in examples]
        targets = [np.array(self.encoding.target(example.text), np.int64) for example in examples if gold]
        lengths = np.array([min(len(ids), self.config.data.max_length + 1) for ids in targets], np.int64)
        return ComposeRows(list(examples), sources, targets, lengths)

    def summarize(self, parts: DataParts[Composition], data: Dataset) -> list[str]:
        named = {name: getattr(parts, name) for name in ("train", "dev", "test")}
        lines = [_part_line(name, part) for name, part in named.items() if part]
        lines += self.encoding.vocabulary.notes()
        if _are_unseparated(parts.train):
            lines.append(
                f"every text has one item, such as {shorten(parts.train[0].items[0], 60)}: if it lists several items, "
                f"write them as a JSON list, or separate them by {SEPARATOR}"
            )
        n_words, n_names = len(self.encoding.vocabulary), len(self.encoding.naming.item_words)
        return [*lines, f"vocabulary: {n_words:,} words; {n_names:,} words that name items"]

    # --- training -----------------------------------------------------------------------------------------------------

    def collate(self, rows: ComposeRows, index: np.ndarray) -> ComposeBatch:
        source = Source(*pad([rows.sources[i] for i in index])).to(self.device)
        targets, lengths = pad([self._truncated(rows.targets[i]) for i in index])
        return ComposeBatch(source, targets.to(self.device), lengths.to(self.device), int(lengths.sum()))

    def _truncated(self, ids: np.ndarray) -> np.ndarray:
        """The first ``max_length`` tokens of a target, with the end symbol."""
        longest = self.config.data.max_length
        return ids if len(ids) <= longest + 1 else np.append(ids[:longest], self.encoding.end)

    def loss(self, batch: ComposeBatch) -> BatchLoss:
        return BatchLoss(self.model.loss(batch.source, batch.targets, batch.lengths), batch.tokens, batch.tokens)

    def describe_batch(self, batch: ComposeBatch) -> str:
        return f"{len(batch.targets)} texts, longest {batch.targets.shape[1]} tokens"

    # --- evaluation ---------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        return METRICS[0]

    def find_metric(self, name: str) -> Metric:
        return find_metric(name, self.encoding)

    def evaluate_rows(self, rows: ComposeRows) -> ComposeEvaluation:
        return self._evaluate(rows, len(rows))

    def evaluate_dev(self, rows: ComposeRows) -> ComposeEvaluation:
        """Evaluate dev, with texts generated only for its first examples."""
        return self._evaluate(rows, self.config.evaluation.texts)

    def _evaluate(self, rows: ComposeRows, n_texts: int) -> ComposeEvaluation:
        generator = torch.Generator().manual_seed(self.config.seed)
        generated = generate(self.model, rows.sources[:n_texts], self.config.search, generator)
        return ComposeEvaluation(
            self.encoding,
            rows.examples,
            text_log_probs(self.model, rows.sources, rows.targets),
            np.array([len(ids) for ids in rows.targets]),
            np.array([int((ids == UNK).sum()) for ids in rows.targets]),
            [self.encoding.text(listed[0].ids) if listed else "" for listed in generated],
        )

    def show(self, rows: ComposeRows, result: ComposeEvaluation) -> list[str]:
        pairs = zip(result.examples, result.texts, strict=False)  # texts may be fewer
        return [f"{example.goal}: {text}" for example, text in pairs][:2]

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_examples(self, examples: Sequence[Composition], options: ComposeOptions) -> list[CompositionPrediction]:
        filled = [example for example in examples if example.goal or example.items]
        generator = torch.Generator().manual_seed(options.seed)
        sources = self.encode(filled, gold=False).sources
        generated = iter(generate(self.model, sources, self._search(options), generator))
        return [
            self._prediction(example, next(generated) if example.goal or example.items else [], options)
            for example in examples
        ]

    def _prediction(
        self, example: Composition, generated: Sequence[Hypothesis], options: ComposeOptions
    ) -> CompositionPrediction:
        ranked = []
        for one in generated:
            text = self.encoding.text(one.ids)
            words = split_words(text, self.encoding.tokenizer)
            mentioned = tuple(self.encoding.naming.mentioned(self.encoding.items(example), words))
            ranked.append(
                CompositionPrediction(example, text, one.log_prob, not one.finished, mentioned, scores=options.scores)
            )
        if not ranked:
            return CompositionPrediction(example, scores=options.scores)
        return first_ranked(ranked, options.several)

    def _search(self, options: ComposeOptions) -> BaseSearchConfig:
        search: BaseSearchConfig = self.config.search
        if options.max_length is not None:
            search = with_max_length(search, options.max_length)
        if options.samples:
            return drawn_search(search, options.samples)
        return search if options.n_best == 1 else best_search(search, options.n_best)

    def search_options(self, options: ComposeOptions) -> ComposeTask:
        config = self.config.model_copy(update={"search": self._search(options)})
        return ComposeTask(config, self.encoding, self.model)

    def format_for(self, options: ComposeOptions) -> str:
        """Text, or tsv if scores are requested."""
        return "tsv" if options.scores else "text"

    def warnings(self, prediction: CompositionPrediction, options: ComposeOptions) -> Sequence[str]:
        """A warning about truncated texts."""
        own = f"search.max_length = {self.config.search.max_length}"
        words = truncation_warning("text", options.max_length, own)
        return [words] * sum(one.truncated for one in prediction.ranked)

    # --- reports ------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        naming = self.encoding.naming
        probable = sorted(naming.item_words, key=lambda word: (-naming.probabilities.get(word, 0), word))[:top]
        return [
            f"a model of texts with an agenda, of kind {self.config.model.kind}: {self.n_parameters:,} parameters",
            f"{len(self.encoding.vocabulary):,} words; {len(naming.item_words):,} name items, such as "
            f"{' '.join(probable)}",
        ]

    def draw(self, example: Composition, options: ComposeOptions) -> Picture:
        """A heat map of the checklist or attention: items as rows, words of the best text as columns."""
        from catena.draw.heat import draw_heat

        rows, words, table = self.item_weights(example, options)
        return draw_heat(table, rows, words, numbers=False, row_title="item", column_title="text", title=example.goal)

    def draw_text(self, example: Composition, options: ComposeOptions) -> str:
        """The heat map as text for a terminal, with a row per item."""
        rows, words, table = self.item_weights(example, options)
        widest = max(map(width, rows))
        lines = [f"{example.goal}: {self.encoding.tokenizer.join(words[:-1])}"]
        for name, values in zip(rows, table.tolist(), strict=True):
            shades = "".join(_SHADES[min(int(value * len(_SHADES)), len(_SHADES) - 1)] for value in values)
            lines.append(f"{name}{' ' * (widest - width(name))} |{shades}|")
        return "\n".join(lines)

    @torch.no_grad()
    def item_weights(self, example: Composition, options: ComposeOptions) -> tuple[list[str], list[str], np.ndarray]:
        """The rows (items or source words), the words of the best text, and a value for each pair.

        For a checklist model the value is the checklist weight of the item after the word; for a model with attention
        it is the attention weight of the word.
        """
        sources = self.encode([example], gold=False).sources
        generator = torch.Generator().manual_seed(options.seed)
        generated = generate(self.model, sources, self._search(options), generator)[0]
        if not generated or not generated[0].ids:
            raise DataError(f"The text of {example.goal!r} is empty, so there is nothing to draw. Use another goal.")
        ids = [*generated[0].ids, self.encoding.end]
        source = Source(*pad(sources)).to(self.device)
        targets = torch.tensor([ids], device=self.device)
        words = self.encoding.vocabulary.tokens(ids)
        if isinstance(self.model, ChecklistModel):
            rows = [" ".join(item) for item in self.encoding.read_words(example)]
            if not rows:
                raise DataError(f"{example.goal!r} has no items, so there is no checklist to draw. Add items.")
            table = self.model.checked(source, targets).ticked[0, :, : len(rows)].T
            return rows, words, table.cpu().numpy()
        layers = self.model.attention(source, targets, torch.tensor([len(ids)], device=self.device))
        if not layers:
            raise DataError("A plain model has no checklist and no attention to draw. Use another model.kind.")
        read = self.encoding.vocabulary.tokens(source.ids[0].tolist())
        return read, words, layers[-1][0].mean(dim=0).T.cpu().numpy()


def _part_line(name: str, examples: Sequence[Composition]) -> str:
    items = sum(len(example.items) for example in examples)
    return f"{name}: {len(examples):,} texts, {items / len(examples):.1f} items each"


def _are_unseparated(examples: Sequence[Composition]) -> bool:
    """Whether the items look like unsplit lists: one item per text, mostly with commas."""
    if any(len(example.items) != 1 for example in examples):
        return False
    return sum("," in example.items[0] for example in examples) > len(examples) / 2
