r"""Whether a text answers a question, from their words.

A question without an answer more often has words that are not in the text, or not in one sentence of it. A word counts
by its rareness, :math:`-\log` of its relative frequency in the training texts, so that there is no list of words of
a language. Words are compared by their first letters, as a stem. Tested in
tests/tasks/read/test_evidence.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from catena.data.readers.questions import QuestionExample
from catena.tasks.read.answers import split_sentences
from catena.tasks.read.encoding import ReadingEncoding

N_WORD_FEATURES = 17
"""Number of features of a question that count words."""
N_COMMON = 100
"""Number of frequent words; whether a question has each one separates negations and kinds of questions."""
N_ANSWER_FEATURES = 4
"""Number of values of :meth:`WordEvidence.answer`."""
_KEPT_TEXTS = 512
"""Number of texts whose words are remembered; the questions about a text follow each other."""


class _Text(NamedTuple):
    """The words of a text."""

    words: frozenset[str]
    stems: frozenset[str]
    sentences: list[tuple[int, int]]
    sentence_words: list[frozenset[str]]
    sentence_stems: list[frozenset[str]]
    pairs: frozenset[tuple[str, str]]


class WordEvidence:
    """Features of questions and texts: which words of the question are where in the text.

    Args:
        encoding: its tokenizer splits texts into words, and its vocabulary has their frequencies.
    """

    def __init__(self, encoding: ReadingEncoding) -> None:
        words = encoding.words
        self._encoding, self._counts = encoding, dict(zip(words.symbols, words.counts, strict=True))
        self._log_total = math.log(sum(words.counts) + len(words))
        n = len(words.specials)
        ranked = sorted(zip(words.symbols[n:], words.counts[n:], strict=True), key=lambda pair: (-pair[1], pair[0]))
        self._common = [word for word, _ in ranked[:N_COMMON]]
        self._read = lru_cache(_KEPT_TEXTS)(self._read_text)

    def question(self, question: str, text: str) -> Float[np.ndarray, " n"]:
        """How many words of a question are missing in a text and in its best sentence, and its common words."""
        present = {token.lower() for token in self._encoding.tokenizer.tokens(question)}
        common = [float(word in present) for word in self._common] + [0.0] * (N_COMMON - len(self._common))
        return np.concatenate((self._count_missing(question, text), common))

    def _count_missing(self, question: str, text: str) -> Float[np.ndarray, " n"]:
        tokens = self._tokens(question)
        content, own = [token.lower() for token in tokens], self._read(text)
        weights = [self._rareness(word) for word in content]
        total = sum(weights) + 1e-9
        missing = self._missing(content, weights, own.stems)
        left = [self._missing(content, weights, stems) for stems in own.sentence_stems] or [weights]
        best = min(range(len(left)), key=lambda i: sum(left[i]))
        second = sorted(map(sum, left))[min(1, len(left) - 1)]
        sentence = own.sentence_words[best] if own.sentence_words else frozenset()
        named = [word.lower() for word in tokens[1:] if word[:1].isupper() or any(map(str.isdigit, word))]
        pairs = [pair in own.pairs for pair in pairwise(content)]
        unlike = sum(weight for word, weight in zip(content, weights, strict=True) if word not in own.words)
        return np.array(
            [
                len(content),
                total,
                math.log1p(len(own.words)),
                len(own.sentences),
                sum(missing),
                sum(missing) / total,
                max(missing, default=0.0),
                sum(left[best]),
                sum(left[best]) / total,
                max(left[best], default=0.0),
                second / total,
                unlike / total,
                len(named),
                sum(word not in own.words for word in named),
                sum(word not in sentence for word in named),
                sum(pairs) / max(len(pairs), 1),
                len(missing),
            ],
            np.float64,
        )

    def answer(self, question: str, text: str, start: int, end: int) -> Float[np.ndarray, " n"]:
        """How many words of a question are missing in and around the sentence of an answer, ``text[start:end]``."""
        content, own = [token.lower() for token in self._tokens(question)], self._read(text)
        weights = [self._rareness(word) for word in content]
        total = sum(weights) + 1e-9
        at = next((i for i, (_, last) in enumerate(own.sentences) if start < last), len(own.sentences) - 1)
        near = frozenset().union(*own.sentence_stems[max(0, at - 1) : at + 2])
        here = own.sentence_stems[at] if own.sentence_stems else frozenset()
        left = sum(self._missing(content, weights, here)) / total
        best = min((sum(self._missing(content, weights, s)) / total for s in own.sentence_stems), default=1.0)
        around = sum(self._missing(content, weights, near)) / total
        return np.array([left, around, left - best, len(self._tokens(text[start:end]))], np.float64)

    def _tokens(self, text: str) -> list[str]:
        return [token for token in self._encoding.tokenizer.tokens(text) if any(map(str.isalnum, token))]

    def _rareness(self, word: str) -> float:
        return self._log_total - math.log(self._counts.get(word, 0) + 1)

    def _missing(self, words: Sequence[str], weights: Sequence[float], stems: frozenset[str]) -> list[float]:
        """The rareness of the words without a stem in a text."""
        return [weight for word, weight in zip(words, weights, strict=True) if _stem(word) not in stems]

    def _read_text(self, text: str) -> _Text:
        spans = split_sentences(text)
        parts = [[token.lower() for token in self._tokens(text[first:last])] for first, last in spans]
        words = [word for part in parts for word in part]
        return _Text(
            frozenset(words),
            frozenset(map(_stem, words)),
            spans,
            [frozenset(part) for part in parts],
            [frozenset(map(_stem, part)) for part in parts],
            frozenset(pairwise(words)),
        )


def _stem(word: str) -> str:
    return word[:5] if len(word) > 6 else word[:4]


# --- the decision -----------------------------------------------------------------------------------------------------


class NoAnswerRegression(nn.Module):
    """The log-odds of no answer by words and by the scores of a reader.

    A first regression reads the words only. It is fitted on the questions of training. The second one reads the result,
    the margin of the reader and the sentence of its answer. It is fitted on dev, because the reader knows the questions
    of training. Both are buffers.
    """

    of_words: Tensor
    weights: Tensor
    fitted: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("of_words", torch.zeros(N_WORD_FEATURES + N_COMMON + 1, dtype=torch.float64))
        self.register_buffer("weights", torch.zeros(N_ANSWER_FEATURES + 3, dtype=torch.float64))
        self.register_buffer("fitted", torch.zeros(()))

    def fit_words(self, evidence: WordEvidence, examples: Sequence[QuestionExample]) -> None:
        """Fit the first regression to questions about texts that have questions without an answer."""
        texts = {example.context for example in examples if not example.answers}
        used = [example for example in examples if example.context in texts]
        none = np.array([not example.answers for example in used], bool)
        if none.any() and not none.all():
            rows = np.stack([evidence.question(example.question, example.context) for example in used])
            self.of_words.copy_(torch.from_numpy(fit_logistic(rows, none)))

    def fit(self, rows: Float[np.ndarray, "n k"], none: Bool[np.ndarray, " n"]) -> None:
        """Fit the second regression to rows of :meth:`features`; without both kinds of questions, it is not used."""
        self.fitted.fill_(float(none.any() and not none.all()))
        if self.fitted:
            self.weights.copy_(torch.from_numpy(fit_logistic(rows, none)))

    def features(
        self, evidence: WordEvidence, question: str, text: str, start: int, end: int, margin: float
    ) -> Float[np.ndarray, " k"]:
        """The inputs of the second regression; the best span is ``text[start:end]``."""
        words = _apply(self.of_words, evidence.question(question, text))
        return np.concatenate(([margin, words], evidence.answer(question, text, start, end)))

    def log_odds(self, evidence: WordEvidence, question: str, text: str, start: int, end: int, margin: float) -> float:
        """The log-odds of no answer."""
        return _apply(self.weights, self.features(evidence, question, text, start, end, margin))


def _apply(weights: Tensor, row: Float[np.ndarray, " k"]) -> float:
    """A linear function whose last weight is the bias."""
    values = weights.cpu().numpy()
    return float(values[:-1] @ row + values[-1])


def fit_logistic(
    rows: Float[np.ndarray, "n k"], labels: Bool[np.ndarray, " n"], penalty: float = 10.0, n_steps: int = 30
) -> Float[np.ndarray, " k1"]:
    """Weights and bias of a logistic regression, by Newton's method.

    The squared weights of the features with deviation 1 are penalized, the bias is not. Time O(n k² + k³) for a step.

    Args:
        rows: the features; constant ones get the weight 0.
        labels: True for the class whose log-odds are modeled; both classes must occur.
        penalty: half of it is the factor of the squared weights.
        n_steps: the largest number of steps.
    """
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    used = deviation > 1e-9
    scale = np.where(used, deviation, 1.0)
    x = np.hstack(((rows - mean) / scale * used, np.ones((len(rows), 1))))
    ridge = penalty * np.append(np.ones(rows.shape[1]), 0.0)
    weights = np.append(np.zeros(rows.shape[1]), np.log(labels.mean() / (1 - labels.mean())))
    for _ in range(n_steps):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (p - labels) + ridge * weights
        hessian = (x.T * (p * (1 - p))) @ x + np.diag(ridge)
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        weights = weights - step
        if np.abs(step).max() < 1e-8:
            break
    slopes = weights[:-1] / scale * used
    return np.append(slopes, weights[-1] - slopes @ mean)
