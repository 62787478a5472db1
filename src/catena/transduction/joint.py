r"""Joint-sequence models: n-grams of units that read a piece of the source and write a piece of the target.

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

from catena.data.vocabulary import Vocabulary
from catena.errors import CheckpointError, DataError
from catena.kernels.joint_search import joint_ngram_search
from catena.lm.base import SPECIALS
from catena.lm.ngram.model import NgramModel
from catena.transduction.alignment import AlignedPairs, Aligner, JointUnit, Moves, OffsetArray, SymbolArray
from catena.transduction.alphabet import Alphabet, written
from catena.transduction.base import Link, StringTransducer, SymbolSequence, TransducedString
from catena.transduction.config import JointConfig

_SKIP = -25.0
"""log of the price of passing over a symbol that no unit can read where it stands."""
_NONE = np.empty(0, np.int32)
UNITS, NGRAMS = "units.json", "ngrams.bin"
_DEFAULT = JointConfig()


@dataclass(frozen=True, eq=False)
class JointModel(StringTransducer):
    """n-grams of units.

    Args:
        source: the symbols that are read.
        target: the symbols that are written.
        units: ``units[i]`` is what word ``i`` of the n-gram model reads and writes, specials left out.
        ngrams: the model of units.
        settings: how it was made and how it is searched.
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
    ) -> JointModel:
        """Align pairs of strings by expectation maximization, and count the n-grams of their best alignments.

        Pairs that cannot be aligned are left out. ``progress`` is told of each round.
        """
        source, target = (Alphabet.of(pair[side] for pair in pairs) for side in (0, 1))
        aligner = Aligner(AlignedPairs.of([(source.ids(x), target.ids(y)) for x, y in pairs]), unit_shapes(settings))
        for number in range(1, settings.rounds + 1):
            log_prob = aligner.step()
            if progress:
                progress(f"alignment round {number} of {settings.rounds}: {log_prob / len(pairs):.4f} nats a pair")
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
        """The model of pairs that are cut into units."""
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
        """How many units in a row may read nothing."""
        return self.settings.insertions

    # --- tables for the search ----------------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> tuple[OffsetArray, SymbolArray, dict[tuple[int, ...], tuple[int, int]]]:
        """Rows of units sorted by what they read, what they write, and the rows of each piece of a source.

        The last row is the unit that passes over a symbol.
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
        """A search would take nan for impossible."""
        packed = self.ngrams.packed
        words, histories = packed.slots[::3], packed.histories.view(np.float32)[2::4]
        scores = packed.slots.view(np.float32)[2::3][words >= 0]
        if not np.maximum(scores.max(initial=-np.inf), histories.max(initial=-np.inf)) < np.inf:
            raise DataError(
                "the log-probabilities of the n-gram model must be numbers or -inf, got nan or +inf. Train it with "
                "another estimator."
            )

    @cached_property
    def _row_units(self) -> list[JointUnit]:
        return sorted(self.units)

    @cached_property
    def _longest(self) -> int:
        return max(len(x) for x, _ in self.units)

    def _candidates(self, ids: Sequence[int], skips: bool) -> OffsetArray:
        """Rows (place, symbols read, first unit, last unit) of all pieces of a source that units read."""
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
        """Paths as (rows of units, score), best first, and the log-sum of the lattice."""
        packed, (rows, text, _) = self.ngrams.packed, self._tables
        room = max(1, wanted) * (len(x) + (len(x) + 1) * self.insertions)
        found, lengths, scores = np.empty(room, np.int64), np.empty(max(1, wanted), np.int64), np.empty(max(1, wanted))
        n, total = joint_ngram_search(
            *packed._arrays, int(self.ngrams.start(1)[0]), self.ngrams.end, rows, text, self._candidates(x, skips),
            len(x), _NONE if y is None else np.array(y, np.int32), int(y is not None), self.insertions, beam, most,
            _SKIP, wanted, found, lengths, scores,
        )  # fmt: skip
        ends = np.cumsum(lengths[:n]).tolist()
        starts = [0, *ends]
        return [(found[a:b].tolist(), s) for a, b, s in zip(starts, ends, scores[:n].tolist(), strict=False)], total

    # --- questions ----------------------------------------------------------------------------------------------------

    def log_prob(self, x: SymbolSequence, y: SymbolSequence) -> float:
        """log p(x, y), summed over all alignments; -inf where there is none."""
        ids, wanted = self.source.ids(x), self.target.ids(y)
        if 0 in ids or 0 in wanted:
            return -math.inf
        return self._search(ids, wanted, 0, math.inf, 1 << 30, False)[1]

    def align(self, x: SymbolSequence, y: SymbolSequence) -> tuple[Link, ...] | None:
        """The best alignment of a pair; None where there is none."""
        ids, wanted = self.source.ids(x), self.target.ids(y)
        if 0 in ids or 0 in wanted:
            return None
        paths, _ = self._search(ids, wanted, 1, math.inf, 1 << 30, False)
        return self._links(x, list(range(len(ids))), paths[0][0]) if paths else None

    def search_all(self, sources: Sequence[SymbolSequence], n_best: int = 1) -> list[list[TransducedString]]:
        return [self.search(x, n_best) for x in sources]

    def search(self, x: SymbolSequence, n_best: int = 1) -> list[TransducedString]:
        """The best targets of a source, each with log p(y | x) and the best of its alignments.

        Alignments of one target are added up, as far as they are among the ``settings.paths`` best (and 10 for each
        target that is wanted), or all of them if ``settings.exact``. p(x), which p(x, y) is divided by, is the sum of
        all that is within the beam. Symbols that the model does not know are passed over.
        """
        if n_best < 1:
            raise DataError(f"n_best must be at least 1, but it is {n_best}")
        ids = self.source.ids(x)
        places = [i for i, id in enumerate(ids) if id]
        known = [ids[i] for i in places]
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
        return [TransducedString(y, score - total, self._links(x, places, rows)) for y, (score, rows) in ranked]

    def _summed(self, known: Sequence[int], y: SymbolSequence, least: float) -> float:
        """log p(x, y) of a target that was found; ``least`` where symbols of the source had to be passed over."""
        return max(least, self._search(known, self.target.ids(y), 0, math.inf, 1 << 30, False)[1])

    def _unit(self, row: int) -> JointUnit:
        return self._row_units[row] if row < len(self.units) else ((1,), ())

    def _links(self, x: SymbolSequence, places: Sequence[int], rows: Iterable[int]) -> tuple[Link, ...]:
        """The units of a path over the known symbols of a source, the unknown ones between them."""
        links, at, i = [], 0, 0
        for row in rows:
            read, wrote = self._unit(row)
            end = places[at + len(read) - 1] + 1 if read else i
            begin = places[at] if read else i
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
        """Read what :meth:`save` wrote."""
        try:
            about = json.loads((folder / UNITS).read_text(encoding="utf-8"))
            source, target = Alphabet(about["source"]), Alphabet(about["target"])
            units = tuple((tuple(x), tuple(y)) for x, y in about["units"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{folder / UNITS} is not the list of units that a joint model needs: {error}"
            ) from error
        return cls(source, target, units, NgramModel.load(folder / NGRAMS), settings)

    def describe(self) -> list[str]:
        longest = max(len(x) + len(y) for x, y in self.units)
        return [
            f"a joint model of {len(self.units):,} units of up to {longest} symbols, n-grams up to {self.ngrams.order}",
            f"{len(self.source):,} source symbols: {' '.join(self.source.symbols)}",
            f"{len(self.target):,} target symbols: {' '.join(self.target.symbols)}",
        ]


def log_sum(values: Sequence[float]) -> float:
    """log of the sum of exponentials."""
    return float(np.logaddexp.reduce(np.array(values)))


def unit_shapes(settings: JointConfig) -> Moves:
    """Which pieces units may pair."""
    return Moves(
        settings.source_length, settings.target_length, settings.several_of_both, settings.deletions,
        settings.insertions > 0,
    )  # fmt: skip


def _name(unit: JointUnit, source: Alphabet, target: Alphabet) -> str:
    """``p+h|F``; a side without symbols is ``_``."""
    sides = ((source, unit[0]), (target, unit[1]))
    return "|".join("+".join(written(s) for s in alphabet.spelled(ids)) or "_" for alphabet, ids in sides)
