"""Attachment scores: counted by hand from the published definitions, and non-projectivity against its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from catena.errors import DataError
from catena.metrics.attachment import MEASURES, DependencyArc, count_sentence, count_trees, nonprojective_words
from catena.metrics.intervals import bootstrap_score_interval
from tests.oracle.dependency import descends

# "The old dogs were fed at noon ." Function words: The, were, at. Content words: old, dogs, fed, noon.
GOLD = [
    DependencyArc(3, "det", "DET", "Definite=Def|PronType=Art"),
    DependencyArc(3, "amod", "ADJ", "Degree=Pos"),
    DependencyArc(5, "nsubj:pass", "NOUN", "Number=Plur"),
    DependencyArc(5, "aux:pass", "AUX", "Mood=Ind|Tense=Past"),
    DependencyArc(0, "root", "VERB", "VerbForm=Part"),
    DependencyArc(7, "case", "ADP", "_"),
    DependencyArc(5, "obl", "NOUN", "Number=Sing"),
    DependencyArc(5, "punct", "PUNCT", "_"),
]


def changed(**words: DependencyArc) -> list[DependencyArc]:
    return [words.get(f"w{i}", word) for i, word in enumerate(GOLD, start=1)]


def score(name: str, predicted: list[DependencyArc], gold: list[DependencyArc] = GOLD) -> float:
    return float(MEASURES[name]([gold], [predicted]))


def test_a_right_tree_scores_one_in_every_way() -> None:
    assert all(score(name, GOLD) == 1.0 for name in ("uas", "las", "clas", "mlas"))


def test_punctuation_counts_in_uas_and_las_and_not_among_content_words() -> None:
    predicted = changed(w8=GOLD[7]._replace(head=7))
    assert score("uas", predicted) == score("las", predicted) == 7 / 8
    assert score("clas", predicted) == score("mlas", predicted) == 1.0


def test_a_wrong_relation_costs_las_and_a_wrong_subtype_nothing() -> None:
    assert score("las", changed(w3=GOLD[2]._replace(relation="nsubj"))) == 1.0
    predicted = changed(w3=GOLD[2]._replace(relation="obj"))
    assert score("uas", predicted) == 1.0
    assert score("las", predicted) == 7 / 8
    assert score("clas", predicted) == 3 / 4  # 3 of 4 content words, 4 predicted


def test_clas_is_f1_because_predicted_content_words_may_be_more_or_fewer() -> None:
    # "The" is predicted as amod: 5 predicted content words, 4 of the references, all 4 of which are right.
    more = changed(w1=GOLD[0]._replace(relation="amod"))
    assert score("clas", more) == pytest.approx(2 * 4 / (4 + 5))
    # "noon" is predicted as a function word: 3 predicted content words, 3 right ones.
    fewer = changed(w7=GOLD[6]._replace(relation="case"))
    assert score("clas", fewer) == pytest.approx(2 * 3 / (4 + 3))


def test_mlas_demands_tag_and_universal_features_of_the_word() -> None:
    assert score("mlas", changed(w7=GOLD[6]._replace(tag="PROPN"))) == 3 / 4
    assert score("mlas", changed(w7=GOLD[6]._replace(features="Number=Plur"))) == 3 / 4
    # A feature that is not universal is not compared, nor is the order of features.
    assert score("mlas", changed(w7=GOLD[6]._replace(features="Number=Sing|Typo=Yes"))) == 1.0
    assert score("mlas", changed(w1=GOLD[0]._replace(features="PronType=Art|Definite=Def"))) == 1.0


def test_mlas_demands_the_function_words_below_a_word() -> None:
    # "at" hangs from "fed": both "noon", which lost it, and "fed", which got it, are wrong; "old" and "dogs" are right.
    assert score("mlas", changed(w6=GOLD[5]._replace(head=5))) == 2 / 4
    # A function word with another tag spoils its head alone.
    assert score("mlas", changed(w6=GOLD[5]._replace(tag="SCONJ"))) == 3 / 4
    # Content words below a word do not matter to it: "old" is wrong itself, "dogs" is right.
    assert score("mlas", changed(w2=GOLD[1]._replace(tag="NOUN"))) == 3 / 4
    # That punctuation below a word is not compared was seen above.


def test_counts_of_sentences_are_added_before_the_division() -> None:
    wrong = changed(w3=GOLD[2]._replace(relation="obj"))
    short = [DependencyArc(0, "root", "INTJ"), DependencyArc(1, "punct", "PUNCT")]
    assert MEASURES["las"]([GOLD, short], [wrong, short]) == pytest.approx((7 + 2) / (8 + 2))
    assert MEASURES["las"]([GOLD, short], [wrong, short]).signature == "las|conll2018|n=2"
    assert MEASURES["clas"]([GOLD, short], [wrong, short]) == pytest.approx(2 * (3 + 1) / (5 + 5))


def test_nonprojective_recall_counts_heads_of_crossing_arcs() -> None:
    # A hearing is scheduled on the issue today: "on … issue" depends on "hearing" across "is scheduled".
    heads, relations = [2, 4, 4, 0, 7, 7, 2, 4], ["det", "nsubj", "aux", "root", "case", "det", "nmod", "obl"]
    gold = [DependencyArc(h, r) for h, r in zip(heads, relations, strict=True)]
    assert nonprojective_words(heads) == [7]
    assert score("nonprojective_recall", gold, gold) == 1.0
    assert score("nonprojective_recall", [*gold[:6], DependencyArc(4, "nmod"), gold[7]], gold) == 0.0
    assert score("nonprojective_recall", [*gold[:7], DependencyArc(2, "obl")], gold) == 1.0
    assert score("nonprojective_recall", GOLD) == 0.0  # nothing to find


def test_nonprojective_words_by_definition_over_all_trees_of_four_words() -> None:
    for heads in itertools.product(range(5), repeat=4):
        named = {i + 1: h for i, h in enumerate(heads)}
        if not all(descends(word, 0, named) for word in named):
            continue
        expected = [
            word
            for word, head in named.items()
            if any(not descends(w, head, named) for w in range(min(word, head) + 1, max(word, head)))
        ]
        assert nonprojective_words(heads) == expected


def test_words_without_a_known_head_have_no_arc() -> None:
    assert nonprojective_words([3, -1, 0]) == [1]
    assert nonprojective_words([-1, -1]) == []


def test_a_long_chain_does_not_need_a_deep_stack() -> None:
    assert nonprojective_words(list(range(5000))) == []


def test_intervals_resample_sentences() -> None:
    wrong = changed(w3=GOLD[2]._replace(relation="obj"))
    rows = count_trees([GOLD] * 30, [GOLD] * 20 + [wrong] * 10)
    found = bootstrap_score_interval(rows, MEASURES["las"].score, np.random.default_rng(0))
    assert found.value == pytest.approx((20 * 8 + 10 * 7) / 240)
    assert 7 / 8 < found.low < found.value < found.high < 1


def test_trees_with_different_words_raise_error() -> None:
    with pytest.raises(DataError, match="must have the 8 words of its reference, got 7"):
        count_sentence(GOLD, GOLD[:7])
    with pytest.raises(DataError, match="one prediction for each reference"):
        MEASURES["las"]([GOLD], [])
