"""Trees from scores of spans, against enumeration of all trees."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch

from catena.data.readers.brackets import to_text
from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.tasks.options import RankedOptions
from catena.tasks.parse.constituency.config import SpanParserConfig
from catena.tasks.parse.constituency.span.decode import SpanDecoder, SpanLabels, best_trees
from catena.tasks.parse.constituency.span.model import SpanScores
from catena.tasks.parse.constituency.trees import BracketConstraint, LabeledSpan, bracketing, phrases_to_tree
from catena.tasks.parse.predict import ConstituencyPrediction
from tests.oracle.span_parses import Brackets, best_binary_form, weights_of_trees
from tests.tasks.parse.constituency.banks import sentence

WORDS = ("a", "b", "c")
NAMES = SpanLabels(Labels(["NP", "S NP"], [5, 3]), Labels(["D", "N"]), "TOP")
CHAINS = {1: ("NP",), 2: ("S", "NP")}


def scores(seed: int = 3) -> SpanScores:
    generator = torch.Generator().manual_seed(seed)
    return SpanScores(torch.randn(1, 3, 3, 3, generator=generator) * 1.3, torch.randn(1, 3, 2, generator=generator))


def text_of(tree: Brackets, given: SpanScores, top: str = "TOP") -> str:
    tags = [NAMES.tags.name(int(q)) for q in given.tags[0].argmax(-1)]
    phrases = [LabeledSpan(i, j + 1, CHAINS[q]) for i, j, q in tree]
    return to_text(phrases_to_tree(WORDS, tags, phrases, top))


def listed(given: SpanScores) -> dict[str, float]:
    """The probability of every tree; trees that are equal after adding the top are merged."""
    weights = weights_of_trees(given.spans[0].double().tolist())
    total = math.fsum(weights.values())
    found: dict[str, float] = {}
    for tree, weight in weights.items():
        found[text_of(tree, given)] = found.get(text_of(tree, given), 0.0) + weight / total
    return found


def parsed(
    given: SpanScores,
    options: RankedOptions,
    decoding: str = "best",
    fixed: tuple[BracketConstraint, ...] | None = None,
) -> ConstituencyPrediction:
    settings = SpanParserConfig.model_validate({"decoding": decoding})
    decoder = SpanDecoder(settings, given, [sentence(*WORDS, constraint=fixed)], NAMES)
    return decoder.predictions(options, torch.Generator().manual_seed(0))[0]


@pytest.mark.parametrize("seed", range(5))
def test_the_k_best_have_their_exact_probabilities(seed: int) -> None:
    given = scores(seed)
    weights = weights_of_trees(given.spans[0].double().tolist())
    total = math.fsum(weights.values())
    exact = {
        text_of(tree, given): weight / total for tree, weight in weights.items() if any(s[:2] == (0, 2) for s in tree)
    }
    found = parsed(given, RankedOptions(n_best=6))
    assert len({to_text(answer.tree) for answer in found.ranked}) == 6
    logs = [answer.log_prob for answer in found.ranked]
    assert logs == sorted(logs, reverse=True)
    for answer in found.ranked:
        text = to_text(answer.tree)
        if not text.startswith("(TOP"):
            assert answer.probability == pytest.approx(exact[text], rel=1e-5)


@pytest.mark.parametrize("top", ["NP", "TOP"])
def test_k_best_trees_are_distinct_and_sum_to_one(top: str) -> None:
    """A tree with an added top equals the tree that has it, so it is listed once with both probabilities."""
    given = scores(1)
    names = SpanLabels(NAMES.chains, NAMES.tags, top)
    decoder = SpanDecoder(SpanParserConfig(), given, [sentence(*WORDS)], names)
    answers = decoder.predictions(RankedOptions(n_best=500), torch.Generator())[0].n_best
    texts = [to_text(answer.tree) for answer in answers]
    weights = weights_of_trees(given.spans[0].double().tolist())
    exact: Counter[str] = Counter()
    for tree, weight in weights.items():
        exact[text_of(tree, given, top)] += weight / math.fsum(weights.values())
    assert len(texts) == len(set(texts)) == len(exact)
    for text, answer in zip(texts, answers, strict=True):
        assert answer.probability == pytest.approx(exact[text], rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_ranked_trees_have_the_best_forms(seed: int) -> None:
    given = scores(seed)
    spans = given.spans[0].double().numpy().round(seed % 2 + 1)
    spans[0, 1, seed % 3] = -math.inf
    table = spans.tolist()
    by_form = sorted((best_binary_form(table, tree) for tree in weights_of_trees(table)), reverse=True)
    possible = [score for score in by_form if score > -math.inf]
    for k in (1, 2, 5, 1000):
        found = best_trees(spans, k)
        assert len({tuple(sorted(tree)) for tree in found}) == len(found)
        assert [best_binary_form(table, tuple(sorted(tree))) for tree in found] == pytest.approx(possible[:k])


def test_k_best_of_a_flat_tree_of_many_words() -> None:
    """It has too many binary forms to list, all with the same score."""
    spans = np.full((40, 40, 3), -5.0)
    spans[..., 0] = 0.0
    assert best_trees(spans, 1) == [[]]
    assert sorted(map(len, best_trees(spans, 12))) == [0, *[1] * 11]


def test_best_tree_has_the_best_binary_form() -> None:
    for seed in range(10):
        given = scores(seed)
        best = max(
            weights_of_trees(given.spans[0].double().tolist()),
            key=lambda tree: best_form(given, tree),
        )
        assert to_text(parsed(given, RankedOptions()).tree) == text_of(best, given)


def best_form(given: SpanScores, tree: Brackets) -> float:
    return best_binary_form(given.spans[0].double().tolist(), tree)


def test_sample_frequencies_equal_probabilities() -> None:
    given = scores(1)
    n = 800
    found = parsed(given, RankedOptions(samples=n))
    drawn = Counter(to_text(answer.tree) for answer in found.ranked)
    wanted = listed(given)
    likely = {text: p for text, p in wanted.items() if p > 0.02}
    assert len(likely) > 5
    for text, p in likely.items():
        assert drawn[text] / n == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / n))


def test_confidence_is_the_probability_of_a_bracket() -> None:
    given = scores(2)
    weights = weights_of_trees(given.spans[0].double().tolist())
    total = math.fsum(weights.values())
    found = parsed(given, RankedOptions(confidence=True))
    for label in ("NP", "S"):
        for i in range(3):
            for j in range(i + 1, 4):
                exact = math.fsum(
                    weight / total
                    for tree, weight in weights.items()
                    if any((a, b) == (i, j - 1) and label in CHAINS[q] for a, b, q in tree)
                )
                if exact >= 0.01:
                    assert (found.brackets or {})[label, i, j] == pytest.approx(exact, rel=1e-4)
    assert found.tags is not None
    assert sum(found.tags[0].values()) == pytest.approx(1.0)


def test_recall_decoding_has_the_brackets_above_the_price() -> None:
    given = scores(2)
    sure = parsed(given, RankedOptions(confidence=True), "recall")
    assert sure.brackets is not None
    for span in bracketing(sure.tree).spans:
        assert span[0] == "TOP" or sure.brackets[span] > 0.4


def test_given_brackets_are_in_every_tree() -> None:
    given = scores(4)
    fixed = (BracketConstraint(1, 3, "NP", True),)
    for options in (
        RankedOptions(),
        RankedOptions(n_best=4),
        RankedOptions(samples=20),
        RankedOptions(confidence=True),
    ):
        for decoding in ("best", "recall"):
            found = parsed(scores(4), options, decoding, fixed)
            for answer in found.ranked:
                assert "(NP (" in to_text(answer.tree).replace("(S (NP", "(NP")
                assert any(label == "NP" and (i, j) == (1, 3) for label, i, j in bracketing(answer.tree).spans)
    weights = weights_of_trees(given.spans[0].double().tolist())
    kept = {t: w for t, w in weights.items() if any((i, j) == (1, 2) and CHAINS[q][-1] == "NP" for i, j, q in t)}
    total = math.fsum(kept.values())
    best = parsed(scores(4), RankedOptions(n_best=2), fixed=fixed).n_best[0]
    wanted = {text_of(tree, given): weight / total for tree, weight in kept.items()}
    assert best.probability == pytest.approx(wanted[to_text(best.tree)], rel=1e-5)


def test_given_tag_is_kept_and_unknown_tag_is_rejected() -> None:
    found = parsed(
        scores(4), RankedOptions(), fixed=(BracketConstraint(0, 1, "D", True), BracketConstraint(1, 2, "N", True))
    )
    assert [leaf.label for leaf in found.tree.leaves()][:2] == ["D", "N"]
    with pytest.raises(DataError, match="the tag 'X' given for word 1 does not occur in training"):
        parsed(scores(4), RankedOptions(), fixed=(BracketConstraint(0, 1, "X", True),))


def test_impossible_brackets_are_rejected() -> None:
    with pytest.raises(DataError, match=r"No tree has all the given brackets \(1-2\)"):
        parsed(scores(4), RankedOptions(), fixed=(BracketConstraint(0, 2, "VP", True),))
