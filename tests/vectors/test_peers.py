"""Compared with strangers: gensim reads what we write, we read what it wrote, and fastText's models give its vectors.

Run in the environment of the peers, with ``-m peers``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena.vectors.config import SkipGramConfig, SubwordConfig, VectorConfig, VectorTrainingConfig, WordConfig
from catena.vectors.evaluate import evaluate_analogies, evaluate_similarities
from catena.vectors.table import VectorTable
from catena.vectors.train import train_vectors
from tests.vectors.test_table import WORDS, some_vectors
from tests.vectors.test_train import two_topics

pytestmark = pytest.mark.peers

ODD = "été naïve 日本語 don't x 🙂 a"


@pytest.mark.parametrize("binary", [True, False])
def test_gensim_reads_what_we_write_and_we_read_what_it_wrote(tmp_path: Path, binary: bool) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    vectors = some_vectors(500, 20)
    path = vectors.save(tmp_path / ("v.bin" if binary else "v.txt"))
    theirs = keyed.load_word2vec_format(str(path), binary=binary)
    assert theirs.index_to_key == list(vectors.words)
    assert (theirs.vectors == vectors.matrix).all()
    theirs.save_word2vec_format(str(tmp_path / "back"), binary=binary)
    again = VectorTable.load(tmp_path / "back")
    assert list(again.words) == list(vectors.words)
    np.testing.assert_allclose(again.matrix, vectors.matrix, rtol=0 if binary else 1e-6)


def test_gensim_reads_glove_without_a_header(tmp_path: Path) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    vectors = some_vectors()
    theirs = keyed.load_word2vec_format(str(vectors.save(tmp_path / "v.glove", "glove")), no_header=True)
    assert theirs.index_to_key == WORDS
    assert (theirs.vectors == vectors.matrix).all()


def test_questions_get_the_answers_of_gensim(tmp_path: Path) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    vectors = some_vectors(400, 12)
    theirs = keyed(12)
    theirs.add_vectors(list(vectors.words), vectors.matrix)
    close = {"rtol": 1e-4, "atol": 1e-5}
    for word in ("cat", "w77", "日本"):
        ours, them = vectors.most_similar(word, 9), theirs.most_similar(word, topn=9)
        assert [w for w, _ in ours] == [w for w, _ in them]
        np.testing.assert_allclose([s for _, s in ours], [s for _, s in them], **close)
    for a, b, c in (("cat", "dog", "w5"), ("w9", "the", "w100")):
        ours, them = vectors.analogy(a, b, c, 5), theirs.most_similar(positive=[b, c], negative=[a], topn=5)
        assert [w for w, _ in ours] == [w for w, _ in them]
        np.testing.assert_allclose([s for _, s in ours], [s for _, s in them], **close)
        ours = vectors.analogy(a, b, c, 5, "multiply")
        them = theirs.most_similar_cosmul(positive=[b, c], negative=[a], topn=5)
        assert [w for w, _ in ours] == [w for w, _ in them]
        np.testing.assert_allclose([s for _, s in ours], [s for _, s in them], rtol=0.05)  # they add 1e-6
    assert vectors.similarity("cat", "dog") == pytest.approx(float(theirs.similarity("cat", "dog")), abs=1e-5)
    some = ["cat", "dog", "w8", "w9", "the"]
    assert vectors.odd_one_out(some) == theirs.doesnt_match(some)


def test_scores_equal_gensim(tmp_path: Path) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    rng = np.random.default_rng(4)
    vectors = some_vectors(60, 4)
    theirs = keyed(4)
    theirs.add_vectors(list(vectors.words), vectors.matrix)
    words = [word for word in vectors.words if word.isascii()]
    questions = [rng.choice(words, 4, replace=False).tolist() for _ in range(400)]
    (tmp_path / "q").write_text(": one\n" + "\n".join(map(" ".join, questions)), encoding="utf-8")
    score, _ = theirs.evaluate_word_analogies(str(tmp_path / "q"), case_insensitive=False)
    assert evaluate_analogies(vectors, tmp_path / "q").total.accuracy == pytest.approx(score)
    pairs = "\n".join(f"{a}\t{b}\t{rng.integers(10)}" for a, b, *_ in questions[:50])
    (tmp_path / "s").write_text(pairs, encoding="utf-8")
    _, spearman, _ = theirs.evaluate_word_pairs(str(tmp_path / "s"), case_insensitive=False)
    assert evaluate_similarities(vectors, tmp_path / "s").spearman == pytest.approx(float(spearman[0]), abs=1e-6)


def trained(fasttext: Any, text: Path, **values: int) -> Any:
    """A model of fastText, which now and then meets a nan or runs wild on small texts, and must be trained again."""
    for _ in range(12):
        try:
            model = fasttext.train_unsupervised(str(text), epoch=1, minCount=1, thread=1, verbose=0, t=1.0, **values)
        except RuntimeError:
            continue
        if np.abs(model.get_input_matrix()).max() < 100:
            return model
    pytest.skip("fastText ran wild a dozen times")


@pytest.mark.parametrize("longest", [0, 4])
def test_models_of_fasttext_give_its_own_vectors_of_known_and_unknown_words(tmp_path: Path, longest: int) -> None:
    fasttext = pytest.importorskip("fasttext")
    text = tmp_path / "text.txt"
    text.write_text("\n".join([*map(" ".join, two_topics(3000)), *[ODD] * 9]), encoding="utf-8")
    model = trained(fasttext, text, dim=10, minn=2 if longest else 0, maxn=longest, bucket=900)
    model.save_model(str(tmp_path / "model.bin"))
    vectors = VectorTable.load(tmp_path / "model.bin")
    assert list(vectors.words) == model.words
    for word in [*model.words, *(["unseen", "日本", "étés", "ships"] if longest else [])]:
        np.testing.assert_allclose(vectors[word], model.get_word_vector(word), rtol=1e-4, atol=1e-6)
    assert vectors.words.counts.tolist() == list(model.get_words(include_freq=True)[1])


def test_our_ngrams_equal_fasttext(tmp_path: Path) -> None:
    fasttext = pytest.importorskip("fasttext")
    text = tmp_path / "text.txt"
    text.write_text((ODD + "\n") * 5, encoding="utf-8")
    model = trained(fasttext, text, dim=4, minn=2, maxn=5, bucket=300)
    settings = VectorConfig(
        words=WordConfig(min_count=1), model=SkipGramConfig(d=4), threads=1, training=VectorTrainingConfig(epochs=1),
        subwords=SubwordConfig(shortest=2, longest=5, buckets=300),
    )  # fmt: skip
    from catena.vectors.model import word_parts

    ours = train_vectors([text], settings).model
    first, parts = word_parts(ours.words, settings.subwords, len(ours.words))
    assert len(ours.words) > 0
    for w, word in enumerate(ours.words):
        _, rows = model.get_subwords(word)
        assert (parts[first[w] + 1 : first[w + 1]] - len(ours.words)).tolist() == [
            r - len(model.words) for r in rows[1:]
        ]
