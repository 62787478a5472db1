r"""A model of misspellings: the weight of an observed word, given the intended one.

The weight is the sum over all edit scripts of the product of the weights of their edits, where a copied character has
weight 1. Weights of edits depend on the characters: of an insertion and a deletion also on the character before, and
edits of the first character are rarer. They are set by rates and confusions, or estimated from pairs of words:

.. math::  \hat p(e) = \frac{n(e) + \kappa\, p_0(e)}{n(c) + \kappa}

where n(e) counts an edit in the pairs, n(c) the characters at which it could happen, and p₀ is the model set by rates.
Kernighan, Church & Gale (1990). Tested in tests/niche/correction/test_error_model.py.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catena.data.files import open_text
from catena.errors import ConfigError, FormatError
from catena.kernels.spelling.cpu import DELETE, INSERT, SUBSTITUTE, TRANSPOSE, misspelling_weights
from catena.niche.correction.config import EditRates
from catena.niche.correction.index import to_codes

Confusions = Mapping[str, Sequence[str]]
"""The characters that are often written instead of a character; a repeated one counts as often as it is repeated."""

_REPEATED = 0.4
"""The fraction of insertions that repeat the character before."""
_MISSING_DOUBLE = 5.0
"""How much more often one of two equal characters is left out than another character."""
_FIRST = 0.25
"""How often the first character is wrong, relative to the others (Yannakoudakis & Fawthrop 1983)."""
_OTHER = 0.01
"""The relative frequency of inserted characters without weights of their own."""
_MAX_CHARACTERS = 200
"""The largest number of characters of words that have weights of their own."""
_PRIOR_COUNT = 100.0
"""The number of characters that the prior counts as, in estimation."""
_SIMILAR = ("aeiouy", "sc", "ck", "cq", "sz", "gj", "fv", "dt", "mn", "bp", "uw", "kq", "ln", "rl")
_KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def latin_confusions() -> dict[str, list[str]]:
    """Latin letters that sound similar, three times each, and neighbors on a QWERTY keyboard."""
    confusions: dict[str, list[str]] = {letter: [] for letter in string.ascii_lowercase}
    pairs = [pair for similar in _SIMILAR for pair in permutations(similar, 2)] * 3
    for row, below in zip(_KEYBOARD, (*_KEYBOARD[1:], ""), strict=True):
        for i, letter in enumerate(row):
            for other in row[i + 1 : i + 2] + below[max(i - 1, 0) : i + 1]:
                pairs += [(letter, other), (other, letter)]
    for letter, other in pairs:
        confusions[letter].append(other)
    return confusions


class ErrorModel:
    """Weights of misspellings.

    Args:
        characters: the characters with weights of their own; all others are one class.
        tables: ``[INSERT, w, o]`` is the weight of inserting o after w, ``[DELETE, w, x]`` of deleting x after w,
            ``[SUBSTITUTE, x, o]`` of writing o for x and ``[TRANSPOSE, w, x]`` of writing x w for w x. Index 0 is
            the start of a word, 1 any other character, and 2 + i the character i.
    """

    def __init__(self, characters: Sequence[str], tables: NDArray[np.float64]) -> None:
        n = len(characters) + 2
        if tables.shape != (4, n, n):
            raise ConfigError(
                f"tables must have the shape (4, {n}, {n}) for {n - 2} characters, got {tables.shape}. Add a row and a "
                "column for the start of a word and for other characters."
            )
        self.characters, self.tables = tuple(characters), tables
        self._class = {character: i for i, character in enumerate(characters, start=2)}
        self._by_position = _with_first_characters(tables)

    @classmethod
    def from_rates(
        cls, rates: EditRates | None = None, confusions: Confusions | None = None, words: Iterable[str] = ()
    ) -> ErrorModel:
        """The model of rates of errors.

        Args:
            rates: the probability of each kind of error at a character.
            confusions: the characters that are often written for a character; by default Latin letters that sound
                similar or are neighbors on a keyboard.
            words: words of the language. Inserted characters are as frequent as in these words, or equally frequent.
        """
        rates = rates or EditRates()
        confusions = latin_confusions() if confusions is None else confusions
        frequencies = _frequencies(words, confusions)
        n = len(frequencies) + 2
        inserted = np.array([0.0, _OTHER, *frequencies.values()])
        same = np.diag([0.0, 0.0, *[1.0] * (n - 2)])
        tables = np.empty((4, n, n))
        tables[INSERT] = rates.insert * ((1 - _REPEATED) * inserted / inserted.sum() + _REPEATED * same)
        tables[DELETE] = rates.delete * (1 + (_MISSING_DOUBLE - 1) * same)
        tables[SUBSTITUTE] = rates.substitute * _substitutions(list(frequencies), confusions, rates.near)
        tables[TRANSPOSE] = rates.transpose
        return cls(list(frequencies), tables)

    @classmethod
    def estimate(cls, pairs: Iterable[tuple[str, str]], prior: ErrorModel | None = None) -> ErrorModel:
        """The model estimated from (misspelled, correct) pairs, with as many errors per character as the prior has.

        Only pairs that differ by a single edit are used.
        """
        prior = prior or cls.from_rates()
        counts = np.zeros_like(prior.tables)
        contexts = np.zeros(prior.tables.shape[1:])
        for wrong, right in pairs:
            edit = single_edit(wrong.lower(), right.lower())
            if edit is not None:
                kind, x, y = edit
                counts[kind, prior._number(x), prior._number(y)] += 1
                numbers = [0, *map(prior._number, right.lower())]
                np.add.at(contexts, (numbers[:-1], numbers[1:]), 1)
        if not counts.any():
            return prior
        n_possible = _n_possible(contexts)
        counts *= (n_possible * prior.tables).sum() / counts.sum()
        return cls(prior.characters, (counts + _PRIOR_COUNT * prior.tables) / (n_possible + _PRIOR_COUNT))

    def log_weights(self, observed: str, true: Sequence[str]) -> NDArray[np.float64]:
        """The logarithm of the weight of an observed word, given each of some true words."""
        codes, starts = to_codes("".join(true)), np.cumsum([0, *map(len, true)])
        words = np.arange(len(true), dtype=np.int32)
        return self.score(observed, codes, self.classes(codes, starts), starts, words)

    def score(
        self,
        observed: str,
        codes: NDArray[np.int32],
        classes: NDArray[np.int64],
        starts: NDArray[np.int64],
        words: NDArray[np.int32],
    ) -> NDArray[np.float64]:
        """:meth:`log_weights` for true words in an array of characters, with the classes from :meth:`classes`."""
        query = to_codes(observed)
        own = np.array([self._number(c) for c in observed], np.int64)
        weights = np.empty(len(words))
        misspelling_weights(query, own, codes, classes, starts, words, self._by_position, weights)
        with np.errstate(divide="ignore"):
            return np.log(weights)

    def classes(self, codes: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each character of true words, which depends on whether it is the first of its word."""
        distinct, where = np.unique(codes, return_inverse=True)
        classes = np.array([self._number(chr(code)) for code in distinct], np.int64)[where.reshape(-1)]
        lengths = np.diff(starts)
        classes[starts[:-1][lengths > 0]] += self.tables.shape[1]
        return classes

    def _number(self, character: str) -> int:
        return self._class.get(character, 1) if character else 0


def single_edit(wrong: str, right: str) -> tuple[int, str, str] | None:
    """The edit from a correct word to a misspelled one, as (kind, first index, second index) of the tables.

    Of equal neighbors, the last is taken to be the edited one. None if the words are equal or differ by more.
    """
    shorter = min(len(wrong), len(right))
    low = next((i for i in range(shorter) if wrong[i] != right[i]), shorter)
    tail = next((i for i in range(shorter - low) if wrong[-1 - i] != right[-1 - i]), shorter - low)
    written, meant = wrong[low : len(wrong) - tail], right[low : len(right) - tail]
    before = right[low - 1] if low else ""
    match len(written), len(meant):
        case 1, 0:
            return INSERT, before, written
        case 0, 1:
            return DELETE, before, meant
        case 1, 1:
            return SUBSTITUTE, meant, written
        case 2, 2 if written == meant[::-1]:
            return TRANSPOSE, meant[0], meant[1]
    return None


def read_misspellings(path: Path) -> list[tuple[str, str]]:
    """Read lines of a misspelled word, a tab and the correct word.

    Args:
        path: the file.
    """
    pairs = []
    with open_text(path) as lines:
        for number, line in lines:
            words = line.split("\t")
            if not line.strip():
                continue
            if len(words) != 2 or not all(word.strip() for word in words):
                raise FormatError(
                    f"{path}:{number} must be a misspelled word, a tab and the correct word, got {line[:60]!r}. Write "
                    "one pair per line."
                )
            pairs.append((words[0].strip(), words[1].strip()))
    return pairs


def read_confusions(path: Path) -> dict[str, list[str]]:
    """Read lines of a symbol, a tab and the symbols confused with it, separated by spaces.

    Args:
        path: the file.
    """
    confusions: dict[str, list[str]] = {}
    with open_text(path) as lines:
        for number, line in lines:
            symbol, tab, near = line.partition("\t")
            if not line.strip():
                continue
            if not tab or not symbol or not near.split():
                raise FormatError(
                    f"{path}:{number} must be a symbol, a tab and the symbols confused with it, got {line[:60]!r}. "
                    f"Separate the confused symbols by spaces."
                )
            confusions.setdefault(symbol, []).extend(near.split())
    return confusions


def _frequencies(words: Iterable[str], confusions: Confusions) -> dict[str, float]:
    """The relative frequencies of the characters of words; equal ones of the characters of confusions if no words."""
    confused = sorted({c for character, near in confusions.items() for c in (character, *near)})
    counts = Counter("".join(words).lower()) or Counter(confused)
    total = counts.total()
    return dict.fromkeys(confused, 0.0) | {c: count / total for c, count in counts.most_common(_MAX_CHARACTERS)}


def _substitutions(characters: Sequence[str], confusions: Confusions, near: float) -> NDArray[np.float64]:
    """``[x, o]`` is the probability of writing o for x, given that x is substituted."""
    n = len(characters) + 2
    numbers = {character: i for i, character in enumerate(characters, start=2)}
    table = np.full((n, n), 1.0 / n)
    for character, others in confusions.items():
        row = table[numbers[character]]
        row *= 1 - near
        for other in others:
            row[numbers[other]] += near / len(others)
    return table


def _n_possible(contexts: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often each edit was possible, from ``contexts[w, x]``, how often x was after w in correct words."""
    occurrences = contexts.sum(axis=0)
    occurrences[0] = contexts[0].sum()  # starts of words
    n_possible = np.empty((4, *contexts.shape))
    n_possible[[INSERT, SUBSTITUTE]] = occurrences[:, None]
    n_possible[[DELETE, TRANSPOSE]] = contexts
    n_possible[TRANSPOSE, 0] = 0.0
    n_possible[SUBSTITUTE, 0] = 0.0
    return n_possible


def _with_first_characters(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """The tables with a second class, n higher, for each character as the first of its word."""
    n = tables.shape[1]
    table = np.tile(tables, (1, 2, 2))
    table[INSERT, 0] *= _FIRST
    table[DELETE, 0] *= _FIRST
    table[SUBSTITUTE, n:] *= _FIRST
    table[TRANSPOSE, n:] *= _FIRST
    return table
