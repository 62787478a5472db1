"""From text to counts: in memory, or by sorted runs on disk if a memory limit is set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catena.data.config import VocabularyConfig
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL
from catena.data.vocabulary import Vocabulary
from catena.errors import DataError, FormatError
from catena.lm.base import non_text_ids
from catena.lm.ngram.array_storage import MappedSpace
from catena.lm.ngram.counts import NgramCounts, check_order, count_ids
from catena.lm.ngram.external import ExternalCounter, folder_for_runs
from catena.lm.ngram.lexicon import MARKS, Bytes, Lexicon, Types
from catena.lm.ngram.reading import ProgressFn, TextSource, join_lines, pieces, shorten
from catena.lm.ngram.trie import IntegerArray

TrainingText = TextSource | Sequence[Path]
_Ids = NDArray[np.integer[Any]]
AT_ONCE = 1000
"""The number of sentences of ids that are processed together."""


def as_pieces(text: TrainingText, read: Callable[[Iterable[Path]], Iterator[Bytes]] = pieces) -> Iterator[Bytes]:
    """The lines of one file, of several files, or the sentences themselves, as bytes."""
    if isinstance(text, str) and len(text.split()) > 1 and not os.path.exists(text):
        raise FormatError(f"File not found: {shorten(text)}. Check the path, or pass sentences as a list.")
    if isinstance(text, (str, Path)):
        return read([Path(text)])
    listed = list(text)
    paths = [item for item in listed if isinstance(item, Path)]
    if paths and len(paths) == len(listed):
        return read(paths)
    # A list of strings is ambiguous, unless one of them is not the name of a file.
    if paths or (listed and all(isinstance(item, str) and os.path.isfile(item) for item in listed)):
        name = next(item for item in listed if isinstance(item, str))
        raise DataError(
            f"text must be sentences or files, got {shorten(name)}, which may be both. Pass files as Path objects; if "
            "it is a sentence, append a space."
        )
    return iter([join_lines(listed)])


def counted_text(
    text: TrainingText,
    order: int,
    vocabulary: Vocabulary | VocabularyConfig | None,
    skip_blank: bool,
    progress: ProgressFn | None,
) -> tuple[NgramCounts, Vocabulary]:
    """The counts of a text and its vocabulary, in memory."""
    check_order(order)
    read = partial(pieces, progress=progress)
    if isinstance(vocabulary, Vocabulary):
        lexicon = Lexicon(vocabulary)
        marks = (vocabulary.special(BEGIN_SYMBOL), vocabulary.special(END_SYMBOL))
        tokens = _concatenated([lexicon.sentences(piece, *marks, skip_blank) for piece in as_pieces(text, read)], order)
        return _counted(tokens, order, vocabulary), vocabulary
    types = Types()
    tokens = _concatenated([types.sentences(piece, skip_blank).copy() for piece in as_pieces(text, read)], order)
    body = tokens[: len(tokens) - order]
    if progress:
        progress("counting", 0.0)
    known, ids = types.vocabulary(np.bincount(body, minlength=types.n + MARKS)[MARKS:].tolist(), vocabulary)
    np.take(ids, body, out=body)
    counts = _counted(tokens, order, known)
    if progress:
        progress("counting", 1.0)
    return counts, known


def counted_within(
    text: TrainingText,
    order: int,
    vocabulary: Vocabulary | VocabularyConfig | None,
    skip_blank: bool,
    memory: int,
    space: MappedSpace,
    progress: ProgressFn | None,
) -> tuple[NgramCounts, Vocabulary]:
    """The same counts with about ``memory`` bytes: reads the text once for its words and once for its n-grams."""
    check_order(order)
    if not isinstance(text, (str, Path, Sequence)):
        text = list(text)
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = _counted_words(text, vocabulary, skip_blank, partial(pieces, progress=progress, what="words"))
    marks = (vocabulary.special(BEGIN_SYMBOL), vocabulary.special(END_SYMBOL))
    lexicon = Lexicon(vocabulary)
    with folder_for_runs() as folder:
        counter = ExternalCounter(order, len(vocabulary), *marks, non_text_ids(vocabulary), memory, Path(folder))
        for piece in as_pieces(text, partial(pieces, progress=progress, what="counting")):
            counter.add(lexicon.sentences(piece, *marks, skip_blank))
        return counter.finish(space, progress), vocabulary


def _counted_words(
    text: TrainingText,
    settings: VocabularyConfig | None,
    skip_blank: bool,
    read: Callable[[Iterable[Path]], Iterator[Bytes]],
) -> Vocabulary:
    types, counts = Types(), np.zeros(MARKS, np.int64)
    for piece in as_pieces(text, read):
        found = np.bincount(types.sentences(piece, skip_blank), minlength=types.n + MARKS)
        counts = found + np.pad(counts, (0, len(found) - len(counts)))
    return types.vocabulary(counts[MARKS:].tolist(), settings)[0]


def counted_ids(
    sentences: Iterable[Sequence[int] | _Ids], order: int, vocabulary: Vocabulary, progress: ProgressFn | None = None
) -> NgramCounts:
    """The counts of sentences of ids, without begin and end."""
    check_order(order)
    begin, end = [vocabulary.special(BEGIN_SYMBOL)], [vocabulary.special(END_SYMBOL)]
    parts = [np.asarray(part, np.int32) for sentence in sentences for part in (begin, sentence, end)]
    tokens = _concatenated(parts, order)
    _check_ids(tokens[: len(tokens) - order], len(parts) // 3, vocabulary)
    if progress:
        progress("counting", 0.0)
    return _counted(tokens, order, vocabulary)


def counted_ids_within(
    sentences: Iterable[Sequence[int] | _Ids],
    order: int,
    vocabulary: Vocabulary,
    memory: int,
    space: MappedSpace,
    progress: ProgressFn | None = None,
) -> NgramCounts:
    """The same counts with about ``memory`` bytes, in sorted runs on disk."""
    check_order(order)
    marks = (vocabulary.special(BEGIN_SYMBOL), vocabulary.special(END_SYMBOL))
    with folder_for_runs() as folder:
        counter = ExternalCounter(order, len(vocabulary), *marks, non_text_ids(vocabulary), memory, Path(folder))
        waiting: list[IntegerArray] = []
        for sentence in sentences:
            waiting.append(np.asarray([marks[0], *sentence, marks[1]], np.int32))
            if len(waiting) == AT_ONCE:
                counter.add(_checked(waiting, vocabulary))
                waiting = []
        counter.add(_checked(waiting, vocabulary))
        return counter.finish(space, progress)


def _checked(sentences: list[IntegerArray], vocabulary: Vocabulary) -> IntegerArray:
    tokens = np.concatenate([*sentences, np.zeros(0, np.int32)])
    _check_ids(tokens, len(sentences), vocabulary)
    return tokens


def _check_ids(tokens: IntegerArray, sentences: int, vocabulary: Vocabulary) -> None:
    """Raise DataError for ids out of range, which would corrupt memory, and for special ids that are not words."""
    v = len(vocabulary)
    if len(tokens) and not (int(tokens.min()) >= 0 and int(tokens.max()) < v):
        raise DataError(f"ids must be from 0 to {v - 1}, got {int(tokens.min())} to {int(tokens.max())}. Fix the ids.")
    counts = np.bincount(tokens, minlength=v)
    counts[vocabulary.special(BEGIN_SYMBOL)] -= sentences
    for mark in non_text_ids(vocabulary):
        if counts[mark]:
            raise DataError(
                f"sentences must contain only words, got {vocabulary.tokens([mark])[0]!r} (id {mark}) "
                f"{counts[mark]} times. Remove padding and start tokens; they are added automatically."
            )


def _concatenated(parts: list[IntegerArray], order: int) -> IntegerArray:
    return np.concatenate([*parts, np.zeros(order, np.int32)])


def _counted(tokens: IntegerArray, order: int, vocabulary: Vocabulary) -> NgramCounts:
    begin, end = vocabulary.special(BEGIN_SYMBOL), vocabulary.special(END_SYMBOL)
    return count_ids(tokens, order, len(vocabulary), begin, end, non_text_ids(vocabulary), padded=True)
