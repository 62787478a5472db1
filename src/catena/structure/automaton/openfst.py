"""OpenFst binary files: ``vector`` FSTs with ``standard``, ``log`` or ``log64`` arcs, and their symbol tables.

=============  =====================================  =========
arcs           semiring                               weights
=============  =====================================  =========
``standard``   tropical (max is written as tropical)  float32
``log``        log in float32                         float32
``log64``      log in float64                         float64
=============  =====================================  =========

All numbers are little-endian. A file has a header (magic number, types, version, flags, properties, initial state,
numbers of states and arcs), symbol tables if flagged, and then for each state its final cost, its number of arcs, and
for each arc input, output, cost and target.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from catena.errors import FormatError
from catena.structure.automaton.rational import single_start_state
from catena.structure.automaton.symbols import SymbolTable
from catena.structure.automaton.weights_to_costs import elements, weights_to_costs
from catena.structure.automaton.wfsa import FAILURE, Automaton
from catena.structure.semirings import LogSemiring, MaxSemiring, Semiring, TropicalSemiring

MAGIC, SYMBOLS_MAGIC = 2125659606, 2125658996
_VERSION = 2
HAS_INPUT_SYMBOLS, HAS_OUTPUT_SYMBOLS = 1, 2
_EXPANDED_AND_MUTABLE = 3
"""The only property bits that are written: those of a vector FST. OpenFst computes the others."""

_LARGEST = 2**31 - 1


class FstKind(NamedTuple):
    """An OpenFst arc type: its semiring and the dtype of its costs."""

    semiring: Semiring
    cost: np.dtype

    @property
    def row(self) -> np.dtype:
        """The binary layout of an arc."""
        return np.dtype([("input", "<i4"), ("output", "<i4"), ("cost", self.cost), ("target", "<i4")])


KINDS = {
    "standard": FstKind(TropicalSemiring(), np.dtype("<f4")),
    "log": FstKind(LogSemiring(), np.dtype("<f4")),
    "log64": FstKind(LogSemiring(), np.dtype("<f8")),
}


class OpenFst(NamedTuple):
    """The contents of an OpenFst file."""

    machine: Automaton
    input_symbols: SymbolTable | None
    output_symbols: SymbolTable | None


# --- writing ------------------------------------------------------------------------------------------------


def to_openfst(
    machine: Automaton,
    input_symbols: SymbolTable | None = None,
    output_symbols: SymbolTable | None = None,
    failure: int | None = None,
) -> bytes:
    """The bytes of an OpenFst file.

    Args:
        machine: the automaton.
        input_symbols: names of the input labels, stored in the file.
        output_symbols: names of the output labels, stored in the file.
        failure: the label of failure arcs in the file; required if there are any.
    """
    machine = single_start_state(machine)
    name = _arc_kind(machine)
    t, row = machine.topology, KINDS[name].row
    read, write = (_labels(x, failure) for x in (t.input, t.output))
    order = np.argsort(t.source, kind="stable")
    bounds = np.searchsorted(t.source[order], np.arange(t.n_states + 1))
    rows = np.empty(len(order), row)
    rows["input"], rows["output"], rows["target"] = read[order], write[order], t.target[order]
    rows["cost"] = weights_to_costs(machine, machine.weight)[order]
    finals = weights_to_costs(machine, machine.final).astype(KINDS[name].cost)
    flags = HAS_INPUT_SYMBOLS * (input_symbols is not None) | HAS_OUTPUT_SYMBOLS * (output_symbols is not None)
    parts = [struct.pack("<i", MAGIC), _string("vector"), _string(name)]
    start = 0 if t.n_states else -1
    parts.append(struct.pack("<iiQqqq", _VERSION, flags, _EXPANDED_AND_MUTABLE, start, t.n_states, len(order)))
    parts += [_symbol_bytes(table) for table in (input_symbols, output_symbols) if table is not None]
    for q in range(t.n_states):
        arcs = rows[bounds[q] : bounds[q + 1]]
        parts += [finals[q].tobytes(), struct.pack("<q", len(arcs)), arcs.tobytes()]
    return b"".join(parts)


def write_openfst(
    path: Path | str,
    machine: Automaton,
    input_symbols: SymbolTable | None = None,
    output_symbols: SymbolTable | None = None,
    failure: int | None = None,
) -> None:
    """Write an automaton to an OpenFst file, with the arguments of :func:`to_openfst`.

    Args:
        path: the file to write.
        machine: the automaton.
        input_symbols: names of the labels that are read, stored with it.
        output_symbols: names of the labels that are written.
        failure: the label of failure arcs in the file; required if there are any.
    """
    Path(path).write_bytes(to_openfst(machine, input_symbols, output_symbols, failure))


def _arc_kind(machine: Automaton) -> str:
    if isinstance(machine.semiring, (MaxSemiring, TropicalSemiring)):
        return "standard"
    if type(machine.semiring) is LogSemiring:
        return "log" if machine.weight.dtype == torch.float32 else "log64"
    raise TypeError(
        f"machine must be over TropicalSemiring, MaxSemiring or LogSemiring for OpenFst, got "
        f"{type(machine.semiring).__name__}. Call machine.over(LogSemiring())."
    )


def _labels(labels: np.ndarray, failure: int | None) -> np.ndarray:
    failing = labels == FAILURE
    if failing.any() and failure is None:
        raise ValueError("The automaton has failure arcs. Pass failure=, the label to write for them.")
    labels = np.where(failing, failure or 0, labels)
    if labels.max(initial=0) > _LARGEST:
        raise ValueError(f"Labels must be at most {_LARGEST} in this format, got {labels.max()}. Renumber the labels.")
    return labels


def _string(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<i", len(data)) + data


def _symbol_bytes(symbols: SymbolTable) -> bytes:
    rows = symbols.items()
    head = struct.pack("<i", SYMBOLS_MAGIC) + _string("symbols") + struct.pack("<qq", rows[-1][1] + 1, len(rows))
    return head + b"".join(_string(name) + struct.pack("<q", label) for name, label in rows)


# --- reading ------------------------------------------------------------------------------------------------


def read_openfst(path: Path | str, failure: int | None = None) -> OpenFst:
    """The automaton and the symbol tables of an OpenFst file; ``failure`` is the label of failure arcs in it.

    Args:
        path: the file.
        failure: the label of failure arcs in it.
    """
    return from_openfst(Path(path).read_bytes(), failure, str(path))


def from_openfst(data: bytes, failure: int | None = None, name: str = "data") -> OpenFst:
    """The inverse of :func:`to_openfst`; ``name`` is the name of the data in error messages.

    Args:
        data: the content of a file.
        failure: the label of failure arcs in it.
        name: name of the data in error messages.
    """
    reader = _Bytes(data, name)
    if reader.numbers("<i", "the magic number")[0] != MAGIC:
        raise reader.wrong("it does not begin like an OpenFst binary file. If it is text, use read_text")
    form, arcs = reader.string("the kind of machine"), reader.string("the kind of arcs")
    if form != "vector":
        raise reader.wrong(f"its FST type is {form[:40]!r}, but only 'vector' is supported. Convert it with fstconvert")
    if arcs not in KINDS:
        raise reader.wrong(f"its arc type is {arcs[:40]!r}, but only {', '.join(KINDS)} are supported")
    version, flags, _, start, n_states, _ = reader.numbers("<iiQqqq", "the header")
    if version != _VERSION:
        raise reader.wrong(f"its version is {version}, but only {_VERSION} is supported")
    tables = [reader.symbols() if flags & bit else None for bit in (HAS_INPUT_SYMBOLS, HAS_OUTPUT_SYMBOLS)]
    return OpenFst(_read_machine(reader, KINDS[arcs], start, n_states, failure), tables[0], tables[1])


def _read_machine(reader: _Bytes, kind: FstKind, start: int, n_states: int, failure: int | None) -> Automaton:
    finals: list[float] = []
    blocks: list[np.ndarray] = []
    sizes: list[int] = []
    while len(finals) < n_states or (n_states == -1 and reader.at < len(reader.data)):
        finals.append(reader.rows(kind.cost, 1, "a final cost")[0])
        (count,) = reader.numbers("<q", "a number of arcs")
        blocks.append(reader.rows(kind.row, count, "arcs"))
        sizes.append(count)
    n = len(finals)
    if n_states < -1 or not -1 <= start < n:
        raise reader.wrong(f"its initial state is {start}, which is not one of its {n} states")
    rows = np.concatenate([np.empty(0, kind.row), *blocks])
    read, write = (rows[side].astype(np.int64) for side in ("input", "output"))
    source, target = np.repeat(np.arange(n), sizes).astype(np.int64), rows["target"].astype(np.int64)
    if min(read.min(initial=0), write.min(initial=0)) < 0 or target.min(initial=0) < 0 or target.max(initial=-1) >= n:
        raise reader.wrong("it contains an arc with a negative label or an invalid target")
    if failure is not None:
        read, write = (np.where(x == failure, FAILURE, x) for x in (read, write))
    values = [rows["cost"].astype(np.float64), np.full(n, np.inf), np.array(finals, np.float64)]
    if any(np.isnan(x).any() for x in values):
        raise reader.wrong("it contains a cost of nan")
    if n and start >= 0:
        values[1][start] = 0.0
    dtype = torch.float32 if kind.cost.itemsize == 4 else torch.float64
    weight, initial, final = (elements(kind.semiring, x, dtype) for x in values)
    columns = [torch.from_numpy(x) for x in (source, target, read, write)]
    return Automaton(columns[0], columns[1], columns[2], columns[3], weight, initial, final, kind.semiring)


@dataclass
class _Bytes:
    """Bytes that are read from the front, with a check of every size against what is left."""

    data: bytes
    name: str
    at: int = 0

    def wrong(self, problem: str) -> FormatError:
        return FormatError(f"{self.name} cannot be read (at byte {self.at}): {problem}.")

    def take(self, size: int, what: str) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise self.wrong(f"{what} needs {size} bytes, but only {len(self.data) - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def numbers(self, form: str, what: str) -> tuple[int, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form), what))

    def rows(self, row: np.dtype, count: int, what: str) -> np.ndarray:
        return np.frombuffer(self.take(row.itemsize * count, what), row)

    def string(self, what: str) -> str:
        data = self.take(self.numbers("<i", what)[0], what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.wrong(f"{what} is not UTF-8 text") from error

    def symbols(self) -> SymbolTable:
        if self.numbers("<i", "the magic number of a table of symbols")[0] != SYMBOLS_MAGIC:
            raise self.wrong("a symbol table has a wrong magic number")
        self.string("the name of a table of symbols")
        _, count = self.numbers("<qq", "the size of a table of symbols")
        labels: dict[str, int] = {}
        for _ in range(count):
            name = self.string("a symbol")
            labels[name] = self.numbers("<q", "the label of a symbol")[0]
        try:
            return SymbolTable.of(labels)
        except FormatError as error:
            raise self.wrong(str(error).removesuffix(".")) from error
