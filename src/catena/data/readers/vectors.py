"""Files of word vectors: word2vec text and binary, GloVe text, Catena's own, and binary fastText models.

The word2vec and GloVe files may be compressed:

* word2vec text: a header ``count d``, then ``word x1 … xd`` on each line (also fastText's ``.vec``);
* word2vec binary: the same header, then for each word its bytes, a blank, and ``d`` little-endian float32;
* GloVe: no header; a word may contain blanks, so the last ``d`` fields of a line are its vector.

Only wanted words are kept while reading, so memory grows with them and not with the file. Words are compared
as bytes: a file with some words that are not UTF-8 can be read if these are not wanted.
"""

from __future__ import annotations

import codecs
import io
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32

from catena.data.files import bad_line, open_bytes, reading_errors, shorten
from catena.data.readers.fasttext_vectors import is_fasttext, read_fasttext
from catena.data.readers.own_vectors import StoredVectors, is_safetensors, read_own_vectors
from catena.errors import FormatError

_HEADER = re.compile(rb"\s*(\d{1,15})[ \t]+(\d{1,15})\s*")
_LARGEST_D = 65_536
_LONGEST_WORD = 4096
_LINES_LOOKED_AT = 100
BLOCK = 1 << 20
_ELSE = "If the file is in another format, convert it to word2vec or GloVe text."


@dataclass(frozen=True, eq=False)
class VectorFile:
    """Words of a file in its order, and their vectors: ``matrix[i]`` is the vector of ``words[i]``."""

    words: tuple[str, ...]
    matrix: Float32[np.ndarray, "v d"]


class _Entry(NamedTuple):
    """One word of a file. ``numbers`` are parsed for wanted words only."""

    place: int
    word: bytes
    numbers: bytes


class _Source(NamedTuple):
    """An open file: its entries and their properties."""

    path: Path
    d: int
    entries: Iterator[_Entry]
    binary: bool


def read_vectors(path: Path, wanted: Collection[str] | None = None, d: int | None = None) -> VectorFile:
    """Read the vectors of the wanted words, or of all words. The format is detected by content.

    Args:
        path: the file.
        wanted: the words to read. None reads all.
        d: the expected size of the vectors. None accepts any size.

    The first vector of a word counts. Published GloVe files have duplicate words, which are reported by a warning.

    Raises:
        FormatError: names the line or the word if the file is truncated, or has a line of another size or an invalid
            number.
    """
    path = Path(path)
    if (stored := _read_binary(path, wanted)) is not None:
        _checked_size(path, stored.matrix.shape[1], d)
        rows_of = {word: i for i, word in enumerate(stored.words) if wanted is None or word in wanted}
        matrix = np.ascontiguousarray(stored.matrix[list(rows_of.values())], np.float32)
        return VectorFile(tuple(rows_of), matrix)
    keep = None if wanted is None else {word.encode("utf-8", "surrogatepass") for word in wanted}
    found: dict[bytes, int] = {}
    rows: list[np.ndarray] = []
    duplicates: list[_Entry] = []
    with open_bytes(path) as stream, reading_errors(path):
        source = _recognized(path, stream, d)
        for entry in source.entries:
            if keep is not None and entry.word not in keep:
                continue
            if entry.word in found:
                duplicates.append(entry)
                continue
            found[entry.word] = entry.place
            rows.append(_vector(source, entry))
    if duplicates:
        _warn_of_duplicates(source, duplicates)
    matrix = np.stack(rows) if rows else np.zeros((0, source.d), np.float32)
    return VectorFile(tuple(_decoded(source, word, place) for word, place in found.items()), matrix)


def _warn_of_duplicates(source: _Source, duplicates: Sequence[_Entry]) -> None:
    first = duplicates[0]
    n = f"{len(duplicates):,} duplicate word{'s' * (len(duplicates) > 1)}"
    where = f"{_shown(first.word)} as {_unit(source)} {first.place}"
    warnings.warn(
        f"{source.path} has {n}, such as {where}. The first vector of each word is kept.", UserWarning, stacklevel=3
    )


def read_word_vectors(
    path: Path, symbols: Sequence[str], d: int | None = None
) -> tuple[Float32[np.ndarray, "v d"], Bool[np.ndarray, " v"]]:
    """A row for each symbol of a vocabulary, and which of them are in the file.

    A symbol that is not in the file is also looked up in lower case. Rows of unknown symbols are zero.
    """
    vectors = read_vectors(path, {form for symbol in symbols for form in (symbol, symbol.lower())}, d)
    rows = {word: i for i, word in enumerate(vectors.words)}
    places = np.array([rows.get(symbol, rows.get(symbol.lower(), -1)) for symbol in symbols], np.int64)
    known = places >= 0
    matrix = np.zeros((len(symbols), vectors.matrix.shape[1]), np.float32)
    matrix[known] = vectors.matrix[places[known]]
    return matrix, known


def read_stored_vectors(path: Path) -> StoredVectors:
    """Read all vectors of a file of any format."""
    if (stored := _read_binary(path)) is not None:
        return stored
    found = read_vectors(path)
    return StoredVectors.from_words(found.words, [0] * len(found.words), found.matrix)


def _read_binary(path: Path, wanted: Collection[str] | None = None) -> StoredVectors | None:
    """The vectors of a file of Catena or a binary file of fastText; None for a file of word2vec or GloVe."""
    with open_bytes(path) as stream, reading_errors(path):
        first = stream.read(9)
        is_packed = not isinstance(stream.raw, io.FileIO)
    if first[:1] == b"\x80":
        raise FormatError(
            f"{path} is a pickle, which gensim's save() writes and Catena never opens. Write the vectors with gensim's "
            f"save_word2vec_format() instead."
        )
    if not is_safetensors(first) and not is_fasttext(first):
        return None
    if is_packed:
        raise FormatError(f"{path} is compressed, and its format can only be read uncompressed. Decompress it first.")
    return read_own_vectors(path) if is_safetensors(first) else read_fasttext(path, wanted)


# --- format detection ---------------------------------------------------------------------------------------


def _recognized(path: Path, stream: io.BufferedReader, d: int | None) -> _Source:
    first = stream.readline(_LARGEST_D * 32).removeprefix(codecs.BOM_UTF8)
    header = _HEADER.fullmatch(first)
    beginning = stream.peek(BLOCK)  # does not consume the bytes
    if not header or (int(header[2]) != 1 and _is_glove_of_one(beginning)):
        lines = enumerate(chain([first], stream), start=1)
        looked_at = list(islice(lines, _LINES_LOOKED_AT))
        size = _checked_size(path, _commonest_size(looked_at), d)
        return _Source(path, size, _text_entries(path, chain(looked_at, lines), size, None), binary=False)
    count, size = int(header[1]), _checked_size(path, int(header[2]), d)
    if _is_text(beginning, size):
        return _Source(path, size, _text_entries(path, enumerate(stream, start=2), size, count), binary=False)
    return _Source(path, size, _binary_entries(path, stream, size, count), binary=True)


def _checked_size(path: Path, size: int, d: int | None) -> int:
    if not 0 < size <= _LARGEST_D:
        raise FormatError(f"{path} is not a file of word vectors: they would have {size} dimensions. {_ELSE}")
    if d is not None and size != d:
        raise FormatError(f"The vectors of {path} must have {d} dimensions, got {size}. Set d to {size}.")
    return size


def _commonest_size(lines: Sequence[tuple[int, bytes]]) -> int:
    """The number of numbers at the end of most lines. A word may contain blanks and numbers, as in ``area 51``."""
    sizes = Counter(_numbers_at_end(line.rstrip().split(b" ")) for _, line in lines if line.strip())
    return max(sizes, key=lambda size: (sizes[size], size), default=0)


def _numbers_at_end(fields: Sequence[bytes]) -> int:
    words = (i for i in range(len(fields) - 1, 0, -1) if not _is_number(fields[i]))
    return len(fields) - 1 - next(words, 0)


def _is_text(beginning: bytes, d: int) -> bool:
    """Whether a word and mostly valid numbers follow a header, so that an invalid one can be reported."""
    line, end, _ = beginning.partition(b"\n")
    fields = line.rstrip().rsplit(b" ", d)
    if not line.strip():  # without words, text and binary look the same
        return True
    numbers = fields[1:] if end else fields[1:-1]  # the peeked bytes may end inside a number
    return b"\0" not in line and 2 * sum(map(_is_number, numbers)) >= max(1, len(numbers))


def _is_glove_of_one(beginning: bytes) -> bool:
    """Whether the apparent header is the first word of a GloVe file with vectors of one dimension."""
    fields = beginning.split(b"\n", 1)[0].split()
    return len(fields) == 2 and _is_number(fields[1]) and b"\n" in beginning


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


# --- entries ------------------------------------------------------------------------------------------------


def _text_entries(path: Path, lines: Iterator[tuple[int, bytes]], d: int, count: int | None) -> Iterator[_Entry]:
    seen = 0
    for number, line in lines:
        line = line.rstrip()
        if not line:
            continue
        seen += 1
        at = _start_of_numbers(line, d)
        if at <= 0:
            raise _bad(path, number, line, f"must have a word and {d} numbers, got {len(line.split())} fields")
        yield _Entry(number, line[:at], line[at + 1 :])
    if count is not None and seen != count:
        raise FormatError(
            f"{path}:1 must have the number of words, {seen}, got {count}. The file is truncated or was concatenated. "
            f"Copy it again or correct the header."
        )


def _start_of_numbers(line: bytes, d: int) -> int:
    """The position of the blank before the last ``d`` fields; -1 if there are fewer."""
    if line.count(b" ") == d:  # the word has no blanks, as nearly always
        return line.index(b" ")
    fields = line.rsplit(b" ", d)
    return len(fields[0]) if len(fields) == d + 1 else -1


def _binary_entries(path: Path, stream: io.BufferedReader, d: int, count: int) -> Iterator[_Entry]:
    buffer, at, size = b"", 0, 4 * d

    def fill(needed: int) -> None:
        """Read until at least ``needed`` bytes after ``at`` are buffered, or the file ends."""
        nonlocal buffer, at
        while len(buffer) - at < needed and (block := stream.read(max(BLOCK, needed))):
            buffer, at = buffer[at:] + block, 0

    for number in range(1, count + 1):
        fill(_LONGEST_WORD + 2)
        while buffer[at : at + 1] == b"\n":
            at += 1
        blank = buffer.find(b" ", at, at + _LONGEST_WORD + 1)
        if blank < 0 and len(buffer) - at > _LONGEST_WORD:
            raise FormatError(f"{path} is not a word2vec binary file: word {number} of {count} does not end. {_ELSE}")
        if blank < 0:
            raise _cut_short(path, number, count, buffer[at:])
        word, at = buffer[at:blank], blank + 1
        fill(size)
        if len(buffer) - at < size:
            raise _cut_short(path, number, count, word)
        yield _Entry(number, word, buffer[at : at + size])
        at += size
    fill(2)
    if buffer[at:].strip():
        raise FormatError(
            f"{path} has more than the {count} words in its header. Correct the header or copy the file again."
        )


def _cut_short(path: Path, number: int, count: int, word: bytes) -> FormatError:
    return FormatError(
        f"{path} is truncated: it ends in word {number} of {count} ({_shown(word)}). Copy or download it again."
    )


def _vector(source: _Source, entry: _Entry) -> np.ndarray:
    if source.binary:
        vector = np.frombuffer(entry.numbers, "<f4").astype(np.float32)
    else:
        try:
            vector = np.array([float(field) for field in entry.numbers.split(b" ")], np.float32)
        except ValueError as error:
            raise _bad(
                source.path, entry.place, entry.word + b" " + entry.numbers, f"has an invalid number: {error}"
            ) from None
    if not np.isfinite(vector).all():
        raise FormatError(
            f"The vector of {_shown(entry.word)}, {_unit(source)} {entry.place} of {source.path}, has a value that is "
            f"not finite. Remove the word, or compute the vectors again."
        )
    return vector


def _decoded(source: _Source, word: bytes, place: int) -> str:
    try:
        return word.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise FormatError(
            f"{source.path} has a word that is not UTF-8, {_shown(word)}, {_unit(source)} {place}. "
            f"Remove it, or read only wanted words."
        ) from None


def _bad(path: Path, number: int, line: bytes, problem: str) -> FormatError:
    return bad_line(path, number, line.decode("utf-8", "surrogateescape"), problem, _ELSE)


def _shown(word: bytes) -> str:
    return shorten(word.decode("utf-8", "surrogateescape"))


def _unit(source: _Source) -> str:
    return "word" if source.binary else "line"
