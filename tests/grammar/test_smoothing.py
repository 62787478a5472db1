"""Smoothing checked by hand: interpolated contexts, and tags of similar words."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from catena.data.readers.brackets import read
from catena.errors import DataError
from catena.grammar.induction import Induction, induce
from catena.grammar.smoothing import add_backoff, contexts, with_likely_tags


def test_contexts_drop_ancestors_first_and_keep_last_sibling() -> None:
    assert contexts((("NP",), ("S", "VP"))) == ((("NP",), ("S", "VP")), (("NP",), ("S",)), (("NP",), ()))
    assert contexts((("NP",), ("S",), ("DT", "JJ"))) == (
        (("NP",), ("S",), ("DT", "JJ")),
        (("NP",), (), ("DT", "JJ")),
        (("NP",), (), ("JJ",)),
    )
    assert contexts((("NP",), (), ())) == ((("NP",), (), ()),)


def test_counts_are_interpolated_with_coarser_context() -> None:
    below_s, below_vp = (("NP",), ("S",)), (("NP",), ("VP",))
    events = {below_s: Counter(a=3, b=1), below_vp: Counter(b=2, c=2)}
    found = {(context, event): weight for context, event, weight in add_backoff(events, 2.0)}
    # coarse: a 3/8, b 3/8, c 2/8; fine, with 2 further occurrences: a (3 + 2 * 3/8) / 6, of a total of 4
    assert found[below_s, "a"] == pytest.approx(4 * (3 + 2 * 3 / 8) / 6)
    assert found[below_s, "c"] == pytest.approx(4 * (0 + 2 * 2 / 8) / 6)
    assert found[below_vp, "a"] == pytest.approx(4 * (0 + 2 * 3 / 8) / 6)
    assert math.fsum(weight for (context, _), weight in found.items() if context == below_s) == pytest.approx(4)


def test_zero_smoothing_keeps_counts() -> None:
    events = {(("NP",), ("S",)): Counter(a=3, b=1), (("NP",), ("VP",)): Counter(c=2)}
    assert sorted(add_backoff(events, 0.0)) == [
        ((("NP",), ("S",)), "a", 3.0),
        ((("NP",), ("S",)), "b", 1.0),
        ((("NP",), ("VP",)), "c", 2.0),
    ]


def test_unseen_events_below_limit_are_dropped() -> None:
    events = {(("NP",), ("S",)): Counter(a=10), (("NP",), ("VP",)): Counter(a=9, c=1)}
    found = [event for context, event, _ in add_backoff(events, 1.0, 0.01) if context[1] == ("S",)]
    assert found == ["a"]  # c has (1 / 20) / 11 there


def test_words_get_tags_of_similar_words() -> None:
    lexicon = {("N", "walks"): 3.0, ("V", "UNK:s"): 2.0, ("D", "the"): 5.0}
    found = with_likely_tags(
        lexicon, {"UNK:s": Counter(V=3, N=1)}, lambda word: ("UNK:s",) if word.endswith("s") else ("UNK",), 2.0
    )
    assert found == {
        ("N", "walks"): 3.0 + 2 * 1 / 4,
        ("V", "walks"): 2 * 3 / 4,
        ("V", "UNK:s"): 2.0,
        ("D", "the"): 5.0,
    }


TREES = """
(S (NP (D the) (J old) (N man)) (VP (V sees) (NP (D a) (N dog))))
(S (NP (D the) (N dog)) (VP (V barks)))
(S (NP (D a) (N man)) (VP (V sees) (NP (D the) (J small) (N dog))))
"""


def test_smoothed_grammar_parses_unseen_rules(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "trees.mrg"
    path.write_text(TREES)
    new = ["a", "dog", "sees", "the", "old", "small", "dog"]
    plain = induce(read(path), Induction(vertical=2, horizontal=1))
    assert not plain.parser().recognize(new)
    smoothed = induce(read(path), Induction(vertical=2, horizontal=1, smoothing=1.0, rare=1))
    assert smoothed.grammar.is_normalized()
    assert not smoothed.parser().recognize(new)  # no adjective ever follows another
    assert smoothed.parser().recognize(["the", "small", "man", "barks"])
    # V barks NP: was seen below VP, and barking was not; 'barks' has the tags of its class
    assert smoothed.parser().recognize(["the", "small", "man", "barks", "the", "dog"])


def test_negative_smoothing_raises() -> None:
    with pytest.raises(DataError, match="smoothing must be at least 0 and finite, got -1"):
        Induction(smoothing=-1.0)
