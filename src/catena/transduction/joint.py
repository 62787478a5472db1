r"""Joint-sequence models: n-grams of units that pair a piece of the source with a piece of the target.

.. math::  p(x, y) = \sum_{u_1 \dots u_k\,:\,x, y} \prod_i p(u_i \mid u_{i-n+1} \dots u_{i-1}), \qquad
           \hat y = \arg\max_y p(x, y)

Bisani & Ney (2008). Units come from alignments (:mod:`catena.transduction.alignment`), n-grams from
:mod:`catena.lm.ngram`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from catena._lazy import LazyModule
from catena.checkpoint import read_stored
from catena.data.vocabulary import Vocabulary
from catena.errors import DataError
from catena.lm.base import SPECIALS
from catena.lm.ngram.model import NgramModel
from catena.transduction.alignment import AlignedPairs, Aligner, JointUnit, Moves, OffsetArray, SymbolArray
from catena.transduction.alphabet import Alphabet, written
from catena.transduction.base import Link, StringTransducer, SymbolSequence, TransducedString
from catena.transduction.config import JointConfig

_kernels = LazyModule("catena.kernels.joint.cpu_search")
_SKIP = -25.0
"""Log of the penalty for skipping a source symbol that no unit can read at its position."""
_NONE = np.empty(0, np.int32)
UNITS, NGRAMS = "units.json", "ngrams.bin"
_DEFAULT = JointConfig()


@dataclass(frozen=True, eq=False)
class JointModel(StringTransducer):
    """An n-gram model of units.

    Args:
        source: the source symbols.
        target: the target symbols.
        units: ``units[i]`` is the source and target piece of word ``i`` of the n-gram model, without special tokens.
        ngrams: the n-gram model of units.
        settings: the config of training and search.
    """

    source: Alphabet
    target: Alphabet
    units: tuple[JointUnit, ...]
    ngrams: NgramModel
    settings: JointConfig = _DEFAULT

    def __post_init__(self) -> None:
        words = len(self.ngrams.vocabulary) - len(SPECIALS)
        if not 0 < len(self.units) <= words:
            raise DataError(
                f"units must be 1 to {words}, the number of words of the n-gram model, got {len(self.units)}. Load "
                "units and n-grams of one model."
            )
        for side, alphabet in ((0, self.source), (1, self.target)):
            ids = [id for unit in self.units for id in unit[side]]
            if min(ids, default=1) < 1 or max(ids, default=1) > len(alphabet):
                name = ("source", "target")[side]
                raise DataError(
                    f"units must hold ids from 1 to {len(alphabet)}, the number of {name} symbols, got "
                    f"{max(ids) if max(ids) > len(alphabet) else min(ids)}. Load units and alphabets of one model."
                )

    @classmethod
    def train(
        cls,
        pairs: Sequence[tuple[SymbolSequence, SymbolSequence]],
        settings: JointConfig = _DEFAULT,
        progress: Callable[[str], None] | None = None,
        is_time_over: Callable[[], bool] | None = None,
    ) -> JointModel:
        """Align pairs of strings by expectation maximization, and count the n-grams of their best alignments.

        Args:
            pairs: the training pairs; those that cannot be aligned are skipped.
            settings: the config.
            progress: called with a line of text after each round.
            is_time_over: called after each round; alignment ends with the first round for which it is true.
        """
        source, target = (Alphabet.of(pair[side] for pair in pairs) for side in (0, 1))
        aligner = Aligner(AlignedPairs.of([(source.ids(x), target.ids(y)) for x, y in pairs]), unit_shapes(settings))
        for number in range(1, settings.rounds + 1):
            log_prob = aligner.step()
            if progress:
                progress(f"alignment round {number} of {settings.rounds}: {log_prob / len(pairs):.4f} nats a pair")
            if number < settings.rounds and is_time_over is not None and is_time_over():
                break
        found = [units for units in aligner.best(settings.penalty) if units is not None]
        model = cls.counted(source, target, found, settings)
        if progress:
            left = f"; {len(pairs) - len(found):,} could not be aligned" if len(found) < len(pairs) else ""
            progress(f"{len(model.units):,} units in {len(found):,} pairs{left}")
            for note in model.ngrams.notes:
                progress(note)
        return model

    @classmethod
    def counted(
        cls,
        source: Alphabet,
        target: Alphabet,
        alignments: Sequence[Sequence[JointUnit]],
        settings: JointConfig = _DEFAULT,
    ) -> JointModel:
        """Return the model of pairs that are already segmented into units."""
        counts = Counter(unit for units in alignments for unit in units)
        units = tuple(sorted(counts))
        names = [_name(unit, source, target) for unit in units]
        vocabulary = Vocabulary(names, [counts[unit] for unit in units], SPECIALS)
        ids = {unit: vocabulary.ids([name])[0] for unit, name in zip(units, names, strict=True)}
        sentences = [[ids[unit] for unit in alignment] for alignment in alignments]
        ngrams = NgramModel.train_ids(sentences, vocabulary, settings.order, settings.estimator)
        return cls(source, target, units, ngrams, settings)

    @property
    def insertions(self) -> int:
        """The largest number of successive units without source symbols."""
        return self.settings.insertions

    # --- tables for the search ----------------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> tuple[OffsetArray, SymbolArray, dict[tuple[int, ...], tuple[int, int]]]:
        """Rows of units sorted by their source piece, their target pieces, and the rows of each source piece.

        The last row is the unit that skips a symbol.
        """
        self._check_log_probs()
        first = len(self.ngrams.vocabulary) - len(self.units)
        order = sorted(range(len(self.units)), key=lambda i: self.units[i])
        rows: list[tuple[int, int, int]] = []
        text: list[int] = []
        pieces: dict[tuple[int, ...], tuple[int, int]] = {}
        for row, i in enumerate(order):
            x, y = self.units[i]
            rows.append((first + i, len(text), len(text) + len(y)))
            text += y
            pieces[x] = (pieces.get(x, (row, row))[0], row + 1)
        rows.append((-1, len(text), len(text)))
        return np.array(rows, np.int64).ravel(), np.array(text, np.int32), pieces

    def _check_log_probs(self) -> None:
        """Raise DataError for nan, which a search would treat as impossible."""
        packed = self.ngrams.packed
        words, histories = packed.slots[::3], packed.histories.view(np.float32)[2::4]
        scores = packed.slots.view(np.float32)[2::3][words >= 0]
        if not np.maximum(scores.max(initial=-np.inf), histories.max(initial=-np.inf)) < np.inf:
            raise DataError(
                "The log-probabilities of the n-gram model must be finite or -inf, got nan or +inf. Train it with "
                "another estimator."
            )

    @cached_property
    def _row_units(self) -> list[JointUnit]:
        return sorted(self.units)

    @cached_property
    def _longest(self) -> int:
        return max(len(x) for x, _ in self.units)

    def _candidates(self, ids: Sequence[int], skips: bool) -> OffsetArray:
        """Return rows (position, symbols read, first unit, last unit) of all source pieces that units read."""
        _, _, pieces = self._tables
        last, rows = len(self.units), []
        for i in range(len(ids) + 1):
            for a in range(0 if self.insertions else 1, min(self._longest, len(ids) - i) + 1):
                if tuple(ids[i : i + a]) in pieces:
                    rows.append((i, a, *pieces[tuple(ids[i : i + a])]))
            if skips and i < len(ids):
                rows.append((i, 1, last, last + 1))
        return np.array(rows, np.int64).reshape(-1)

    def _search(
        self, x: Sequence[int], y: Sequence[int] | None, wanted: int, beam: float, most: int, skips: bool
    ) -> tuple[list[tuple[list[int], float]], float]:
        """Return paths as (rows of units, score), best first, and the log-sum of the lattice."""
        packed, (rows, text, _) = self.ngrams.packed, self._tables
        capacity = max(1, wanted) * (len(x) + (len(x) + 1) * self.insertions)
        found, lengths, scores = (
            np.empty(capacity, np.int64),
            np.empty(max(1, wanted), np.int64),
            np.empty(max(1, wanted)),
        )
        n, total = _kernels.joint_ngram_search(
            *packed._arrays, int(self.ngrams.start(1)[0]), self.ngrams.end, rows, text, self._candidates(x, skips),
            len(x), _NONE if y is None else np.array(y, np.int32), int(y is not None), self.insertions, beam, most,
            _SKIP, wanted, found, lengths, scores,
        )  # fmt: skip
        ends = np.cumsum(lengths[:n]).tolist()
        starts = [0, *ends]
        return [(found[a:b].tolist(), s) for a, b, s in zip(starts, ends, scores[:n].tolist(), strict=False)], total

    # --- inference ----------------------------------------------------------------------------------------------------

    def log_prob(self, x: SymbolSequence, y: SymbolSequence) -> float:
        """Return log p(x, y), summed over all alignments; -inf if there is none."""
        ids, wanted = self.source.ids(x), self.target.ids(y)
        if 0 in ids or 0 in wanted:
            return -math.inf
        return self._search(ids, wanted, 0, math.inf, 1 << 30, False)[1]

    def align(self, x: SymbolSequence, y: SymbolSequence) -> tuple[Link, ...] | None:
        """Return the best alignment of a pair, or None if there is none."""
        ids, wanted = self.source.ids(x), self.target.ids(y)
        if 0 in ids or 0 in wanted:
            return None
        paths, _ = self._search(ids, wanted, 1, math.inf, 1 << 30, False)
        return self._links(x, list(range(len(ids))), paths[0][0]) if paths else None

    def search_all(self, sources: Sequence[SymbolSequence], n_best: int = 1) -> list[list[TransducedString]]:
        return [self.search(x, n_best) for x in sources]

    def search(self, x: SymbolSequence, n_best: int = 1) -> list[TransducedString]:
        """Return the best targets of a source, each with log p(y | x) and its best alignment.

        The probability of a target is the sum of its alignments among the ``settings.paths`` best (plus 10 for each
        requested target), or of all of them if ``settings.exact``. p(x), by which p(x, y) is divided, is the sum
        within the beam. Unknown symbols are skipped.
        """
        if n_best < 1:
            raise DataError(f"n_best must be at least 1, got {n_best}. Use 1 for the best target.")
        ids = self.source.ids(x)
        known_positions = [i for i, id in enumerate(ids) if id]
        known = [ids[i] for i in known_positions]
        how = self.settings
        wanted = how.paths if n_best == 1 else max(how.paths, 10 * n_best)
        listed, total = self._search(known, None, wanted, how.beam, how.nodes, False)
        if not listed:
            listed, total = self._search(known, None, wanted, how.beam, how.nodes, True)
        merged: dict[tuple[str, ...], tuple[float, list[int]]] = {}
        for rows, score in listed:
            y = self.target.spelled(id for row in rows for id in self._unit(row)[1])
            before, best = merged.get(y, (-math.inf, rows))
            merged[y] = (float(np.logaddexp(before, score)), best)
        if how.exact:
            merged = {y: (self._summed(known, y, score), rows) for y, (score, rows) in merged.items()}
            total = max(total, log_sum([score for score, _ in merged.values()]))
        ranked = sorted(merged.items(), key=lambda item: -item[1][0])[:n_best]
        return [
            TransducedString(y, score - total, self._links(x, known_positions, rows)) for y, (score, rows) in ranked
        ]

    def _summed(self, known: Sequence[int], y: SymbolSequence, least: float) -> float:
        """Return log p(x, y) of a found target, or ``least`` if source symbols had to be skipped."""
        return max(least, self._search(known, self.target.ids(y), 0, math.inf, 1 << 30, False)[1])

    def _unit(self, row: int) -> JointUnit:
        return self._row_units[row] if row < len(self.units) else ((1,), ())

    def _links(self, x: SymbolSequence, known_positions: Sequence[int], rows: Iterable[int]) -> tuple[Link, ...]:
        """Return the units of a path over the known symbols of a source, with the unknown ones between them."""
        links, at, i = [], 0, 0
        for row in rows:
            read, wrote = self._unit(row)
            end = known_positions[at + len(read) - 1] + 1 if read else i
            begin = known_positions[at] if read else i
            links += [Link((x[k],), ()) for k in range(i, begin)]
            links.append(Link(tuple(x[begin:end]), self.target.spelled(wrote)))
            at, i = at + len(read), end
        return (*links, *(Link((symbol,), ()) for symbol in x[i:]))

    # --- files --------------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        about = {"source": self.source.symbols, "target": self.target.symbols, "units": self.units}
        (folder / UNITS).write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")
        self.ngrams.save(folder / NGRAMS)

    @classmethod
    def load(cls, folder: Path, settings: JointConfig) -> JointModel:
        """Load a model written by :meth:`save`."""
        units_type = list[tuple[list[int], list[int]]]
        about = read_stored(folder / UNITS, {"source": list[str], "target": list[str], "units": units_type})
        source, target = Alphabet(about["source"]), Alphabet(about["target"])
        units = tuple((tuple(x), tuple(y)) for x, y in about["units"])
        return cls(source, target, units, NgramModel.load(folder / NGRAMS), settings)

    def describe(self) -> list[str]:
        longest = max(len(x) + len(y) for x, y in self.units)
        return [
            f"a joint model of {len(self.units):,} units of up to {longest} symbols, n-grams up to {self.ngrams.order}",
            f"{len(self.source):,} source symbols: {' '.join(self.source.symbols)}",
            f"{len(self.target):,} target symbols: {' '.join(self.target.symbols)}",
        ]


def log_sum(values: Sequence[float]) -> float:
    """Return the log of the sum of exponentials."""
    return float(np.logaddexp.reduce(np.array(values)))


def unit_shapes(settings: JointConfig) -> Moves:
    """Return the shapes of units of a config."""
    return Moves(
        settings.source_length, settings.target_length, settings.several_of_both, settings.deletions,
        settings.insertions > 0,
    )  # fmt: skip


def _name(unit: JointUnit, source: Alphabet, target: Alphabet) -> str:
    """Return the name of a unit such as ``p+h|F``; an empty side is ``_``."""
    sides = ((source, unit[0]), (target, unit[1]))
    return "|".join("+".join(written(s) for s in alphabet.spelled(ids)) or "_" for alphabet, ids in sides)
