r"""Word and document vectors by linear factor models of counts, through scikit-learn.

All models approximate a weighted matrix of counts by a product, :math:`X \approx H W + \mu`: H has a row for each row
of X, a word or a document, and W a column for each column of X. They differ in what H and W may be: orthogonal (LSA,
PCA), Gaussian with noise (factor analysis), independent (ICA), sparse, or non-negative. Goodfellow et al. (2016),
chapter 13.

With counts of contexts the rows are words. With counts of documents the rows are documents, and the vector of a word is
its column of W. Tested in tests/vectors/test_factors.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from catena.errors import DataError
from catena.extras import require
from catena.vectors.config import FactorConfig, LSAConfig, NMFConfig, SparseCodingConfig, VectorConfig
from catena.vectors.corpus import VectorCorpus, ids_of_sentences
from catena.vectors.counts import column_weights, count_contexts, count_documents, weigh_rows
from catena.vectors.model import VectorNetwork, aligned_zeros

MAX_DENSE = 100_000_000
"""Maximum number of values of a dense matrix."""
_DENSE = ("factor", "ica", "sparse")
"""Models that need a dense matrix."""
_DENSE_CONTEXTS = 1000
_WHAT = "--model lsa"


def fit_factors(settings: VectorConfig, corpus: VectorCorpus) -> tuple[VectorNetwork, list[str]]:
    """The vectors of the words, and of the lines if they are counted, and lines about the model.

    Args:
        settings: the config, whose model is a factor model.
        corpus: the text.
    """
    config = settings.model
    assert isinstance(config, FactorConfig)
    counts = _count(config, corpus)
    columns = column_weights(counts, config)
    matrix = weigh_rows(counts, columns, config)
    _check_sizes(config, matrix)
    model = build_factors(config, settings.seed)
    rows, notes = _fit(model, matrix.toarray() if config.kind in _DENSE else matrix)
    size = f"{matrix.shape[0]:,} x {matrix.shape[1]:,} counts, {matrix.nnz:,} not zero"
    notes = [f"{size}, weighted by {config.weights}", *_describe(model), *notes]
    projection = {"columns": columns, **_projection(config, model)}
    loadings = model.mixing_ if config.kind == "ica" else model.components_.T
    if config.counts == "documents":
        words = loadings * (model.singular_values_**config.power if isinstance(config, LSAConfig) else 1.0)
        return _network(settings, corpus, np.concatenate((words, rows)), np.zeros((0, config.d)), projection), notes
    words = rows * (model.singular_values_ ** (config.power - 1) if isinstance(config, LSAConfig) else 1.0)
    return _network(settings, corpus, words, loadings, projection), notes


def build_factors(config: FactorConfig, seed: int) -> Any:
    """The model of scikit-learn. Options whose defaults change between versions are set."""
    decomposition = require("sklearn.decomposition", "sklearn", _WHAT)
    if config.kind == "lsa":
        return decomposition.TruncatedSVD(config.d, algorithm="randomized", n_iter=5, random_state=seed)
    if config.kind == "pca":
        return decomposition.PCA(config.d, svd_solver="arpack", tol=0.0, random_state=seed)
    if config.kind == "factor":
        return decomposition.FactorAnalysis(
            config.d, tol=0.01, max_iter=config.max_iter, svd_method="randomized", iterated_power=3, random_state=seed
        )
    if config.kind == "ica":
        return decomposition.FastICA(
            config.d, algorithm="parallel", whiten="unit-variance", fun="logcosh", max_iter=config.max_iter, tol=1e-4,
            random_state=seed,
        )  # fmt: skip
    if isinstance(config, SparseCodingConfig):
        return decomposition.MiniBatchDictionaryLearning(
            config.d, alpha=config.alpha, max_iter=config.max_iter, batch_size=256, fit_algorithm="cd",
            transform_algorithm="lasso_cd", transform_alpha=config.alpha, random_state=seed,
        )  # fmt: skip
    assert isinstance(config, NMFConfig)
    solver = "cd" if config.divergence == "frobenius" else "mu"
    return decomposition.NMF(
        config.d, init="nndsvda", solver=solver, beta_loss=config.divergence, tol=1e-4, max_iter=config.max_iter,
        random_state=seed,
    )  # fmt: skip


def project_documents(model: VectorNetwork, documents: Iterable[Sequence[str]]) -> Float32[np.ndarray, "n d"]:
    """The vectors of new documents, given as lists of words: the rows that the trained model has for their counts."""
    config, held = model.settings.model, model.projection
    assert isinstance(config, FactorConfig)
    ids, _ = ids_of_sentences(documents, model.words)
    if not len(ids):
        return np.zeros((0, config.d), np.float32)
    matrix = weigh_rows(count_documents(ids, len(model.words)), held["columns"], config)
    if "map" in held:
        return np.asarray(matrix @ held["map"] - held["offset"], np.float32)
    decomposition = require("sklearn.decomposition", "sklearn", _WHAT)
    if isinstance(config, SparseCodingConfig):
        coder = decomposition.SparseCoder(
            held["components"], transform_algorithm="lasso_cd", transform_alpha=config.alpha
        )
        return np.asarray(coder.transform(matrix.toarray()), np.float32)
    assert isinstance(config, NMFConfig)
    found, *_ = decomposition.non_negative_factorization(
        matrix, H=held["components"], n_components=config.d, init=None, update_H=False,
        solver="cd" if config.divergence == "frobenius" else "mu", beta_loss=config.divergence, tol=1e-4,
        max_iter=config.max_iter, random_state=model.settings.seed,
    )  # fmt: skip
    return np.asarray(found, np.float32)


# --- parts ------------------------------------------------------------------------------------------------------------


def _count(config: FactorConfig, corpus: VectorCorpus) -> Any:
    v = len(corpus.words)
    if config.counts == "documents":
        return count_documents(corpus.ids, v)
    limit = config.n_contexts or (_DENSE_CONTEXTS if config.kind in _DENSE else v)
    return count_contexts(corpus.ids, v, min(v, limit), config.window)


def _check_sizes(config: FactorConfig, matrix: Any) -> None:
    """Raise DataError if there are fewer rows or columns than dimensions, or if a dense matrix is too large."""
    n, c = matrix.shape
    most = min(n, c) - (1 if config.kind == "pca" else 0)
    if config.d > most or not matrix.nnz:
        raise DataError(
            f"d must be at most {most} for a matrix of {n:,} x {c:,} counts with {matrix.nnz:,} that are not zero, got "
            f"{config.d}. Lower --d, or add text."
        )
    if config.kind in _DENSE and n * c > MAX_DENSE:
        raise DataError(
            f"The matrix of model = {config.kind!r}, which is dense, must have at most {MAX_DENSE:,} values, got "
            f"{n:,} x {c:,}. Lower --max-size or --n-contexts, or use --model lsa, pca or nmf."
        )


def _fit(model: Any, matrix: Any) -> tuple[Float[np.ndarray, "n d"], list[str]]:
    """The rows of the fitted model, and a note if it did not converge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = model.fit_transform(matrix)
    early = any(warning.category.__name__ == "ConvergenceWarning" for warning in caught)
    return rows, ["it did not converge; raise --max-iter"] if early else []


def _describe(model: Any) -> list[str]:
    """A line about how well the model fits."""
    if hasattr(model, "explained_variance_ratio_"):
        return [f"explained variance: {100 * float(model.explained_variance_ratio_.sum()):.1f} %"]
    if hasattr(model, "loglike_"):
        return [f"log-likelihood: {model.loglike_[-1]:.1f}"]
    if hasattr(model, "reconstruction_err_"):
        return [f"error of the reconstruction: {model.reconstruction_err_:.4g}"]
    return []


def _projection(config: FactorConfig, model: Any) -> dict[str, np.ndarray]:
    """The arrays that map a weighted row x to its vector: x map - offset, or a search given the components."""
    if config.counts != "documents":
        return {}
    if config.kind in ("sparse", "nmf"):
        return {"components": model.components_}
    table = model.components_.T
    if config.kind == "factor":  # the mean of the factors given a row (Bishop 2006, equation 12.66)
        precise = model.components_ / model.noise_variance_
        table = precise.T @ np.linalg.inv(np.eye(config.d) + precise @ model.components_.T)
    mean = getattr(model, "mean_", None)
    return {"map": table, "offset": np.zeros(config.d) if mean is None else mean @ table}


def _network(
    settings: VectorConfig,
    corpus: VectorCorpus,
    inputs: Float[np.ndarray, "n d"],
    outputs: Float[np.ndarray, "c d"],
    projection: dict[str, np.ndarray],
) -> VectorNetwork:
    """The vectors as a model; words that are not a context get a context vector of zeros."""
    v, d = len(corpus.words), inputs.shape[1]
    rows, contexts = aligned_zeros(len(inputs), d), aligned_zeros(v if len(outputs) else 0, d)
    rows[:, :d] = inputs
    contexts[: len(outputs), :d] = outputs
    return VectorNetwork(settings, corpus.words, rows, contexts, np.zeros(0, np.float32), len(inputs) - v, projection)
