"""Binary files of OpenFst: bytes as its documentation of the format has them, round trips, and broken files."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import CatenaError, FormatError
from catena.structure.automaton.build import from_arcs, from_string
from catena.structure.automaton.openfst import from_openfst, read_openfst, to_openfst, write_openfst
from catena.structure.automaton.symbols import SymbolTable
from catena.structure.automaton.wfsa import FAILURE
from catena.structure.semirings import LogSemiring, MaxSemiring, RealSemiring, TropicalSemiring
from tests.oracle.automata import Plain
from tests.structure.automaton.machines import built, listed, plain_machines

MACHINE = from_arcs([(0, 1, 5, 6, -0.5), (1, 1, 0, 7, -2.0), (0, 1, 2, 2, 0.25)], [0], {1: -1.5})
SYMBOL_A = SymbolTable(["a"])


def string(text: str) -> bytes:
    return struct.pack("<i", len(text)) + text.encode()


def arc(read: int, written: int, weight: float, target: int) -> bytes:
    return struct.pack("<iidi", read, written, weight, target)


def test_the_bytes_themselves() -> None:
    expected = b"".join(
        (
            struct.pack("<i", 2125659606), string("vector"), string("log64"), struct.pack("<iiQqqq", 2, 0, 3, 0, 2, 3),
            struct.pack("<dq", math.inf, 2), arc(5, 6, 0.5, 1), arc(2, 2, -0.25, 1),
            struct.pack("<dq", 1.5, 1), arc(0, 7, 2.0, 1),
        )
    )  # fmt: skip
    assert to_openfst(MACHINE) == expected
    narrow = MACHINE.mapped(torch.Tensor.float)
    assert string("log") + struct.pack("<i", 2) in to_openfst(narrow)
    assert string("standard") in to_openfst(MACHINE.over(TropicalSemiring()))
    assert to_openfst(MACHINE.over(MaxSemiring())) == to_openfst(MACHINE.over(TropicalSemiring()))


@settings(max_examples=40)
@given(plain=plain_machines())
def test_text_round_trip(plain: Plain) -> None:
    for machine in (built(plain), built(plain, dtype=torch.float32), built(plain, TropicalSemiring(), torch.float32)):
        data = to_openfst(machine)
        again = from_openfst(data).machine
        assert type(again.semiring) is type(machine.semiring)
        assert again.weight.dtype == machine.weight.dtype
        assert to_openfst(again) == data
        if again.n_states == machine.n_states:
            assert sorted(listed(again).arcs) == sorted(listed(machine).arcs)
            assert (listed(again).initial, listed(again).final) == (listed(machine).initial, listed(machine).final)


def test_symbols_and_failures_travel(tmp_path: Path) -> None:
    machine = from_arcs([(0, 1, FAILURE, FAILURE, -1.0), (1, 1, 3, 3, 0.0)], [0], [1])
    inputs, outputs = SymbolTable(["a", "b", "c"]), SymbolTable(["ein", "zwei", "größer"])
    write_openfst(tmp_path / "m.fst", machine, inputs, outputs, failure=42)
    again = read_openfst(tmp_path / "m.fst", failure=42)
    assert again.machine.has_failures
    assert again.input_symbols == inputs
    assert again.output_symbols == outputs
    assert read_openfst(tmp_path / "m.fst").machine.input.tolist() == [42, 3]
    write_openfst(tmp_path / "m.fst", machine, None, outputs, failure=42)
    assert read_openfst(tmp_path / "m.fst")[1:] == (None, outputs)
    with pytest.raises(ValueError, match="failure="):
        to_openfst(machine)


def test_empty_machines_and_unknown_numbers_of_states() -> None:
    assert from_openfst(to_openfst(from_arcs([], [], []))).machine.n_states <= 1
    data = bytearray(to_openfst(MACHINE))
    at = data.index(struct.pack("<qqq", 0, 2, 3))
    data[at + 8 : at + 16] = struct.pack("<q", -1)
    assert from_openfst(bytes(data)).machine.n_states == 2
    data[at : at + 8] = struct.pack("<q", -1)
    assert (from_openfst(bytes(data)).machine.initial == -math.inf).all()


def test_what_cannot_be_written() -> None:
    with pytest.raises(TypeError, match="got RealSemiring"):
        to_openfst(MACHINE.over(RealSemiring()))
    with pytest.raises(ValueError, match="at most 2147483647"):
        to_openfst(from_string([2**31]))


def changed(old: bytes, new: bytes) -> bytes:
    data = to_openfst(MACHINE)
    assert data.count(old) == 1
    return data.replace(old, new)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda: b"", "4 bytes, but only 0 are left"),
        (lambda: b"0 1 2 3 0.5\n", "use read_text"),
        (lambda: changed(string("vector"), string("const")), "FST type is 'const'.*fstconvert"),
        (lambda: changed(string("log64"), string("gallic")), "arc type is 'gallic'.*standard, log, log64"),
        (lambda: changed(b"log64\x02", b"log64\x01"), "version is 1"),
        (lambda: changed(struct.pack("<qqq", 0, 2, 3), struct.pack("<qqq", 2, 2, 3)), "initial state is 2, which"),
        (lambda: changed(arc(5, 6, 0.5, 1), arc(-5, 6, 0.5, 1)), "a negative label"),
        (lambda: changed(arc(5, 6, 0.5, 1), arc(5, 6, 0.5, 2)), "an invalid target"),
        (lambda: changed(arc(5, 6, 0.5, 1), arc(5, 6, math.nan, 1)), "a cost of nan"),
        (lambda: changed(struct.pack("<dq", math.inf, 2), struct.pack("<dq", math.inf, 2**60)), "arcs needs"),
        (lambda: changed(struct.pack("<dq", math.inf, 2), struct.pack("<dq", math.inf, -2)), "arcs needs"),
        (lambda: to_openfst(MACHINE)[:-1], "bytes, but only"),
        (lambda: to_openfst(MACHINE, SymbolTable(["é"])).replace("é".encode(), b"\xff\xfe"), "not UTF-8 text"),
        (lambda: to_openfst(MACHINE, SYMBOL_A).replace(struct.pack("<i", 2125658996), b"abcd"), "wrong magic number"),
    ],
)  # fmt: skip
def test_from_openfst_broken_file_raises(broken: Callable[[], bytes], words: str) -> None:
    data = broken()
    with pytest.raises(FormatError, match=words):
        from_openfst(data)


@settings(max_examples=150)
@given(place=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 400))
def test_from_openfst_of_any_bytes_returns_or_raises_format_error(place: int, byte: int, cut: int) -> None:
    data = bytearray(to_openfst(MACHINE, SymbolTable(["a", "b"]), SymbolTable(["c"])))
    data[place % len(data)] = byte
    for given_bytes in (bytes(data), bytes(data[: cut % len(data)])):
        try:
            machine = from_openfst(given_bytes).machine
        except CatenaError:
            continue
        assert isinstance(machine.semiring, (LogSemiring, TropicalSemiring))
        assert not machine.weight.isnan().any()
