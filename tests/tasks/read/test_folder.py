"""Answers from many paragraphs: retrieval, joint reading, and fitted weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from catena.data.readers.questions import read_questions
from catena.errors import DataError
from catena.retrieval.config import TfidfConfig
from catena.tasks.read.answers import AnswerFinder, ReadingOptions
from catena.tasks.read.calibration import MixtureWeights
from catena.tasks.read.folder import FolderReader
from catena.tasks.read.ranking import (
    Paragraph,
    ParagraphRanker,
    ParagraphTermRanker,
    ParagraphVectorRanker,
    split_paragraphs,
)
from tests.oracle import retrieval as oracle
from tests.tasks.read.samples import encoding, example, model

FILE = "Ada met Zoë in Łódź . Then she left .\n\nThe 1990s cost $20 .\n\n  Bob met Ada\nin Paris ."
PARAGRAPHS = list(split_paragraphs(FILE, "f"))
ENCODING = encoding([FILE])


def finder(**options: object) -> AnswerFinder:
    torch.manual_seed(1)
    return AnswerFinder(model(ENCODING).double(), ENCODING, ReadingOptions(max_answer=2, **options))


def reader(k: int = 2, weights: MixtureWeights | None = None, **options: object) -> FolderReader:
    return FolderReader(finder(**options), PARAGRAPHS, ParagraphTermRanker([p.text for p in PARAGRAPHS]), k, weights)


def test_answers_are_characters_of_the_file() -> None:
    found = list(reader(n_best=3).answer(["Who met Ada ?", "cost ?"]))
    assert len(found) == 2
    for answers in found:
        assert len(answers.answers) == 3
        for answer in answers.answers:
            first = answer.paragraph.start
            assert FILE[first + answer.start : first + answer.end] == answer.text
            assert answer.paragraph.text[answer.start : answer.end] == answer.text
            assert answer.text in answer.sentence
            assert answer.sentence in answer.paragraph.text


def test_reading_equals_the_finder_over_the_retrieved_paragraphs() -> None:
    own = reader(weights=MixtureWeights(1.0, 0.3))
    (found,) = own.answer(["Who met Ada ?"])
    scores, indices = own.ranker.rank(["Who met Ada ?"], 2)
    assert found.paragraphs == tuple(indices[0])
    wanted = finder().find("Who met Ada ?", [PARAGRAPHS[i].text for i in indices[0]], (0.3 * scores[0]).tolist())
    assert found.text == wanted.text
    assert found.answers[0].probability == pytest.approx(wanted.answers[0].probability)
    assert found.answers[0].paragraph == PARAGRAPHS[indices[0][wanted.answers[0].source]]


def test_retrieval_does_not_change_the_margin_of_no_answer_in_the_best_paragraph() -> None:
    torch.manual_seed(1)
    own = AnswerFinder(model(ENCODING, no_answer="bias").double(), ENCODING, ReadingOptions(max_answer=2))
    ranker = ParagraphTermRanker([p.text for p in PARAGRAPHS])
    margins = []
    for weight in (0.0, 5.0):
        reader = FolderReader(own, PARAGRAPHS, ranker, 1, MixtureWeights(1.0, weight))
        margins.append(next(iter(reader.answer(["Who met Ada ?"]))).no_answer_margin)
    assert margins[0] == pytest.approx(margins[1])


def test_long_lists_of_questions_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [f"{word} ?" for word in FILE.split()]
    whole = [a.text for a in reader().answer(questions)]
    monkeypatch.setattr("catena.tasks.read.folder._BLOCK", 3)
    assert [a.text for a in reader().answer(questions)] == whole


class OnePlace(ParagraphRanker):
    """All paragraphs, with a score of 1 for the first one that has the first word of the question."""

    def rank(self, questions: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        has = np.array([[q.split()[0] in p.text for p in PARAGRAPHS] for q in questions], np.float32)
        order = np.argsort(-has, axis=1, kind="stable")[:, :k].astype(np.int64)
        return np.take_along_axis(has, order, 1), order


def test_fitted_weight_follows_an_informative_ranker() -> None:
    """The reader is untrained, the ranker is right: the weight of retrieval is positive and finds the paragraph."""
    own = FolderReader(finder(), PARAGRAPHS, OnePlace(), 3)
    examples = [
        example(PARAGRAPHS[0].text, "Łódź ?", "Ada", "Zoë", "left", "she", "in"),
        example(PARAGRAPHS[1].text, "cost ?", "20", "$20", "1990s", "cost", "The"),
        example(PARAGRAPHS[2].text, "Paris ?", "Paris", "Bob", "in", "met", "Bob met"),
    ]
    weights = own.fit(examples)
    assert weights.spans > 0
    assert weights.retrieval > 0
    assert own.weights == weights
    found = list(own.answer([e.question for e in examples]))
    assert [a.answers[0].paragraph.text for a in found] == [e.context for e in examples]


def test_weights_without_correct_candidates_raise() -> None:
    with pytest.raises(DataError, match="need a question whose answer was found, got none"):
        reader().fit([example(PARAGRAPHS[0].text, "q ?", "Ada met Zoë in Łódź")])
    with pytest.raises(DataError, match="paragraphs must not be empty"):
        FolderReader(finder(), [], OnePlace())


# --- rankers ----------------------------------------------------------------------------------------------------------


def test_term_ranker_equals_bm25_by_loops() -> None:
    texts = ["the cat sat .", "the dog sat on the mat", "a cat and a dog !"]
    scores, indices = ParagraphTermRanker(texts).rank(["The cat ?"], 3)
    documents = [[w for w in t.split() if w.isalnum()] for t in texts]
    wanted = [oracle.bm25(["the", "cat"], document, documents, 1.2, 0.75) for document in documents]
    assert scores[0] == pytest.approx(sorted(wanted, reverse=True), rel=1e-5)
    assert indices[0].tolist() == sorted(range(3), key=lambda i: -wanted[i])


def test_term_ranker_takes_other_weights() -> None:
    _, indices = ParagraphTermRanker(["x y", "y z z"], TfidfConfig()).rank(["z"], 5)
    assert indices.tolist() == [[1, 0]]


def test_vector_ranker_orders_by_dot_product() -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.0, 2.0], "q": [1.0, 1.0]}

    def encode(texts: Sequence[str]) -> np.ndarray:
        return np.array([vectors[t] for t in texts], np.float32)

    scores, indices = ParagraphVectorRanker(["a", "b"], encode, encode).rank(["q", "a"], 1)
    assert indices.tolist() == [[1], [0]]
    assert scores.tolist() == [[2.0], [1.0]]


def test_recall_over_the_squad_folder(real_data: Path) -> None:
    """Recall at 1, 5 and 10 over 2,067 paragraphs; all test questions have 0.828, 0.945 and 0.965."""
    folder = real_data / "squad_small"
    paragraphs = list(dict.fromkeys(e.context for e in read_questions(folder / "dev-v1.1.json")))
    assert len(paragraphs) == 2067
    test = read_questions(folder / "test.json")[::20]
    _, indices = ParagraphTermRanker(paragraphs).rank([e.question for e in test], 10)
    gold = np.array([paragraphs.index(e.context) for e in test])[:, None]
    recall = [float((indices[:, :k] == gold).any(1).mean()) for k in (1, 5, 10)]
    assert recall[0] > 0.75
    assert recall[1] > 0.92
    assert recall[2] > 0.94


def test_paragraph_knows_its_end() -> None:
    assert Paragraph("abc", "f", 5, 1).end == 8
