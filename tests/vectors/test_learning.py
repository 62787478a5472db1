"""Blocks become the right examples: seen through a learner that only writes down what it would learn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from catena.vectors import model as models
from catena.vectors.config import (
    CBOWConfig,
    NegativeLossConfig,
    PVDBOWConfig,
    PVDMConfig,
    SkipGramConfig,
    SubwordConfig,
    VectorConfig,
    VectorTrainingConfig,
    WordConfig,
)
from catena.vectors.corpus import corpus_of_sentences
from catena.vectors.learning import (
    TextBlock,
    VectorLearner,
    block_size,
    keep_thresholds,
    noise_shares,
    piece_size,
    tree_paths,
)
from catena.vectors.model import new_model
from tests.oracle import word2vec as oracle

SENTENCES = [["a", "b", "c"], [], ["b", "a"], ["c"]]
PLAIN = {"words": WordConfig(min_count=1), "training": VectorTrainingConfig(subsample=0.0)}
WIDE = {"window": 2, "dynamic": False}


def examples_of(settings: VectorConfig) -> list[tuple[list[str | int], str]]:
    """(bag, predicted word) for every example; words by name, documents by number, n-grams left out."""
    corpus = corpus_of_sentences(SENTENCES, settings.words, settings.phrases)
    model = new_model(settings, corpus.words, corpus.lines)
    learner, seen = VectorLearner(model), []

    def name(row: int) -> str | int:
        return model.words[row] if row < len(model.words) else row - model.first_document

    def write_down(examples, seed, rate, total) -> None:
        first, bag, targets, n = examples
        for i in range(n):
            rows = [
                r for r in bag[first[i] : first[i + 1]].tolist() if not len(model.words) <= r < model.first_document
            ]
            seen.append(([name(row) for row in rows], model.words[int(targets[i])]))

    learner.step = write_down
    learner.learn(TextBlock.whole(np.asarray(corpus.ids), 1, 0.1))
    return seen


def test_skipgram_has_a_pair_for_each_neighbor() -> None:
    settings = VectorConfig(model=SkipGramConfig(**WIDE), **PLAIN)
    assert examples_of(settings) == [
        (["b"], "a"), (["c"], "a"), (["a"], "b"), (["c"], "b"), (["a"], "c"), (["b"], "c"), (["a"], "b"), (["b"], "a"),
    ]  # fmt: skip


def test_cbow_and_shared_noise_have_a_bag_for_each_word() -> None:
    bags = [(["b", "c"], "a"), (["a", "c"], "b"), (["a", "b"], "c"), (["a"], "b"), (["b"], "a"), ([], "c")]
    for choice in (
        {"model": CBOWConfig(**WIDE)},
        {"model": CBOWConfig(combine="product", **WIDE)},
        {"model": SkipGramConfig(**WIDE), "loss": NegativeLossConfig(shared=True)},
    ):
        assert examples_of(VectorConfig(**choice, **PLAIN)) == bags


def test_the_line_of_a_word_is_its_document() -> None:
    assert examples_of(VectorConfig(model=PVDMConfig(**WIDE), **PLAIN)) == [
        ([0, "b", "c"], "a"), ([0, "a", "c"], "b"), ([0, "a", "b"], "c"), ([2, "a"], "b"), ([2, "b"], "a"), ([3], "c"),
    ]  # fmt: skip
    documents = [([0], "a"), ([0], "b"), ([0], "c"), ([2], "b"), ([2], "a"), ([3], "c")]
    assert examples_of(VectorConfig(model=PVDBOWConfig(words=False, **WIDE), **PLAIN)) == documents
    with_words = examples_of(VectorConfig(model=PVDBOWConfig(**WIDE), **PLAIN))
    assert with_words[:6] == documents
    assert with_words[6:] == examples_of(VectorConfig(model=SkipGramConfig(**WIDE), **PLAIN))


@pytest.mark.parametrize("together", [2, 10_000])
def test_with_ngrams_a_word_comes_with_its_parts(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "TOGETHER", together)
    subwords = SubwordConfig(shortest=2, longest=3, buckets=50)
    settings = VectorConfig(model=SkipGramConfig(**WIDE), subwords=subwords, **PLAIN)
    corpus = corpus_of_sentences(SENTENCES, settings.words, settings.phrases)
    model = new_model(settings, corpus.words, corpus.lines)
    first, parts = VectorLearner(model).parts
    assert len(model.words) > 0
    for w, word in enumerate(model.words):
        grams = [len(model.words) + oracle.fnv1a(g) % 50 for g in oracle.character_ngrams(word, 2, 3)]
        assert parts[first[w] : first[w + 1]].tolist() == [w, *grams]
    for w in range(len(model.words)):
        rows = model.inputs[parts[first[w] : first[w + 1]], : model.d]
        np.testing.assert_allclose(model.word_vectors()[w], rows.mean(0), rtol=1e-5, atol=1e-8)


def test_thresholds_and_noise_follow_their_formulas() -> None:
    counts = np.array([900, 90, 9, 1])
    kept = keep_thresholds(counts, 1e-2) / 2.0**32
    assert kept == pytest.approx([oracle.kept_share(c / 1000, 1e-2) for c in counts], abs=1e-9)
    assert keep_thresholds(counts, 0.0).tolist() == [2**32] * 4
    assert noise_shares(counts, 0.0).tolist() == [0.25] * 4
    weights = np.array([c**0.75 for c in counts.tolist()])
    assert noise_shares(counts, 0.75) == pytest.approx(weights / weights.sum())


def test_a_tree_of_unsorted_words_is_as_short() -> None:
    counts = np.array([3, 50, 7, 1, 20])
    first, nodes, codes = tree_paths(counts)
    assert int((counts * np.diff(first)).sum()) == oracle.huffman_cost(counts.tolist())
    paths = [tuple(zip(nodes[a:b].tolist(), codes[a:b].tolist(), strict=True)) for a, b in pairwise(first.tolist())]
    assert len({path[0][0] for path in paths}) == 1
    assert len(set(paths)) == 5


def test_blocks_shrink_where_much_is_drawn() -> None:
    small = VectorConfig()
    large = VectorConfig(model=SkipGramConfig(window=200), loss=NegativeLossConfig(noise=100))
    assert block_size(small, 10**9) == 8192
    assert block_size(large, 10**9) < 100
    assert block_size(small, 20_000) == 100


def test_pieces_are_small_and_not_too_many() -> None:
    assert piece_size(10**6, 8192) == 64
    assert piece_size(10**6, 50) == 50
    assert piece_size(10**9, 8192) == 10**9 // 2**19
    assert piece_size(10**11, 8192) == 8192


def test_the_same_block_draws_the_same_and_another_seed_does_not() -> None:
    settings = VectorConfig(model=SkipGramConfig(d=8), **PLAIN)
    corpus = corpus_of_sentences(SENTENCES * 20, settings.words, settings.phrases)
    results = []
    for seed in (5, 5, 6):
        model = new_model(settings, corpus.words, corpus.lines)
        VectorLearner(model).learn(TextBlock.whole(np.asarray(corpus.ids), seed, 0.1))
        results.append(model.inputs.copy())
    assert (results[0] == results[1]).all()
    assert (results[0] != results[2]).any()
