"""AT&T text and tables of symbols: round trips, the format itself, and files that are not it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import CatenaError, FormatError
from catena.structure.automaton.build import edit_model, from_arcs, from_string
from catena.structure.automaton.rational import single_start_state
from catena.structure.automaton.symbols import SymbolTable
from catena.structure.automaton.text import (
    from_text,
    read_symbols,
    read_text,
    symbols_from_text,
    symbols_to_text,
    to_text,
    write_symbols,
    write_text,
)
from catena.structure.automaton.wfsa import FAILURE
from catena.structure.semirings import KBestSemiring, LogSemiring, MaxSemiring, RealSemiring, TropicalSemiring
from tests.oracle.automata import Plain, log_add, paths, table
from tests.structure.automaton.machines import built, listed, plain_machines, same_tables


@settings(max_examples=40)
@given(plain=plain_machines(most_arcs=5))
def test_text_round_trip(plain: Plain) -> None:
    for semiring in (LogSemiring(), MaxSemiring(), TropicalSemiring(), RealSemiring()):
        machine = built(plain, semiring)
        text = to_text(machine)
        again = from_text(text, acceptor=machine.is_acceptor, semiring=semiring)
        longest = 3 + (again.n_states - machine.n_states if again.n_states > machine.n_states else 0)
        expected, found = (table(paths(listed(m), n), log_add) for m, n in ((machine, 3), (again, longest)))
        assert same_tables(found, expected, 1e-12)
        written = single_start_state(machine)
        for name in ("weight", "final"):
            assert sorted(getattr(again, name).tolist()) == sorted(getattr(written, name).tolist()), "to the last bit"


def test_the_format_itself() -> None:
    machine = from_arcs([(0, 1, 5, 6, -0.5), (1, 2, 0, 7, 0.0), (1, 1, 5, 5, -math.inf)], [0], {2: -1.5, 1: 0.0})
    assert to_text(machine) == "0\t1\t5\t6\t0.5\n1\t2\t0\t7\n1\t1\t5\t5\tInfinity\n1\n2\t1.5\n"
    acceptor = from_string([3, 4], scores=torch.tensor([-0.1, 0.2]))
    assert to_text(acceptor) == "0\t1\t3\t0.1\n1\t2\t4\t-0.2\n2\n"
    names = SymbolTable(["un", "deux", "trois", "quatre"])
    assert to_text(acceptor, names) == "0\t1\ttrois\t0.1\n1\t2\tquatre\t-0.2\n2\n"
    assert to_text(from_arcs([], [], [])) == "0\tInfinity\n" or to_text(from_arcs([], [], [])) == ""


def test_the_first_source_is_initial_and_fields_may_be_apart_by_any_spaces() -> None:
    machine = from_text("7 3  10 11 2.5\r\n\r\n3 7\t4 5\n3 1e-3\n", semiring=TropicalSemiring())
    assert machine.initial.tolist() == [0.0, math.inf]
    assert machine.source.tolist() == [0, 1]
    assert machine.weight.tolist() == [2.5, 0.0]
    assert machine.final.tolist() == [math.inf, 1e-3]
    assert from_text("").n_states == 0
    final_first = from_text("4\n4 5 1 1\n5\n")
    assert final_first.initial.tolist() == [0.0, -math.inf]
    assert final_first.final.tolist() == [0.0, 0.0]


def test_several_beginnings_become_one() -> None:
    machine = from_arcs([(0, 1, 1, 1, 0.0)], {0: -1.0, 1: -2.0}, [1])
    again = from_text(to_text(machine), acceptor=True)
    assert again.n_states == 3
    assert same_tables(table(paths(listed(again), 3), log_add), table(paths(listed(machine), 2), log_add))


def test_states_that_nothing_touches_are_kept() -> None:
    machine = from_arcs([(0, 1, 1, 1, 0.0)], [0], [1], n_states=4)
    assert from_text(to_text(machine), acceptor=True).n_states == 4


def test_failure_arcs_have_a_name() -> None:
    machine = from_arcs([(0, 1, FAILURE, FAILURE, -1.0), (1, 1, 3, 3, 0.0)], [0], [1])
    with pytest.raises(ValueError, match="failure="):
        to_text(machine)
    text = to_text(machine, failure=99)
    assert "0\t1\t99\t1.0" in text
    assert from_text(text, acceptor=True, failure=99).has_failures
    assert not from_text(text, acceptor=True).has_failures
    names = SymbolTable(["a", "b", "c"])
    assert "<phi>" in to_text(machine, names, failure="<phi>")
    assert from_text(to_text(machine, names, failure="<phi>"), True, names, failure="<phi>").has_failures


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1 2 3\n0 1 2\n", "name:2 a line of a transducer must have .* acceptor=True"),
        ("0 1 2 3 4 5\n", "name:1 .* got 6"),
        ("a 1 2 3\n", "name:1 a state must be from 0 to 2147483647, got 'a'"),
        ("0 -1 2 3\n", "a state must be from 0"),
        ("0 99999999999 2 3\n", "a state must be from 0"),
        ("0 1 -2 3\n", "a label .*must be from 0"),
        ("0 1 x 3\n", "for names, pass symbol tables"),
        ("0 1 2 3 nan\n", "a cost must be a number or Infinity, got 'nan'"),
        ("0 1 2 3 1_0\n", "a cost must be a number"),
        ("0 1 2 3 1.0f\n", "a cost must be a number"),
        ("0 ٣ 2 3\n", "a state must be from 0"),
    ],
)
def test_from_text_invalid_line_raises(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        from_text(text, name="name")


def test_names_that_cannot_be_read_or_written() -> None:
    names = SymbolTable(["a", "b c"])
    with pytest.raises(FormatError, match=r"unknown symbol 'z'. Use one of the 3"):
        from_text("0 1 a z\n", input_symbols=names, output_symbols=names)
    with pytest.raises(FormatError, match="contain spaces here, got 'b c'"):
        to_text(from_string([2]), names)
    with pytest.raises(TypeError, match="KBestSemiring has no file format"):
        to_text(from_string([2]).over(KBestSemiring(2)))
    batched = from_string([1]).with_weights(*(torch.zeros(2, n).double() for n in (1, 2, 2)))
    with pytest.raises(ValueError, match="batch axes"):
        to_text(batched)


def test_files(tmp_path: Path) -> None:
    machine = edit_model("äb", semiring=MaxSemiring())
    names = SymbolTable.of({"<eps>": 0, "ä": ord("ä"), "b": ord("b")})
    write_text(tmp_path / "edit.txt", machine, names, names)
    write_symbols(tmp_path / "letters.txt", names)
    again = read_symbols(tmp_path / "letters.txt")
    assert again == names
    read = read_text(tmp_path / "edit.txt", False, again, again, semiring=MaxSemiring())
    assert sorted(listed(read).arcs) == sorted(listed(machine).arcs)
    (tmp_path / "bad.txt").write_bytes(b"0 1 \xff 2\n")
    with pytest.raises(FormatError, match=r"byte 0xff at 4.*read_openfst"):
        read_text(tmp_path / "bad.txt")


def test_tables_of_symbols() -> None:
    assert symbols_to_text(SymbolTable(["b", "a"])) == "<eps>\t0\nb\t1\na\t2\n"
    assert symbols_from_text("<eps> 0\nx 7\nx 7\n").label("x") == 7
    for text, words in (
        ("a\n", "t:1 must be a symbol and its label"),
        ("a b\n", "t:1"),
        ("<eps> 0\na -1\n", "t:2"),
        ("<eps> 0\na 1\na 2\n", "t:3 the symbol 'a' already has the label 1"),
        ("a 1\n", "no name for label 0"),
        ("<eps> 0\na 1\nb 1\n", "Labels must be distinct"),
    ):
        with pytest.raises(FormatError, match=words):
            symbols_from_text(text, "t")
    with pytest.raises(FormatError, match="contain spaces"):
        symbols_to_text(SymbolTable(["a b"]))


fields = st.one_of(
    st.integers(-1, 9).map(str), st.sampled_from(["Infinity", "-inf", "nan", "1e400", "é", "0x1", "+1", "."])
)


@settings(max_examples=120)
@given(lines=st.lists(st.lists(fields, max_size=6), max_size=6), acceptor=st.booleans())
def test_from_text_of_any_text_returns_or_raises_format_error(lines: list[list[str]], acceptor: bool) -> None:
    text = "\n".join(" ".join(line) for line in lines)
    try:
        machine = from_text(text, acceptor)
    except CatenaError:
        return
    again = from_text(to_text(machine), machine.is_acceptor)
    assert again.n_arcs == machine.n_arcs
    assert not machine.weight.isnan().any()
