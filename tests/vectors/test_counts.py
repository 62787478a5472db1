"""Counts of words near words and in lines, and their weights, against loops and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfTransformer

from catena.kernels.word2vec.cpu_sampling import LINE_END
from catena.vectors import counts
from catena.vectors.config import LSAConfig
from catena.vectors.counts import column_weights, count_contexts, count_documents, weigh_rows

RNG = np.random.default_rng(0)
LINES = [RNG.integers(0, 6, n).tolist() for n in (5, 1, 0, 9, 2, 7)]
IDS = np.array([i for line in LINES for i in (*line, LINE_END)], np.int32)
AT_ONCE = pytest.mark.parametrize("at_once", [1, 4, 7, 1000])


@AT_ONCE
@pytest.mark.parametrize(("window", "n_contexts"), [(1, 6), (3, 6), (20, 4)])
def test_contexts_equal_a_loop(at_once: int, window: int, n_contexts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_AT_ONCE", at_once)
    expected = np.zeros((6, 6))
    for line in LINES:
        for i, word in enumerate(line):
            for j, other in enumerate(line):
                expected[word, other] += i != j and abs(i - j) <= window
    assert np.array_equal(count_contexts(IDS, 6, n_contexts, window).toarray(), expected[:, :n_contexts])


@AT_ONCE
def test_documents_equal_a_loop(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_AT_ONCE", at_once)
    found = count_documents(IDS, 6)
    assert found.toarray().tolist() == [[line.count(word) for word in range(6)] for line in LINES]
    assert found.nnz == sum(len(set(line)) for line in LINES)


@pytest.mark.parametrize(("shift", "smoothing"), [(1.0, 1.0), (2.0, 0.75)])
def test_ppmi_equals_its_formula(shift: float, smoothing: float) -> None:
    config = LSAConfig(shift=shift, smoothing=smoothing)
    matrix = count_contexts(IDS, 6, 5, 2)
    found = weigh_rows(matrix, column_weights(matrix, config), config).toarray()
    table = matrix.toarray()
    powers = [table[:, c].sum() ** smoothing for c in range(5)]
    for word in range(6):
        for context in range(5):
            n = table[word, context]
            q = powers[context] / sum(powers)
            expected = max(0.0, math.log(n / table[word].sum() / q / shift)) if n else 0.0
            assert found[word, context] == pytest.approx(expected, abs=1e-12)


def test_tfidf_equals_scikit_learn() -> None:
    config = LSAConfig(counts="documents")
    matrix = count_documents(IDS, 6)
    found = weigh_rows(matrix, column_weights(matrix, config), config)
    assert np.allclose(found.toarray(), TfidfTransformer().fit_transform(matrix).toarray())


def test_other_weights() -> None:
    matrix = count_documents(IDS, 6)
    for weighting, expected in (("none", matrix.toarray()), ("log", np.log1p(matrix.toarray()))):
        config = LSAConfig(weighting=weighting)  # type: ignore[arg-type]
        assert np.allclose(weigh_rows(matrix, column_weights(matrix, config), config).toarray(), expected)


def test_new_rows_have_the_weights_that_they_had_in_training() -> None:
    matrix = count_documents(IDS, 6)
    for weighting in ("ppmi", "tfidf"):
        config = LSAConfig(counts="documents", weighting=weighting)  # type: ignore[arg-type]
        columns = column_weights(matrix, config)
        whole = weigh_rows(matrix, columns, config).toarray()
        assert np.allclose(weigh_rows(matrix[3:4], columns, config).toarray(), whole[3:4])
