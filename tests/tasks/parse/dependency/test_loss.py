"""Each loss against its definition, by enumeration of all trees of small sentences."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from catena.tasks.parse.dependency import model as losses
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.tasks.parse.dependency.model import ArcScores
from tests.oracle.dependency import all_heads
from tests.tasks.parse.dependency.helpers import gold, scored

LENGTHS = [3, 4, 1]
HEADS = [[2, 0, 2], [3, 1, 0, 3], [0]]
RELATIONS = [[0, 1, 1], [1, 0, 1, 0], [1]]


@pytest.fixture
def scores() -> ArcScores:
    torch.manual_seed(1)
    return scored(2 * torch.randn(3, 5, 5, dtype=torch.float64), LENGTHS)


def log_add(terms: list[float]) -> float:
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms))


def relation_score(scores: ArcScores, row: int, head: int, word: int, relation: int) -> float:
    x, y = [*scores.heads[row, head].tolist(), 1.0], [*scores.dependents[row, word].tolist(), 1.0]
    weight = scores.biaffine.weight[relation].tolist()
    return math.fsum(x[i] * weight[i][j] * y[j] for i in range(len(x)) for j in range(len(y)))


def relation_loss(scores: ArcScores, row: int, heads: list[int], relations: list[int]) -> float:
    total = 0.0
    for word, (head, relation) in enumerate(zip(heads, relations, strict=True), start=1):
        each = [relation_score(scores, row, head, word, q) for q in range(2)]
        total += log_add(each) - each[relation]
    return total


def tree_score(scores: ArcScores, row: int, heads: tuple[int, ...] | list[int]) -> float:
    return math.fsum(scores.arcs[row, head, word].item() for word, head in enumerate(heads, start=1))


def test_relations_of_pairs_and_of_all_arcs_are_the_bilinear_form(scores: ArcScores) -> None:
    everything = scores.relations()
    at = scores.relations_at(gold(HEADS, RELATIONS).heads)
    for row, word, relation in itertools.product(range(3), range(1, 5), range(2)):
        for head in range(5):
            expected = relation_score(scores, row, head, word, relation)
            assert everything[row, head, word, relation].item() == pytest.approx(expected, abs=1e-10)
            assert scores.relations_from(head, 5)[row, 0, word, relation].item() == pytest.approx(expected, abs=1e-10)
        head = HEADS[row][word - 1] if word <= LENGTHS[row] else 0
        expected = relation_score(scores, row, head, word, relation)
        assert at[row, word - 1, relation].item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("loss", ["matrix_tree", "eisner"])
def test_tree_losses_equal_enumeration(scores: ArcScores, loss: str, single_root: bool) -> None:
    trees = "projective" if loss == "eisner" else "nonprojective"
    settings = BiaffineParserConfig(loss=loss, trees=trees, single_root=single_root)
    heads = [[2, 0, 2], [3, 3, 0, 3], [0]]
    found = losses.sentence_losses(settings, scores, gold(heads, RELATIONS))
    for row, length in enumerate(LENGTHS):
        among = all_heads((True,) * length, single_root, loss == "eisner")
        expected = log_add([tree_score(scores, row, other) for other in among]) - tree_score(scores, row, heads[row])
        expected += relation_loss(scores, row, heads[row], RELATIONS[row])
        assert found[row].item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("loss", ["matrix_tree", "eisner"])
def test_heads_that_are_not_known_are_summed_out(scores: ArcScores, loss: str) -> None:
    known = [[2, -1, -1], [-1, 3, -1, -1], [0]]
    kind = "projective" if loss == "eisner" else "nonprojective"
    found = losses.tree_losses(kind, True, scores, gold(known, RELATIONS))
    for row, length in enumerate(LENGTHS):
        among = all_heads((True,) * length, True, loss == "eisner")
        fitting = [t for t in among if all(k in (-1, h) for k, h in zip(known[row], t, strict=True))]
        expected = log_add([tree_score(scores, row, t) for t in among])
        expected -= log_add([tree_score(scores, row, t) for t in fitting])
        assert found[row].item() == pytest.approx(expected, abs=1e-4)


def test_head_is_a_softmax_over_the_other_nodes_for_each_word(scores: ArcScores) -> None:
    found = losses.sentence_losses(BiaffineParserConfig(loss="head"), scores, gold(HEADS, RELATIONS))
    for row, length in enumerate(LENGTHS):
        expected = relation_loss(scores, row, HEADS[row], RELATIONS[row])
        for word in range(1, length + 1):
            others = [scores.arcs[row, head, word].item() for head in range(length + 1) if head != word]
            expected += log_add(others) - scores.arcs[row, HEADS[row][word - 1], word].item()
        assert found[row].item() == pytest.approx(expected, abs=1e-4)


def test_head_loss_skips_words_without_a_known_head(scores: ArcScores) -> None:
    all_known = losses.head_losses(scores, gold([[2, 0, 2], [3, 1, 0, 3], [0]], RELATIONS))
    some = losses.head_losses(scores, gold([[2, 0, -1], [3, 1, 0, 3], [0]], RELATIONS))
    last = [scores.arcs[0, head, 3].item() for head in (0, 1, 2)]
    assert (all_known - some).tolist() == pytest.approx([log_add(last) - last[2], 0.0, 0.0], abs=1e-4)


def test_relation_loss_needs_a_known_arc_and_relation(scores: ArcScores) -> None:
    heads, relations = [[2, -1, 2], [3, 1, 0, 3], [0]], [[0, 1, 1], [1, -1, 1, 0], [1]]
    found = losses.relation_losses(scores, gold(heads, relations))
    for row, unknown in ((0, 1), (1, 1), (2, None)):
        words = [i for i in range(LENGTHS[row]) if i != unknown]
        expected = 0.0
        for i in words:
            each = [relation_score(scores, row, heads[row][i], i + 1, q) for q in range(2)]
            expected += log_add(each) - each[relations[row][i]]
        assert found[row].item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("margin", [1.0, 2.5])
@pytest.mark.parametrize("trees", ["nonprojective", "projective"])
def test_margin_is_the_worst_violation_over_all_labeled_trees(scores: ArcScores, trees: str, margin: float) -> None:
    settings = BiaffineParserConfig(loss="margin", trees=trees, margin=margin)
    heads = [[2, 0, 2], [3, 3, 0, 3], [0]]
    found = losses.sentence_losses(settings, scores, gold(heads, RELATIONS))
    for row, length in enumerate(LENGTHS):
        worst = -math.inf
        for other in all_heads((True,) * length, True, trees == "projective"):
            for labels in itertools.product(range(2), repeat=length):
                arcs = enumerate(zip(other, labels, strict=True), start=1)
                score = tree_score(scores, row, other) + math.fsum(
                    relation_score(scores, row, h, word, q) for word, (h, q) in arcs
                )
                right = zip(heads[row], RELATIONS[row], strict=True)
                cost = margin * sum(a != b for a, b in zip(right, zip(other, labels, strict=True), strict=True))
                worst = max(worst, score + cost)
        own = tree_score(scores, row, heads[row]) + math.fsum(
            relation_score(scores, row, h, word, q)
            for word, (h, q) in enumerate(zip(heads[row], RELATIONS[row], strict=True), start=1)
        )
        assert found[row].item() == pytest.approx(worst - own, abs=1e-4)
        assert found[row].item() >= 0


@pytest.mark.parametrize("loss", ["matrix_tree", "eisner", "head", "margin"])
def test_loss_is_independent_of_padding_and_batch(scores: ArcScores, loss: str) -> None:
    settings = BiaffineParserConfig(loss=loss, trees="projective")
    heads = [[2, 0, 2], [3, 3, 0, 3], [0]]
    together = losses.sentence_losses(settings, scores, gold(heads, RELATIONS))
    for row, length in enumerate(LENGTHS):
        n = length + 1
        alone = ArcScores(
            scores.arcs[row : row + 1, :n, :n],
            scores.lengths[row : row + 1],
            scores.heads[row : row + 1, :n],
            scores.dependents[row : row + 1, :n],
            scores.biaffine,
        )
        found = losses.sentence_losses(settings, alone, gold([heads[row]], [RELATIONS[row]]))
        assert found.item() == pytest.approx(together[row].item(), abs=1e-4)


@pytest.mark.parametrize("loss", ["matrix_tree", "eisner", "head", "margin"])
def test_gradients_reach_arcs_and_relations(loss: str) -> None:
    torch.manual_seed(0)
    arcs = torch.randn(1, 4, 4, requires_grad=True)
    made = scored(arcs.double(), [3])
    heads, dependents = made.heads.clone().requires_grad_(), made.dependents.clone().requires_grad_()
    scores = ArcScores(made.arcs, made.lengths, heads, dependents, made.biaffine)
    settings = BiaffineParserConfig(loss=loss, trees="projective", margin=5.0)
    losses.sentence_losses(settings, scores, gold([[2, 0, 2]], [[0, 1, 0]])).sum().backward()
    assert arcs.grad is not None
    assert arcs.grad.abs().sum() > 0
    assert heads.grad is not None
    assert heads.grad.abs().sum() > 0
    assert made.biaffine.weight.grad is not None
    assert made.biaffine.weight.grad.isfinite().all()
