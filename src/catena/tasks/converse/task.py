"""Conversation as a task: models of all kinds read contexts, respond to them and are evaluated in the same way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from catena.data.exchanges import Exchange, split_turns
from catena.data.reading import ReadCounter
from catena.errors import DataError
from catena.metrics.measure import Metric
from catena.tasks.base import BaseTask, EvaluationResult
from catena.tasks.converse.config import NEXT_COMMANDS, ConverseConfig, ConverseOptions
from catena.tasks.converse.data import (
    USER_INPUT_LOCATION,
    conversation_format,
    read_contexts,
    read_conversations,
)
from catena.tasks.converse.evaluation import ConverseEvaluation, find_ranking_metric
from catena.tasks.converse.predict import ResponsePrediction, ScoredResponse
from catena.tasks.converse.rankers import Ranker
from catena.tasks.converse.ranking import Groups, build_ranking_examples
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
        turns = split_turns(item) if isinstance(item, str) else tuple(item)
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
