"""Machines from strings, lexicons and edit models.

A string is a text, whose labels are the code points of its characters, or a sequence of labels. Weights are
given as scores (log-weights) and lifted into the semiring; where they are tensors, gradients flow to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from catena.errors import ShapeError
from catena.numerics import NEG_INF
from catena.structure.automaton.symbols import SymbolTable
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.wfsa import EPSILON, LOG, Automaton
from catena.structure.checks import broadcasts_to_batch, check_floating
from catena.structure.semirings import Semiring

_String = str | Sequence[int] | Sequence[str]
"""A text, whose labels are code points (or, with a table of symbols, its characters' names); labels; or names."""


def string_to_labels(string: _String, symbols: SymbolTable | None = None) -> list[int]:
    """The labels of a string; all must be above 0."""
    if symbols is not None and (isinstance(string, str) or any(isinstance(x, str) for x in string)):
        return symbols.labels(string)  # type: ignore[arg-type]
    found = [ord(x) if isinstance(x, str) else int(x) for x in string]
    for place, label in enumerate(found):
        if label <= EPSILON:
            raise ShapeError(
                f"the labels of a string must be above 0, but number {place} is {label} (0 is epsilon, -1 a failure)"
            )
    return found


class Arc(NamedTuple):
    """An arc of a machine that is being put together."""

    source: int
    target: int
    input: int
    output: int
    score: float | Tensor = 0.0


def from_arcs(
    arcs: Iterable[tuple[int, int, int, int, float | Tensor]],
    initial: Mapping[int, float | Tensor] | Iterable[int],
    final: Mapping[int, float | Tensor] | Iterable[int],
    semiring: Semiring = LOG,
    n_states: int | None = None,
    dtype: torch.dtype = torch.float64,
) -> Automaton:
    """A machine from (source, target, input, output, score) rows, and initial and final states with scores."""
    rows = (arc if len(arc) == 5 else Arc(*arc) for arc in arcs)
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], [], []]
    begins, ends = (dict(x) if isinstance(x, Mapping) else dict.fromkeys(x, 0.0) for x in (initial, final))
    n = max([*begins, *ends, *columns[0], *columns[1]], default=-1) + 1 if n_states is None else n_states
    for name, states in (("initial", begins), ("final", ends)):
        for q in states:
            if not 0 <= q < n:
                raise ShapeError(f"{name} must hold states from 0 to {n - 1}, got {q}. Raise n_states, or correct it.")
    source, target, read, write = (torch.tensor(column, dtype=torch.int64) for column in columns[:4])
    score = _scores(columns[4], dtype)
    first, last = (_sparse(x, n, dtype) for x in (begins, ends))
    return Automaton(source, target, read, write, score, first, last, LOG).mapped(semiring.lift, semiring)


def _scores(scores: Sequence[float | Tensor], dtype: torch.dtype) -> Tensor:
    if any(isinstance(x, Tensor) for x in scores):
        return torch.stack([torch.as_tensor(x, dtype=dtype) for x in scores])
    return torch.tensor(scores, dtype=dtype)


def _sparse(scores: Mapping[int, float | Tensor], n: int, dtype: torch.dtype) -> Tensor:
    places = torch.tensor(list(scores), dtype=torch.int64)
    return torch.full((n,), NEG_INF, dtype=dtype).index_put((places,), _scores(list(scores.values()), dtype))


def from_string(
    string: _String,
    output: _String | None = None,
    scores: Float[Tensor, " t"] | None = None,
    symbols: SymbolTable | None = None,
    semiring: Semiring = LOG,
    dtype: torch.dtype = torch.float64,
) -> Automaton:
    """The machine of one string; of one pair of strings, if there is an ``output``.

    Args:
        scores: the score of each symbol, for acceptors; 0 if omitted.
    """
    read = string_to_labels(string, symbols)
    written = read if output is None else string_to_labels(output, symbols)
    n = max(len(read), len(written))
    read_all, written_all = (np.array([*x, *[EPSILON] * (n - len(x))], np.int64) for x in (read, written))
    score = torch.zeros(n, dtype=dtype) if scores is None else scores
    if score.shape != (n,):
        raise ShapeError(f"scores must be one number for each of {n} symbols, but their shape is {list(score.shape)}")
    check_floating([score])
    edges = torch.full((2, n + 1), NEG_INF, dtype=score.dtype, device=score.device)
    edges[0, 0] = edges[1, n] = 0.0
    topology = Topology(np.arange(n), np.arange(1, n + 1), read_all, written_all, n + 1)
    initial, final = (semiring.lift(x) for x in edges)
    return Automaton.trusted(topology, semiring.lift(score), initial, final, semiring)


def from_lexicon(
    entries: Iterable[tuple[_String, _String] | tuple[_String, _String, float | Tensor]],
    input_symbols: SymbolTable | None = None,
    output_symbols: SymbolTable | None = None,
    semiring: Semiring = LOG,
    dtype: torch.dtype = torch.float64,
) -> Automaton:
    """A transducer of (input, output) or (input, output, score) entries.

    Inputs share their beginnings (it is a prefix tree). Where an input ends, its outputs are written, and its
    score is paid. Entries with the same input are alternatives.
    """
    children: dict[tuple[int, int], int] = {}
    arcs: list[Arc] = []
    last, n = 1, 2
    for string, output, *rest in entries:
        at = 0
        for label in string_to_labels(string, input_symbols):
            if (at, label) not in children:
                children[at, label] = n
                arcs.append(Arc(at, n, label, EPSILON))
                n += 1
            at = children[at, label]
        written = string_to_labels(output, output_symbols) or [EPSILON]
        for place, label in enumerate(written):
            target = last if place == len(written) - 1 else n
            arcs.append(Arc(at, target, EPSILON, label, rest[0] if rest and place == 0 else 0.0))
            at, n = target, n + (target != last)
    return from_arcs(arcs, [0], [last], semiring, n, dtype)


def from_strings(
    strings: Iterable[_String],
    scores: Sequence[float | Tensor] | None = None,
    symbols: SymbolTable | None = None,
    semiring: Semiring = LOG,
    dtype: torch.dtype = torch.float64,
) -> Automaton:
    """An acceptor of these strings: a prefix tree in which a string that comes twice has two paths."""
    children: dict[tuple[int, int], int] = {}
    arcs: list[Arc] = []
    last, n = 1, 2
    for number, string in enumerate(strings):
        at = 0
        for label in string_to_labels(string, symbols):
            if (at, label) not in children:
                children[at, label] = n
                arcs.append(Arc(at, n, label, label))
                n += 1
            at = children[at, label]
        arcs.append(Arc(at, last, EPSILON, EPSILON, 0.0 if scores is None else scores[number]))
    return from_arcs(arcs, [0], [last], semiring, n, dtype)


def edit_model(
    alphabet: _String,
    insert: float | Float[Tensor, "..."] = -1.0,
    delete: float | Float[Tensor, "..."] = -1.0,
    substitute: float | Float[Tensor, "..."] = -1.0,
    match: float | Float[Tensor, "..."] = 0.0,
    symbols: SymbolTable | None = None,
    semiring: Semiring = LOG,
    dtype: torch.dtype = torch.float64,
) -> Automaton:
    """A transducer of one state that turns a string into another by edits; its scores are paid for each edit.

    Args:
        alphabet: the symbols that are read and written.
        insert: the score of writing a symbol: one number, or one for each symbol, ``[v]``.
        delete: the score of reading a symbol and writing none: one number, or ``[v]``.
        substitute: the score of reading ``i`` and writing ``j``: one number, or ``[v, v]``, whose diagonal is
            not read.
        match: the score of copying a symbol: one number, or ``[v]``.
    """
    labels = np.array(string_to_labels(alphabet, symbols), np.int64)
    v = len(labels)
    scores = (match, delete, insert, substitute)
    kinds = [x.dtype for x in scores if isinstance(x, Tensor)]
    given = [torch.as_tensor(x, dtype=kinds[0] if kinds else dtype) for x in scores]
    sizes = (("match", 1), ("delete", 1), ("insert", 1), ("substitute", 2))
    for (name, axes), x in zip(sizes, given, strict=True):
        if not broadcasts_to_batch(x.shape, (v,) * axes, 0):
            raise ShapeError(
                f"{name} must be one number or have the shape {[v] * axes}, got {list(x.shape)}. Give a score for each "
                f"of the {v} symbols."
            )
    check_floating(given)
    copied, deleted, inserted = (x.expand(v) for x in given[:3])
    others = ~np.eye(v, dtype=bool)
    changed = given[3].expand(v, v)[torch.from_numpy(others)]
    read, written = (x.ravel() for x in np.broadcast_arrays(labels[:, None], labels))
    silent, other = np.full(v, EPSILON, np.int64), others.ravel()
    inputs = np.concatenate((labels, labels, silent, read[other]))
    outputs = np.concatenate((labels, silent, labels, written[other]))
    score = torch.cat((copied, deleted, inserted, changed))
    nowhere = np.zeros(len(inputs), np.int64)
    edge = semiring.lift(torch.zeros(1, dtype=score.dtype, device=score.device))
    topology = Topology(nowhere, nowhere, inputs, outputs, 1)
    return Automaton.trusted(topology, semiring.lift(score), edge, edge, semiring)
