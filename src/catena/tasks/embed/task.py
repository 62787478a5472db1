"""Word vectors as a task: trained on text, queried for the nearest words, evaluated on analogies and ratings.

Tested in tests/tasks/embed and tests/cli/test_vectors.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from catena.checkpoint import Checkpoint
from catena.data.formats import check_plain_text, read_texts, text_format
from catena.data.reading import ReadCounter
from catena.data.tokenize import build_tokenizer
from catena.errors import CheckpointError, DataError
from catena.metrics.measure import Metric
from catena.tasks.base import BaseTask, Origin, Training
from catena.tasks.embed.baselines import FactorBaselines
from catena.tasks.embed.config import EmbedConfig, EmbedOptions
from catena.tasks.embed.predict import (
    METRICS,
    Analogy,
    EmbedEvaluation,
    Neighbor,
    NeighborPrediction,
    Query,
    RatedPair,
    read_queries,
)
from catena.tasks.embed.training import FactorTraining, VectorTraining
from catena.tasks.sources import Sources
from catena.vectors.evaluate import pair_cosines, solve_analogies
from catena.vectors.model import VectorNetwork
from catena.vectors.table import VectorTable
from catena.vectors.train import infer_documents, no_documents

if TYPE_CHECKING:
    from torch import Tensor

    from catena.draw.picture import Picture


class EmbedTask(BaseTask[EmbedConfig, Query, NeighborPrediction, EmbedOptions]):
    """Trained word vectors.

    Args:
        config: the config that they were trained with.
        vectors: the words and their vectors.
        model: all parameters, such as context vectors and vectors of lines; None for the vectors of a file.
    """

    name = "embed"
    options_class = EmbedOptions
    reads_split_columns = False
    next_commands = ("vectors neighbors WORD --vectors RUN",)

    def __init__(self, config: EmbedConfig, vectors: VectorTable, model: VectorNetwork | None) -> None:
        self.config, self.vectors, self._model = config, vectors, model

    @property
    def is_complete(self) -> bool:
        """Whether this is a trained model, and not only the vectors of a file."""
        return self._model is not None

    @property
    def model(self) -> VectorNetwork:
        """All parameters. Raise DataError if only vectors were read from a file."""
        if self._model is None:
            raise DataError("These vectors come from a file, which has no model. Load a run of 'catena train embed'.")
        return self._model

    # --- training and files -------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: EmbedConfig, sources: Sources[Query], origin: Origin) -> Training:
        for path in sources.paths("train"):
            check_plain_text(path, config.data.input_format, config.data.encoding)
        kind = FactorTraining if config.is_factor else VectorTraining
        return kind(config, sources, origin, cls.next_commands)

    @classmethod
    def check_model(cls, theirs: EmbedConfig, config: EmbedConfig, folder: Path) -> None:
        """Allow other options of the model; those that must be equal are checked when its rows are copied."""

    @classmethod
    def check_limits(cls, config: EmbedConfig, limits: Mapping[str, object], folder: Path) -> None:
        extra = {name: value for name, value in limits.items() if config.is_factor or name != "max_time"}
        if extra:
            raise CheckpointError(
                f"{' and '.join(extra)} must not be set for word vectors, whose learning rate depends on a fixed "
                f"number of epochs, got {', '.join(map(str, extra.values()))}. Train a new run with --init-from "
                f"{folder}."
            )

    @classmethod
    def load(cls, config: EmbedConfig, checkpoint: Checkpoint, device: str) -> Self:
        model = VectorNetwork.of_tensors(config, checkpoint.weights())
        return cls(config, VectorTable.of_model(model), model)

    def save(self, folder: Path) -> None:
        """Write nothing: words and vectors are tensors."""

    def tensors(self) -> dict[str, Tensor]:
        return self.model.tensors()

    # --- prediction ---------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, config: EmbedConfig, path: Path, counter: ReadCounter, *, gold: bool = True) -> Iterator[Query]:
        """The analogies or rated pairs of a file, or with ``gold=False`` its words. Training reads text instead."""
        return read_queries(config.data, path, counter, gold=gold)

    @classmethod
    def describe_file(cls, config: EmbedConfig, path: Path) -> str:
        return f"{path}: {text_format(path, config.data.input_format)}"

    def to_example(self, item: Any) -> Query:
        if isinstance(item, Query):
            return item
        raise DataError(f"An input must be a word, got {type(item).__name__}. Pass a list of strings.")

    def predict_examples(self, examples: Sequence[Query], options: EmbedOptions) -> list[NeighborPrediction]:
        words = [str(one) for one in examples]
        known = [self.vectors.get(word) is not None for word in words]
        lookups = [word for word, is_known in zip(words, known, strict=True) if is_known]
        rows = iter(self.vectors.most_similar_of_all(lookups, options.n_best))
        return [
            NeighborPrediction(word, tuple(Neighbor(*pair) for pair in next(rows)) if is_known else (), is_known)
            for word, is_known in zip(words, known, strict=True)
        ]

    def document_vectors(self, text: Path | None = None, epochs: int = 20, seed: int = 0) -> VectorTable:
        """The paragraph vectors of lines, named by line numbers from 1.

        Args:
            text: a text whose vectors are inferred with the rest of the model fixed; the training text if None. It is
                read and tokenized like the training text; phrases are not joined in it.
            epochs: number of passes over the text.
            seed: seed of the inference.
        """
        if not self.model.settings.is_paragraph:
            raise no_documents(self.model)
        rows = self.model.document_vectors() if text is None else self._inferred(text, epochs, seed)
        return VectorTable.of([str(i + 1) for i in range(len(rows))], rows)

    def _inferred(self, text: Path, epochs: int, seed: int) -> np.ndarray:
        data = self.config.data
        texts = list(read_texts(text, data.input_format, data.text_column, data.encoding))
        if not texts:
            raise DataError(f"{text} has no lines. Use a text with one document per line.")
        tokenizer = build_tokenizer(self.config.tokenizer, texts)
        return infer_documents(self.model, (tokenizer.tokens(line) for line in texts), epochs, seed)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def baselines(self) -> FactorBaselines:
        return FactorBaselines(self)

    def all_metrics(self) -> Mapping[str, Metric]:
        return METRICS

    def evaluate_examples(self, examples: Sequence[Query]) -> EmbedEvaluation:
        if isinstance(examples[0], Analogy):
            return self._evaluate_analogies([one for one in examples if isinstance(one, Analogy)])
        return self._evaluate_pairs([one for one in examples if isinstance(one, RatedPair)])

    def _evaluate_analogies(self, questions: Sequence[Analogy]) -> EmbedEvaluation:
        answers = solve_analogies(self.vectors, [one.words for one in questions])
        scored = [(*answer, one.section) for one, answer in zip(questions, answers, strict=True) if answer]
        skipped = [one.section for one, answer in zip(questions, answers, strict=True) if answer is None]
        expected, predicted, sections = ([row[i] for row in scored] for i in range(3))
        return EmbedEvaluation(
            "accuracy", [word.lower() for word in expected], [word.lower() for word in predicted], sections, skipped
        )

    def _evaluate_pairs(self, pairs: Sequence[RatedPair]) -> EmbedEvaluation:
        cosines = pair_cosines(self.vectors, [one.words for one in pairs])
        known = [(one.rating, cosine) for one, cosine in zip(pairs, cosines, strict=True) if cosine is not None]
        ratings, values = [rating for rating, _ in known], [cosine for _, cosine in known]
        return EmbedEvaluation("spearman", ratings, values, [""] * len(known), [""] * (len(pairs) - len(known)))

    # --- pictures and descriptions ------------------------------------------------------------------------------------

    def draw(self, example: Query, options: EmbedOptions) -> Picture:
        """A map of a word and its nearest words."""
        from catena.draw.map import draw_map
        from catena.vectors.map import project_to_plane, words_of_map

        words = words_of_map(self.vectors, options.n_best + 1, [str(example)])
        return draw_map(project_to_plane(self.vectors, words), words, title=str(example))

    def draw_text(self, example: Query, options: EmbedOptions) -> str:
        """A bar for each of the nearest words, as long as its cosine."""
        (prediction,) = self.predict_examples([example], options)
        width = max((len(one.word) for one in prediction.neighbors), default=0)
        bars = [f"{one.word:<{width}} {one.score:7.4f} {'█' * round(30 * one.score)}" for one in prediction.neighbors]
        return "\n".join([prediction.text, *bars])

    def describe(self, top: int) -> list[str]:
        words = self.vectors.words
        order = np.argsort(-words.counts, kind="stable")[:top].tolist()
        lines = [f"word vectors: {len(words):,} words, {self.vectors.d} dimensions"]
        if self.vectors.subwords is not None:
            lines.append(f"character n-grams: {len(self.vectors.subwords.rows):,} buckets")
        if self._model is not None and self.config.is_paragraph:
            lines.append(f"lines with a vector: {self._model.documents:,}")
        return [*lines, "most frequent words: " + ", ".join(f"{words[i]} {words.counts[i]:,}" for i in order)]
