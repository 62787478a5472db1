r"""A joint model as weighted automata, whose composition gives the same results as the direct search.

.. math::  T = R \circ L \circ W

R reads the symbols of a source and writes units, L is the n-gram model of units with its failure arcs, W reads units
and writes the symbols of a target. Labels are ids of symbols, and ids of units in the n-gram model. Each automaton can
be written as AT&T text (:mod:`catena.structure.automaton.text`) with the tables of :func:`symbol_tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from catena.errors import DataError
from catena.lm.ngram.automaton import compact_automaton
from catena.structure.automaton.build import Arc, from_arcs, from_string
from catena.structure.automaton.composition import compose
from catena.structure.automaton.distance import total
from catena.structure.automaton.search import ScoredPath as FoundString
from catena.structure.automaton.search import best_strings
from catena.structure.automaton.symbols import EPSILON_NAME, SymbolTable
from catena.structure.automaton.text import to_text
from catena.structure.automaton.wfsa import EPSILON, Automaton
from catena.transduction.base import SymbolSequence
from catena.transduction.joint import JointModel

_FILES = ("read.txt", "units.txt", "write.txt")
_FAILURE_NAME = "<phi>"


def reader(model: JointModel) -> Automaton:
    """Return the transducer from source symbols to units. States count successive units without source symbols."""
    arcs: list[Arc] = []
    n = model.insertions + 1
    for unit, (read, _) in zip(_ids(model), model.units, strict=True):
        if not read:
            arcs += [Arc(k, k + 1, EPSILON, unit) for k in range(model.insertions)]
            continue
        here = [
            *range(n, n + len(read) - 1)
        ]  # all readings return to state 0 and have the states after the first symbol in common
        n += len(here)
        steps = [*here, 0]
        arcs += [Arc(k, steps[0], read[0], unit) for k in range(model.insertions + 1)]
        arcs += [Arc(a, b, label, EPSILON) for a, b, label in zip(steps, steps[1:], read[1:], strict=False)]
    return from_arcs(arcs, [0], range(model.insertions + 1), n_states=n)


def writer(model: JointModel) -> Automaton:
    """Return the transducer from units to target symbols."""
    arcs: list[Arc] = []
    n = 1
    for unit, (_, wrote) in zip(_ids(model), model.units, strict=True):
        steps = [0, *range(n, n + len(wrote) - 1), 0]
        n += max(len(wrote) - 1, 0)
        labels = wrote or (EPSILON,)
        for k, label in enumerate(labels):
            arcs.append(Arc(steps[k], steps[k + 1], EPSILON if k else unit, label))
    return from_arcs(arcs, [0], [0], n_states=n)


def machines(model: JointModel) -> tuple[Automaton, Automaton, Automaton]:
    """Return R, L and W."""
    return reader(model), compact_automaton(model.ngrams), writer(model)


def target_lattice(model: JointModel, x: SymbolSequence) -> Automaton:
    """Return all targets of a source with their weights p(x, y): x ∘ R ∘ L ∘ W, which reads x and writes targets."""
    ids = model.source.ids(x)
    for symbol, id in zip(x, ids, strict=True):
        if not id:
            raise DataError(f"The symbol {symbol!r} does not occur in the training data. Remove it.")
    r, units, w = machines(model)
    return compose(compose(compose(from_string(ids), r), units), w)


def log_prob(model: JointModel, x: SymbolSequence, y: SymbolSequence) -> float:
    """Return log p(x, y), the sum of all paths that read x and write y."""
    return float(total(compose(target_lattice(model, x), from_string(model.target.ids(y)))))


def best(model: JointModel, x: SymbolSequence, n: int = 1) -> list[tuple[tuple[str, ...], float]]:
    """Return the n targets with the largest p(x, y), summed over alignments."""
    found: Sequence[FoundString] = best_strings(target_lattice(model, x), n, side="output")
    return [(model.target.spelled(string.output), string.score) for string in found]


def symbol_tables(model: JointModel) -> tuple[SymbolTable, SymbolTable, SymbolTable]:
    """Return the names of source symbols, of units and of target symbols."""
    words = {name: id for id, name in enumerate(model.ngrams.vocabulary.symbols) if id != EPSILON}
    return model.source.labels(), SymbolTable.of({EPSILON_NAME: EPSILON, **words}), model.target.labels()


def write(model: JointModel, folder: Path) -> None:
    """Write R, L and W as AT&T text with symbol names; failure arcs of L are called ``<phi>``."""
    folder.mkdir(parents=True, exist_ok=True)
    source, units, target = symbol_tables(model)
    tables = ((source, units), (units, units), (units, target))
    for file, machine, (read, wrote) in zip(_FILES, machines(model), tables, strict=True):
        (folder / file).write_text(to_text(machine, read, wrote, failure=_FAILURE_NAME), encoding="utf-8", newline="\n")
    for file, table in (("source.syms", source), ("units.syms", units), ("target.syms", target)):
        lines = [f"{name}\t{label}\n" for name, label in table.items()]
        extra = [f"{_FAILURE_NAME}\t{max(label for _, label in table.items()) + 1}\n"] if table is units else []
        (folder / file).write_text("".join([*lines, *extra]), encoding="utf-8", newline="\n")


def _ids(model: JointModel) -> range:
    """Return the words of the n-gram model that are units."""
    v = len(model.ngrams.vocabulary)
    return range(v - len(model.units), v)
