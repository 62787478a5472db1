"""Exact counts, likelihoods by enumeration, monotonic EM, and recovery of a known generator."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from catena.errors import ImpossibleError
from catena.randomness import Randomness
from catena.tasks.tag.config import HmmTaggerConfig
from catena.tasks.tag.hmm.em import EmLearner, dense_layout, normalize_counts
from catena.tasks.tag.hmm.model import HmmTables


def learner(sentences: list[list[int]], tags: list[list[int]], k: int, v: int, **values: object) -> EmLearner:
    settings = HmmTaggerConfig(**{"smoothing": 0.0, "word_smoothing": 0.0, **values})
    flat = np.array([w for row in sentences for w in row], np.int32)
    first = np.cumsum([0, *map(len, sentences)])
    known = np.array([t for row in tags for t in row], np.int32)
    return EmLearner(flat, first, known, k, v, settings, Randomness(0))


def probability(words: list[int], tags: list[int], tables: HmmTables) -> float:
    """The sum over all tag sequences that agree with the known tags."""
    total, k = 0.0, len(tables.start)
    for path in itertools.product(range(k), repeat=len(words)):
        if all(tag in (-1, q) for tag, q in zip(tags, path, strict=True)):
            terms = [tables.start[path[0]], tables.end[path[-1]]]
            terms += [tables.transitions[p, q] for p, q in itertools.pairwise(path)]
            terms += [tables.emissions[q, w] for q, w in zip(path, words, strict=True)]
            total += math.exp(sum(terms))
    return total


def test_counts_by_hand() -> None:
    """Sentences 0 1 1 with tags A B B, and 1 with tag A."""
    found = learner([[0, 1, 1], [1]], [[0, 1, 1], [0]], 2, 3)
    assert found.step()
    tables = found.tables
    assert np.exp(tables.start).tolist() == pytest.approx([1.0, 0.0])
    assert np.exp(tables.transitions).tolist() == [pytest.approx([0.0, 1 / 2]), pytest.approx([0.0, 1 / 2])]
    assert np.exp(tables.end).tolist() == pytest.approx([1 / 2, 1 / 2])
    assert np.exp(tables.emissions).tolist() == [pytest.approx([1 / 2, 1 / 2, 0]), pytest.approx([0, 1, 0])]
    assert not found.step(), "all tags are known, so there is nothing to learn"


def test_smoothing_is_added_to_every_count() -> None:
    found = learner([[0, 1, 1], [1]], [[0, 1, 1], [0]], 2, 3, smoothing=1.0, word_smoothing=0.5)
    found.step()
    tables = found.tables
    assert np.exp(tables.start).tolist() == pytest.approx([3 / 4, 1 / 4])
    assert np.exp(tables.transitions[0]).tolist() == pytest.approx([1 / 5, 2 / 5])
    assert math.exp(tables.end[0]) == pytest.approx(2 / 5)
    assert np.exp(tables.emissions[1]).tolist() == pytest.approx([0.5 / 3.5, 2.5 / 3.5, 0.5 / 3.5])


def test_counts_is_true_only_without_unknown_tags() -> None:
    counted = learner([[0, 1], [1]], [[0, 1], [1]], 2, 2)
    assert counted.counts
    assert counted.step()
    assert not counted.step()
    assert not learner([[0, 1], [1]], [[0, -1], [1]], 2, 2).counts


@pytest.mark.parametrize("known", [0.0, 0.4])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_likelihood_never_decreases_and_sums_over_all_tags(known: float, smoothing: float) -> None:
    rng = np.random.default_rng(1)
    sentences = [rng.integers(0, 4, size=n).tolist() for n in (3, 1, 4, 2, 5, 3, 4)]
    tags = [[int(rng.integers(0, 3)) if rng.random() < known else -1 for _ in row] for row in sentences]
    found = learner(sentences, tags, 3, 4, smoothing=smoothing, word_smoothing=smoothing, tolerance=0.0)
    values = []
    for _ in range(25):
        tables = found.tables
        by_hand = sum(math.log(probability(w, t, tables)) for w, t in zip(sentences, tags, strict=True))
        if smoothing:
            by_hand += smoothing * sum(float(x.sum()) for x in vars(tables).values())
        if not found.step():
            break
        assert found.log_likelihood == pytest.approx(by_hand, abs=1e-8)
        values.append(found.log_likelihood)
    assert len(values) > 5
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(values))
    assert values[-1] > values[0] + 0.1


def test_expected_counts_equal_enumeration() -> None:
    """One iteration from known tables, against counts by enumeration."""
    rng = np.random.default_rng(2)
    words = [0, 2, 1]
    found = learner([words], [[-1, -1, -1]], 2, 3)
    raw = [rng.random(shape) + 0.1 for shape in ((1, 2), (2, 3), (2, 3))]
    start, onward, emissions = (np.log(x / x.sum(1, keepdims=True)) for x in raw)
    found.tables = HmmTables(start[0], onward[:, :2].copy(), onward[:, 2].copy(), emissions)
    before = found.tables
    found.step()
    total = probability(words, [-1] * 3, before)
    emitted, firsts = np.zeros((2, 3)), np.zeros(2)
    for path in itertools.product(range(2), repeat=3):
        share = probability(words, list(path), before) / total
        firsts[path[0]] += share
        for q, w in zip(path, words, strict=True):
            emitted[q, w] += share
    assert np.exp(found.tables.start) == pytest.approx(firsts)
    assert np.exp(found.tables.emissions) == pytest.approx(emitted / emitted.sum(1, keepdims=True))


def test_em_recovers_a_known_generator() -> None:
    """Two states that rarely change and emit different words."""
    rng = np.random.default_rng(3)
    moves, shows = np.array([[0.85, 0.1], [0.1, 0.85]]), np.array([[0.45, 0.45, 0.1, 0.0], [0.0, 0.1, 0.3, 0.6]])
    sentences = []
    for _ in range(400):
        state, words = int(rng.integers(0, 2)), []
        while True:
            words.append(int(rng.choice(4, p=shows[state])))
            step = rng.random()
            if step < 0.05:
                break
            state = 0 if step < 0.05 + moves[state, 0] else 1
        sentences.append(words)
    found = learner(sentences, [[-1] * len(row) for row in sentences], 2, 4, learn="em", tolerance=1e-7)
    for _ in range(300):
        if not found.step():
            break
    emissions, transitions = np.exp(found.tables.emissions), np.exp(found.tables.transitions)
    order = [0, 1] if emissions[0, 0] > emissions[1, 0] else [1, 0]
    assert emissions[order] == pytest.approx(shows, abs=0.05)
    assert transitions[order][:, order] == pytest.approx(moves, abs=0.05)


def test_known_tags_of_some_sentences_guide_the_others() -> None:
    """Words 0 and 1 are tagged once each; 2 occurs in the contexts of 1, and 3 in those of 0."""
    sentences = [[0, 1], *[[0, 2]] * 8, *[[3, 1]] * 8]
    tags = [[0, 1], *[[-1, -1]] * 16]
    found = learner(sentences, tags, 2, 4, smoothing=0.01, word_smoothing=0.01)
    while found.step():
        pass
    assert found.tables.emissions[1, 2] > found.tables.emissions[0, 2] + 3
    assert found.tables.emissions[0, 3] > found.tables.emissions[1, 3] + 3


def test_restored_learner_continues_bit_for_bit() -> None:
    sentences, tags = [[0, 1, 2], [2, 1], [0, 0, 1, 2]], [[-1] * 3, [-1] * 2, [-1] * 4]
    whole, half, other = (learner(sentences, tags, 2, 3, tolerance=0.0) for _ in range(3))
    for _ in range(6):
        whole.step()
    for _ in range(2):
        half.step()
    other.restore({name: np.array(x) for name, x in half.arrays().items()})
    for _ in range(4):
        other.step()
    assert np.array_equal(other.vector(), whole.vector())
    assert other.loss == whole.loss


def test_sentence_with_probability_zero_is_reported() -> None:
    found = learner([[0, 1], [1]], [[-1, -1], [-1]], 2, 2)
    found.tables = normalize_counts(np.zeros(dense_layout(2, 2).size), dense_layout(2, 2), 0.0, 0.0)
    with np.errstate(divide="ignore"):
        found.tables = HmmTables(
            found.tables.start, found.tables.transitions, found.tables.end, np.log(np.array([[1.0, 0.0], [1.0, 0.0]]))
        )
    with pytest.raises(ImpossibleError, match=r"Set model.smoothing and model.word_smoothing to values above 0"):
        found.step()
