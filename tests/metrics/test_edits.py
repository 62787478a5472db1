"""Edit distance beside its recursion, and error rates with several references."""

from __future__ import annotations

import itertools

import pytest

from catena.errors import DataError
from catena.metrics.edits import edit_distance, nearest, symbol_error, word_error
from tests.oracle.transduction import distance


def test_distance_equals_the_recursion() -> None:
    strings = ["".join(s) for n in range(4) for s in itertools.product("ab", repeat=n)]
    for a, b in itertools.product(strings, repeat=2):
        assert edit_distance(a, b) == distance(a, b)
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(["AH0", "B"], ["AH1", "B"]) == 1


def test_any_reference_will_do_and_the_nearest_counts() -> None:
    references = [[("a", "b"), ("c",)], [("d", "e", "f")]]
    assert word_error(references, [("c",), ("d",)]) == 0.5
    assert symbol_error(references, [("c",), ("d",)]) == pytest.approx(2 / 4)
    assert nearest("ab", ["abcd", "x"]) == (2, 4), "half of four is nearer than two for one"
    assert word_error(references, [("c",), ("d",)]).signature == "word_error|references:any|n=2"


def test_an_empty_prediction_loses_every_symbol() -> None:
    assert symbol_error([["abc"]], [""]) == 1.0
    assert symbol_error([["a"]], ["abcd"]) == 3.0, "insertions may make it more than one"
    with pytest.raises(DataError, match="at least one reference"):
        nearest("a", [])
    with pytest.raises(DataError, match="one prediction for each reference"):
        word_error([["a"]], [])
