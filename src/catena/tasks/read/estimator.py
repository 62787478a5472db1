"""The reader as an estimator."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from catena.data.examples import SourceLocation
from catena.data.readers.questions import QuestionExample, align_answers
from catena.errors import DataError
from catena.tasks.estimator import Estimator
from catena.tasks.read.config import ReadOptions
from catena.tasks.read.predict import ReadPrediction
from catena.tasks.read.ranking import read_paragraphs
from catena.tasks.read.task import RETRIEVAL_WEIGHT, ReadTask
from catena.tasks.targets import check_same_length


class Reader(Estimator, task="read"):
    """Reader: pairs of a context and a question in, answers out.

    reader = Reader(max_epochs=30).fit([("Ada lives in Rome.", "Where does Ada live?")] * 20, ["Rome"] * 20)
    [p.answer for p in reader.predict([("Bob lives in Oslo.", "Where does Bob live?")])]

    ``y`` has an answer for each pair, or a list of correct answers, each a part of the context; an empty list or None
    if the context has no answer.
    """

    def _examples(
        self, x: Iterable[Sequence[str]], y: Iterable[str | Sequence[str] | None] | None
    ) -> list[QuestionExample]:
        pairs, answers = list(x), [] if y is None else list(y)
        check_same_length(pairs, answers, "question", "answer")
        return [
            _example(pair, own, number) for number, (pair, own) in enumerate(zip(pairs, answers, strict=True), start=1)
        ]

    def answer(
        self,
        source: str | os.PathLike[str],
        questions: Sequence[str],
        *,
        k: int | None = None,
        n_best: int = 1,
        retrieval_weight: float = RETRIEVAL_WEIGHT,
    ) -> list[ReadPrediction]:
        """Answers from the paragraphs of a file or folder.

        Args:
            source: a text file, or a folder of text files.
            questions: the questions.
            k: the number of paragraphs that are read for a question, the best ones by BM25; by default all of a file
                and 5 of a folder.
            n_best: the number of answers with different texts.
            retrieval_weight: weight of the BM25 score of a paragraph.
        """
        if isinstance(questions, str):
            raise DataError(f"questions must be a list, got one text: {questions!r:.60}. Put it in a list.")
        task = self._fitted()
        assert isinstance(task, ReadTask)
        paragraphs = read_paragraphs(Path(source))
        options = ReadOptions(n_best=n_best)
        most = k if k is not None or not Path(source).is_dir() else 5
        return list(task.answer(questions, paragraphs, options, k=most, retrieval_weight=retrieval_weight))

    def score(self, x: Any, y: Any = None) -> float:
        """F1 of the answers."""
        return self.evaluate(x, y).scores()["f1"]


def _example(pair: Any, answers: str | Sequence[str] | None, number: int) -> QuestionExample:
    location = SourceLocation("fit", number)
    try:
        context, question = pair
    except (TypeError, ValueError):
        raise DataError(f"x must have pairs of a context and a question, got {pair!r:.60}. Pass pairs.") from None
    texts = [] if answers is None else [answers] if isinstance(answers, str) else list(answers)
    return QuestionExample(context, question, align_answers(context, texts), str(number), location)
