"""Machines from strings, lexicons, edit models and regular expressions."""

from __future__ import annotations

import itertools
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import FormatError, LimitError, ShapeError, UnknownNameError
from catena.structure.automaton.build import edit_model, from_arcs, from_lexicon, from_string, from_strings
from catena.structure.automaton.composition import compose
from catena.structure.automaton.determinization import is_deterministic
from catena.structure.automaton.distance import total
from catena.structure.automaton.regex import from_regex
from catena.structure.automaton.symbols import SymbolTable
from catena.structure.semirings import BooleanSemiring, LogSemiring, MaxSemiring, RealSemiring, TropicalSemiring
from tests.oracle.automata import log_add, paths, table
from tests.structure.automaton.machines import listed


def strings_of(machine, longest: int = 8) -> dict[str, float]:
    return {"".join(map(chr, x)): w for (x, _), w in table(paths(listed(machine), longest), log_add).items()}


# --- strings and lexicons -----------------------------------------------------------------------------------


def test_from_string_is_a_chain() -> None:
    machine = from_string("ca", scores=torch.tensor([-1.0, -2.0]))
    assert strings_of(machine) == {"ca": -3.0}
    assert machine.weight.dtype == torch.float32
    assert strings_of(from_string("")) == {"": 0.0}
    assert from_string([3, 1]).input.tolist() == [3, 1]
    words = SymbolTable(["the", "cat"])
    assert from_string(["cat", "the"], symbols=words).input.tolist() == [2, 1]
    pair = from_string("ab", output="c")
    assert (pair.input.tolist(), pair.output.tolist()) == ([97, 98], [99, 0])


def test_invalid_string_raises() -> None:
    with pytest.raises(ShapeError, match="got 0 at position 1"):
        from_string([1, 0])
    with pytest.raises(ShapeError, match="got 0 at position 0"):
        from_string("\0")
    with pytest.raises(ShapeError, match=r"scores must have shape \[2\]"):
        from_string("ab", scores=torch.zeros(3))
    with pytest.raises(UnknownNameError):
        from_string(["dog"], symbols=SymbolTable(["cat"]))


def test_from_strings_shares_prefixes() -> None:
    words = ["car", "cart", "cat", "", "cat"]
    machine = from_strings(words, scores=[-1.0, -2.0, -3.0, -4.0, -3.0])
    expected = {"car": -1.0, "cart": -2.0, "cat": -3.0 + math.log(2), "": -4.0}
    assert strings_of(machine) == pytest.approx(expected)
    assert machine.n_states == 2 + 5
    assert strings_of(from_strings(words[:2])) == {"car": 0.0, "cart": 0.0}
    assert strings_of(from_strings([])) == {}


def test_from_lexicon_maps_inputs_to_outputs() -> None:
    phones = SymbolTable(["k", "ae", "t", "s"])
    entries = [
        (["k", "ae", "t"], [1], -0.5), (["k", "ae", "t"], [2], -1.5), (["k", "ae"], [3, 4, 5]), (["s"], []), ([], [6]),
    ]  # fmt: skip
    machine = from_lexicon(entries, input_symbols=phones)
    found = table(paths(listed(machine), 9), log_add)
    assert found == {
        ((1, 2, 3), (1,)): -0.5, ((1, 2, 3), (2,)): -1.5, ((1, 2), (3, 4, 5)): 0.0, ((4,), ()): 0.0, ((), (6,)): 0.0,
    }  # fmt: skip


def test_scores_of_entries_may_be_parameters() -> None:
    scores = torch.tensor([-0.5, -1.5]).double().requires_grad_()
    machine = from_lexicon([("ab", "x", scores[0]), ("ab", "y", scores[1])])
    total(compose(from_string("ab"), machine)).backward()
    assert scores.grad is not None
    assert torch.allclose(scores.grad, scores.detach().softmax(0))


def test_arcs_with_scores_in_any_semiring() -> None:
    for semiring, weight in (
        (LogSemiring(), -1.0),
        (TropicalSemiring(), 1.0),
        (RealSemiring(), math.exp(-1.0)),
        (BooleanSemiring(), True),
    ):
        machine = from_arcs([(0, 1, 1, 1, -1.0)], {0: -1.0}, {1: -1.0}, semiring)
        assert machine.weight.tolist() == machine.initial[:1].tolist() == [pytest.approx(weight)]


# --- edit models --------------------------------------------------------------------------------------------


def test_edit_model_has_expected_arcs() -> None:
    model = edit_model("abcdefghijklmnopqrstuvwxyz")
    assert (model.n_states, model.n_arcs) == (1, 728)
    substitute = torch.arange(9.0).reshape(3, 3)
    model = edit_model("abc", torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0]), substitute, 9.5)
    found = {(chr(i) if i else "", chr(o) if o else ""): w for _, _, i, o, w in listed(model).arcs}
    expected = {("", c): i + 1.0 for i, c in enumerate("abc")} | {(c, ""): i + 4.0 for i, c in enumerate("abc")}
    expected |= {(x, y): 9.5 if x == y else 3.0 * i + j for i, x in enumerate("abc") for j, y in enumerate("abc")}
    assert found == expected
    assert model.weight.dtype == torch.float32
    assert edit_model("ab", semiring=MaxSemiring()).weight.dtype == torch.float64


# --- regular expressions ------------------------------------------------------------------------------------

PATTERNS = [
    "", "a", "ab|c", "(a|b)*c", "a+b?", "[abc]{2}", "[^a]*", "a{2,3}b{1,}", "(ab?){0,2}", ".a.", r"\.|\*", "(a*)*",
    "a||b", "()", "[a-c]", "[]a]", "[^]a]", "[a-]", "(a|ab)(c|bcd)", "(a*b*)*", "((a|b)(a|b))*", "a{0}b", "(|a)+",
    "[c-c]", r"[\]a]", r"\w*\.", r"\W", "a*a*a*", "(a{2}){2}", r"[\w.]a",
]  # fmt: skip
ALPHABET = "abcd.*]-"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_from_regex_agrees_with_re(pattern: str) -> None:
    machine = from_regex(pattern, alphabet=ALPHABET)
    assert is_deterministic(machine)
    found = strings_of(machine, 4)
    assert set(found.values()) <= {0.0}, "every matched string weighs one"
    compiled = re.compile(pattern)
    everything = ("".join(x) for n in range(5) for x in itertools.product(ALPHABET, repeat=n))
    assert set(found) == {s for s in everything if compiled.fullmatch(s)}


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> str:
    kinds = ["char", "class", "dot"] + (["cat", "alt", "star", "plus", "maybe", "times"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind in ("char", "class", "dot"):
        return {"char": draw(st.sampled_from("abc")), "class": draw(st.sampled_from(["[ab]", "[^b]"])), "dot": "."}[
            kind
        ]
    part = f"({draw(patterns(depth=depth - 1))})"
    if kind in ("cat", "alt"):
        return part + ("|" if kind == "alt" else "") + draw(patterns(depth=depth - 1))
    return part + {"star": "*", "plus": "+", "maybe": "?", "times": "{1,2}"}[kind]


@settings(max_examples=40)
@given(pattern=patterns())
def test_from_regex_random_patterns_agree_with_re(pattern: str) -> None:
    found = strings_of(from_regex(pattern, alphabet="abc"), 3)
    everything = ("".join(x) for n in range(4) for x in itertools.product("abc", repeat=n))
    assert set(found) == {s for s in everything if re.fullmatch(pattern, s)}


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", r"character 3: a '\(' is never closed"),
        ("a)", r"character 2: a '\)' has no '\('"),
        ("*a", "character 1: '\\*' has nothing before it"),
        ("a{2,1}", "Exchange the numbers"),
        ("a{x}", "has to be {m}, {m,} or {m,n}"),
        ("a{", "has to be {m}, {m,} or {m,n}"),
        ("[ab", r"a '\[' is never closed"),
        ("[b-a]", "a range has to go from a lower"),
        ("a\\", "ends where a character after the backslash"),
        (r"\q", r"'\\q' has no meaning"),
        (".", "needs an alphabet"),
        (r"[^a]", "needs an alphabet"),
        (r"\d", "needs an alphabet"),
        ("(" * 200 + ")" * 200, "nested deeper than 40"),
    ],
)
def test_invalid_pattern_raises(pattern: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        from_regex(pattern)


def test_pattern_that_is_too_long_raises() -> None:
    with pytest.raises(LimitError, match="more than 20000 characters"):
        from_regex("(a{999}){999}")


def test_classes_of_symbols_and_weights() -> None:
    symbols = SymbolTable(["a", "1", "_", " ", "cat"])
    assert strings_in(from_regex(r"\w", symbols=symbols)) == {(1,), (2,), (3,)}
    assert strings_in(from_regex(r"\D", symbols=symbols)) == {(1,), (3,), (4,)}
    assert strings_in(from_regex(r"\s|\d", symbols=symbols)) == {(4,), (2,)}
    assert strings_in(from_regex(r"\n|\t")) == {(10,), (9,)}
    for semiring in (RealSemiring(), TropicalSemiring(), BooleanSemiring()):
        machine = from_regex("a*b", semiring=semiring, dtype=torch.float32)
        one = semiring.one((), machine.initial)
        assert total(compose(from_string("aab", semiring=semiring, dtype=torch.float32), machine)) == one


def strings_in(machine) -> set[tuple[int, ...]]:
    return {path.read for path in paths(listed(machine), 3)}


def test_from_regex_is_minimal() -> None:
    assert from_regex("(a|b)*abb").n_states == 4
    assert from_regex("a|a|a").n_states == 2
    assert from_regex("(a*)*").n_states == 1
    assert from_regex("[^abc]", alphabet="abc").n_states == 0
