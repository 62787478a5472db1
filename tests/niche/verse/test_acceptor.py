"""Verse compared to forms checked word by word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from catena.errors import ConfigError, ImpossibleError
from catena.niche.verse.acceptor import ANY, Line, Verse
from catena.search.beam_search import beam
from catena.search.constrained import Constrained
from catena.search.sampling import sample
from tests.oracle.search import strings
from tests.search.models import random_table

Lines = Sequence[Line]


def is_verse(
    ids: tuple[int, ...],
    lines: Lines,
    meters: Mapping[int, Sequence[str]],
    rhymes: Mapping[int, Any],
    separator: int | None,
) -> bool:
    """Checks all ways to break a sequence into lines, word by word; not lazy, without distances."""

    def fill(rest: tuple[int, ...], number: int, left: str, ends: dict[str, list[int]]) -> bool:
        if number == len(lines):
            return not rest
        if not rest:
            return False
        word, rest = rest[0], rest[1:]
        for signs in meters.get(word, []):
            there = left[: len(signs)]
            if len(there) < len(signs) or any(a != b and ANY not in (a, b) for a, b in zip(signs, there, strict=True)):
                continue
            if len(signs) < len(left):
                if fill(rest, number, left[len(signs) :], ends):
                    return True
                continue
            letter, now = lines[number].rhyme, ends
            if letter:
                before = ends.get(letter, [])
                if word not in rhymes or word in before or any(rhymes[word] != rhymes[w] for w in before):
                    continue
                now = {**ends, letter: [*before, word]}
            last = number + 1 == len(lines)
            marks = lines[number].after or (() if last or separator is None else (separator,))
            follows = rest[len(marks) :]
            if rest[: len(marks)] == marks and fill(follows, number + 1, "" if last else lines[number + 1].meter, now):
                return True
        return False

    return fill(ids, 0, lines[0].meter, {})


V, END, BREAK = 6, 5, 4
CASES = {
    "meter": ([Line("0101")], {0: ["01"], 1: ["0", "1"], 2: ["10"]}, {}, None),
    "rhyme": ([Line("??", "a"), Line("??", "a")], {0: ["?"], 1: ["?"], 2: ["?", "??"]}, {0: "x", 1: "x", 2: "y"}, None),
    "crossed": (
        [Line("01", "a"), Line("01", "b"), Line("01", "a"), Line("01", "b")],
        {0: ["01"], 1: ["01"], 2: ["01"], 3: ["01"]},
        {0: "x", 1: "y", 2: "x", 3: "y"},
        None,
    ),
    "separated": (
        [Line("1?", "a"), Line("1", ""), Line("01", "a")],
        {0: ["1"], 1: ["01", "1"], 2: ["0"]},
        {0: 7, 1: 7},
        BREAK,
    ),
    "punctuated": (
        [Line("1", "", (3,)), Line("1", "a", (4, 3)), Line("?", "a")],
        {0: ["1"], 1: ["1"], 2: ["1"]},
        {0: 7, 1: 7, 2: 8},
        None,
    ),
    "one mark of its own": ([Line("1"), Line("1", "", (3,)), Line("1", "", (3,))], {0: ["1"], 1: ["0"]}, {}, BREAK),
}


LONGEST = 6


def listed(case: str, most: int = LONGEST) -> list[tuple[int, ...]]:
    return [ids for ids in strings(V, END, most) if ids and is_verse(ids, *CASES[case])]


def verse(case: str) -> Verse:
    lines, meters, rhymes, separator = CASES[case]
    return Verse(lines, meters, V, rhymes, separator)


@pytest.mark.parametrize("case", CASES)
def test_verse_accepts_exactly_the_sequences_that_fill_the_form(case: str) -> None:
    form, wanted = verse(case), listed(case)
    assert wanted
    found = {(): form.start()}
    for ids in strings(V, END, LONGEST - 1):  # every allowed prefix, and its next ids
        if ids in found:
            options = form.options(found[ids])
            assert options.accepts == (ids in wanted)
            for id in range(V):
                begun = (*ids, id)
                rests = [len(w) - len(begun) for w in wanted if w[: len(begun)] == begun]
                if rests:
                    assert options.needed[id] <= min(rests)
                    found[begun] = form.step(found[ids], id)
                else:  # completions are longer than the listed ones, if there are any
                    assert options.needed[id] > LONGEST - len(begun)


@pytest.mark.parametrize("case", CASES)
def test_searches_with_verse_fill_the_form(case: str) -> None:
    lines, meters, rhymes, separator = CASES[case]
    for seed in range(5):
        constrained = Constrained(random_table(V, 2, END, seed), verse(case))
        found = sample(constrained, constrained.start(1), torch.Generator().manual_seed(seed), 20, n=5)[0]
        found += beam(constrained, constrained.start(1), 2, 20, n_best=2)[0]
        assert len(found) > 5
        for h in found:
            assert h.finished
            assert is_verse(h.ids, lines, meters, rhymes, separator)


def test_verse_does_not_start_a_rhyme_with_too_few_words() -> None:
    lines = [Line("1", "a"), Line("1", "a"), Line("1", "a")]
    meters = dict.fromkeys(range(5), "1")
    form = Verse(lines, meters, 5, {0: "x", 1: "x", 2: "y", 3: "y", 4: "y"})
    assert (form.options(form.start()).needed < 99).tolist() == [False, False, True, True, True]


def test_verse_quatrain_of_characters() -> None:
    """Four lines of three characters, the second and the fourth rhyming, with a comma between lines."""
    v, comma, end = 12, 10, 11
    rhymes = {id: id % 3 for id in range(10)}
    form = Verse(
        [Line("???"), Line("???", "a"), Line("???"), Line("???", "a")], dict.fromkeys(range(10), "?"), v, rhymes, comma
    )
    constrained = Constrained(random_table(v, 2, end), form, max_length=16)
    for h in beam(constrained, constrained.start(1), 4, 16, n_best=4)[0]:
        assert [i for i, id in enumerate(h.ids) if id == comma] == [3, 7, 11]
        assert len(h.ids) == 15
        assert rhymes[h.ids[6]] == rhymes[h.ids[14]]
        assert h.ids[6] != h.ids[14]
    with pytest.raises(ImpossibleError, match="max_length must be at least 16 for the constraint, got 15"):
        Constrained(random_table(v, 2, end), form, max_length=15)


def test_verse_impossible_forms_raise() -> None:
    with pytest.raises(ImpossibleError, match="The 1 words cannot fill the 1 lines"):
        Verse([Line("010")], {0: "01"}, 2)
    with pytest.raises(ImpossibleError, match="cannot fill the"):
        Verse([Line("1", "a"), Line("1", "a")], {0: "1"}, 2, {0: "x"})
    for meters in ({0: ""}, {3: "1"}, {1: "1"}):
        with pytest.raises(ConfigError, match="meters must map word ids below 3 to meters"):
            Verse([Line("1")], meters, 3, separator=1)
