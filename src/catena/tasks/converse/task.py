"""Conversation as a task: models of all kinds read contexts, respond to them and are evaluated in the same way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from torch import nn

from catena.checkpoint import Checkpoint, write_checkpoint
from catena.data.conversations import Exchange, split_turns
from catena.data.reading import ReadCounter
from catena.data.tokenize import load_tokenizer
from catena.errors import ConfigError, DataError
from catena.metrics.measure import Metric
from catena.retrieval.config import BM25Config, TfidfConfig
from catena.retrieval.mixing import fit_weights
from catena.retrieval.terms import learn_terms, load_terms
from catena.tasks.base import BaseTask, DataParts, EvaluationResult, Origin
from catena.tasks.config import TOKENIZER, model_section
from catena.tasks.converse.config import NEXT_COMMANDS, ConverseConfig, ConverseOptions, RankerMixtureConfig
from catena.tasks.converse.data import (
    USER_INPUT_LOCATION,
    conversation_format,
    describe_parts,
    distinct_responses,
    fit_tokenizer,
    read_contexts,
    read_conversations,
)
from catena.tasks.converse.evaluation import ConverseEvaluation, Groups, build_ranking_examples, find_ranking_metric
from catena.tasks.converse.predict import ResponsePrediction, ScoredResponse
from catena.tasks.converse.rankers import (
    INDEX,
    MixedRanker,
    Ranker,
    ResponseIndex,
    RetrievalRanker,
    TermRanker,
    build_index,
    collect_responses,
    comparison_text,
    load_index,
)
from catena.tasks.fitted import FitReporter, FittedTask
from catena.tasks.runs import load_task
from catena.tasks.sources import Sources
from catena.tasks.writing import unknown_input_warning

O = TypeVar("O", bound=ConverseOptions)  # noqa: E741

GUESSED = unknown_input_warning("context", "word")


class ConverseTask(BaseTask[ConverseConfig, Exchange, ResponsePrediction, O]):
    """A model that retrieves or generates responses.

    An input is a context: a sequence of turns, oldest first, one text with ``__eot__`` between turns, or an
    :class:`Exchange`.
    """

    name = "converse"
    formats = ("tsv", "text", "csv", "jsonl")
    next_commands = NEXT_COMMANDS
    generates: ClassVar[bool] = False
    """Whether responses are generated rather than retrieved."""
    more_distractors: Sequence[str] = ()
    """In training, the responses of train, which are distractors for evaluation files that have too few."""

    @property
    @abstractmethod
    def ranker(self) -> Ranker:
        """What scores given responses."""

    @abstractmethod
    def respond(self, contexts: Sequence[Exchange], options: O) -> list[list[ScoredResponse]]:
        """The responses to contexts with at least one turn, best first."""

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, config: ConverseConfig, path: Path, counter: ReadCounter, *, gold: bool = True) -> Iterator[Exchange]:
        reader = read_conversations if gold else read_contexts
        return reader(config.data, path, counter)

    @classmethod
    def describe_file(cls, config: ConverseConfig, path: Path) -> str:
        kind, why = conversation_format(config.data, path)
        return f"{path.name} is read as {kind}: {why}"

    def to_example(self, item: Any) -> Exchange:
        if isinstance(item, Exchange):
            return item
        turns = split_turns(item) if isinstance(item, str) else tuple(item) if isinstance(item, Iterable) else (item,)
        if not all(isinstance(turn, str) for turn in turns):
            raise DataError(f"a context must be a text or a list of turns, got {item!r:.60}. Pass strings.")
        return Exchange(turns, (), USER_INPUT_LOCATION)

    @classmethod
    def split_key(cls, example: Exchange) -> str:
        return example.context[0]

    def truncate(self, example: Exchange) -> Exchange:
        """The last turns of a context, as many as the model reads."""
        w = self.config.data.window
        return Exchange(example.context[-w:], (), example.location, example.own[-w:])

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_examples(self, examples: Sequence[Exchange], options: O) -> list[ResponsePrediction]:
        contexts = [self.truncate(example) for example in examples]
        responses = iter(self.respond([one for one in contexts if one.context], options))
        predictions = []
        for example, context in zip(examples, contexts, strict=True):
            empty = ResponsePrediction(
                example.context,
                truncated=False if self.generates else None,
                known=self.ranker.knows(context),
                scores=options.scores,
            )
            predictions.append(empty.respond(next(responses) if context.context else (), several=options.n_best > 1))
        return predictions

    def warnings(self, prediction: ResponsePrediction, options: O) -> Sequence[str]:
        """A warning if no word of the context is known."""
        return [] if prediction.known or prediction.response is None else [GUESSED]

    # --- evaluation ---------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        return self.config.evaluation.ranking[0]

    def find_metric(self, name: str) -> Metric:
        return find_ranking_metric(name, self.config.evaluation)

    def evaluate(self, examples: Iterable[Exchange]) -> EvaluationResult:
        """Evaluate all contexts together, since the distractors are sampled from all of them."""
        return self.evaluate_examples(list(examples))

    def rank_responses(self, examples: Sequence[Exchange]) -> ConverseEvaluation:
        """The ranks of the correct responses among their candidates."""
        groups = self.ranking_examples(examples)
        return ConverseEvaluation(self.config, groups, self.ranker.ranks(groups))

    def ranking_examples(self, examples: Sequence[Exchange]) -> Groups:
        """The ranking examples of the contexts that have correct responses."""
        if not any(example.responses for example in examples):
            raise DataError("No context has a correct response to score. Give a file with correct responses.")
        return build_ranking_examples(examples, self.config.evaluation, self.more_distractors)


# --- models that retrieve ---------------------------------------------------------------------------------------------


_PARTS = "parts"


class RetrievalTask(ConverseTask[ConverseOptions]):
    """A ranker with its index of responses."""

    options_class = ConverseOptions
    index: ResponseIndex

    @property
    def searcher(self) -> RetrievalRanker:
        """The ranker, which searches the index."""
        assert isinstance(self.ranker, RetrievalRanker)
        return self.ranker

    def respond(self, contexts: Sequence[Exchange], options: ConverseOptions) -> list[list[ScoredResponse]]:
        return self.index.best(self.searcher, contexts, options.n_best)

    def describe(self, top: int) -> list[str]:
        return [
            f"a conversation model of kind {self.config.model.kind}, which retrieves one of {len(self.index):,} "
            f"responses",
            f"context: the last {self.config.data.window} turns",
            *self._details(),
            *(f"  {self.index.texts[i]}" for i in range(min(top, len(self.index)))),
        ]

    def _details(self) -> list[str]:
        return []


class FittedRetrievalTask(FittedTask[ConverseConfig, Exchange, ResponsePrediction, ConverseOptions], RetrievalTask):
    """A ranker that is fitted without gradient steps."""

    @classmethod
    def gather(
        cls, config: ConverseConfig, sources: Sources[Exchange], origin: Origin
    ) -> tuple[DataParts[Exchange], list[str]]:
        parts, lines = super().gather(config, sources, origin)
        return parts, [*lines, *describe_parts(parts, config.data)]

    def evaluate_examples(self, examples: Sequence[Exchange]) -> ConverseEvaluation:
        return self.rank_responses(examples)

    def save(self, folder: Path) -> None:
        self.index.save(folder / INDEX)


# --- common terms -----------------------------------------------------------------------------------------------------


class TermTask(FittedRetrievalTask):
    """A ranker by common terms: TF-IDF or BM25."""

    def __init__(self, config: ConverseConfig, ranker: TermRanker, index: ResponseIndex) -> None:
        self.config, self.index, self._ranker = config, index, ranker

    @property
    def ranker(self) -> TermRanker:
        return self._ranker

    @classmethod
    def fit(cls, config: ConverseConfig, parts: DataParts[Exchange], origin: Origin, progress: FitReporter) -> Self:
        return cls.of_exchanges(config, parts.train)

    @classmethod
    def of_exchanges(cls, config: ConverseConfig, train: Sequence[Exchange]) -> Self:
        """The model that retrieves the responses of some exchanges."""
        texts, contexts = collect_responses(config, train)
        ranker = _fit_terms(config, train, texts, contexts)
        task = cls(config, ranker, build_index(config, ranker, texts, contexts))
        task.more_distractors = distinct_responses(train)
        return task

    @classmethod
    def load(cls, config: ConverseConfig, checkpoint: Checkpoint, device: str) -> Self:
        folder, settings = checkpoint.folder, _term_config(config)
        ranker = TermRanker(load_tokenizer(folder / TOKENIZER), load_terms(settings, folder), settings)
        return cls(config, ranker, load_index(ranker, folder / INDEX))

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.ranker.save(folder)


def _fit_terms(
    config: ConverseConfig, train: Sequence[Exchange], texts: Sequence[str], contexts: Sequence[str]
) -> TermRanker:
    """A ranker whose term weights are counted on the indexed texts: responses, contexts or both."""
    settings, tokenizer = _term_config(config), fit_tokenizer(config, train)
    documents = distinct_responses(train)
    if isinstance(settings, TfidfConfig):
        documents += [" ".join(exchange.context) for exchange in train]
    elif settings.against != "response":
        documents = [comparison_text(settings.against, *pair) for pair in zip(texts, contexts, strict=True)]
    return TermRanker(tokenizer, learn_terms(settings, map(tokenizer.tokens, documents)), settings)


def _term_config(config: ConverseConfig) -> TfidfConfig | BM25Config:
    assert isinstance(config.model, TfidfConfig | BM25Config)
    return config.model


# --- mixtures ---------------------------------------------------------------------------------------------------------


class MixtureTask(FittedRetrievalTask):
    """A weighted sum of the scores of trained models. Its checkpoint has copies of them."""

    filled_keys = ("model.weights",)

    def __init__(
        self,
        config: ConverseConfig,
        models: Sequence[ConverseTask[Any]],
        ranker: MixedRanker,
        index: ResponseIndex,
    ) -> None:
        self.config, self.models, self.index, self._ranker = config, models, index, ranker

    @property
    def ranker(self) -> MixedRanker:
        return self._ranker

    @property
    def networks(self) -> Sequence[nn.Module]:
        return [network for model in self.models for network in model.networks]

    @classmethod
    def fit(cls, config: ConverseConfig, parts: DataParts[Exchange], origin: Origin, progress: FitReporter) -> Self:
        settings = model_section(config, RankerMixtureConfig)
        models = [_load_model(Path(run), "cpu") for run in settings.runs]
        ranker = MixedRanker([model.ranker for model in models], settings.weights or [0.0] * len(models))
        if not ranker.searchers():
            raise ConfigError(
                f"model.runs must include a run of kind dual, tfidf or bm25, got only generative models: "
                f"{list(settings.runs)}. Add such a run."
            )
        responses = distinct_responses(parts.train)
        if not settings.weights:
            groups = build_ranking_examples(parts.dev, config.evaluation, responses)
            examples = [example for group in groups for example in group]
            weights, loss = fit_weights(ranker.each(examples), settings.penalty)
            ranker.weights = weights.tolist()
            progress.note(f"weights fitted on {len(examples):,} dev examples: {loss:.4f} nats per example")
        fitted = settings.model_copy(update={"weights": tuple(ranker.weights)})
        config = config.model_copy(update={"model": fitted})
        task = cls(config, models, ranker, build_index(config, ranker, *collect_responses(config, parts.train)))
        task.more_distractors = responses
        progress.note(*task._details())
        return task

    @classmethod
    def load(cls, config: ConverseConfig, checkpoint: Checkpoint, device: str) -> Self:
        settings, folder = model_section(config, RankerMixtureConfig), checkpoint.folder
        models = [_load_model(folder / _PARTS / str(i), device) for i in range(len(settings.runs))]
        ranker = MixedRanker([model.ranker for model in models], settings.weights)
        return cls(config, models, ranker, load_index(ranker, folder / INDEX))

    def save(self, folder: Path) -> None:
        super().save(folder)
        for i, model in enumerate(self.models):
            (folder / _PARTS).mkdir(exist_ok=True)
            write_checkpoint(folder / _PARTS / str(i), model.tensors(), model.save_all)

    def _details(self) -> list[str]:
        named = zip(model_section(self.config, RankerMixtureConfig).runs, self.ranker.weights, strict=True)
        return ["weights: " + ", ".join(f"{Path(run).name} {weight:.4f}" for run, weight in named)]


def _load_model(folder: Path, device: str) -> ConverseTask[Any]:
    model = load_task(folder, device)
    if not isinstance(model, ConverseTask):
        raise ConfigError(
            f"model.runs must be runs of the task converse, got {str(folder)!r} of the task {model.name}. Remove it."
        )
    return model
