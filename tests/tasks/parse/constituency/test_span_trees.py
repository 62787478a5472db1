"""Trees over scored spans: probabilities and margins against enumeration of binary forms."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.data.readers.brackets import read
from catena.data.vocabulary import Labels
from catena.tasks.parse.constituency.span.model import (
    allowed_labels,
    chain_names,
    gold_trees,
    label_ids,
    log_probabilities,
    margin_losses,
)
from catena.tasks.parse.constituency.trees import BracketConstraint, tree_to_phrases
from tests.oracle.span_parses import Brackets, largest_margin, weights_of_trees


def scores_of(t: int, k: int, seed: int) -> torch.Tensor:
    return torch.randn(t, t, k, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 1.5


def batch_of(trees: list[Brackets], t: int):  # type: ignore[no-untyped-def]
    return gold_trees([sorted(tree) for tree in trees], [t] * len(trees))


@pytest.mark.parametrize(("t", "k"), [(1, 3), (2, 3), (3, 3), (4, 2)])
def test_log_probabilities_equal_enumeration(t: int, k: int) -> None:
    scores = scores_of(t, k, t)
    weights = weights_of_trees(scores.tolist())
    total = math.fsum(weights.values())
    trees = list(weights)
    found = log_probabilities(scores.expand(len(trees), t, t, k), batch_of(trees, t)).exp().tolist()
    assert found == pytest.approx([weights[tree] / total for tree in trees], rel=1e-9)
    assert math.fsum(found) == pytest.approx(1.0)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), margin=st.sampled_from([0.5, 1.0, 3.0]))
def test_margin_losses_equal_enumeration(seed: int, margin: float) -> None:
    t, k = 3, 2
    scores = scores_of(t, k, seed)
    trees = list(weights_of_trees(scores.tolist()))
    found = margin_losses(scores.expand(len(trees), t, t, k), batch_of(trees, t), margin).tolist()
    assert found == pytest.approx([largest_margin(scores.tolist(), tree, margin) for tree in trees], abs=1e-9)
    assert min(found) >= 0.0


@pytest.mark.parametrize("loss", [lambda s, g: -log_probabilities(s, g), lambda s, g: margin_losses(s, g, 1.0)])
def test_losses_have_the_gradients_of_their_definition(loss) -> None:  # type: ignore[no-untyped-def]
    scores = scores_of(3, 2, 5)[None].requires_grad_()
    gold = gold_trees([[(0, 2, 1), (1, 2, 1)]], [3])
    (gradient,) = torch.autograd.grad(loss(scores, gold).sum(), scores)
    step = 1e-6
    for place in itertools.product(range(3), range(3), range(2)):
        moved = scores.detach().clone()
        moved[0, *place] += step
        difference = (loss(moved, gold) - loss(scores.detach(), gold)).sum() / step
        assert float(gradient[0, *place]) == pytest.approx(float(difference), abs=1e-4)


def test_losses_are_independent_of_padding() -> None:
    scores = scores_of(3, 2, 1)
    padded = torch.full((1, 5, 5, 2), 7.0, dtype=torch.float64)
    padded[0, :3, :3] = scores
    spans = [[(0, 2, 1), (0, 1, 1)]]
    alone = gold_trees(spans, [3])
    beside = gold_trees([*spans, [(0, 4, 1)]], [3, 5])
    for loss in (log_probabilities, lambda s, g: margin_losses(s, g, 1.0)):
        both = loss(padded.expand(2, 5, 5, 2), beside)
        assert float(both[0]) == pytest.approx(float(loss(scores[None], alone)[0]), rel=1e-9)


def test_a_tree_as_spans_with_chains_as_labels(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "trees.mrg"
    path.write_text("(S (VP (V go) (NP (N home)) (PP (P by) (NP (N bus)))))\n(S (NP (N dogs)) (VP (V bark)))\n")
    one, two = read(path)
    names = chain_names([one, two])
    assert names.names == ("NP", "PP", "S", "S VP", "VP")
    assert label_ids(tree_to_phrases(one), names) == [(0, 3, 4), (1, 1, 1), (2, 3, 2), (3, 3, 1)]
    gold = gold_trees([label_ids(tree_to_phrases(one), names) or []], [4])
    assert gold.labels[0].tolist() == [[0, 0, 0, 4], [0, 1, 0, 0], [0, 0, 0, 2], [0, 0, 0, 1]]
    assert gold.possible[0].tolist() == [
        [True, True, False, True],
        [True, True, False, True],
        [True, True, True, True],
        [True, True, True, True],
    ]
    assert label_ids(tree_to_phrases(one), chain_names([two])) is None


def test_given_brackets_allow_only_matching_labels() -> None:
    names = Labels(["NP", "S NP", "VP"])
    allowed = allowed_labels(
        [
            BracketConstraint(1, 3, "NP", True),
            BracketConstraint(0, 4, None, True),
            BracketConstraint(2, 4, None, False),
        ],
        4,
        4,
        names,
    )
    assert allowed[1, 2].tolist() == [False, True, True, False]
    assert allowed[0, 3].tolist() == [False, True, True, True]
    assert allowed[2, 3].tolist() == [False, False, False, False]  # it crosses the first, and is not a phrase
    assert allowed[0, 1].tolist() == [False, False, False, False]
    assert allowed[0, 2].tolist() == [True, True, True, True]
    assert allowed[1, 1].tolist() == [True, True, True, True]
