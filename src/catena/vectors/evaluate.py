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
from jaxtyping import Int

from catena.data.files import bad_line, open_text
from catena.errors import DataError, FormatError
from catena.metrics.correlation import spearman
from catena.vectors.neighbors import best_analogies
from catena.vectors.table import WordVectors

AnalogyMethod = Literal["add", "multiply"]


@dataclass(frozen=True)
class Section:
    """The questions of one heading and how many are correct. ``left_out`` have an unknown word."""

    name: str
    right: int
    asked: int
    left_out: int

    @property
    def accuracy(self) -> float:
        """The fraction of correct answers; nan if there are no questions."""
        return self.right / self.asked if self.asked else float("nan")


@dataclass(frozen=True)
class AnalogyScores:
    """Scores by section and in total."""

    sections: tuple[Section, ...]
    method: AnalogyMethod

    @property
    def total(self) -> Section:
        parts = self.sections
        return Section(
            "total", sum(s.right for s in parts), sum(s.asked for s in parts), sum(s.left_out for s in parts)
        )


@dataclass(frozen=True)
class SimilarityScores:
    """Spearman's correlation of cosines with human ratings, and the numbers of pairs used and skipped."""

    spearman: float
    asked: int
    left_out: int


class _AnyCase:
    """Case-insensitive lookup of words."""

    def __init__(self, vectors: WordVectors, most: int | None) -> None:
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
    vectors: WordVectors, path: Path | str, method: AnalogyMethod = "add", most: int | None = 300_000
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
    look = _AnyCase(vectors, most)
    known = {name: [q for q in ([look.number(w) for w in words] for words in lines) if min(q) >= 0]
             for name, lines in sections.items()}  # fmt: skip
    rows = np.array([q for questions in known.values() for q in questions], np.int64).reshape(-1, 4)
    right = _answered(vectors, rows, method, most)
    scores, at = [], 0
    for name, questions in known.items():
        n = len(questions)
        scores.append(Section(name, int(right[at : at + n].sum()), n, len(sections[name]) - n))
        at += n
    return AnalogyScores(tuple(scores), method)


def _answered(
    vectors: WordVectors, rows: Int[np.ndarray, "n 4"], method: AnalogyMethod, most: int | None
) -> np.ndarray:
    if not len(rows):
        return np.zeros(0, bool)
    _, places = best_analogies(
        vectors.matrix, vectors.norms, np.ascontiguousarray(rows[:, :3]), 1, method == "multiply", most
    )
    answers = places[:, 0]
    same = [
        a == b or (a >= 0 and vectors.words[a].lower() == vectors.words[b].lower())
        for a, b in zip(answers.tolist(), rows[:, 3].tolist(), strict=True)
    ]
    return np.array(same)


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


def evaluate_similarities(vectors: WordVectors, path: Path | str) -> SimilarityScores:
    """Spearman's correlation of cosines with the ratings of a file."""
    look = _AnyCase(vectors, None)
    pairs = read_similarities(path)
    known = [(look.number(a), look.number(b), score) for a, b, score in pairs]
    asked = [entry for entry in known if min(entry[:2]) >= 0]
    if len(asked) < 2:
        raise DataError(
            f"At least 2 pairs of {path} must have vectors for both words, got {len(asked)} of {len(pairs)}. Use other "
            f"vectors or pairs."
        )
    rows = [(vectors.matrix[[i for i, _, _ in asked]]), (vectors.matrix[[j for _, j, _ in asked]])]
    units = [
        np.asarray(row, np.float64) / np.maximum(np.linalg.norm(row, axis=1, keepdims=True), 1e-30) for row in rows
    ]
    cosines = (units[0] * units[1]).sum(1)
    rho = spearman(cosines, [score for _, _, score in asked])
    return SimilarityScores(float(rho), len(asked), len(pairs) - len(asked))


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
