"""Brackets as EVALB counts them: fixtures counted by hand from its rules, and sums against one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics.brackets import (
    CUTOFF,
    SCORES,
    UNLABELED,
    Bracketing,
    BracketRules,
    bracket_f1,
    bracket_measure,
    bracket_scores,
    bracket_statistics,
    label_table,
)
from catena.metrics.intervals import bootstrap_score_interval


def parse(text: str) -> Bracketing:
    """Read one tree in brackets, slowly and by hand; the label may be missing."""
    words: list[str] = []
    tags: list[str] = []
    spans: list[tuple[str, int, int]] = []

    def node(at: int) -> int:
        at += 1
        end = at
        while text[end] not in " ()":
            end += 1
        label, first = text[at:end], len(words)
        at = end
        children = False
        while text[at] != ")":
            if text[at] == " ":
                at += 1
            elif text[at] == "(":
                at, children = node(at), True
            else:
                end = text.index(")", at)
                words.append(text[at:end])
                tags.append(label)
                at = end
        if children:
            spans.append((label, first, len(words)))
        return at + 1

    node(0)
    return Bracketing(tuple(words), tuple(tags), tuple(spans))


GOLD = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sits) (PP (IN on) (NP (DT the) (NN mat)))) (. .)))"


def scores(gold: str, given: str, rules: BracketRules | None = None, **options: int) -> dict[str, float]:
    found = bracket_scores([parse(gold)], [parse(given)], rules or BracketRules(), **options)
    return {name: float(score) for name, score in found.items()}


def test_a_tree_is_its_own_best_reading() -> None:
    assert scores(GOLD, GOLD) == {
        "f1": 1.0, "precision": 1.0, "recall": 1.0, "complete": 1.0, "crossing": 0.0, "uncrossed": 1.0,
        "few_crossed": 1.0, "tagging": 1.0,
    }  # fmt: skip


def test_hits_are_counted_by_label_and_ends() -> None:
    # gold: S 0-6, NP 0-2, VP 2-6, PP 3-6, NP 4-6 (the full stop is taken out, TOP does not count)
    # given: S 0-6, NP 0-2, VP 2-3 (wrong), PP 3-6, NP 4-6, and an X over all
    given = "(TOP (S (X (NP (DT the) (NN cat)) (VP (VBZ sits)) (PP (IN on) (NP (DT the) (NN mat)))) (. .)))"
    found = scores(GOLD, given)
    assert found["precision"] == pytest.approx(4 / 6)
    assert found["recall"] == pytest.approx(4 / 5)
    assert found["f1"] == pytest.approx(8 / 11)
    assert found["complete"] == 0.0
    assert found["crossing"] == 0.0


def test_a_bracket_crosses_once_however_many_it_crosses() -> None:
    # given: (the (cat sits)) (on (the mat)): 0-3 crosses VP 2-6; 1-3 crosses NP 0-2 and VP 2-6; 3-6 and 4-6 do not
    given = "(S (A (DT the) (B (NN cat) (VBZ sits))) (PP (IN on) (NP (DT the) (NN mat))) (. .))"
    found = scores(GOLD, given)
    assert found["crossing"] == 2.0
    assert found["uncrossed"] == 0.0
    assert found["few_crossed"] == 1.0
    assert found["recall"] == pytest.approx(3 / 5)


def test_three_crossings_are_not_few() -> None:
    gold = "(S (A (X a) (X b)) (B (X c) (X d)) (C (X e) (X f)) (D (X g) (X h)))"
    given = "(S (X a) (A (X b) (X c)) (B (X d) (X e)) (C (X f) (X g)) (X h))"
    found = scores(gold, given)
    assert (found["crossing"], found["uncrossed"], found["few_crossed"]) == (3.0, 0.0, 0.0)


def test_punctuation_is_taken_out_before_ends_are_compared() -> None:
    gold = "(S (NP (NN dogs)) (, ,) (VP (VBP bark)) (. .))"
    moved = "(S (NP (NN dogs) (, ,)) (VP (VBP bark) (. .)))"
    assert scores(gold, moved)["f1"] == 1.0
    assert scores(gold, moved)["complete"] == 1.0


def test_brackets_with_nothing_but_punctuation_and_traces_do_not_count() -> None:
    gold = "(S (NP (NN dogs)) (VP (VBP bark) (NP (-NONE- *))) (PRN (, ,)))"
    given = "(S (NP (NN dogs)) (VP (VBP bark) (XP (-NONE- *))) (, ,))"
    assert scores(gold, given)["f1"] == 1.0


def test_particles_are_adverbs_and_functional_tags_do_not_count() -> None:
    gold = "(S (NP-SBJ-1 (PRP it)) (VP (VBZ goes) (PRT (RP up))) (NP=2 (NN today)))"
    given = "(S (NP (PRP it)) (VP (VBZ goes) (ADVP (RP up))) (NP-TMP (NN today)))"
    assert scores(gold, given)["f1"] == 1.0


@pytest.mark.parametrize("top", ["TOP", "ROOT", "S1", ""])
def test_the_topmost_bracket_does_not_count(top: str) -> None:
    statistics = bracket_statistics([parse(f"({top} (S (NN a) (NN b)))")], [parse("(S (NN a) (NN b))")])
    assert statistics[0, :3].tolist() == [1, 1, 1]


def test_the_same_bracket_twice_must_be_found_twice() -> None:
    found = scores("(S (S (NN a) (NN b)))", "(S (NN a) (NN b))")
    assert (found["precision"], found["recall"]) == (1.0, 0.5)


def test_tags_are_compared_at_the_words_that_count() -> None:
    gold = "(S (NP (NN dogs)) (VP (VBP bark) (RB loudly)) (. .))"
    given = "(S (NP (NNS dogs)) (VP (VBP bark) (RB loudly)) (NN .))"
    assert scores(gold, given)["tagging"] == pytest.approx(2 / 3)


def test_mistagged_period_is_not_a_word() -> None:
    gold = "(S (NP (NN dogs)) (VP (VBP bark)) (. .))"
    given = "(S (NP (NN dogs)) (VP (VBP bark) (NN .)))"
    assert scores(gold, given)["f1"] == 1.0


def test_without_labels_ends_are_enough() -> None:
    gold, given = "(S (NP (NN a) (NN b)) (VP (VB c)))", "(X (Y (NN a) (NN b)) (Z (VB c)))"
    assert scores(gold, given)["f1"] == 0.0
    assert scores(gold, given, UNLABELED)["f1"] == 1.0


def test_long_sentences_are_left_out_on_demand_and_punctuation_counts_as_length() -> None:
    long = "(S " + " ".join("(NN a)" for _ in range(CUTOFF)) + " (. .))"
    short = "(S " + " ".join("(NN a)" for _ in range(CUTOFF - 1)) + " (. .) (-NONE- *))"
    wrong = [parse(long.replace("(S", "(X")), parse(short)]
    assert float(bracket_f1([parse(long), parse(short)], wrong)) == 0.5
    found = bracket_scores([parse(long), parse(short)], wrong, longest=CUTOFF)
    assert float(found["f1"]) == 1.0
    assert found["f1"].signature == "f1|rules:evalb-collins|longest:40|n=1"
    with pytest.raises(DataError, match="No sentence has 40 words or fewer"):
        bracket_scores([parse(long)], wrong[:1], longest=CUTOFF)


def test_brackets_are_added_up_over_sentences_before_they_are_divided() -> None:
    gold = [parse("(S (NN a) (NN b))"), parse(GOLD)]
    given = [parse("(X (NN a) (NN b))"), parse(GOLD)]
    found = bracket_scores(gold, given)
    assert float(found["f1"]) == pytest.approx(10 / 12)
    assert float(found["complete"]) == 0.5
    assert found["f1"].signature == "f1|rules:evalb-collins|n=2"


def test_every_score_is_a_measure_with_an_interval() -> None:
    gold = [parse(GOLD)] * 6
    given = [parse(GOLD)] * 3 + [parse("(S (NP (DT the) (NN cat) (VBZ sits)) (IN on) (DT the) (NN mat) (. .))")] * 3
    for name in SCORES:
        measure = bracket_measure(name)
        assert float(measure(gold, given)) == float(bracket_scores(gold, given)[name])
    measure = bracket_measure()
    interval = bootstrap_score_interval(measure.statistics(gold, given), measure.score, np.random.default_rng(0))
    assert interval.low < interval.value < interval.high
    with pytest.raises(DataError, match="got 'bleu'"):
        bracket_measure("bleu")


def test_the_table_of_labels() -> None:
    given = "(S (NP (DT the) (NN cat)) (VP (VBZ sits) (NP (IN on) (DT the) (NN mat))) (. .))"
    assert label_table([parse(GOLD)], [parse(given)]) == [
        "label  precision  recall     f1  gold  given",
        "NP          50.0    50.0   50.0     2      2",
        "PP           0.0     0.0    0.0     1      0",
        "S          100.0   100.0  100.0     1      1",
        "VP         100.0   100.0  100.0     1      1",
    ]


def test_different_words_raise_error() -> None:
    with pytest.raises(
        DataError, match="sentence 1 must have the same words, got trees that differ in word 2: 'b' and 'c'"
    ):
        bracket_f1([parse("(S (NN a) (NN b))")], [parse("(S (NN a) (NN c))")])
    with pytest.raises(DataError, match="have 1 and 2 words"):
        bracket_f1([parse("(S (NN a))")], [parse("(S (NN a) (NN c))")])


def test_invalid_bracketing_raises_error() -> None:
    with pytest.raises(DataError, match="one tag for each of its 1 words, got 0"):
        Bracketing(("a",), (), ())
    with pytest.raises(DataError, match="got 'NP' from 0 to 2"):
        Bracketing(("a",), ("A",), (("NP", 0, 2),))


def trees(words: int) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    ends = st.tuples(st.sampled_from("AB"), st.integers(0, words - 1), st.integers(1, words))
    return st.lists(ends.filter(lambda span: span[1] < span[2]), max_size=6)


@given(gold=trees(5), given_=trees(5), tags=st.lists(st.sampled_from(["NN", ","]), min_size=5, max_size=5))
def test_counts_equal_a_plain_search_for_partners(
    gold: list[tuple[str, int, int]], given_: list[tuple[str, int, int]], tags: list[str]
) -> None:
    words = tuple("abcde")
    one, other = Bracketing(words, tuple(tags), tuple(gold)), Bracketing(words, ("NN",) * 5, tuple(given_))

    def kept(spans: list[tuple[str, int, int]]) -> list[tuple[str, tuple[int, ...]]]:
        over = [(label, tuple(i for i in range(a, b) if tags[i] != ",")) for label, a, b in spans]
        return [(label, places) for label, places in over if places]

    mine, theirs, hits = kept(gold), kept(given_), 0
    crossing = sum(any(set(p) & set(q) and set(p) - set(q) and set(q) - set(p) for _, q in mine) for _, p in theirs)
    left = list(mine)
    for span in theirs:
        if span in left:
            left.remove(span)
            hits += 1
    row = bracket_statistics([one], [other])[0]
    assert row[:3].tolist() == [hits, len(mine), len(theirs)]
    assert row[4] == crossing
