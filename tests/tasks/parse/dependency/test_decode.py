"""Decoding against enumeration of all labeled trees of small sentences."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch

from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.tasks.options import RankedOptions
from catena.tasks.parse.dependency import decode
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.tasks.parse.dependency.decode import AllowedArcs, DependencyDecoder, Parse
from catena.tasks.parse.dependency.model import ArcScores
from tests.oracle.dependency import all_heads
from tests.tasks.parse.dependency.helpers import scored

NAMES = Labels(["a", "b"])
LENGTHS = [3, 2]
KINDS = [("head", "nonprojective"), ("head", "projective"), ("margin", "nonprojective"), ("margin", "projective")]
LabeledTree = tuple[tuple[int, str], ...]


@pytest.fixture
def scores() -> ArcScores:
    torch.manual_seed(3)
    found = scored(1.5 * torch.randn(2, 4, 4, dtype=torch.float64), LENGTHS)
    found.biaffine.requires_grad_(False)
    return found


def settings_of(loss: str, trees: str) -> BiaffineParserConfig:
    return BiaffineParserConfig(loss=loss, trees=trees)


def listed(
    settings: BiaffineParserConfig, scores: ArcScores, row: int, allowed: AllowedArcs | None = None
) -> dict[LabeledTree, float]:
    """Every labeled tree of a sentence with its probability."""
    relations = scores.relations()[row]
    if settings.loss != "margin":
        relations = relations.log_softmax(-1)
    found = {}
    length = LENGTHS[row]
    for heads in all_heads((True,) * length, settings.single_root, settings.trees == "projective"):
        for labels in itertools.product(range(2), repeat=length):
            parts = [(word, h, q) for word, (h, q) in enumerate(zip(heads, labels, strict=True), start=1)]
            if allowed is not None and not all(
                allowed.arcs[row, h, word] and allowed.relations[row, word, q] for word, h, q in parts
            ):
                continue
            score = math.fsum(float(scores.arcs[row, h, w] + relations[h, w, q]) for w, h, q in parts)
            found[tuple((h, NAMES.name(q)) for _, h, q in parts)] = score
    top = max(found.values(), default=0.0)
    total = math.fsum(math.exp(score - top) for score in found.values())
    return {tree: math.exp(score - top) / total for tree, score in found.items()}


def as_tree(parse: Parse) -> LabeledTree:
    return tuple(zip(parse.heads, parse.relations, strict=True))


@pytest.mark.parametrize(("loss", "trees"), KINDS)
def test_the_best_parse_is_the_most_probable_labeled_tree(loss: str, trees: str) -> None:
    settings = settings_of(loss, trees)
    by_arcs_alone = 0
    for seed in range(8):
        torch.manual_seed(seed)
        scores = scored(0.5 * torch.randn(2, 4, 4, dtype=torch.float64), LENGTHS, seed=seed)
        scores.biaffine.requires_grad_(False)
        found = DependencyDecoder(settings, scores, NAMES).parses(RankedOptions())
        for row, (parse,) in enumerate(found):
            every = listed(settings, scores, row)
            assert as_tree(parse) == max(every, key=every.__getitem__)
            assert parse.log_prob is None
            assert parse.confidence is None
            heads = {
                tree: sum(float(scores.arcs[row, h, w]) for w, (h, _) in enumerate(tree, start=1)) for tree in every
            }
            best = max(heads, key=heads.__getitem__)
            by_arcs_alone += tuple(h for h, _ in best) == parse.heads
    assert by_arcs_alone < 16, "relations must affect the result, or this test is too weak"


@pytest.mark.parametrize(("loss", "trees"), KINDS)
def test_k_best_parses_are_sorted_with_exact_probabilities(scores: ArcScores, loss: str, trees: str) -> None:
    settings = settings_of(loss, trees)
    found = DependencyDecoder(settings, scores, NAMES).parses(RankedOptions(n_best=1000))
    assert len(found) > 0
    for row, parses in enumerate(found):
        every = listed(settings, scores, row)
        assert len(parses) == len(every)  # all trees, and no others
        assert {as_tree(p) for p in parses} == set(every)
        for parse in parses:
            assert math.exp(parse.log_prob or 0.0) == pytest.approx(every[as_tree(parse)], abs=1e-5)
        probabilities = [parse.log_prob or 0.0 for parse in parses]
        assert probabilities == sorted(probabilities, reverse=True)


@pytest.mark.parametrize(("loss", "trees"), KINDS)
def test_confidence_is_the_probability_of_all_trees_with_the_arc_and_relation(
    scores: ArcScores, loss: str, trees: str
) -> None:
    settings = settings_of(loss, trees)
    found = DependencyDecoder(settings, scores, NAMES).parses(RankedOptions(n_best=3, confidence=True))
    assert len(found) > 0
    for row, parses in enumerate(found):
        every = listed(settings, scores, row)
        for parse in parses:
            assert parse.confidence is not None
            for word, (part, sure) in enumerate(zip(as_tree(parse), parse.confidence, strict=True)):
                expected = math.fsum(p for tree, p in every.items() if tree[word] == part)
                assert sure == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("loss", "trees"), [KINDS[0], KINDS[3]])
def test_sample_frequencies_equal_probabilities(scores: ArcScores, loss: str, trees: str) -> None:
    settings, n = settings_of(loss, trees), 1200
    generator = torch.Generator().manual_seed(0)
    found = DependencyDecoder(settings, scores, NAMES).parses(RankedOptions(samples=n), generator)
    assert len(found) > 0
    for row, parses in enumerate(found):
        every = listed(settings, scores, row)
        counts = Counter(as_tree(parse) for parse in parses)
        assert sum(counts.values()) == n
        for tree, p in every.items():
            assert counts[tree] / n == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / n) + 1e-3)
        for parse in parses[:20]:
            assert math.exp(parse.log_prob or 0.0) == pytest.approx(every[as_tree(parse)], abs=1e-5)


@pytest.mark.parametrize(("loss", "trees"), KINDS)
def test_constraints_condition_every_parse(scores: ArcScores, loss: str, trees: str) -> None:
    settings = settings_of(loss, trees)
    arcs, relations = torch.ones(2, 4, 4, dtype=torch.bool), torch.ones(2, 4, 2, dtype=torch.bool)
    arcs[0, :, 1] = False
    arcs[0, 3, 1] = True  # word 3 is the head of word 1
    arcs[0, 0, 2] = False  # word 2 is not the root
    relations[0, 2, 0] = False  # and has relation b
    allowed = AllowedArcs(arcs, relations)
    decoder = DependencyDecoder(settings, scores, NAMES, allowed)
    every = listed(settings, scores, 0, allowed)
    assert as_tree(decoder.parses(RankedOptions())[0][0]) == max(every, key=every.__getitem__)
    parses = decoder.parses(RankedOptions(n_best=1000, confidence=True))[0]
    assert {as_tree(p) for p in parses} == set(every)
    for parse in parses:
        assert math.exp(parse.log_prob or 0.0) == pytest.approx(every[as_tree(parse)], abs=1e-5)
        assert parse.confidence is not None
        for word, (part, sure) in enumerate(zip(as_tree(parse), parse.confidence, strict=True)):
            expected = math.fsum(p for tree, p in every.items() if tree[word] == part)
            assert sure == pytest.approx(expected, abs=1e-5)
    for parse in decoder.parses(RankedOptions(samples=50))[0]:
        assert as_tree(parse) in every


def test_impossible_constraint_gives_no_parse(scores: ArcScores) -> None:
    arcs = torch.ones(2, 4, 4, dtype=torch.bool)
    arcs[0, 0] = False  # no word is the root
    decoder = DependencyDecoder(
        settings_of("head", "nonprojective"), scores, NAMES, AllowedArcs(arcs, torch.ones(2, 4, 2).bool())
    )
    for options in (
        RankedOptions(),
        RankedOptions(n_best=2),
        RankedOptions(confidence=True),
        RankedOptions(samples=2),
    ):
        assert [bool(parses) for parses in decoder.parses(options)] == [False, True]


def test_several_roots_are_predicted_if_allowed() -> None:
    arcs = torch.zeros(1, 4, 4, dtype=torch.float64)
    arcs[:, 0] = 5.0  # every word prefers the root
    several = BiaffineParserConfig(loss="head", trees="nonprojective", single_root=False)
    assert DependencyDecoder(several, scored(arcs, [3]), NAMES).best()[0][0] == [0, 0, 0]
    single = BiaffineParserConfig(loss="head", trees="nonprojective")
    assert DependencyDecoder(single, scored(arcs, [3]), NAMES).best()[0][0].count(0) == 1


@pytest.mark.parametrize("loss", ["head", "margin"])
def test_relations_scored_a_few_heads_at_a_time_are_the_same(
    scores: ArcScores, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(loss, "nonprojective")
    options = RankedOptions(confidence=True)
    at_once = DependencyDecoder(settings, scores, NAMES).parses(options)
    monkeypatch.setattr(decode, "AT_ONCE", 1)
    assert DependencyDecoder(settings, scores, NAMES).parses(options) == at_once


@pytest.mark.parametrize("loss", ["head", "margin"])
def test_kernel_and_torch_give_the_same_parses(loss: str) -> None:
    draw = torch.Generator().manual_seed(0)
    lengths = [3, 1, 6, 0]
    plain = scored(torch.randn(4, 7, 7, generator=draw, dtype=torch.float64), lengths, d=5, k=2)
    single = ArcScores(plain.arcs.float(), plain.lengths, plain.heads.float(), plain.dependents.float(), plain.biaffine)
    settings, options = settings_of(loss, "nonprojective"), RankedOptions(confidence=True, scores=True)
    with torch.inference_mode():
        wanted = DependencyDecoder(settings, plain, NAMES).parses(options)
        plain.biaffine.float()
        found = DependencyDecoder(settings, single, NAMES).parses(options)
    assert len(found) == 4
    for (one,), (other,) in zip(found, wanted, strict=True):
        assert one[:2] == other[:2]
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-5)


def test_too_long_sentences_are_rejected(scores: ArcScores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "LONGEST_PROJECTIVE_SUM", 2)
    projective = DependencyDecoder(settings_of("head", "projective"), scores, NAMES)
    assert projective.parses(RankedOptions())  # the best is found at any length
    with pytest.raises(DataError, match="probabilities over projective trees are limited to sentences of 2 words"):
        projective.parses(RankedOptions(confidence=True))
    monkeypatch.setattr(decode, "MOST_SCORES", 31)
    with pytest.raises(DataError, match="3 words need 32 scores of relations, more than 31"):
        DependencyDecoder(settings_of("head", "nonprojective"), scores, NAMES).parses(RankedOptions(n_best=2))
