"""Word vectors as an estimator with queries. Tested in tests/tasks/embed/test_estimator.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float32

from catena.errors import DataError
from catena.tasks.base import EvaluationResult
from catena.tasks.embed.predict import Analogy, RatedPair
from catena.tasks.embed.task import EmbedTask
from catena.tasks.estimator import Estimator, is_path
from catena.tasks.targets import as_texts
from catena.vectors.table import VectorTable


class WordVectors(Estimator, task="embed"):
    """Word vectors: trained on texts or loaded from a file, and queried.

    vectors = WordVectors("skipgram", d=50, words_min_count=1).fit(["the king rode", "the queen rode"] * 50)
    vectors["king"], vectors.most_similar("king", k=3), vectors.similarity("king", "queen")

    ``fit`` takes texts, or lists of words. ``predict`` returns the nearest words of each word. ``vectors_`` is the
    table of words and vectors, for further queries.
    """

    def _examples(self, x: Any, y: Any) -> list[Any]:
        values = x if isinstance(x, str) or hasattr(x, "shape") else list(x)
        if isinstance(values, list) and any(not isinstance(one, str) for one in values):
            return [one if isinstance(one, str) else list(one) for one in values]
        return as_texts(values)

    @property
    def _task(self) -> EmbedTask:
        task = self._fitted()
        assert isinstance(task, EmbedTask)
        return task

    @property
    def vectors_(self) -> VectorTable:
        """The words and their vectors."""
        return self._task.vectors

    def evaluate(self, x: Any, y: Any = None) -> EvaluationResult:
        """Score analogies, or pairs of words with ratings of their similarity.

        Args:
            x: a file of analogies (four words per line, as in questions-words) or of pairs (two words and a rating per
                line); or a list with four words each, or with pairs.
            y: the ratings if ``x`` is a list of pairs.
        """
        if is_path(x):
            return super().evaluate(x)
        if y is None:
            return self._task.evaluate(Analogy((a, b, c, d), "questions") for a, b, c, d in x)
        return self._task.evaluate(RatedPair((a, b), float(rating)) for (a, b), rating in zip(x, y, strict=True))

    # --- files --------------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "auto") -> Self:
        """Load a run of ``catena train embed``, a folder that :meth:`save` wrote, or a file of vectors.

        Args:
            folder: the folder; or a file in the format of Catena (memory-mapped), word2vec, GloVe or fastText.
            device: has no effect, because word vectors are on the CPU.
        """
        if Path(folder).is_dir():
            return super().load(folder, device)
        model = cls()
        model.task_ = EmbedTask(cls.spec.config_class()(), VectorTable.load(folder), None)  # type: ignore[arg-type]
        return model

    def save(self, folder: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the model into a new folder, or only the vectors into a file.

        Args:
            folder: a new folder; or a file that ends in ``.safetensors``, ``.bin`` (word2vec), ``.txt`` or ``.vec``.
            format: the format of a file with another ending: ``catena``, ``word2vec``, ``word2vec-text``, ``glove``.
        """
        if format is not None or Path(folder).suffix:
            self.vectors_.save(folder, format)
        elif self._task.is_complete:
            super().save(folder)
        else:
            raise DataError(f"Vectors of a file can only be saved as a file, got {folder}. Use {folder}.safetensors.")

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "task_") and not self._task.is_complete:
            return dict(vars(self))
        return super().__getstate__()

    # --- queries ------------------------------------------------------------------------------------------------------

    def __contains__(self, word: object) -> bool:
        """Whether a word has its own vector."""
        return word in self.vectors_

    def __getitem__(self, word: str) -> Float32[np.ndarray, " d"]:
        """The vector of a word, as a view. Raise UnknownNameError if it has none."""
        return self.vectors_[word]

    def get(self, word: str, default: np.ndarray | None = None) -> np.ndarray | None:
        """The vector of a word, or ``default`` if it has none."""
        return self.vectors_.get(word, default)

    def most_similar(self, word: str | np.ndarray, k: int = 10) -> list[tuple[str, float]]:
        """The ``k`` nearest words of a word or a vector with their cosines, best first."""
        return self.vectors_.most_similar(word, k)

    def analogy(self, a: str, b: str, c: str, k: int = 10, method: str = "add") -> list[tuple[str, float]]:
        """The words that are to ``c`` as ``b`` is to ``a``, as in :meth:`catena.vectors.VectorTable.analogy`."""
        return self.vectors_.analogy(a, b, c, k, method)

    def similarity(self, a: str, b: str) -> float:
        """The cosine of two words."""
        return self.vectors_.similarity(a, b)

    def odd_one_out(self, words: Sequence[str]) -> str:
        """The word that is farthest from the mean of all words."""
        return self.vectors_.odd_one_out(words)
