"""Sentences for parsers: what is read for training, evaluation and prediction. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from catena.data.detect import UNKNOWN, DetectedFormat, detect_format
from catena.data.examples import Columns, ConlluSentence, Example, SourceLocation, Text, Tree
from catena.data.formats import FORMATS, table_of_texts
from catena.data.readers.brackets import spoken
from catena.data.reading import ReadCounter
from catena.data.records import read_texts
from catena.data.tokenize import build_tokenizer
from catena.errors import DataError, FormatError
from catena.tasks.parse.config import ParseConfig, ParseDataConfig
from catena.tasks.word_inputs.sentences import Sentence, to_sentence

T = TypeVar("T")

_INPUTS = ("text", "columns", "conllu", "brackets")
"""Formats of files to predict."""
INPUT = SourceLocation("input", 0)
"""The location of inputs that are not read from a file."""


@dataclass(frozen=True, slots=True)
class ParseExample(Generic[T]):
    """A sentence with its tree.

    Args:
        words: its words.
        tree: its tree in the form of the files; without heads or brackets if it is not known.
        text: the input if it was a text.
        constraint: the parts of the tree that the user requires or forbids, if any.
    """

    words: tuple[str, ...]
    tree: T
    location: SourceLocation
    text: str | None = None
    constraint: Any = None


DependencyExample = ParseExample[ConlluSentence]
TreeExample = ParseExample[Tree]


def tree_format(wanted: str, data: ParseDataConfig, path: Path, cures: Mapping[str, str]) -> DetectedFormat:
    """The format of a file of trees. Raise FormatError if it is another one, with a cure for some of them."""
    if data.input_format != "auto":
        found = DetectedFormat(data.input_format, "it was chosen")
    else:
        found = detect_format(path, data.encoding)
    if found.format == wanted:
        return found
    title = FORMATS[wanted].title
    if found.format == UNKNOWN:
        raise FormatError(f"{found.why.removesuffix('.')}. Give a file of trees in {title}.")
    raise FormatError(
        f"the format of {path} must be {title} for this parser, got {found.format!r} ({found.why}). Give a file of "
        f"trees, or use --input-format {wanted} if it is one. {cures.get(found.format, '')}".rstrip()
    )


def read_inputs(data: ParseDataConfig, path: Path, counter: ReadCounter) -> Iterator[Example]:
    """The sentences of a file to predict, whose trees are ignored."""
    found = DetectedFormat(data.input_format, "it was chosen")
    if data.input_format == "auto":
        found = detect_format(path, data.encoding)
        if found.format not in _INPUTS and table_of_texts(path, data.encoding) is not None:
            return read_texts(path, encoding=data.encoding, counter=counter, keep_empty=True)
        found = found if found.format in _INPUTS else DetectedFormat("text", "lines of text")
    if found.format not in _INPUTS:
        raise FormatError(f"--input-format must be {', '.join(_INPUTS)}, got {found.format!r}. Use one of them.")
    own = {"conllu": {"heads": False}, "text": {"keep_empty": True}}
    options = {**found.options, **own.get(found.format, {})}
    return FORMATS[found.format].read(path, encoding=data.encoding, counter=counter, **options)


def input_example(config: ParseConfig, item: Any) -> ParseExample[Any]:
    """The words of an input, without a tree. Raise DataError if it is of another type."""
    text = item.text if isinstance(item, Text) else item if isinstance(item, str) else None
    if text is not None:
        words = tuple(build_tokenizer(config.tokenizer).tokens(text))
    elif isinstance(item, Tree):
        words = tuple(spoken(item))
    elif isinstance(item, Columns | ConlluSentence):
        words = to_sentence(item).words
    elif isinstance(item, Sentence):
        words = item.words
    elif isinstance(item, Sequence) and all(isinstance(word, str) for word in item):
        words = tuple(item)
    else:
        raise DataError(
            f"a sentence must be a text, a list of words, a CoNLL-U sentence or a tree, got {type(item).__name__}: "
            f"{item!r:.60}. Pass one of these."
        )
    return ParseExample(words, None, item.location if isinstance(item, Example) else INPUT, text)
