"""Factor models equal scikit-learn called directly on counts made by loops."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.decomposition import NMF, PCA, FactorAnalysis, FastICA, MiniBatchDictionaryLearning, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from catena import WordVectors
from catena.errors import CheckpointError, DataError
from catena.vectors import factors
from catena.vectors.config import FACTOR_KINDS, VectorConfig
from catena.vectors.table import VectorTable
from catena.vectors.train import infer_documents, train_vectors

RNG = np.random.default_rng(0)
NAMES = [f"w{i}" for i in range(12)]
TOPICS = RNG.dirichlet([0.3] * 12, 3)
SENTENCES = [RNG.choice(NAMES, 9, p=TOPICS[i % 3]).tolist() for i in range(80)]
DIRECT: dict[str, Any] = {
    "lsa": lambda: TruncatedSVD(3, random_state=0),
    "pca": lambda: PCA(3, svd_solver="arpack", random_state=0),
    "factor": lambda: FactorAnalysis(3, max_iter=200, random_state=0),
    "ica": lambda: FastICA(3, whiten="unit-variance", random_state=0),
    "sparse": lambda: MiniBatchDictionaryLearning(
        3, alpha=0.1, max_iter=200, batch_size=256, fit_algorithm="cd", transform_algorithm="lasso_cd",
        transform_alpha=0.1, random_state=0,
    ),
    "nmf": lambda: NMF(3, init="nndsvda", max_iter=200, random_state=0),
}  # fmt: skip


def make_config(kind: str, **model: object) -> VectorConfig:
    options = {"kind": kind, "d": 3, **({"power": 1.0} if kind == "lsa" else {}), **model}
    return VectorConfig.model_validate({"words": {"min_count": 1}, "model": options})


def make_ppmi(words: list[str], window: int) -> np.ndarray:
    pairs: Counter[tuple[str, str]] = Counter()
    for line in SENTENCES:
        for i, j in itertools.permutations(range(len(line)), 2):
            pairs[line[i], line[j]] += abs(i - j) <= window
    table = np.array([[pairs[a, b] for b in words] for a in words], np.float64)
    smooth = table.sum(0) ** 0.75
    with np.errstate(divide="ignore"):
        found = np.log(table / table.sum(1, keepdims=True) / (smooth / smooth.sum()))
    return np.maximum(found, 0)


def is_close(found: np.ndarray, expected: np.ndarray) -> bool:
    return np.allclose(found, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("kind", FACTOR_KINDS)
def test_word_vectors_of_contexts_equal_scikit_learn(kind: str) -> None:
    model = train_vectors(SENTENCES, make_config(kind, window=2)).model
    peer = DIRECT[kind]()
    expected = peer.fit_transform(make_ppmi(list(model.words), 2))
    assert is_close(model.word_vectors(), expected)
    assert is_close(model.context_vectors(), peer.mixing_ if kind == "ica" else peer.components_.T)


@pytest.mark.parametrize("kind", FACTOR_KINDS)
def test_vectors_of_documents_equal_scikit_learn(kind: str) -> None:
    model = train_vectors(SENTENCES, make_config(kind, counts="documents")).model
    vectorizer = TfidfVectorizer(analyzer=lambda line: line, vocabulary={w: i for i, w in enumerate(model.words)})
    matrix = vectorizer.fit_transform(SENTENCES)
    peer = DIRECT[kind]()
    rows = peer.fit_transform(matrix.toarray())
    words = peer.mixing_ if kind == "ica" else peer.components_.T
    words = words * peer.singular_values_ if kind == "lsa" else words
    assert is_close(model.document_vectors(), rows)
    assert is_close(model.word_vectors(), words)
    new = [["w1", "w1", "w5"], ["w0", "unseen"], []]
    assert is_close(infer_documents(model, new), peer.transform(vectorizer.transform(new).toarray()))


def test_power_scales_the_singular_vectors() -> None:
    models = [train_vectors(SENTENCES, make_config("lsa", power=power)).model for power in (0.5, 1, 0)]
    half, whole, none = (model.word_vectors() for model in models)
    sizes = np.linalg.norm(whole, axis=0)
    assert np.allclose(np.linalg.norm(none, axis=0), 1, atol=1e-5)
    assert np.allclose(half, whole / np.sqrt(sizes), atol=1e-4)


@pytest.mark.parametrize("kind", FACTOR_KINDS)
def test_same_seed_gives_the_same_vectors(kind: str) -> None:
    first, second = (train_vectors(SENTENCES, make_config(kind)).model for _ in range(2))
    assert np.array_equal(first.word_vectors(), second.word_vectors())


def test_nmf_is_not_negative_and_follows_topics() -> None:
    model = train_vectors(SENTENCES, make_config("nmf", counts="documents", weighting="none")).model
    rows = model.document_vectors()
    assert (rows >= 0).all()
    assert (model.word_vectors() >= 0).all()
    dominant = rows.argmax(1)
    agree = [np.bincount(dominant[i::3], minlength=3).max() / len(dominant[i::3]) for i in range(3)]
    assert min(agree) > 0.7


def test_number_of_contexts_limits_the_columns() -> None:
    model = train_vectors(SENTENCES, make_config("lsa", n_contexts=5)).model
    contexts = model.context_vectors()
    assert contexts[:5].any(axis=1).all()
    assert not contexts[5:].any()


@pytest.mark.parametrize("kind", FACTOR_KINDS)
@pytest.mark.parametrize("counts", ["contexts", "documents"])
def test_saved_models_are_the_same(kind: str, counts: str, tmp_path: Path) -> None:
    model = WordVectors(kind, d=3, words_min_count=1, counts=counts).fit(SENTENCES)
    model.save(tmp_path / "model")
    loaded = WordVectors.load(tmp_path / "model")
    assert np.array_equal(loaded.vectors_.matrix, model.vectors_.matrix)
    assert loaded.most_similar("w3", 3) == model.most_similar("w3", 3)
    if counts == "documents":
        text = tmp_path / "new.txt"
        text.write_text("w1 w2\nw5\n")
        both = [one.task_.document_vectors(text).matrix for one in (model, loaded)]  # type: ignore[attr-defined]
        assert np.array_equal(*both)


def test_context_vectors_need_counts_of_contexts() -> None:
    model = train_vectors(SENTENCES, make_config("lsa", counts="documents")).model
    with pytest.raises(CheckpointError, match="no context vectors with model = 'lsa' of counts in documents"):
        VectorTable.of_model(model, "context")
    with pytest.raises(DataError, match=r"Documents have no vectors .* --counts documents"):
        infer_documents(train_vectors(SENTENCES, make_config("lsa")).model, [["w1"]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "lsa", "d": 13}, "d must be at most 12 for a matrix of 12 x 12 counts"),
        ({"kind": "pca", "d": 12}, "d must be at most 11"),
    ],
)
def test_too_many_dimensions_are_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        train_vectors(SENTENCES, VectorConfig.model_validate({"words": {"min_count": 1}, "model": options}))


def test_large_dense_matrices_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "MAX_DENSE", 100)
    with pytest.raises(DataError, match="must have at most 100 values, got 12 x 12"):
        train_vectors(SENTENCES, make_config("ica"))
    train_vectors(SENTENCES, make_config("nmf"))


@pytest.mark.parametrize(
    "section", [{"loss": {"kind": "nce"}}, {"training": {"epochs": 9}}, {"subwords": {"longest": 5}}]
)
def test_options_of_training_steps_are_an_error(section: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="for model = 'lsa'"):
        VectorConfig.model_validate({"model": {"kind": "lsa"}, **section})
