"""Pictures in text: lines join, columns align under wide characters, nothing overlaps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from catena.draw.terminal.arcs import arcs_text
from catena.draw.terminal.bars import bars_text
from catena.draw.terminal.curves import curves_text
from catena.draw.terminal.grid import Grid, cells
from catena.draw.terminal.tree import tree_text
from catena.errors import DataError
from tests.draw.pictures import words
from tests.draw.test_arcs import HEADS, LABELS, WORDS, all_heads
from tests.draw.test_tree import SENTENCE


def test_lines_that_meet_join():
    grid = Grid()
    grid.across(0, 0, 4)
    grid.down(0, 0, 2)
    grid.down(2, 0, 2)
    grid.down(4, -1, 0)
    grid.across(2, 0, 2)
    assert str(grid) == "    ╷\n┌─┬─┘\n│ │\n└─┘\n"


def test_text_covers_lines_and_wide_characters_take_two_cells():
    grid = Grid()
    grid.across(0, 0, 9)
    grid.write(0, 2, "東e\u0301")
    assert str(grid) == "╶─東e\u0301────╴\n"
    assert cells("東京") == 4
    assert cells("e\u0301") == 1


def test_tree_from_top_down():
    assert tree_text(SENTENCE).splitlines() == [
        "        S",
        "   ┌────┴────┐",
        "   NP        VP",
        " ┌─┴──┐    ┌─┴──┐",
        " DT   NN   V    NP",
        " │    │    │    │",
        "the  dog  saw  PRP",
        "                │",
        "                me",
    ]


def test_tree_that_is_too_wide_is_indented():
    assert (
        tree_text(SENTENCE, width=10) == "S\n├─ NP\n│  ├─ DT the\n│  └─ NN dog\n└─ VP\n   ├─ V saw\n   └─ NP PRP me\n"
    )


@given(words)
def test_any_words_give_complete_tree_lines(found):
    text = tree_text(("S", *(("X", word) for word in found)), width=10_000)
    assert len(text.splitlines()) in (4, 5)
    assert "\0" not in text


def test_arcs_above_words():
    assert arcs_text(WORDS[:5], [2, 3, 0, 5, 3], LABELS[:5]).splitlines() == [
        "                    root",
        "                      │ ┌─────obj─────┐",
        "   ┌─amod─┐ ┌─nsubj─┐ │ │    ┌─amod─┐ │",
        "   ↓      │ ↓       │ ↓ │    ↓      │ ↓",
        "Economic  news       had   little  effect",
    ]
    assert "─punct─" in arcs_text(WORDS, HEADS, LABELS)


@settings(max_examples=40)
@given(all_heads())
def test_every_word_and_every_label_is_whole_and_every_arrow_is_there(heads):
    names = [f"word{i}" for i in range(len(heads))]
    labels = [f"label{i}" for i in range(len(heads))]
    text = arcs_text(names, heads, labels)
    lines = text.splitlines()
    assert lines[-1].split() == names
    assert lines[-2].count("↓") == len(heads)
    for label in labels:
        assert text.count(label) == 1
    for column, character in enumerate(lines[-2]):
        if character == "↓":
            word = lines[-1][max(column - 2 * len(heads), 0) : column + 2 * len(heads) + 1]
            assert word.strip()


def test_arrows_point_at_their_words():
    lines = arcs_text(["a", "b", "c"], [2, 0, 2]).splitlines()
    for word in "abc":
        column = lines[-1].index(word)
        assert "↓" in lines[-2][max(column - 2, 0) : column + 3]


def test_bars_are_in_proportion_to_eighth():
    lines = bars_text(["a", "bb"], [1.0, 0.3125], width=10).splitlines()
    assert lines == [" a ██████████ 1", "bb ███▏ 0.312"]
    assert bars_text(["a"], [0.0]) == "a 0\n"
    with pytest.raises(DataError, match="negative or not finite"):
        bars_text(["a"], [-1.0])


def test_one_curve_is_drawn_in_fine_dots():
    text = curves_text({"up": [(0, 0), (10, 10)]}, width=10, height=5)
    lines = text.splitlines()
    assert lines[0].startswith("10 ┤")
    assert lines[0].endswith(chr(0x2800 + 0x08)) or lines[0][-1] > "\u2800"
    assert lines[-1].strip() == "up"
    plot = [line.split("│")[-1].split("┤")[-1] for line in lines[:5]]
    firsts = [len(line) - len(line.lstrip()) for line in plot]
    assert firsts == sorted(firsts, reverse=True), "it rises from left to right"


def test_several_curves_have_marks_and_legend():
    text = curves_text({"train": [(0, 2), (9, 1)], "dev": [(0, 3), (9, math.nan), (8, 3)]}, width=10, height=4)
    assert "● train" in text
    assert "○ dev" in text
    assert text.count("○") == 9 + 1
    with pytest.raises(DataError, match="There is nothing to draw"):
        curves_text({})
