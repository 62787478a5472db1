"""Checks of trees, and lifting."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from catena.data.readers.conllu import NO_HEAD, find_head_problem
from catena.errors import FormatError
from catena.metrics.attachment import nonprojective_words
from catena.tasks.parse.dependency.model import UNKNOWN, crossing_fraction, get_heads, projectivize, require_heads
from tests.oracle.dependency import all_heads, is_tree
from tests.tasks.parse.dependency.helpers import conllu


def reason(heads: str, single_root: bool = True) -> str | None:
    """Why a sentence with these heads is not a tree."""
    problem = find_head_problem(conllu("x " * len(heads.split()), heads), single_root)
    return None if problem is None else problem[1]


def test_head_problems_are_found_exactly_in_structures_that_are_not_trees() -> None:
    for heads in itertools.product(range(5), repeat=4):
        tree = is_tree({i + 1: h for i, h in enumerate(heads)})
        written = " ".join(map(str, heads))
        assert (reason(written, single_root=False) is None) == tree
        assert (reason(written) is None) == (tree and heads.count(0) == 1)


def test_unknown_heads_are_reported_if_nothing_else_is_wrong() -> None:
    assert reason("2 _ 1") == NO_HEAD
    assert reason("_ 3 2") == "with a cycle of heads"
    assert reason("_ 2 0") == "with a word that is its own head"
    assert reason("_ 0 0") == "with 2 roots"


def test_projectivize_keeps_projective_trees() -> None:
    trees = all_heads((True,) * 5, True, False)
    assert any(nonprojective_words(heads) for heads in trees)
    for heads in trees:
        found = projectivize(heads)
        assert nonprojective_words(found) == []
        assert found.count(0) == 1
        assert is_tree({i + 1: h for i, h in enumerate(found)})
        if not nonprojective_words(heads):
            assert found == list(heads)


def test_lifting_moves_an_arc_to_the_head_of_its_head() -> None:
    # The head of "issue" is "hearing", across "is scheduled": it is moved to "scheduled".
    assert projectivize([2, 4, 4, 0, 7, 7, 2, 4]) == [2, 4, 4, 0, 7, 7, 4, 4]


def test_head_problems_have_the_line_of_the_word() -> None:
    sentence = conllu("a b c d", "0 3 4 2", file="bad.conllu", line=11)
    assert find_head_problem(sentence) == (12, "with a cycle of heads")
    assert find_head_problem(conllu("a b", "0 2", line=4)) == (5, "with a word that is its own head")
    assert find_head_problem(conllu("a b c", "0 1 0", line=4)) == (6, "with 2 roots")
    assert find_head_problem(conllu("a b", "0 _", line=8)) == (9, NO_HEAD)


def test_lines_are_counted_with_the_rows_of_multiword_tokens() -> None:
    sentence = conllu("a b c", "0 3 2", file="bad.conllu", line=5)
    split = sentence.rows[0]._replace(id="1-2")
    assert find_head_problem(replace(sentence, rows=(split, *sentence.rows))) == (7, "with a cycle of heads")


def test_gold_trees_need_all_heads() -> None:
    assert require_heads(conllu("a b", "0 1")) == [0, 1]
    sentence = conllu("a b", "0 _", file="gold.conllu", line=8)
    assert get_heads(sentence) == [0, -1]
    with pytest.raises(FormatError, match=r"gold\.conllu:9: word 2 \('b'\) has no head"):
        require_heads(sentence)


def test_fraction_of_crossing_arcs_ignores_partly_annotated_trees() -> None:
    crossing, plain = [0, 4, 1, 1], [2, 0, 2, 3]
    assert crossing_fraction([crossing, plain]) == 1 / 8
    assert crossing_fraction([crossing, [UNKNOWN, 0]]) == 1 / 4
    assert crossing_fraction([]) == 0.0
