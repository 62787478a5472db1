"""Queries of an n-gram model without compiled kernels."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from catena.accelerators import start_cold
from catena.lm.ngram.model import NgramModel

WORDS = [f"w{i}" for i in range(40)]


def random_sentences(n: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [
        " ".join(WORDS[min(int(i), 39)] for i in generator.geometric(0.15, generator.integers(0, 12))) for _ in range(n)
    ]


@pytest.mark.parametrize("estimator", ["modified-kneser-ney", "stupid-backoff", "katz", "add-k", "good-turing"])
def test_few_words_are_scored_as_by_kernels(estimator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = NgramModel.train(random_sentences(60, 0), 4, estimator)
    packed = model.packed
    lines = [
        model.lexicon.sentences(np.frombuffer(f"{line} zzz\n".encode(), np.uint8), -1, model.end)
        for line in random_sentences(40, 1)
    ]
    ids, ends = np.concatenate(lines), np.cumsum([len(line) for line in lines])
    begun = packed.begin_state(model.begin)
    by_kernels = packed.walk(ids, ends, begun)
    states = np.arange(packed.n_states)
    words = states * 7 % packed.v
    after, log_probs = packed.step(states, words)
    monkeypatch.delitem(sys.modules, "numba")
    with start_cold(10**9):
        monkeypatch.setattr("catena.lm.ngram.packed._query", None)
        assert packed.begin_state(model.begin) == begun
        np.testing.assert_array_equal(packed.walk(ids, ends, begun), by_kernels)
        np.testing.assert_array_equal(packed.step(states, words)[0], after)
        np.testing.assert_array_equal(packed.step(states, words)[1], log_probs)
