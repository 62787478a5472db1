"""A trained tagger on features: chains with correct scores, readable weights, and loading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from catena.randomness import Randomness
from catena.tasks.tag.config import FeatureTaggerConfig
from catena.tasks.tag.features.dictionary import FeatureDictionary
from catena.tasks.tag.features.learners import build_learner
from catena.tasks.tag.features.model import FeatureModel, build_layout
from catena.tasks.tag.features.templates import parse_templates
from catena.tasks.word_inputs.sentences import Sentence

LABELS = ("D", "N", "V")
TEMPLATES = ("w[0]", "suffix1[0]", "w[-1]")


def made(structure: str = "crf", all_tags: bool = False, l1: float = 0.0) -> FeatureModel:
    words = [
        ("the", "cat", "sat"),
        ("a", "dog", "ran"),
        ("the", "dog", "sat"),
        ("cats",),
        ("a", "cat", "ran", "a", "dog"),
    ]
    tags = [(0, 1, 2), (0, 1, 2), (0, 1, 2), (1,), (0, 1, 2, 0, 1)]
    flat = np.array([tag for row in tags for tag in row], np.int32)
    dictionary, ids = FeatureDictionary.count([Sentence(row) for row in words], parse_templates(TEMPLATES))
    layout = build_layout(ids, flat, len(dictionary), 3, all_tags=all_tags, transitions="all", edges=True)
    learner = build_learner(ids, flat, layout, FeatureTaggerConfig(structure=structure, l1=l1, l2=0.1), Randomness(0))
    for _ in range(20):
        if not learner.step():
            break
    return FeatureModel(dictionary, layout, learner.vector(), structure)


SENTENCES = [Sentence(("the", "dog", "ran")), Sentence(("cats", "sat")), Sentence(("unseen",))]


def emission(model: FeatureModel, feature: str, tag: int) -> float:
    assert model.dictionary.names is not None
    f = list(model.dictionary.names).index(feature)
    low, high = model.layout.pair_first[f : f + 2]
    return sum(model.vector[p] for p in range(low, high) if model.layout.pair_tag[p] == tag)


@pytest.mark.parametrize("all_tags", [False, True])
def test_emissions_are_sums_of_the_weights_of_features(all_tags: bool) -> None:
    model = made(all_tags=all_tags)
    scores, lengths = model.emissions(SENTENCES)
    assert lengths.tolist() == [3, 2, 1]
    for tag in range(3):
        expected = sum(emission(model, f, tag) for f in ("w[0]=dog", "suffix1[0]=g", "w[-1]=the"))
        assert scores[0, 1, tag].item() == pytest.approx(expected)
    assert (scores[1, 2:] == 0).all()


@pytest.mark.parametrize("structure", ["crf", "softmax", "memm", "perceptron", "margin"])
def test_every_structure_learns_an_easy_corpus(structure: str) -> None:
    chain = made(structure).chain(SENTENCES)
    assert [row[:n] for row, n in zip(chain.argmax().tolist(), (3, 2), strict=False)] == [[0, 1, 2], [1, 2]]
    assert chain.marginals().sum(-1)[0] == pytest.approx(torch.ones(3), abs=1e-9)


def test_a_memm_is_normalized_word_by_word() -> None:
    model = made("memm")
    chain = model.chain(SENTENCES)
    assert chain.log_partition().tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    scores = torch.from_numpy(model.emissions(SENTENCES)[0])
    layout, vector = model.layout, model.vector
    first = (scores[0, 0] + torch.from_numpy(layout.start(vector))).log_softmax(-1)[0]
    second = (scores[0, 1] + torch.from_numpy(layout.transitions(vector)[0])).log_softmax(-1)[1]
    third = (scores[0, 2] + torch.from_numpy(layout.transitions(vector)[1])).log_softmax(-1)[2]
    tags = torch.tensor([[0, 1, 2], [0, 0, 0], [0, 0, 0]])
    assert chain.log_prob(tags)[0].item() == pytest.approx((first + second + third).item())


def test_tag_pair_features_are_transition_scores(tmp_path: Path) -> None:
    sentences, tags = [Sentence(("a", "b", "c")), Sentence(("c", "b"))], np.array([0, 1, 2, 2, 0], np.int32)
    templates = ("w[0]", "tag[-1]|w[0]")
    dictionary, ids = FeatureDictionary.count(sentences, parse_templates(templates))
    layout = build_layout(
        ids, tags, len(dictionary), 3, all_tags=False, transitions="all", edges=True, of_pairs=dictionary.of_pairs
    )
    names = list(dictionary.names or ())
    f = names.index("tag[-1]|w[0]=b")
    assert layout.pair_tag[layout.pair_first[f] : layout.pair_first[f + 1]].tolist() == [3 + 0 * 3 + 1, 3 + 2 * 3 + 0]
    vector = np.random.default_rng(0).normal(size=layout.size)
    model = FeatureModel(dictionary, layout, vector, "crf")
    chain = model.chain(sentences)
    assert chain.steps is not None
    assert chain.steps[0, 1, 0, 1].item() == vector[layout.pair_first[f]]
    assert chain.steps[1, 1, 2, 0].item() == vector[layout.pair_first[f] + 1]
    assert (chain.steps[0, 1] != 0).sum() == 2
    assert any("tag[-1]|w[0]=b" in line for line in model.describe(LABELS, 9) if line.startswith("features of pairs"))
    model.save(tmp_path)
    loaded = FeatureModel.load(tmp_path, templates, "crf", model.arrays())
    assert torch.equal(loaded.chain(sentences).marginals(), chain.marginals())


def test_a_softmax_has_no_transitions() -> None:
    model = made("softmax")
    probabilities = torch.from_numpy(model.emissions(SENTENCES)[0])[0].softmax(-1)
    assert model.chain(SENTENCES).marginals()[0].numpy() == pytest.approx(probabilities.numpy())


def test_slim_saved_model_gives_the_same_scores(tmp_path: Path) -> None:
    model = made(l1=0.3)
    slim = model.slim()
    assert slim.layout.pairs < model.layout.pairs
    assert len(slim.dictionary) < len(model.dictionary)
    assert (slim.layout.features(slim.vector) != 0).all()
    slim.dictionary.save(tmp_path)
    loaded = FeatureModel.load(tmp_path, TEMPLATES, "crf", slim.arrays())
    for other in (slim, loaded):
        assert torch.equal(other.chain(SENTENCES).emissions, model.chain(SENTENCES).emissions)
        assert torch.equal(other.chain(SENTENCES).argmax(), model.chain(SENTENCES).argmax())
    assert loaded.layout.k == 3


def test_describe_shows_weights() -> None:
    model = made()
    names = [name for name, _ in model.top_features(2, 3)]
    assert set(names) & {"w[0]=sat", "w[0]=ran", "w[-1]=cat", "w[-1]=dog"}
    weights = [abs(weight) for _, weight in model.top_features(2, 100)]
    assert weights == sorted(weights, reverse=True)
    lines = model.describe(LABELS, 2)
    assert lines[0].startswith("crf on ")
    assert any(line.startswith("V: ") for line in lines)
    assert "D → N" in lines[-2].split(": ")[1].split("  ")[0] or "N → V" in lines[-2]


def test_sentence_without_known_features_has_scores() -> None:
    model = made()
    chain = model.chain([Sentence(("?", "!"))])
    assert torch.isfinite(chain.log_partition()).all()
