"""Beams over constraints compared to exhaustive search: how far the result is below the best allowed sequence."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

import pytest
import torch

from catena.niche.verse.acceptor import Line, Verse
from catena.search.acceptor import Acceptor, Intersection
from catena.search.automaton_acceptor import AutomatonAcceptor
from catena.search.beam_search import beam
from catena.search.brackets import Bracketed, BracketIds
from catena.search.constrained import Constrained, Constraint
from catena.search.constraint_banks import score_branches, select_by_bank
from catena.search.diverse import diverse_beam
from catena.search.hypothesis import Hypotheses
from catena.search.phrases import with_phrase, without_phrases
from catena.search.ranking import average_length_penalty, stop_after, stop_at_max_length
from catena.search.table_stepper import TableStepper
from catena.structure.automaton.regex import from_regex
from catena.structure.automaton.symbols import SymbolTable
from tests.niche.verse.test_acceptor import is_verse
from tests.oracle.bracketed import Symbol, leaves_of
from tests.oracle.search import strings
from tests.search.models import random_table

V, END, LONGEST = 5, 4, 5
LETTERS = "abcd"
Ids = tuple[int, ...]
Allows = Callable[[Ids], bool]
MODELS = 40


def required(*phrases: Sequence[int]) -> tuple[Acceptor, Allows]:
    sets = [AutomatonAcceptor(with_phrase(phrase, V), V) for phrase in phrases]
    return Intersection(sets, in_turn=True), lambda ids: all(occurs(tuple(phrase), ids) for phrase in phrases)


def excluded(*phrases: Sequence[int]) -> tuple[Acceptor, Allows]:
    machine = AutomatonAcceptor(without_phrases(phrases, V), V)
    return machine, lambda ids: not any(occurs(tuple(phrase), ids) for phrase in phrases)


def pattern(text: str) -> tuple[Acceptor, Allows]:
    machine = AutomatonAcceptor(from_regex(text, symbols=SymbolTable(list(LETTERS))), V)
    return machine, lambda ids: re.fullmatch(text, "".join(LETTERS[id] for id in ids)) is not None


def together(*sets: tuple[Acceptor, Allows]) -> tuple[Acceptor, Allows]:
    return Intersection([acceptor for acceptor, _ in sets]), lambda ids: all(allows(ids) for _, allows in sets)


def in_verse(meter: str) -> tuple[Acceptor, Allows]:
    lines, rhymes = [Line(meter, "a"), Line("01", "a")], {0: "x", 2: "x", 3: "x"}
    meters = {0: ["1"], 1: ["0"], 2: ["01"], 3: ["1", "0"]}
    return Verse(lines, meters, V, rhymes), lambda ids: bool(ids) and is_verse(ids, lines, meters, rhymes, None)


def occurs(phrase: Ids, ids: Ids) -> bool:
    return any(ids[i : i + len(phrase)] == phrase for i in range(len(ids)))


KINDS: dict[str, Callable[[], list[tuple[Acceptor, Allows]]]] = {  # functions: to build patterns may compile kernels
    "a word": lambda: [required([id]) for id in range(4)],
    "a phrase": lambda: [required([0, 1]), required([2, 2]), required([3, 0])],
    "two words": lambda: [required([0], [1]), required([3], [2]), required([1], [3])],
    "two phrases": lambda: [required([0, 1], [2]), required([3], [1, 1])],
    "excluded": lambda: [excluded([0], [1, 2]), excluded([3, 3], [2], [1, 0])],
    "a pattern": lambda: [
        pattern(text) for text in ("(a|b)*c(a|d)*", "a.*d", "(ab|cd)*a", "..(c|d)(ab)*", "d....?|a*b")
    ],
    "a phrase, others excluded": lambda: [together(required([0, 1]), excluded([2], [3, 3]))],
    "a word in a pattern": lambda: [
        together(required([1]), pattern("a.*d")),
        together(required([3]), pattern("(a|d)*b.?")),
    ],
    "a word in a text of five": lambda: [together(required([id]), pattern(".....")) for id in range(4)],
    "verse": lambda: [in_verse("01"), in_verse("0101")],
}

MOST_WORSE = {  # of 40 models, at widths 1, 2, 4 and 8. By log-probability only it was 31, 27, 21, 11 for a word.
    "a word": (5, 3, 1, 0),
    "a phrase": (5, 3, 1, 0),
    "two words": (13, 6, 1, 0),
    "two phrases": (10, 7, 1, 0),
    "excluded": (2, 1, 0, 0),
    "a pattern": (4, 1, 0, 0),
    "a phrase, others excluded": (7, 3, 1, 0),
    "a word in a pattern": (9, 6, 1, 0),
    "a word in a text of five": (14, 6, 3, 1),
    "verse": (19, 9, 1, 0),
}


def table(seed: int) -> TableStepper:
    return random_table(V, 2, END, seed)


def log_prob(model: TableStepper, ids: Ids) -> float:
    scores, last, total = model.table.tolist(), V, 0.0
    for id in (*ids, END):
        total += scores[last][id]
        last = id
    return total


@cache
def problems(kind: str) -> list[tuple[TableStepper, Acceptor, list[Ids], float]]:
    """Random models, each with a constraint, all sequences that it allows, and the log-probability of the best one."""
    everything = list(strings(V, END, LONGEST))
    sets = [(acceptor, [ids for ids in everything if allows(ids)]) for acceptor, allows in KINDS[kind]()]
    models = [(table(seed), *sets[seed % len(sets)]) for seed in range(MODELS)]
    return [(model, acceptor, ids, max(log_prob(model, y) for y in ids)) for model, acceptor, ids in models]


def gaps(kind: str, search: Callable[[Constrained], Hypotheses], models: int = MODELS) -> list[float]:
    """How far the first hypothesis is below the best allowed sequence of at most ``LONGEST`` ids, for random models."""
    found = []
    for model, acceptor, allowed, best in problems(kind)[:models]:
        listed = search(Constrained(model, acceptor, LONGEST + 1))[0]
        if not listed or not listed[0].finished:
            found.append(math.inf)
            continue
        assert listed[0].ids in allowed
        assert listed[0].log_prob == pytest.approx(log_prob(model, listed[0].ids))
        found.append(best - listed[0].log_prob)
    return found


def by_beam(width: int) -> Callable[[Constrained], Hypotheses]:
    return lambda bound: beam(bound, bound.start(1), width, LONGEST + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_narrow_beams_are_close_to_exhaustive_search(kind: str) -> None:
    for width, most in zip((1, 2, 4, 8), MOST_WORSE[kind], strict=True):
        assert sum(gap > 1 for gap in gaps(kind, by_beam(width))) <= most, width


@pytest.mark.parametrize(("kind", "states"), [("a word", 2), ("a phrase", 3), ("two words", 4), ("a pattern", 4)])
def test_four_slots_for_each_state_find_the_best_sequence(kind: str, states: int) -> None:
    assert max(gaps(kind, by_beam(4 * states))) == pytest.approx(0.0, abs=1e-9)


def test_a_required_word_is_not_postponed_to_the_length_limit() -> None:
    """The model of three words that never lead to the required one, and one that does."""

    def row(p: dict[int, float]) -> list[float]:
        return [p.get(id, 0.0) / sum(p.values()) for id in range(6)]

    easy = {0: 0.4, 1: 0.2, 2: 0.2, 3: 0.2, 5: 1e-12}
    first = {1: 0.31, 2: 0.31, 3: 0.31, 4: 0.07}
    rows = {(): first, (1,): easy, (2,): easy, (3,): easy, (4,): {5: 0.9, 0: 0.1}, (5,): {0: 0.9, 1: 0.1}}
    model = TableStepper.of({history: row(p) for history, p in rows.items()}, end=0)
    for width in (2, 3, 4):
        bound = Constrained(model, AutomatonAcceptor(with_phrase([5], 6), 6), max_length=12)
        assert beam(bound, bound.start(1), width, 12)[0][0].ids == (4, 5), width


def test_diverse_beam_groups_reserve_slots_for_constraints() -> None:
    for kind in ("a word", "two words", "a pattern"):
        found = gaps(kind, lambda bound: diverse_beam(bound, bound.start(1), 4, 4, LONGEST + 1, n_best=4))
        assert sum(gap > 1 for gap in found) <= 5, kind  # by log-probability only: 25, 32, 22
        acceptor, allows = KINDS[kind]()[0]
        bound = Constrained(table(1), acceptor, LONGEST + 1)
        for one in diverse_beam(bound, bound.start(1), 4, 2, LONGEST + 1, n_best=4)[0]:
            assert one.finished
            assert allows(one.ids)


# --- brackets ---------------------------------------------------------------------------------------------------------

SYMBOLS: dict[int, Symbol] = {1: ("(", "A"), 2: ("(", "B"), 3: (")", "A"), 4: (")", "B"), 5: ("leaf", "x")}
BRACKETS = BracketIds(opening=(1, 2), closing=(3, 4), leaves=(5,))


def test_brackets_are_close_to_exhaustive_search() -> None:
    limit = 9
    trees = [
        ids
        for length in range(3, limit)
        for ids in product(SYMBOLS, repeat=length)
        if ids[0] in (1, 2) and ids.count(5) == 2 and leaves_of([SYMBOLS[id] for id in ids]) == 2
    ]
    worse = dict.fromkeys((1, 2, 4, 8), 0)
    for seed in range(30):
        model = random_table(6, 2, 0, seed)
        scores = model.table.tolist()
        best = max(sum(scores[a][b] for a, b in zip((6, *ids), (*ids, 0), strict=True)) for ids in trees)
        for width in worse:
            bound = Bracketed(model, BRACKETS, torch.tensor([2]), torch.tensor([limit]))
            (one,) = beam(bound, bound.start(1), width, limit)[0]
            assert one.ids in trees
            worse[width] += best - one.log_prob > 1
    assert all(n <= most for n, most in zip(worse.values(), (6, 4, 1, 0), strict=True)), worse


# --- laws -------------------------------------------------------------------------------------------------------------


def test_a_wide_beam_finds_everything_in_order() -> None:
    for kind in KINDS:
        acceptor, allows = KINDS[kind]()[0]
        model = table(3)
        bound = Constrained(model, acceptor, LONGEST + 1)
        wanted = sorted(log_prob(model, ids) for ids in strings(V, END, LONGEST) if allows(ids))[::-1]
        for stop in (stop_at_max_length, stop_after(2000)):
            found = beam(bound, bound.start(1), 2000, LONGEST + 1, n_best=2000, stop=stop)[0]
            assert [h.log_prob for h in found if h.finished] == pytest.approx(wanted)


def test_rows_do_not_depend_on_the_batch() -> None:
    model, (acceptor, _) = table(2), required([0, 1], [2])
    bound = Constrained(model, acceptor, 9)
    prompt = model.extend(model.start(3), torch.tensor([[1, 2], [3, 0], [2, 2]]), torch.tensor([2, 1, 0]))
    state = bound.after(prompt, 3)
    state = bound.join([bound.advance(state, torch.tensor([0, 2, 3])), state])
    for search in (
        lambda s: beam(bound, s, 3, 8, n_best=3, length_penalty=average_length_penalty),
        lambda s: diverse_beam(bound, s, 4, 2, 8, n_best=4),
    ):
        together_ = search(state)
        for row in range(6):
            assert search(bound.select(state, torch.tensor([row]))) == [together_[row]]


@pytest.mark.parametrize("kind", ["a word", "a phrase", "two words", "a pattern", "verse"])
def test_branches_return_the_minimum_number_of_required_ids(kind: str) -> None:
    acceptor, allows = KINDS[kind]()[0]
    allowed = [ids for ids in strings(V, END, LONGEST) if allows(ids)]
    bound = Constrained(table(0), acceptor)
    assert list(bound.branches(bound.start(1)))
    for prefix in strings(V, END, 2):
        state = bound.start(1)
        for id in prefix:
            state = bound.advance(state, torch.tensor([id]))
        for _, ids, remaining in bound.branches(state):
            for id in ids.tolist():
                begun = (*prefix, id)
                assert int(remaining) == min(len(one) for one in allowed if one[: len(begun)] == begun) - len(begun)


def test_intersection_remaining_shows_progress_in_each_set() -> None:
    acceptor, _ = together(required([2]), pattern("....."))
    assert acceptor.options(acceptor.start()).needed[:4].tolist() == [4, 4, 4, 4]
    assert acceptor.remaining(acceptor.start())[:4].tolist() == [5, 5, 4, 5]


def test_ties_are_broken_in_the_same_way_in_every_batch() -> None:
    model = TableStepper(torch.full((V,), -math.log(V), dtype=torch.float64), END)
    acceptor, _ = required([0, 1], [2])
    prefixes = [2, 0], [3, 3], [0, 1], [1, 2]

    def read(bound: Constrained, rows: Sequence[Sequence[int]]) -> Constraint:
        return bound.extend(bound.start(len(rows)), torch.tensor(rows), torch.full((len(rows),), 2))

    bound = Constrained(model, acceptor, 9)
    found = beam(bound, read(bound, prefixes), 3, 6, n_best=3)
    for prefix, own in zip(prefixes, found, strict=True):
        alone = Constrained(model, acceptor, 9)
        assert beam(alone, read(alone, [prefix]), 3, 6, n_best=3) == [own]


def test_dead_ends_are_not_continued() -> None:
    acceptor, _ = pattern("abc")
    bound = Constrained(table(0), acceptor)
    state = bound.start(2)
    live = torch.tensor([[0.0], [-math.inf]], dtype=torch.float64)
    picked = select_by_bank(score_branches(bound, state, True), live, END, 3)
    assert (picked.live > -math.inf).sum(dim=1).tolist() == [1, 0]
    assert (picked.ended == -math.inf).all()
    (one,) = beam(bound, state, 2, 8)[1]
    assert one.ids == (0, 1, 2)
