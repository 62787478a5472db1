"""Baseline rules: copying, the most frequent target piece for each symbol, and edit scripts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from catena.checkpoint import read_stored
from catena.transduction.alignment import AlignedPairs, Aligner, Moves
from catena.transduction.alphabet import Alphabet
from catena.transduction.base import Link, StringTransducer, SymbolSequence, TransducedString
from catena.transduction.config import BaselineConfig

_RULES = "rules.json"
_ROUNDS = 5
_LONGEST = 6
"""Number of symbols next to a change that a rule may use."""
_Piece = tuple[str, ...]
_Rules = dict[_Piece, _Piece]


class Baseline(StringTransducer):
    """A deterministic rule that needs no search.

    Args:
        settings: the config, which selects the rule.
        ends: the replacements of single symbols (frequent) or of word endings (script).
        beginnings: the replacements of word beginnings (script).
    """

    def __init__(self, settings: BaselineConfig, ends: _Rules, beginnings: _Rules) -> None:
        self.settings, self.ends, self.beginnings = settings, ends, beginnings

    @classmethod
    def train(cls, pairs: Sequence[tuple[SymbolSequence, SymbolSequence]], settings: BaselineConfig) -> Baseline:
        if settings.method == "frequent":
            return cls(settings, _frequent(pairs), {})
        if settings.method == "script":
            return cls(settings, *_scripts(pairs))
        return cls(settings, {}, {})

    def search_all(self, sources: Sequence[SymbolSequence], n_best: int = 1) -> list[list[TransducedString]]:
        answers = []
        for x in sources:
            links = self._links(tuple(x))
            answers.append([TransducedString(tuple(y for link in links for y in link.target), None, links)])
        return answers

    def _links(self, x: _Piece) -> tuple[Link, ...]:
        if self.settings.method == "frequent":
            return tuple(Link((symbol,), self.ends.get((symbol,), ())) for symbol in x)
        if self.settings.method == "copy":
            return tuple(Link((symbol,), (symbol,)) for symbol in x)
        end = next((k for k in range(len(x) + 1) if x[k:] in self.ends), len(x))
        begin = next((k for k in range(end, -1, -1) if x[:k] in self.beginnings), 0)
        links = [Link(x[:begin], self.beginnings.get(x[:begin], x[:begin]))]
        links += [Link((symbol,), (symbol,)) for symbol in x[begin:end]]
        links.append(Link(x[end:], self.ends.get(x[end:], x[end:])))
        return tuple(link for link in links if link.source or link.target)

    def save(self, folder: Path) -> None:
        about = {"ends": list(self.ends.items()), "beginnings": list(self.beginnings.items())}
        (folder / _RULES).write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, settings: BaselineConfig) -> Baseline:
        """Load a baseline written by :meth:`save`."""
        rules = list[tuple[list[str], list[str]]]
        about = read_stored(folder / _RULES, {"ends": rules, "beginnings": rules})
        ends, beginnings = ({tuple(a): tuple(b) for a, b in about[key]} for key in ("ends", "beginnings"))
        return cls(settings, ends, beginnings)

    def describe(self) -> list[str]:
        return [f"a baseline, {self.settings.method}, of {len(self.ends) + len(self.beginnings):,} rules"]


def _frequent(pairs: Sequence[tuple[SymbolSequence, SymbolSequence]]) -> _Rules:
    """Return the most frequent replacement of each symbol, from alignments of one symbol with up to two."""
    source, target = (Alphabet.of(pair[side] for pair in pairs) for side in (0, 1))
    aligner = Aligner(
        AlignedPairs.of([(source.ids(x), target.ids(y)) for x, y in pairs]), Moves(1, 2, False, True, True)
    )
    for _ in range(_ROUNDS):
        aligner.step()
    counts: Counter[tuple[_Piece, _Piece]] = Counter()
    for units in aligner.best():
        counts.update((source.spelled(x), target.spelled(y)) for x, y in units or () if x)
    return _most_frequent(counts)


def _scripts(pairs: Sequence[tuple[SymbolSequence, SymbolSequence]]) -> tuple[_Rules, _Rules]:
    """Return changes of endings and of beginnings around the longest common substring of source and target."""
    ends: Counter[tuple[_Piece, _Piece]] = Counter()
    beginnings: Counter[tuple[_Piece, _Piece]] = Counter()
    for x, y in pairs:
        i, j, n = _longest_shared(tuple(x), tuple(y))
        stem = tuple(x[i : i + n])
        for k in range(min(n, _LONGEST) + 1):
            ends[(*stem[n - k :], *x[i + n :]), (*stem[n - k :], *y[j + n :])] += 1
            beginnings[(*x[:i], *stem[:k]), (*y[:j], *stem[:k])] += 1
    return _most_frequent(ends), _most_frequent(beginnings)


def _longest_shared(x: _Piece, y: _Piece) -> tuple[int, int, int]:
    """Return (start in x, start in y, length) of the first longest common substring. Time O(|x| |y|)."""
    best, row = (0, 0, 0), [0] * (len(y) + 1)
    for i, a in enumerate(x):
        before = 0
        for j, b in enumerate(y):
            before, row[j + 1] = row[j + 1], before + 1 if a == b else 0
            n = row[j + 1]
            if n > best[2]:
                best = (i + 1 - n, j + 1 - n, n)
    return best


def _most_frequent(counts: Counter[tuple[_Piece, _Piece]]) -> _Rules:
    """Return the most frequent replacement of each piece; ties are broken by symbol order."""
    ranked: dict[_Piece, list[tuple[int, _Piece]]] = defaultdict(list)
    for (old, new), count in counts.items():
        ranked[old].append((-count, new))
    return {old: min(listed)[1] for old, listed in ranked.items()}
