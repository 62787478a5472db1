"""Evaluation of word vectors on analogies by section, and on human similarity ratings.

* analogies: lines ``a b c d`` (a is to b as c is to d) under headings ``: section``, as in questions-words;
* similarities: lines ``word word number``, separated by tabs, blanks or commas.

Questions with a word without a vector are skipped and counted. Words are looked up as written and otherwise in any
case: the most frequent form is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float32, Float64

from catena.data.files import bad_line, open_text
from catena.errors import DataError, FormatError
from catena.metrics.correlation import spearman
from catena.vectors.neighbors import best_analogies
from catena.vectors.table import VectorTable

AnalogyMethod = Literal["add", "multiply"]


@dataclass(frozen=True)
class SectionScore:
    """The number of scored questions of one heading, how many are correct, and how many have an unknown word."""

    name: str
    n_correct: int
    n_scored: int
    n_skipped: int

    @property
    def accuracy(self) -> float:
        """The fraction of correct answers; nan if there are no questions."""
        return self.n_correct / self.n_scored if self.n_scored else float("nan")


@dataclass(frozen=True)
class AnalogyScores:
    """Scores by section and in total."""

    sections: tuple[SectionScore, ...]
    method: AnalogyMethod

    @property
    def total(self) -> SectionScore:
        """The questions of all sections."""
        parts = self.sections
        n_correct, n_scored = sum(part.n_correct for part in parts), sum(part.n_scored for part in parts)
        return SectionScore("total", n_correct, n_scored, sum(part.n_skipped for part in parts))


@dataclass(frozen=True)
class SimilarityScores:
    """Spearman's correlation of cosines with human ratings, and the numbers of pairs used and skipped."""

    spearman: float
    n_scored: int
    n_skipped: int


class _AnyCase:
    """Case-insensitive lookup of words."""

    def __init__(self, vectors: VectorTable, most: int | None) -> None:
        self.vectors, self.most = vectors, most

    @cached_property
    def folded(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for i, word in enumerate(self.vectors.words):
            if self.most is not None and i >= self.most:
                break
            found.setdefault(word.lower(), i)
        return found

    def number(self, word: str) -> int:
        at = int(self.vectors.words.find([word])[0])
        if at >= 0 and (self.most is None or at < self.most):
            return at
        return self.folded.get(word.lower(), -1)


def holds_analogies(path: Path | str) -> bool:
    """Whether a file has analogies, by its first informative line: a heading, or four words."""
    with open_text(path) as lines:
        for _, line in lines:
            if line.strip() and not line.startswith("#"):
                fields = line.split()
                return line.startswith(":") or (len(fields) == 4 and _number(fields[2]) is None)
    return False


# --- analogies --------------------------------------------------------------------------------------------------------


def evaluate_analogies(
    vectors: VectorTable, path: Path | str, method: AnalogyMethod = "add", most: int | None = 300_000
) -> AnalogyScores:
    """Answer the analogies of a file.

    An answer is correct if it is the expected word, in any case. Mikolov et al. 2013, section 4.1.

    Args:
        vectors: the word vectors.
        path: the file of analogies.
        method: "add" (3CosAdd) or "multiply" (3CosMul).
        most: use only this many words, from the first.
    """
    sections = read_analogies(path)
    solved = iter(solve_analogies(vectors, [words for lines in sections.values() for words in lines], method, most))
    scores = []
    for name, lines in sections.items():
        answers = [answer for answer in (next(solved) for _ in lines) if answer is not None]
        n_correct = sum(expected.lower() == answer.lower() for expected, answer in answers)
        scores.append(SectionScore(name, n_correct, len(answers), len(lines) - len(answers)))
    return AnalogyScores(tuple(scores), method)


def solve_analogies(
    vectors: VectorTable,
    questions: Sequence[Sequence[str]],
    method: AnalogyMethod = "add",
    most: int | None = 300_000,
) -> list[tuple[str, str] | None]:
    """The expected word and the answer to each question, or None if one of its four words has no vector.

    Arguments as in :func:`evaluate_analogies`. An answer is empty if the vectors have only the three given words.
    """
    look = _AnyCase(vectors, most)
    ids = np.array([[look.number(word) for word in words] for words in questions], np.int64).reshape(-1, 4)
    known = (ids >= 0).all(1)
    solved: list[tuple[str, str] | None] = [None] * len(ids)
    if not known.any():
        return solved
    given = np.ascontiguousarray(ids[known, :3])
    _, best = best_analogies(vectors.matrix, vectors.norms, given, 1, method == "multiply", most)
    for i, answer in zip(np.flatnonzero(known).tolist(), best[:, 0].tolist(), strict=True):
        solved[i] = vectors.words[int(ids[i, 3])], vectors.words[answer] if answer >= 0 else ""
    return solved


def read_analogies(path: Path | str) -> dict[str, list[Sequence[str]]]:
    """The questions of a file, four words each, by section."""
    sections: dict[str, list[Sequence[str]]] = {}
    name = "questions"
    with open_text(path) as lines:
        for number, line in lines:
            words = line.split()
            if line.startswith(":"):
                name = line[1:].strip() or "questions"
            elif words:
                if len(words) != 4:
                    raise bad_line(
                        path,
                        number,
                        line,
                        f"must have four words, got {len(words)}",
                        "Begin a heading with a colon.",
                    )
                sections.setdefault(name, []).append(words)
    if not sections:
        raise FormatError(f"{path} has no questions. Write four words per line: a is to b as c is to d.")
    return sections


# --- similarities -----------------------------------------------------------------------------------------------------


def evaluate_similarities(vectors: VectorTable, path: Path | str) -> SimilarityScores:
    """Spearman's correlation of cosines with the ratings of a file.

    Args:
        vectors: the vectors.
        path: a file whose lines have two words and a rating.
    """
    pairs = read_similarities(path)
    cosines = pair_cosines(vectors, [(a, b) for a, b, _ in pairs])
    scored = [(cosine, rating) for cosine, (_, _, rating) in zip(cosines, pairs, strict=True) if cosine is not None]
    if len(scored) < 2:
        raise DataError(
            f"At least 2 pairs of {path} must have vectors for both words, got {len(scored)} of {len(pairs)}. Use "
            f"other vectors or pairs."
        )
    rho = spearman([cosine for cosine, _ in scored], [rating for _, rating in scored])
    return SimilarityScores(float(rho), len(scored), len(pairs) - len(scored))


def pair_cosines(vectors: VectorTable, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
    """The cosine of each pair of words, or None if one of them has no vector."""
    look = _AnyCase(vectors, None)
    ids = np.array([[look.number(a), look.number(b)] for a, b in pairs], np.int64).reshape(-1, 2)
    known = (ids >= 0).all(1)
    cosines: list[float | None] = [None] * len(ids)
    left, right = (_unit_rows(vectors.matrix[ids[known, side]]) for side in (0, 1))
    for i, cosine in zip(np.flatnonzero(known).tolist(), (left * right).sum(1).tolist(), strict=True):
        cosines[i] = cosine
    return cosines


def _unit_rows(rows: Float32[np.ndarray, "n d"]) -> Float64[np.ndarray, "n d"]:
    rows = np.asarray(rows, np.float64)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


def read_similarities(path: Path | str) -> list[tuple[str, str, float]]:
    """Two words and a number per line. A first line without a number is a header, and # begins a comment."""
    found = []
    with open_text(path) as lines:
        for number, line in lines:
            fields = [field.strip() for field in (line.split("\t") if "\t" in line else line.replace(",", " ").split())]
            if not line.strip() or line.startswith("#"):
                continue
            score = _number(fields[2]) if len(fields) > 2 else None
            if score is not None:
                found.append((fields[0], fields[1], score))
            elif number > 1:
                raise bad_line(path, number, line, "must have two words and a number", "Correct the line.")
    if not found:
        raise FormatError(f"{path} has no pairs. Write two words and a number per line.")
    return found


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None
