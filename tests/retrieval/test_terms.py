"""BM25 compared with its formula, TF-IDF with scikit-learn, and both in an index."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from catena.errors import CheckpointError, DataError
from catena.retrieval.config import BM25Config, TfidfConfig
from catena.retrieval.index import TermPart, search
from catena.retrieval.terms import learn_terms, load_terms, product
from tests.oracle.retrieval import bm25

CORPUS = [text.split() for text in ("a b c", "a a d e", "b d d f g", "a", "h h h i", "ß 你好 a")]
TEXTS = [text.split() for text in ("a d d", "b b x", "x y", "", "你好 ß ß", "a b c d e f g h i")]


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.0, 0.5), (2.0, 0.0), (0.9, 1.0)])
def test_bm25_equals_its_formula(k1: float, b: float) -> None:
    matcher = learn_terms(BM25Config(k1=k1, b=b), CORPUS)
    for query in TEXTS:
        for document in [*CORPUS, *TEXTS]:
            expected = bm25(query, document, CORPUS, k1, b)
            assert matcher.score(query, document) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("sublinear", [False, True])
def test_tfidf_equals_scikit_learn(sublinear: bool) -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    theirs = text.TfidfVectorizer(analyzer=str.split, sublinear_tf=sublinear)
    known = [*CORPUS, *TEXTS]  # scikit-learn drops unknown words
    rows = theirs.fit_transform([" ".join(one) for one in known]).toarray()
    matcher = learn_terms(TfidfConfig(sublinear=sublinear), known)
    for i, query in enumerate(known):
        for j, document in enumerate(known):
            assert matcher.score(query, document) == pytest.approx(float(rows[i] @ rows[j]), abs=1e-12)


def test_unknown_word_counts_as_rarest() -> None:
    matcher = learn_terms(TfidfConfig(), CORPUS)
    assert matcher.score(["new"], ["new"]) == pytest.approx(1.0)
    weights = matcher.query(["new", "i"])
    assert weights["new"] / weights["i"] == pytest.approx((1 + math.log(7)) / (1 + math.log(7 / 2)))


@pytest.mark.parametrize("settings", [TfidfConfig(), BM25Config()])
def test_saved_matcher_scores_same(settings: TfidfConfig | BM25Config, tmp_path: Path) -> None:
    matcher = learn_terms(settings, CORPUS)
    matcher.save(tmp_path)
    again = load_terms(settings, tmp_path)
    assert [again.score(q, d) for q in TEXTS for d in CORPUS] == [matcher.score(q, d) for q in TEXTS for d in CORPUS]
    (tmp_path / "terms.json").write_text('{"format": 2, "n": 1, "mean_length": 1, "frequency": {}}')
    with pytest.raises(CheckpointError, match="must be 1, got 2"):
        load_terms(settings, tmp_path)
    with pytest.raises(DataError, match="no document"):
        learn_terms(settings, [])


@pytest.mark.parametrize("settings", [TfidfConfig(), BM25Config()])
@pytest.mark.parametrize("block", [1, 3, 100])
def test_index_equals_exhaustive_search(settings: TfidfConfig | BM25Config, block: int, tmp_path: Path) -> None:
    matcher = learn_terms(settings, CORPUS)
    documents = [*CORPUS, [], ["a"], *CORPUS]  # equal ones, and an empty one
    part = TermPart.of([matcher.document(one) for one in documents])
    part.save(tmp_path)
    part = TermPart.load(tmp_path)
    assert isinstance(part.weights, np.memmap)
    queries = [matcher.query(one) for one in TEXTS]
    scores, places = search(part, queries, len(queries), 4, block)
    for query, found, at in zip(queries, scores, places, strict=True):
        exact = [product(query, matcher.document(one)) for one in documents]
        assert found == pytest.approx(sorted(exact, reverse=True)[:4], rel=1e-6, abs=1e-9)
        rounded = np.array(exact, np.float32)
        assert [float(rounded[i]) for i in at] == pytest.approx(found.tolist(), rel=1e-6)
        ties = [int(i) for i in at if math.isclose(rounded[i], found[0], rel_tol=1e-6)]
        assert ties == sorted(ties), "of equal ones the first come first"
