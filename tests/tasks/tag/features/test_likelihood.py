"""Losses equal enumeration over all tag sequences, and gradients equal finite differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from catena.errors import DataError
from catena.tasks.tag.features.dictionary import FeatureIds
from catena.tasks.tag.features.likelihood import Likelihood, expectations, split_shards
from catena.tasks.tag.features.model import WeightLayout, build_layout, pair_counts
from tests.oracle.feature_tagger import crf_loss, local_loss, path_score

K, FEATURES = 3, 7


class Problem:
    """A few sentences with random features, tags and weights."""

    def __init__(
        self,
        seed: int,
        *,
        all_tags: bool = False,
        holes: float = 0.0,
        lengths: tuple[int, ...] = (3, 1, 0, 4, 2, 5, 2),
        of_pairs: bool = False,
    ) -> None:
        rng = np.random.default_rng(seed)
        first = np.cumsum([0, *lengths])
        counts = rng.integers(0, 5, size=int(first[-1]))
        token_first = np.cumsum([0, *counts])
        ids = rng.integers(0, FEATURES, size=int(token_first[-1])).astype(np.int32)
        self.data = FeatureIds(ids, token_first, first)
        self.tags = rng.integers(0, K, size=int(first[-1])).astype(np.int32)
        self.tags[rng.random(len(self.tags)) < holes] = -1
        stepped = np.arange(FEATURES) < (2 if of_pairs else 0)
        self.layout = build_layout(
            self.data, self.tags, FEATURES, K, all_tags=all_tags, transitions="all", edges=True, of_pairs=stepped
        )
        self.vector = rng.normal(size=self.layout.size)

    def likelihood(self, **kwargs: Any) -> Likelihood:
        return Likelihood(self.data, self.tags, self.layout, **kwargs)

    def sentences(self, vector: np.ndarray) -> list[tuple[list[int], list[list[float]]]]:
        """(tags, scores) of each sentence, feature by feature."""
        data, layout, found = self.data, self.layout, []
        for s in range(data.sentences):
            rows = []
            for i in range(data.first[s], data.first[s + 1]):
                row = [0.0] * layout.width
                for f in data.ids[data.token_first[i] : data.token_first[i + 1]]:
                    for p in range(layout.pair_first[f], layout.pair_first[f + 1]):
                        row[layout.pair_tag[p]] += vector[p]
                rows.append(row)
            found.append((self.tags[data.first[s] : data.first[s + 1]].tolist(), rows))
        return found

    def listed(self, vector: np.ndarray, over: str) -> float:
        moves, start, end = (
            part(vector).tolist() for part in (self.layout.transitions, self.layout.start, self.layout.end)
        )
        total = 0.0
        for tags, scores in self.sentences(vector):
            if not tags or max(tags) < 0:
                continue
            if over == "crf":
                total += crf_loss(tags, scores, moves, start, end)
            else:
                total += local_loss(tags, scores, moves if over == "memm" else None, start)
        return total


@pytest.mark.parametrize("over", ["crf", "softmax", "memm"])
@pytest.mark.parametrize("all_tags", [False, True])
@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("threads", [1, 3])
def test_loss_equals_its_definition(over: str, all_tags: bool, holes: float, threads: int) -> None:
    for seed in range(3):
        problem = Problem(seed, all_tags=all_tags, holes=holes)
        value, _ = problem.likelihood(over=over, threads=threads)(problem.vector)
        assert value == pytest.approx(problem.listed(problem.vector, over), abs=1e-9)


@pytest.mark.parametrize("all_tags", [False, True])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_tag_pair_features_equal_the_definition(all_tags: bool, holes: float) -> None:
    for seed in range(3):
        problem = Problem(seed, all_tags=all_tags, holes=holes, of_pairs=True)
        assert problem.layout.stepped
        assert (problem.layout.pair_tag >= K).any()
        for scale in (1.0, 900.0):  # exponentials of the second overflow
            vector = scale * problem.vector
            value, gradient = problem.likelihood(threads=2)(vector)
            assert value == pytest.approx(problem.listed(vector, "crf"), abs=1e-9, rel=1e-9)
            assert np.isfinite(gradient).all()
        check_gradient(problem.likelihood(l2=0.2), problem.vector)


def check_gradient(function: Likelihood, vector: np.ndarray) -> None:
    _, gradient = function(vector)
    assert len(gradient) == len(vector)
    for i in range(len(vector)):
        step = np.zeros(len(vector))
        step[i] = 1e-5
        difference = (function(vector + step)[0] - function(vector - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(difference, abs=1e-6), i


@pytest.mark.parametrize("over", ["crf", "softmax", "memm"])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_gradient_equals_finite_differences(over: str, holes: float) -> None:
    problem = Problem(1, holes=holes)
    check_gradient(problem.likelihood(over=over, l2=0.3), problem.vector)


def test_the_penalty_is_the_sum_of_squares() -> None:
    problem = Problem(2)
    with_penalty, without = problem.likelihood(l2=0.7)(problem.vector), problem.likelihood()(problem.vector)
    assert with_penalty[0] - without[0] == pytest.approx(0.7 * (problem.vector**2).sum())
    assert with_penalty[1] - without[1] == pytest.approx(1.4 * problem.vector)


def test_unused_weights_have_zero_gradient() -> None:
    problem = Problem(3)
    layout = build_layout(problem.data, problem.tags, FEATURES, K, all_tags=False, transitions="seen", edges=False)
    _, gradient = Likelihood(problem.data, problem.tags, layout)(problem.vector)
    assert (layout.start(gradient) == 0).all()
    assert (layout.end(gradient) == 0).all()
    seen = pair_counts(problem.data.first, problem.tags, K) > 0
    assert (layout.transitions(gradient)[~seen] == 0).all()
    assert (layout.transitions(gradient)[seen] != 0).all()


@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_scores_with_overflowing_exponentials_are_summed(holes: float) -> None:
    problem = Problem(4, holes=holes)
    vector = problem.vector * 900
    value, gradient = problem.likelihood()(vector)
    assert value == pytest.approx(problem.listed(vector, "crf"), rel=1e-9)
    assert np.isfinite(gradient).all()
    small = Problem(4, holes=holes, lengths=(3,))
    found = expectations(small.data, small.tags, small.layout, vector[: small.layout.size], "crf", [np.array([0])])
    assert small.layout.transitions(found.counts).sum() == pytest.approx(2.0)
    assert small.layout.start(found.counts).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("of_pairs", [False, True])
def test_expected_counts_of_extreme_scores_equal_the_best_tags(of_pairs: bool) -> None:
    ends = set()
    for seed in range(6):
        problem = Problem(seed, lengths=(3,), of_pairs=of_pairs)
        vector, layout = 900 * problem.vector, problem.layout
        moves, start, end = (part(vector).tolist() for part in (layout.transitions, layout.start, layout.end))
        scores = problem.sentences(vector)[0][1]
        paths = itertools.product(range(K), repeat=3)
        best = max(paths, key=lambda path: path_score(path, scores, moves, start, end))
        found = expectations(problem.data, problem.tags, layout, vector, "crf", [np.array([0])]).counts
        assert layout.start(found) == pytest.approx(np.eye(K)[best[0]], abs=1e-6)
        assert layout.end(found) == pytest.approx(np.eye(K)[best[-1]], abs=1e-6)
        assert layout.transitions(found)[best[0], best[1]] >= 1 - 1e-6
        ends.add(best[0] == best[-1])
    assert False in ends, "first and last tags differ somewhere"


def test_pairs_of_tags_are_counted_inside_sentences() -> None:
    first = np.array([0, 3, 3, 5, 6])
    tags = np.array([0, 1, 1, 2, 0, 1], np.int32)
    assert pair_counts(first, tags, 3).tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0]]
    tags[1] = -1
    assert pair_counts(first, tags, 3).tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]


def test_features_have_weights_for_the_tags_they_occur_with() -> None:
    data = FeatureIds(np.array([0, 1, 1, 2], np.int32), np.array([0, 2, 3, 4]), np.array([0, 3]))
    tags = np.array([2, 0, -1], np.int32)
    layout = build_layout(data, tags, 3, 3, all_tags=False, transitions="all", edges=True)
    assert layout.pair_first.tolist() == [0, 1, 3, 3]
    assert layout.pair_tag.tolist() == [2, 0, 2]
    assert layout.size == len(layout.in_use) == 3 + 9 + 6


def test_dense_weight_rows_do_not_change_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature 0 occurs with four of nine tags, feature 1 with two."""
    tags = np.array([0, 3, 8, 5, 0, 7], np.int32)
    ids = np.array([0, 0, 1, 0, 0, 1, 1], np.int32)
    data = FeatureIds(ids, np.array([0, 1, 3, 4, 5, 6, 7]), np.array([0, 4, 6]))

    def made() -> WeightLayout:
        return build_layout(data, tags, 2, 9, all_tags=False, transitions="all", edges=True)

    rows = made()
    assert rows.pair_first.tolist() == [0, 9, 12]
    assert rows.pair_tag.tolist() == [*range(9), 0, 3, 7]
    assert np.flatnonzero(rows.in_use[:9]).tolist() == [0, 3, 5, 8]
    monkeypatch.setattr("catena.tasks.tag.features.model._WORTH_A_ROW", 10)
    plain = made()
    assert plain.pair_first.tolist() == [0, 4, 7]
    assert plain.pair_tag.tolist() == [0, 3, 5, 8, 0, 3, 7]
    vector = np.random.default_rng(0).normal(size=plain.size)
    wide = np.zeros(rows.size)
    wide[rows.in_use] = vector
    one, two = Likelihood(data, tags, plain, l2=0.5)(vector), Likelihood(data, tags, rows, l2=0.5)(wide)
    assert one[0] == pytest.approx(two[0])
    assert one[1] == pytest.approx(two[1][rows.in_use])
    assert (two[1][~rows.in_use] == 0).all()


def test_every_sentence_is_in_one_shard() -> None:
    problem = Problem(0)
    shards = split_shards(problem.data, np.arange(7), 3)
    assert sorted(s for shard in shards for s in shard.tolist()) == list(range(7))
    lengths = [problem.data.lengths[s] for s in split_shards(problem.data, np.arange(7), 1)[0]]
    assert lengths == sorted(lengths, reverse=True)


def test_sentences_without_tags_are_rejected() -> None:
    problem = Problem(0)
    with pytest.raises(DataError, match="No token of the training sentences has a tag"):
        Likelihood(problem.data, np.full_like(problem.tags, -1), problem.layout)


def test_the_parts_of_the_vector_do_not_overlap() -> None:
    layout = WeightLayout(2, np.array([0, 1]), np.array([1], np.int32), np.ones(9, bool))
    vector = np.arange(9.0)
    assert layout.features(vector).tolist() == [0]
    assert layout.transitions(vector).tolist() == [[1, 2], [3, 4]]
    assert (layout.start(vector).tolist(), layout.end(vector).tolist()) == ([5, 6], [7, 8])
