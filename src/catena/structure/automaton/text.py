"""Automata in AT&T text format, as used by fstcompile and fstprint.

There is one line for each arc, ``source target input output cost``, and for each final state, ``state cost``. Acceptors
have a single label. A cost of weight one may be omitted. The source of the first line is the initial state. Labels are
numbers or, with symbol tables, names. Costs are negated scores in the log and max semirings, costs in the tropical
semiring, and weights in the real semiring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from catena.errors import FormatError
from catena.structure.automaton.rational import single_start_state
from catena.structure.automaton.symbols import SymbolTable
from catena.structure.automaton.weights_to_costs import elements, weights_to_costs, written
from catena.structure.automaton.wfsa import EPSILON, FAILURE, LOG, Automaton
from catena.structure.semirings import Semiring

_LARGEST = 2**31 - 1
"""The largest label or state that the tools of this format accept."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?)", re.IGNORECASE | re.ASCII)


# --- writing ------------------------------------------------------------------------------------------------


def to_text(
    machine: Automaton,
    input_symbols: SymbolTable | None = None,
    output_symbols: SymbolTable | None = None,
    failure: str | int | None = None,
) -> str:
    """An automaton in AT&T text format. An acceptor has one label on each line.

    Several initial states, or one with a weight, are converted to a single one with epsilon arcs.

    Args:
        machine: the automaton.
        input_symbols: names of the input labels; numbers if omitted.
        output_symbols: names of the output labels; numbers if omitted.
        failure: the label or name to write for failure arcs; required if there are any.
    """
    machine = single_start_state(machine)
    form, t = written(machine.semiring), machine.topology
    label = _label_writer(input_symbols, failure)
    labels = [[label(x) for x in t.input.tolist()]]
    if not machine.is_acceptor:
        label = _label_writer(output_symbols, failure)
        labels.append([label(x) for x in t.output.tolist()])
    arc_costs, final_costs = weights_to_costs(machine, machine.weight), weights_to_costs(machine, machine.final)
    by_source, touched = np.argsort(t.source, kind="stable"), np.zeros(t.n_states, bool)
    touched[t.source], touched[t.target] = True, True
    bounds = np.searchsorted(t.source[by_source], np.arange(t.n_states + 1))
    lines = []
    for q in range(t.n_states):
        for i in by_source[bounds[q] : bounds[q + 1]]:
            fields = [str(q), str(t.target[i]), *(column[i] for column in labels)]
            lines.append("\t".join(fields + _cost_field(arc_costs[i], form.one)))
        if final_costs[q] != form.zero or not touched[q] or (q == 0 and bounds[1] == 0):
            lines.append("\t".join([str(q), *_cost_field(final_costs[q], form.one)]))
    return "".join(line + "\n" for line in lines)


def write_text(
    path: Path | str,
    machine: Automaton,
    input_symbols: SymbolTable | None = None,
    output_symbols: SymbolTable | None = None,
    failure: str | int | None = None,
) -> None:
    """Write an automaton to a text file in UTF-8, with the arguments of :func:`to_text`.

    Args:
        path: the file to write.
        machine: the automaton.
        input_symbols: names of the labels that are read; integers if None.
        output_symbols: names of the labels that are written.
        failure: the label of failure arcs in the file; required if there are any.
    """
    text = to_text(machine, input_symbols, output_symbols, failure)
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def _cost_field(cost: np.floating, one: float) -> list[str]:
    if cost == one:
        return []
    return [{np.inf: "Infinity", -np.inf: "-Infinity"}.get(float(cost)) or str(cost)]


def _label_writer(symbols: SymbolTable | None, failure: str | int | None) -> Callable[[int], str]:
    def name(label: int) -> str:
        if label == FAILURE:
            if failure is None:
                raise ValueError("The automaton has failure arcs. Pass failure=, the label to write for them.")
            return str(failure)
        text = str(label) if symbols is None else symbols.name(label)
        if not text or text.split() != [text]:
            raise FormatError(f"Symbols must not be empty or contain spaces here, got {text!r}. Rename the symbol.")
        return text

    return name


# --- reading ------------------------------------------------------------------------------------------------


def from_text(
    text: str,
    acceptor: bool = False,
    input_symbols: SymbolTable | None = None,
    output_symbols: SymbolTable | None = None,
    failure: str | int | None = None,
    semiring: Semiring = LOG,
    dtype: torch.dtype = torch.float64,
    name: str = "text",
) -> Automaton:
    """An automaton from AT&T text. States are numbered in the order of their first occurrence.

    Args:
        text: the text.
        acceptor: whether lines have one label (then a line of 4 fields ends in a cost) or two.
        input_symbols: labels of input names; labels are numbers if omitted.
        output_symbols: labels of output names; labels are numbers if omitted.
        failure: the label or name of failure arcs in the text.
        semiring: the semiring of the weights.
        dtype: the dtype of the weights.
        name: the name of the text in error messages.
    """
    form = written(semiring)
    second = input_symbols if acceptor else output_symbols
    reader = _Reader(name, acceptor, input_symbols, second, failure, form.one)
    for number, line in _lines(text):
        reader.read(number, line)
    n = len(reader.states)
    source, target, read, write = (torch.tensor([arc[i] for arc in reader.arcs], dtype=torch.int64) for i in range(4))
    final, initial = np.full(n, form.zero), np.full(n, form.zero)
    for state, cost in reader.finals.items():
        final[state] = cost
    initial[:1] = form.one
    numbers = ([arc[4] for arc in reader.arcs], initial, final)
    weight, begins, ends = (elements(semiring, x, dtype) for x in numbers)
    return Automaton(source, target, read, write, weight, begins, ends, semiring)


def read_text(
    path: Path | str,
    acceptor: bool = False,
    input_symbols: SymbolTable | None = None,
    output_symbols: SymbolTable | None = None,
    failure: str | int | None = None,
    semiring: Semiring = LOG,
    dtype: torch.dtype = torch.float64,
) -> Automaton:
    """An automaton from a text file in UTF-8, with the arguments of :func:`from_text`.

    Args:
        path: the file, in UTF-8.
        acceptor: whether lines have one label, not two.
        input_symbols: names of the labels that are read; integers if None.
        output_symbols: names of the labels that are written.
        failure: the label of failure arcs in the file.
        semiring: the semiring of the weights.
        dtype: dtype of the weights.
    """
    text = decode_text(path)
    return from_text(text, acceptor, input_symbols, output_symbols, failure, semiring, dtype, str(path))


def decode_text(path: Path | str) -> str:
    """The text of a UTF-8 file; raises FormatError with the position of the first invalid byte."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path} must be UTF-8 text, got byte {error.object[error.start]:#04x} at {error.start}. Read an OpenFst "
            "binary file with read_openfst."
        ) from error


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if line.strip():
            yield number, line


@dataclass
class _Reader:
    name: str
    acceptor: bool
    input_symbols: SymbolTable | None
    output_symbols: SymbolTable | None
    failure: str | int | None
    one: float
    states: dict[int, int] = field(default_factory=dict)
    arcs: list[tuple[int, int, int, int, float]] = field(default_factory=list)
    finals: dict[int, float] = field(default_factory=dict)

    def read(self, number: int, line: str) -> None:
        fields = line.split()
        labels = 1 if self.acceptor else 2
        if len(fields) in (1, 2):
            cost = self._cost(number, fields[1:])
            self.finals[self._state(number, fields[0])] = cost
        elif len(fields) in (2 + labels, 3 + labels):
            source, target = self._state(number, fields[0]), self._state(number, fields[1])
            read = self._label(number, fields[2], self.input_symbols)
            write = read if self.acceptor else self._label(number, fields[3], self.output_symbols)
            self.arcs.append((source, target, read, write, self._cost(number, fields[2 + labels :])))
        else:
            kind, other = ("an acceptor", "a transducer") if self.acceptor else ("a transducer", "an acceptor")
            raise self._wrong(
                number,
                f"a line of {kind} must have 1 or 2 fields (a final state) or {2 + labels} or {3 + labels} (an arc), "
                f"got {len(fields)}. For {other} use acceptor={not self.acceptor}.",
            )

    def _wrong(self, number: int, problem: str) -> FormatError:
        return FormatError(f"{self.name}:{number} {problem}")

    def _state(self, number: int, text: str) -> int:
        return self.states.setdefault(self._integer(number, "a state", text), len(self.states))

    def _integer(self, number: int, what: str, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 11 and int(text) <= _LARGEST):
            raise self._wrong(number, f"{what} must be from 0 to {_LARGEST}, got {text[:40]!r}. Correct the line.")
        return int(text)

    def _label(self, number: int, text: str, symbols: SymbolTable | None) -> int:
        if self.failure is not None and text == str(self.failure):
            return FAILURE
        if symbols is None:
            cure = "" if text.isascii() and text.isdigit() else " (for names, pass symbol tables)"
            return self._integer(number, f"a label{cure}", text)
        if text not in symbols:
            raise self._wrong(number, f"unknown symbol {text[:40]!r}. Use one of the {len(symbols)} in the table.")
        return symbols.label(text)

    def _cost(self, number: int, fields: list[str]) -> float:
        if not fields:
            return self.one
        if not _NUMBER.fullmatch(fields[0]):
            raise self._wrong(number, f"a cost must be a number or Infinity, got {fields[0][:40]!r}. Correct the line.")
        return float(fields[0])


# --- symbol tables ------------------------------------------------------------------------------------------


def symbols_to_text(symbols: SymbolTable) -> str:
    """A symbol table as text, one line ``name label`` for each symbol."""
    for name, _ in symbols.items():
        if not name or name.split() != [name]:
            raise FormatError(f"Symbols must not be empty or contain spaces here, got {name!r}. Rename the symbol.")
    return "".join(f"{name}\t{label}\n" for name, label in symbols.items())


def symbols_from_text(text: str, name: str = "text") -> SymbolTable:
    """A symbol table from lines ``name label``; ``name`` is the name of the text in error messages."""
    labels: dict[str, int] = {}
    for number, line in _lines(text):
        fields = line.split()
        if len(fields) != 2 or not (fields[1].isascii() and fields[1].isdigit() and len(fields[1]) < 11):
            raise FormatError(f"{name}:{number} must be a symbol and its label, got {line[:80]!r}. Correct the line.")
        if labels.get(fields[0], int(fields[1])) != int(fields[1]):
            raise FormatError(
                f"{name}:{number} the symbol {fields[0]!r} already has the label {labels[fields[0]]}. Remove the line."
            )
        labels[fields[0]] = int(fields[1])
    if EPSILON not in labels.values() and labels:
        raise FormatError(f"{name} has no name for label 0 (epsilon). Add a line such as '<eps> 0'.")
    return SymbolTable.of(labels)


def read_symbols(path: Path | str) -> SymbolTable:
    """A symbol table from a text file in UTF-8."""
    return symbols_from_text(decode_text(path), str(path))


def write_symbols(path: Path | str, symbols: SymbolTable) -> None:
    """Write a symbol table to a text file in UTF-8."""
    Path(path).write_text(symbols_to_text(symbols), encoding="utf-8", newline="\n")
