"""Checks of trees, and lifting."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from catena.errors import FormatError
from catena.metrics.attachment import nonprojective_words
from catena.tasks.parse.dependency.trees import check_tree, find_cycle, get_heads, projectivize
from tests.oracle.dependency import all_heads, is_tree
from tests.tasks.parse.dependency.helpers import conllu


def test_find_cycle_is_none_only_for_trees() -> None:
    for heads in itertools.product(range(5), repeat=4):
        cycle = find_cycle(heads)
        assert (cycle is None) == is_tree({i + 1: h for i, h in enumerate(heads)})
        if cycle is not None:
            assert cycle[0] == cycle[-1]
            assert all(heads[a - 1] == b for a, b in itertools.pairwise(cycle))


def test_unknown_heads_end_a_path() -> None:
    assert find_cycle([2, -1, 1]) is None
    assert find_cycle([2, 1, -1]) == [1, 2, 1]


def test_projectivize_keeps_projective_trees() -> None:
    for heads in all_heads((True,) * 5, True, False):
        found = projectivize(heads)
        assert nonprojective_words(found) == []
        assert found.count(0) == 1
        assert is_tree({i + 1: h for i, h in enumerate(found)})
        if not nonprojective_words(heads):
            assert found == list(heads)


def test_lifting_moves_an_arc_to_the_head_of_its_head() -> None:
    # The head of "issue" is "hearing", across "is scheduled": it is moved to "scheduled".
    assert projectivize([2, 4, 4, 0, 7, 7, 2, 4]) == [2, 4, 4, 0, 7, 7, 4, 4]


def test_cycle_is_reported_with_its_line() -> None:
    sentence = conllu("a b c d", "0 3 4 2", file="bad.conllu", line=11)
    with pytest.raises(FormatError, match=r"bad\.conllu:12: the heads form a cycle \(words 2 → 3 → 4 → 2\)"):
        check_tree(sentence, single_root=True)
    with pytest.raises(FormatError, match=r"words 2 → 2"):
        check_tree(conllu("a b", "0 2"), single_root=True)


def test_lines_are_counted_with_the_rows_of_multiword_tokens() -> None:
    sentence = conllu("a b c", "0 3 2", file="bad.conllu", line=5)
    split = sentence.rows[0]._replace(id="1-2")
    with pytest.raises(FormatError, match=r"bad\.conllu:7: the heads form a cycle"):
        check_tree(replace(sentence, rows=(split, *sentence.rows)), single_root=True)


def test_several_roots_are_reported_unless_allowed() -> None:
    sentence = conllu("a b c", "0 1 0", file="bad.conllu", line=4)
    with pytest.raises(
        FormatError, match=r"bad\.conllu:6: the sentence has 2 roots \(words 1, 3\), but only one is allowed"
    ):
        check_tree(sentence, single_root=True)
    assert check_tree(sentence, single_root=False) == [0, 1, 0]


def test_missing_head_is_allowed_in_partial_trees() -> None:
    sentence = conllu("a b", "0 _", file="gold.conllu", line=8)
    assert check_tree(sentence, single_root=True) == get_heads(sentence) == [0, -1]
    with pytest.raises(FormatError, match=r"gold\.conllu:9: word 2 \('b'\) has no head"):
        check_tree(sentence, single_root=True, whole=True)
