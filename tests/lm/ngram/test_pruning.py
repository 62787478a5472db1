"""Entropy pruning compared to its definition: the divergence of a model without one n-gram."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from catena.errors import ConfigError, DataError
from catena.lm.ngram.model import NgramModel
from tests.lm.ngram.test_estimators import RICH
from tests.lm.ngram.texts import orders, sentences, trained

TEXT = ["the dog ran away", "the dog ran home", "a cat ran", "the cat sat", "a dog sat", "the dog ran away"] * 3


@given(text=sentences, order=orders)
@settings(max_examples=20)
def test_pruned_models_sum_to_one_and_shrink_with_the_threshold(text, order):
    model = trained(text, order)
    sizes = []
    for threshold in (0.0, 1e-3, 1e-1, 1e3):
        smaller = model.pruned(threshold)
        sums = np.exp(smaller.packed.spread(np.arange(smaller.packed.n_states)).astype(np.float64)).sum(axis=1)
        assert sums == pytest.approx(1.0, abs=1e-4)
        sizes.append(sum(smaller.packed.trie().shape.sizes))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == model.v  # only words are left


def test_unpruned_n_grams_keep_their_probabilities():
    model = trained(RICH, 3)
    smaller = model.pruned(1e-3)
    whole, part = model.packed.trie(), smaller.packed.trie()
    assert model.v < sum(part.shape.sizes) < sum(whole.shape.sizes)
    for k in (2, 3):
        before = dict(
            zip(map(tuple, whole.shape.spelled(k).tolist()), whole.log_probs[slice(*whole.shape.grams(k))], strict=True)
        )
        after = dict(
            zip(map(tuple, part.shape.spelled(k).tolist()), part.log_probs[slice(*part.shape.grams(k))], strict=True)
        )
        assert after.items() <= before.items()
        assert after


def test_entropy_pruning_removes_bigrams_below_the_threshold():
    """The cost of each bigram by enumeration: exp of the mean Kullback-Leibler divergence, minus one."""
    model = trained(RICH, 2)
    trie = model.packed.trie()
    base = np.exp(model.packed.unigrams.astype(np.float64))
    bigrams = trie.shape.spelled(2).tolist()
    assert bigrams
    for (history, w), p in zip(bigrams, trie.log_probs[slice(*trie.shape.grams(2))], strict=True):
        row = np.exp(
            model.packed.spread(model.packed.step(np.zeros(1, np.int64), np.array([history]))[0])[0].astype(np.float64)
        )
        seen = [x for h, x in trie.shape.spelled(2).tolist() if h == history and x != w]
        changed = np.zeros_like(row)
        changed[seen] = row[seen]
        rest = np.ones(len(row), bool)
        rest[seen] = False
        changed[rest] = base[rest] * (1 - row[seen].sum()) / base[rest].sum()
        live = row > 0
        divergence = float((row[live] * np.log(row[live] / changed[live])).sum())
        weight = 1.0 if history == model.begin else base[history]
        cost = math.expm1(weight * divergence)
        for threshold, gone in ((cost * 0.98, False), (cost * 1.02, True)):
            if cost > 1e-6:
                part = model.pruned(threshold).packed.trie()
                assert ([history, w] not in part.shape.spelled(2).tolist()) == gone, (history, w, p, cost)


def test_light_entropy_pruning_costs_little_perplexity():
    model = NgramModel.train(TEXT, order=3)
    smaller = model.pruned(1e-2)
    assert sum(smaller.packed.trie().shape.sizes) < sum(model.packed.trie().shape.sizes)
    assert smaller.perplexity(TEXT) < 1.5 * model.perplexity(TEXT)


def test_entropy_pruning_of_unsupported_models_raises():
    with pytest.raises(DataError, match="Entropy pruning needs a back-off model"):
        trained(RICH, 2, estimator="add-k").pruned(1e-8)
    with pytest.raises(ConfigError, match="threshold must be at least 0, got -1"):
        trained(RICH, 2).pruned(-1.0)
