"""Sparse rows against dense arrays, TF-IDF and the Gaussian kernel against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics.pairwise import rbf_kernel

from catena.data.features import Features
from catena.tasks.regress import features
from catena.tasks.regress.features import SparseRows, gaussian_kernel, inverse_document_frequency, weigh


def make_bags(n: int, d: int, seed: int = 0) -> tuple[Features, np.ndarray]:
    table = np.random.default_rng(seed).poisson(0.6, (n, d)).astype(np.float64)
    rows, ids = np.nonzero(table)
    offsets = np.searchsorted(rows, np.arange(n + 1)).astype(np.int64)
    return Features(ids.astype(np.int64), table[rows, ids].astype(np.float32), offsets), table


def make_rows(n: int, d: int, m: int, seed: int = 0) -> tuple[SparseRows, np.ndarray]:
    bags, table = make_bags(n, d, seed)
    numbers = np.random.default_rng(seed + 1).normal(size=(n, m))
    return SparseRows.of(bags, d, numbers), np.concatenate((table, numbers), axis=1)


def test_sparse_products_equal_dense_ones() -> None:
    rows, table = make_rows(7, 5, 2)
    u, v = np.random.default_rng(3).normal(size=7), np.random.default_rng(4).normal(size=7)
    assert np.array_equal(rows.dense(), table)
    assert np.allclose(rows.times(u), table @ u)
    assert np.allclose(rows.transposed_times(v), table.T @ v)
    assert np.allclose(rows.squares, (table**2).sum(1))
    assert np.allclose(rows.means(np.ones(7)), table.mean(0))


def test_weighted_means_equal_those_of_numpy() -> None:
    rows, table = make_rows(7, 5, 2)
    weights = np.random.default_rng(5).uniform(size=7)
    assert np.allclose(rows.means(weights), np.average(table, axis=0, weights=weights))


def test_rows_are_taken_in_the_given_order() -> None:
    rows, table = make_rows(6, 4, 1)
    assert np.array_equal(rows.take([4, 0, 4]).dense(), table[[4, 0, 4]])


@pytest.mark.parametrize("at_once", [1, 13, 10**6])
def test_dot_products_do_not_depend_on_blocks(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_AT_ONCE", at_once)
    (a, x), (b, y) = make_rows(7, 5, 2), make_rows(4, 5, 2, seed=9)
    assert np.allclose(a.dots(b), x @ y.T)


def test_gaussian_kernel_equals_scikit_learn() -> None:
    (a, x), (b, y) = make_rows(7, 5, 2), make_rows(4, 5, 2, seed=9)
    assert np.allclose(gaussian_kernel(a, b, 0.3), rbf_kernel(x, y, gamma=0.3))


def test_numbers_without_texts_are_rows() -> None:
    numbers = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(SparseRows.of(None, 0, numbers).dense(), numbers)


def test_weights_equal_scikit_learn() -> None:
    bags, table = make_bags(9, 6)
    weighed = weigh(bags, inverse_document_frequency(bags, 6, np.ones(9)))
    expected = TfidfTransformer().fit_transform(table).toarray()
    assert np.allclose(SparseRows.of(weighed, 6, np.zeros((9, 0))).dense(), expected, atol=1e-6)


def test_weights_of_texts_count_as_repeated_texts() -> None:
    bags, table = make_bags(9, 6)
    times = np.arange(9) % 3
    expected = TfidfTransformer().fit(np.repeat(table, times, axis=0)).idf_
    assert np.allclose(inverse_document_frequency(bags, 6, times.astype(float)), expected)


def test_text_without_features_stays_zero() -> None:
    empty = Features(np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(3, np.int64))
    assert not SparseRows.of(weigh(empty, np.ones(2)), 2, np.zeros((2, 0))).dense().any()
