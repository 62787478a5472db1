r"""ARPA files: back-off models in the text format of most n-gram tools.

    \data\
    ngram 1=3
    \1-grams:
    -1.25	word	-0.5
    \end\

Values are logarithms to base 10; -99 and less means zero. The start of a sentence is never predicted, even if
a file gives it a probability. N-grams that are missing although longer ones contain them are filled in with
their back-off probability.
"""

from __future__ import annotations

import gzip
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import numpy as np

from catena.data.files import bad_line, open_bytes, reading_errors
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, PAD_SYMBOL, UNK_SYMBOL
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import DataError, FormatError
from catena.kernels.ngram.cpu_arpa import (
    FEW_WORDS,
    FINE,
    NO_NUMBER,
    NO_WEIGHT,
    POSITIVE,
    TENTHS,
    TOO_LONG,
    UNKNOWN_WORD,
    read_lines,
    written_lines,
)  # fmt: skip
from catena.kernels.ngram.cpu_text import KINDS
from catena.lm.base import SPECIALS
from catena.lm.ngram.lexicon import Bytes, Lexicon
from catena.lm.ngram.reading import pieces
from catena.lm.ngram.trie import DoubleArray, IntegerArray, Trie
from catena.lm.ngram.trie_building import trie_of_rows

_LOG_10 = math.log(10.0)
_CURES = {
    NO_NUMBER: ("must begin with a logarithm", "Begin it with a base-10 log-probability."),
    POSITIVE: ("has a log-probability above 0", "Use base-10 logarithms of probabilities."),
    FEW_WORDS: ("has fewer words than its section requires", "Add the missing words."),
    UNKNOWN_WORD: ("has a word that is not among the 1-grams", "List the word there."),
    NO_WEIGHT: ("must end after its words or with a back-off weight", "Fix the last field."),
    TOO_LONG: ("has more fields after its back-off weight", "Remove them."),
}
BLOCK = 1 << 16


def is_arpa(path: Path) -> bool:
    """Whether the first nonempty line starts an ARPA file."""
    if not path.is_file():
        return False
    with open_bytes(path) as stream, reading_errors(path):
        return stream.read(4096).lstrip().startswith(b"\\data\\")


# --- reading -----------------------------------------------------------------------------------------------------


@dataclass
class ArpaSection:
    """The n-grams of one length while they are read."""

    k: int
    promised: int
    rows: list[IntegerArray] = field(default_factory=list)
    probs: list[DoubleArray] = field(default_factory=list)
    backoffs: list[DoubleArray] = field(default_factory=list)
    n: int = 0


def read_arpa(path: Path) -> tuple[Trie, Vocabulary]:
    """A model and its vocabulary. Raises :class:`FormatError` with file and line for invalid files.

    Args:
        path: the file; compressed if its name ends in ``.gz``.
    """
    return _Reader(path).read()


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 0
        self.promised: dict[int, int] = {}
        self.sections: list[ArpaSection] = []
        self.words: dict[str, tuple[float, float]] = {}
        self.ended = False
        self.state = "before"

    def read(self) -> tuple[Trie, Vocabulary]:
        for piece in pieces([self.path]):
            self._piece(piece)
            if self.ended:
                break
        if not self.ended:
            raise FormatError(f"{self.path}:{self.line} is the last line, and \\end\\ is missing. Copy the file again.")
        vocabulary = self._vocabulary()
        return trie_of_rows(self._levels(vocabulary), self.path, vocabulary), vocabulary

    def _piece(self, piece: Bytes) -> None:
        at = 0
        while at < len(piece) and not self.ended:
            if self.state == "ngrams" and len(self.sections) > 1:
                at = self._bulk(piece, at)
                if at >= len(piece):
                    return
            stop = at
            while stop < len(piece) and piece[stop] != 10:
                stop += 1
            self.line += 1
            self._line(piece[at:stop].tobytes().decode("utf-8").rstrip("\r"))
            at = stop + 1

    def _line(self, text: str) -> None:
        """A line of the header, of the 1-grams, or the heading of a section."""
        line = text.strip()
        if not line:
            return
        if self.state == "before":
            self._expect(line == "\\data\\", text, "must be \\data\\, the first line of an ARPA file")
            self.state = "data"
        elif line.startswith("\\"):
            self._heading(line, text)
        elif self.state == "data":
            found = re.fullmatch(r"ngram\s+(\d+)\s*=\s*(\d+)", line)
            self._expect(found is not None, text, "must be the number of n-grams, as in: ngram 1=100")
            assert found is not None
            k = int(found[1])
            self._expect(k == len(self.promised) + 1, text, f"must be the number of {len(self.promised) + 1}-grams")
            self.promised[k] = int(found[2])
        else:
            self._word(line, text)

    def _expect(self, fits: bool, text: str, problem: str) -> None:
        if not fits:
            raise bad_line(self.path, self.line, text, problem, "")

    def _heading(self, line: str, text: str) -> None:
        self._close(text)
        if line == "\\end\\":
            self._expect(len(self.sections) == len(self.promised), text, f"comes before the {self._missing()}-grams")
            self.ended = True
            return
        k = len(self.sections) + 1
        fits = line == f"\\{k}-grams:" and k in self.promised
        wanted = f"\\{k}-grams:" if k in self.promised else "\\end\\"
        self._expect(fits, text, f"must be {wanted}, the next heading")
        self.sections.append(ArpaSection(k, self.promised[k]))
        self.state = "ngrams"

    def _missing(self) -> int:
        return len(self.sections) + 1

    def _close(self, text: str) -> None:
        if self.sections:
            last = self.sections[-1]
            found = len(self.words) if last.k == 1 else last.n
            self._expect(
                found == last.promised,
                text,
                f"ends {found} {last.k}-grams, but the header announces {last.promised}",
            )
        elif not self.promised:
            self._expect(False, text, "must be the number of n-grams, as in: ngram 1=100")

    def _word(self, line: str, text: str) -> None:
        fields = line.split("\t") if "\t" in line else line.split()
        fields = [part for field in fields for part in field.split(" ") if part]
        try:
            prob, backoff = float(fields[0]), float(fields[2]) if len(fields) > 2 else 0.0
        except ValueError:
            self._expect(False, text, "must be a logarithm, a word and an optional back-off weight")
        self._expect(2 <= len(fields) <= 3, text, "must be a logarithm, a word and an optional back-off weight")
        self._expect(not math.isnan(prob + backoff), text, "contains nan")
        self._expect(prob <= 0.0 or fields[1] == BEGIN_SYMBOL, text, _CURES[POSITIVE][0])
        name = UNK_SYMBOL if fields[1] == "<UNK>" else fields[1]
        self._expect(name not in self.words, text, f"lists the word {name!r} a second time")
        self.words[name] = (prob, backoff)
        if len(self.words) == self.promised[1] and len(self.promised) > 1:
            self._table()

    def _table(self) -> None:
        vocabulary = self._vocabulary()
        extra = {name: vocabulary.special(name) for name in (*SPECIALS, UNK_SYMBOL)}
        self._keys, self._values = Lexicon(vocabulary).with_marks({**extra, "<UNK>": UNK})

    def _vocabulary(self) -> Vocabulary:
        reserved = {PAD_SYMBOL, UNK_SYMBOL, *SPECIALS}
        return Vocabulary([word for word in self.words if word not in reserved], specials=SPECIALS)

    def _bulk(self, piece: Bytes, begin: int) -> int:
        """Read lines until one that begins with a backslash. Returns its offset."""
        section = self.sections[-1]
        k = section.k
        at = np.array([begin, 0, 0, 0, 0])
        while at[0] < len(piece):
            rows, probs, backoffs = np.empty(BLOCK * k, np.int32), np.empty(BLOCK), np.empty(BLOCK)
            at[1], at[4] = 0, BLOCK
            before, lines = int(at[0]), int(at[2])
            read_lines(piece, at, k, self._keys, self._values, KINDS, TENTHS, rows, probs, backoffs)
            n = int(at[1])
            self.line += int(at[2]) - lines
            if at[3] != FINE:
                raise self._wrong(piece, int(at[0]), int(at[3]))
            section.rows.append(rows[: n * k].reshape(n, k))
            section.probs.append(probs[:n])
            section.backoffs.append(backoffs[:n])
            section.n += n
            if n < BLOCK or at[0] == before:
                break
        return int(at[0])

    def _wrong(self, piece: Bytes, at: int, problem: int) -> FormatError:
        stop = at
        while stop < len(piece) and piece[stop] not in (10, 13):
            stop += 1
        text = piece[at:stop].tobytes().decode("utf-8")
        return bad_line(self.path, self.line + 1, text, *_CURES[problem])

    def _levels(self, vocabulary: Vocabulary) -> Iterator[tuple[IntegerArray, DoubleArray, DoubleArray]]:
        """(rows, log-probabilities, log back-off weights) of each length; for length 1, all ids in order."""
        probs, backoffs = np.full(len(vocabulary), -np.inf), np.zeros(len(vocabulary))
        for name, (prob, backoff) in self.words.items():
            special = name in (UNK_SYMBOL, *SPECIALS)
            word = vocabulary.special(name) if special else vocabulary.ids([name])[0]
            if name != PAD_SYMBOL and name != BEGIN_SYMBOL:
                probs[word] = prob
            backoffs[word] = backoff
        yield np.arange(len(vocabulary), dtype=np.int32)[:, None], _natural(probs), _natural(backoffs)
        for section in self.sections[1:]:
            rows = np.concatenate(section.rows) if section.rows else np.empty((0, section.k), np.int32)
            probs, backoffs = (np.concatenate(x) if x else np.empty(0) for x in (section.probs, section.backoffs))
            yield rows, _natural(probs), _natural(backoffs)


def _natural(x: DoubleArray) -> DoubleArray:
    return np.where(x <= -99.0, -np.inf, x * _LOG_10)


# --- writing -----------------------------------------------------------------------------------------------------


def write_arpa(path: Path, trie: Trie, vocabulary: Vocabulary) -> None:
    """Write a model, compressed if the name ends in ``.gz``.

    Args:
        path: the file to write.
        trie: the n-grams with their log-probabilities and back-off weights.
        vocabulary: the names of their ids.
    """
    if trie.flat:
        raise DataError(
            "ARPA files hold back-off models only, and this model (add-k, Good-Turing) does not back off. Save it as a "
            "binary model, or use another estimator."
        )
    marks = {BEGIN_SYMBOL, END_SYMBOL, UNK_SYMBOL}
    hidden = [vocabulary.special(name) for name in vocabulary.specials if name not in marks]
    names = vocabulary.symbols
    for name in names[len(vocabulary.specials) :]:
        if not name or name.split() != [name]:
            raise DataError(f"tokens must not contain whitespace in ARPA files, got {name!r}. Save a binary model.")
    with cast(IO[bytes], gzip.open(path, "wb", 6) if path.suffix == ".gz" else open(path, "wb")) as file:
        sizes = list(trie.shape.sizes)
        sizes[0] -= len(hidden)
        counted = "".join(f"ngram {k}={n}\n" for k, n in enumerate(sizes, start=1))
        file.write(f"\\data\\\n{counted}".encode())
        for k in range(1, trie.shape.order + 1):
            file.write(f"\n\\{k}-grams:\n".encode())
            for lines in _lines(trie, k, names, hidden):
                file.write(lines)
        file.write(b"\n\\end\\\n")


def _lines(trie: Trie, k: int, names: list[str], hidden: list[int]) -> Iterator[bytes]:
    raw = [name.encode("utf-8", "surrogatepass") for name in names]
    blob, ends = np.frombuffer(b"".join(raw), np.uint8).copy(), np.cumsum([len(x) for x in raw], dtype=np.int64)
    widths = np.array([len(x) + 1 for x in raw])
    low, high = trie.shape.grams(k)
    rows = trie.shape.spelled(k)
    probs = trie.log_probs[low:high].astype(np.float64) / _LOG_10
    inner = k < trie.shape.order
    backoffs = trie.backoffs[low:high].astype(np.float64) / _LOG_10 if inner else np.zeros(high - low)
    shown = np.flatnonzero(~np.isin(rows[:, 0], hidden)) if k == 1 else np.arange(high - low)
    for begin, end in itertools.pairwise([*range(0, len(shown), BLOCK), len(shown)]):
        part = shown[begin:end]
        room = int(widths[rows[part]].sum()) + 40 * len(part)
        out = np.empty(room, np.uint8)
        flat = np.ascontiguousarray(rows[part]).reshape(-1)
        n = written_lines(flat, k, probs[part], backoffs[part], int(inner), blob, ends, out)
        yield out[:n].tobytes()
