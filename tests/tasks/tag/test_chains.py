"""Chain taggers without kernels: the best tags equal those of the structured distribution."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest

from catena.accelerators import start_cold
from catena.data.examples import SourceLocation
from catena.tasks.tag.chains import ScoredChainDistribution
from catena.tasks.tag.config import TagConfig
from catena.tasks.tag.data import TaggedSentence, fit_tags
from catena.tasks.tag.distribution import ChainScores
from catena.tasks.tag.features.dictionary import FeatureDictionary
from catena.tasks.tag.features.model import FeatureModel, build_layout
from catena.tasks.tag.features.templates import parse_templates
from catena.tasks.tag.tag_set import TagSet
from catena.tasks.word_inputs.sentences import Sentence

TEMPLATES = ("w[0]", "w[-1]|w[0]", "w[2]", "suffix3[0]", "shape[1]", "bias", "tag[-1]|w[0]")
SENTENCES = [Sentence(tuple(words.split())) for words in ("a bee sees", "the Bee", "sees a bee the the a", "new")]


def random_scores(seed: int, full: bool) -> ChainScores:
    generator = np.random.default_rng(seed)
    tables = [generator.normal(size=shape) for shape in ((3, 3), (3,), (3,), (2, 5, 3, 3))] if full else []
    return ChainScores(generator.normal(size=(2, 5, 3)), np.array([5, 3]), *tables)


def enumerated_best(scores: ChainScores, row: int) -> list[int]:
    def total(tags: tuple[int, ...]) -> float:
        found = sum(scores.emissions[row, i, tag] for i, tag in enumerate(tags))
        for table, at in ((scores.start, tags[0]), (scores.end, tags[-1])):
            found += 0.0 if table is None else table[at]
        for i in range(1, len(tags)):
            found += 0.0 if scores.transitions is None else scores.transitions[tags[i - 1], tags[i]]
            found += 0.0 if scores.steps is None else scores.steps[row, i, tags[i - 1], tags[i]]
        return float(found)

    return list(max(product(range(3), repeat=int(scores.lengths[row])), key=total))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_best_equals_enumeration(seed: int, full: bool) -> None:
    scores = random_scores(seed, full)
    assert [scores.best(row) for row in range(2)] == [enumerated_best(scores, row) for row in range(2)]


def tagging() -> TagSet:
    sentence = TaggedSentence(Sentence(("a", "b", "c")), ("B-X", "I-X", "O"), SourceLocation("x", 1))
    return fit_tags(TagConfig(), [sentence])


@pytest.mark.parametrize("seed", range(5))
def test_best_without_kernels_equals_chain(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = tagging()
    assert tags.rules() is not None
    distribution = ScoredChainDistribution(random_scores(seed, full=True), tags.rules(), tags)
    expected = distribution.best()
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    with start_cold(10**9):
        monkeypatch.delattr(ScoredChainDistribution, "chain")
        assert distribution.best() == expected


def test_best_is_impossible_if_no_tag_may_begin() -> None:
    nothing = np.zeros(3, bool)
    scores = random_scores(0, full=True).restricted(np.ones((3, 3), bool), nothing, ~nothing)
    assert scores.best(1) == [-1, -1, -1]


@pytest.mark.parametrize("structure", ["crf", "softmax", "memm", "perceptron"])
def test_scores_without_kernels_equal_those_of_kernels(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    templates = TEMPLATES if structure == "crf" else TEMPLATES[:-1]
    dictionary, ids = FeatureDictionary.count(SENTENCES, parse_templates(templates))
    tags = (np.arange(ids.tokens) * 5 % 3).astype(np.int32)
    layout = build_layout(
        ids, tags, len(dictionary), 3, all_tags=False, transitions="all", edges=True, of_pairs=dictionary.of_pairs
    )
    model = FeatureModel(dictionary, layout, np.random.default_rng(0).normal(size=layout.size), structure)
    sentences = [*SENTENCES, Sentence(("unseen", "bee", "x")), Sentence(("a",))]
    expected = model.scores(sentences)
    encoded = dictionary.encode(sentences)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    with start_cold(10**9):
        monkeypatch.setattr("catena.tasks.tag.features.dictionary._kernels", None)
        found = model.scores(sentences)
        few = dictionary.encode(sentences)
    np.testing.assert_array_equal(few.ids, encoded.ids)
    np.testing.assert_array_equal(few.token_first, encoded.token_first)
    np.testing.assert_array_equal(found.emissions, expected.emissions)
    assert (found.steps is None) == (expected.steps is None)
    if found.steps is not None:
        np.testing.assert_array_equal(found.steps, expected.steps)
