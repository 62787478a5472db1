"""Construction of automata from arcs, strings, lexicons and edit models.

A string is a Python string, whose labels are code points, or a sequence of labels. Weights are given as scores
(log-weights) and converted to the semiring. If scores are tensors, gradients flow to them.
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
"""A text, whose labels are code points (or, with a symbol table, the labels of its characters); labels; or names."""


def string_to_labels(string: _String, symbols: SymbolTable | None = None) -> list[int]:
    """The labels of a string, which must be positive."""
    if symbols is not None and (isinstance(string, str) or any(isinstance(x, str) for x in string)):
        return symbols.labels(string)  # type: ignore[arg-type]
    found = [ord(x) if isinstance(x, str) else int(x) for x in string]
    for place, label in enumerate(found):
        if label <= EPSILON:
            raise ShapeError(
                f"Labels of a string must be positive, got {label} at position {place}. Number labels from 1; 0 is "
                "epsilon and -1 a failure."
            )
    return found


class Arc(NamedTuple):
    """One arc of an automaton under construction.

    Args:
        source: the state it leaves.
        target: the state it reaches.
        input: the label it reads; 0 is epsilon, -1 a failure arc.
        output: the label it writes.
        score: its score (log-weight).
    """

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
    """An automaton from a list of arcs.

    Args:
        arcs: rows (source, target, input, output, score).
        initial: the start states, with scores if it is a mapping.
        final: the end states, with scores if it is a mapping.
        semiring: the semiring of the weights.
        n_states: the number of states; by default one more than the largest state.
        dtype: the dtype of the scores.
    """
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
    """The automaton of a single string, or of a single pair of strings.

    Args:
        string: the input string.
        output: the output string; the input string if omitted.
        scores: the score of each symbol, for acceptors; 0 if omitted.
        symbols: labels of names; code points if omitted.
        semiring: the semiring of the weights.
        dtype: the dtype of the scores if they are omitted.
    """
    read = string_to_labels(string, symbols)
    written = read if output is None else string_to_labels(output, symbols)
    n = max(len(read), len(written))
    read_all, written_all = (np.array([*x, *[EPSILON] * (n - len(x))], np.int64) for x in (read, written))
    score = torch.zeros(n, dtype=dtype) if scores is None else scores
    if score.shape != (n,):
        raise ShapeError(f"scores must have shape [{n}], got {list(score.shape)}. Pass one score for each symbol.")
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
    """The transducer of a lexicon.

    Inputs form a prefix tree. At the end of an input its output is written and its score is added. Entries with the
    same input are alternatives.

    Args:
        entries: rows (input, output) or (input, output, score).
        input_symbols: labels of input names; code points if omitted.
        output_symbols: labels of output names; code points if omitted.
        semiring: the semiring of the weights.
        dtype: the dtype of the scores.
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
    """The acceptor of a list of strings, as a prefix tree.

    A string that occurs twice has two paths.

    Args:
        strings: the strings.
        scores: the score of each string; 0 if omitted.
        symbols: labels of names; code points if omitted.
        semiring: the semiring of the weights.
        dtype: the dtype of the scores.
    """
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
    """The transducer with one state that edits one string into another, with a score for each edit.

    Args:
        alphabet: the symbols that are read and written.
        insert: the score of writing a symbol: a scalar, or ``[v]``.
        delete: the score of reading a symbol and writing nothing: a scalar, or ``[v]``.
        substitute: the score of reading ``i`` and writing ``j``: a scalar, or ``[v, v]``, whose diagonal is not read.
        match: the score of copying a symbol: a scalar, or ``[v]``.
        symbols: labels of names; code points if omitted.
        semiring: the semiring of the weights.
        dtype: the dtype of scalar scores.
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
                f"{name} must be a scalar or have shape {[v] * axes}, got {list(x.shape)}. Pass a score for each of "
                f"the {v} symbols."
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
