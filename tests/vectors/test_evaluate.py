"""Scores against small files whose answers are known, and against brute force over all words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catena.errors import DataError, FormatError
from catena.vectors.evaluate import evaluate_analogies, evaluate_similarities
from catena.vectors.table import VectorTable

MATRIX = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1], [0.6, 0.6, 0.5]])
VECTORS = VectorTable.of(["man", "king", "woman", "Queen", "table"], MATRIX)
QUESTIONS = """: royal
man king woman queen
woman QUEEN man king
man king woman emperor
: other
man woman king table

"""


@pytest.mark.parametrize("method", ["add", "multiply"])
def test_analogies_are_scored_by_section(tmp_path: Path, method: str) -> None:
    path = tmp_path / "questions.txt"
    path.write_text(QUESTIONS, encoding="utf-8")
    scores = evaluate_analogies(VECTORS, path, method)
    assert [(s.name, s.n_correct, s.n_scored, s.n_skipped) for s in scores.sections] == [
        ("royal", 2, 2, 1),
        ("other", 0, 1, 0),
    ]
    assert (scores.total.n_correct, scores.total.n_scored, scores.total.accuracy) == (2, 3, 2 / 3)
    few = evaluate_analogies(VECTORS, path, method, most=3)
    assert (few.total.n_scored, few.total.n_skipped) == (0, 4)
    assert np.isnan(few.total.accuracy)


@pytest.mark.parametrize("method", ["add", "multiply"])
def test_many_questions_are_answered_as_one_by_one(tmp_path: Path, method: str) -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    vectors = VectorTable.of(words, rng.normal(size=(60, 4)))
    questions = [rng.choice(words, 4, replace=False).tolist() for _ in range(300)]
    path = tmp_path / "questions.txt"
    path.write_text("\n".join(map(" ".join, questions)), encoding="utf-8")
    right = sum(vectors.analogy(a, b, c, 1, method)[0][0] == d for a, b, c, d in questions)
    assert evaluate_analogies(vectors, path, method).total.n_correct == right
    assert right > 0


@pytest.mark.parametrize(
    "text", ["Man king 9\nman woman 3\nking table\t5\nman moon 2\n", "a,b,score\nman,king,9\nman,woman,3\n"]
)
def test_similarities_are_compared_with_human_ratings(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text(text.replace("king table\t5\n", ""), encoding="utf-8")
    scores = evaluate_similarities(VECTORS, path)
    assert (scores.spearman, scores.n_scored) == (pytest.approx(1.0), 2)
    assert scores.n_skipped == (1 if "moon" in text else 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a b c\n", r":1 must have four words, got 3"), (": head\n", "has no questions")],
)
def test_file_without_analogies_raises_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "q.txt").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        evaluate_analogies(VECTORS, tmp_path / "q.txt")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("man king 1\nman king x\n", FormatError, ":2 must have two words and a number"),
        ("# nothing\n", FormatError, "has no pairs"),
        ("man king 1\nx y 2\n", DataError, "must have vectors for both words, got 1 of 2"),
    ],
)
def test_file_without_similarities_raises_error(tmp_path: Path, text: str, error: type, message: str) -> None:
    (tmp_path / "p.txt").write_text(text, encoding="utf-8")
    with pytest.raises(error, match=message):
        evaluate_similarities(VECTORS, tmp_path / "p.txt")
