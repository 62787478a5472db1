r"""Goals, agendas and texts: reading, the words that mention an item, and texts as ids.

Read goals, agendas and texts from JSON lines, tables with a header row, or three tab-separated columns.

Item words: the words of "2 cups all-purpose flour, sifted" by which a text mentions the item.

They are learned from examples. A word is an item word if texts often have it when their agenda has it, and rarely
otherwise:

.. math::  p(w \in \text{text} \mid w \in \text{agenda}) \ge \tfrac12
           \quad\text{and}\quad \ge 3\, p(w \in \text{text} \mid w \notin \text{agenda})

with half an example added to each count. So "flour" and "olive" are item words, and "cups", "sifted", "large" and "and"
are not. Words are compared without plural endings.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from catena.checkpoint import read_stored
from catena.data.detect import detect_format
from catena.data.examples import SourceLocation
from catena.data.files import bad_line
from catena.data.readers.objects import parse_line
from catena.data.reading import ReadCounter
from catena.data.records import open_records
from catena.data.roles import COMPOSED, ITEM_COLUMNS, ITEMS, TITLE, TITLE_COLUMNS, find_column
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, ITEM_SYMBOL
from catena.data.tokenize import Tokenizer, build_tokenizer, load_tokenizer
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.errors import DataError, FormatError
from catena.seq2seq.base import VocabularyInfo
from catena.tasks.compose.config import ComposeConfig, ComposeDataConfig
from catena.tasks.config import TOKENIZER, VOCABULARY

USER_INPUT_LOCATION = SourceLocation("input", 1)
SEPARATOR = "|"
"""The separator of items in a tab-separated line."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A goal, the items of its agenda, and the text, which is empty if it is to be generated."""

    goal: str
    items: tuple[str, ...]
    text: str = ""
    location: SourceLocation = USER_INPUT_LOCATION


# --- files ------------------------------------------------------------------------------------------------------------


def read_compositions(
    data: ComposeDataConfig, path: Path, counter: ReadCounter, *, gold: bool = True
) -> Iterator[Composition]:
    """The examples of a file; without ``gold`` texts are not read, and a blank line is an empty example."""
    named = {"title": data.goal_column, "items": data.items_column, "text": data.text_column if gold else None}
    columns = {role: column for role, column in named.items() if column is not None}
    roles = (replace(TITLE, required=False), replace(ITEMS, required=False), COMPOSED)[: 2 + gold]
    format = None if data.input_format == "auto" else data.input_format
    found = detect_format(path, data.encoding)
    if not found.is_known and format is None:
        raise FormatError(found.why)
    layout = found.options.get("layout")
    if layout is not None and layout.header is None and layout.delimiter == "\t" and not columns:
        columns = {"title": "1", "items": "2", **({"text": "3"} if gold else {})}
    file = open_records(path, roles, format=format, columns=columns, encoding=data.encoding)
    missing = [role for role in ("title", "items") if role not in file.choices]
    if missing:
        names = ", ".join(map(repr, file.table.names))
        known = {"title": TITLE_COLUMNS, "items": ITEM_COLUMNS}[missing[0]]
        option = "goal" if missing[0] == "title" else missing[0]
        raise FormatError(
            f"{path} has none of the columns {', '.join(known)}, only {names}. Set data.{option}_column "
            f"(--data.{option}-column) to one of them."
        )
    for record in file.read(counter, keep_empty=not gold):
        text = _text(_listed(record["text"] or "")) if gold else ""
        goal, items = " ".join((record["title"] or "").split()), record["items"] or ()
        yield Composition(goal, _items(items), text, record.location)


# --- inputs of a user -------------------------------------------------------------------------------------------------


def to_composition(item: Any, data: ComposeDataConfig) -> Composition:
    """The goal and items of an input: a pair, an object, or a line with goal<TAB>items or a JSON object."""
    if isinstance(item, Composition):
        return item
    if isinstance(item, str):
        return _of_line(item, data)
    if isinstance(item, Mapping):
        return _of_object(item, data)
    if not isinstance(item, Sequence) or len(item) != 2 or isinstance(item[1], str):
        raise DataError(f"an input must be a goal and a list of items, got {item!r:.60}. Pass (goal, items).")
    return Composition(_text(item[0]), _items(list(map(str, item[1]))))


def _of_line(line: str, data: ComposeDataConfig) -> Composition:
    if not line.strip():
        return Composition("", ())
    if line.lstrip().startswith("{"):
        return _of_object(parse_line(line, USER_INPUT_LOCATION), data)
    fields = line.split("\t")
    if len(fields) not in (2, 3):
        n = f"{len(fields)} tab-separated field{'s' * (len(fields) != 1)}"
        cure = "Write goal<TAB>item | item on every line, or a JSON object."
        raise bad_line(USER_INPUT_LOCATION.file, USER_INPUT_LOCATION.line, line, f"has {n}", cure)
    return Composition(fields[0].strip(), _items(fields[1].split(SEPARATOR)))


def _of_object(thing: Mapping[str, Any], data: ComposeDataConfig) -> Composition:
    goal = _value(thing, data.goal_column, TITLE_COLUMNS, "goal_column")
    items = _listed(_value(thing, data.items_column, ITEM_COLUMNS, "items_column"))
    if not isinstance(items, list | tuple):
        items = [part for line in str(items).split("\n") for part in line.split(SEPARATOR)]
    return Composition(_text(goal), _items([str(item) for item in items]))


def _value(thing: Mapping[str, Any], named: str | None, names: tuple[str, ...], option: str) -> Any:
    key = named if named is not None else find_column(list(thing), names)
    if key is None or key not in thing:
        known = ", ".join(map(repr, thing))
        what = f"no key {named!r}" if named is not None else f"none of the keys {', '.join(names)}"
        flag = f"--data.{option.replace('_', '-')}"
        raise FormatError(f"The input has {what}, only {known}. Set data.{option} ({flag}) to one of them.")
    return thing[key]


# --- values -----------------------------------------------------------------------------------------------------------


def _items(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(item for part in parts if (item := " ".join(part.split())))


def _listed(value: Any) -> Any:
    """The list of a string that contains one in JSON or Python syntax; any other value unchanged."""
    if not (isinstance(value, str) and value.lstrip().startswith("[")):
        return value
    for read_list in (json.loads, ast.literal_eval):
        try:
            values = read_list(value.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(values, list):
            return values
    return value


def _text(value: Any) -> str:
    """The text of a value: a string, or a list of paragraphs, which are strings or objects with a text."""
    parts = value if isinstance(value, list) else [value]
    return " ".join(
        " ".join(str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in parts).split()
    )


# --- item words -------------------------------------------------------------------------------------------------------


_FILE = "names.json"
_MIN_PROBABILITY, _MIN_LIFT = 0.5, 3.0


def normalize_word(word: str) -> str:
    """The word in lowercase without an English plural ending, such as tomato for tomatoes and berry for berries."""
    word = word.lower()
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 2 and word.endswith("y") else word


def split_words(text: str, tokenizer: Tokenizer) -> list[str]:
    """The words of a text, without numbers and punctuation."""
    return [token for token in tokenizer.tokens(text) if any(letter.isalpha() for letter in token)]


@dataclass(frozen=True)
class ItemWordModel:
    """The words by which texts mention items; all words are normalized.

    Args:
        probabilities: the probability that a word of the agenda is in the text.
        item_words: the words that name items.
    """

    probabilities: dict[str, float]
    item_words: frozenset[str]

    @classmethod
    def learn(cls, examples: Iterable[tuple[Sequence[Sequence[str]], Sequence[str]]]) -> ItemWordModel:
        """Learn from the words of the items and of the text of each example."""
        n, on_agenda, in_text, in_both = 0, Counter[str](), Counter[str](), Counter[str]()
        for items, text in examples:
            agenda = {normalize_word(word) for item in items for word in item}
            words = {normalize_word(word) for word in text}
            n += 1
            on_agenda.update(agenda)
            in_text.update(words)
            in_both.update(agenda & words)
        probabilities, item_words = {}, set()
        for word, times in on_agenda.items():
            probabilities[word] = (in_both[word] + 0.5) / (times + 1)
            otherwise = (in_text[word] - in_both[word] + 0.5) / (n - times + 1)
            if probabilities[word] >= max(_MIN_PROBABILITY, _MIN_LIFT * otherwise):
                item_words.add(word)
        return cls(probabilities, frozenset(item_words))

    def names(self, item: Sequence[str]) -> list[str]:
        """The words that name an item: its item words, else its unseen words, else its most probable words."""
        names = [word for word in item if normalize_word(word) in self.item_words]
        if names or not item:
            return names
        unseen = [word for word in item if normalize_word(word) not in self.probabilities]
        return unseen or [max(item, key=lambda word: self.probabilities[normalize_word(word)])]

    def mentioned(self, items: Sequence[Sequence[str]], text: Sequence[str]) -> list[bool]:
        """For each item, whether the text has a word that names it."""
        words = {normalize_word(word) for word in text}
        return [any(normalize_word(word) in words for word in self.names(item)) for item in items]

    def extra(self, items: Sequence[Sequence[str]], text: Sequence[str], goal: Sequence[str] = ()) -> set[str]:
        """The item words of a text that are neither in an item nor in the goal."""
        expected = {normalize_word(word) for item in (*items, goal) for word in item}
        return {normalize_word(word) for word in text} & self.item_words - expected

    def save(self, folder: Path) -> None:
        about = {
            "probabilities": {word: round(p, 6) for word, p in self.probabilities.items()},
            "item_words": sorted(self.item_words),
        }
        (folder / _FILE).write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> ItemWordModel:
        """Load the item words written by :meth:`save`."""
        about = read_stored(folder / _FILE, {"probabilities": dict[str, float], "item_words": list[str]})
        return cls(about["probabilities"], frozenset(about["item_words"]))


# --- ids --------------------------------------------------------------------------------------------------------------


_SPECIALS = (BEGIN_SYMBOL, END_SYMBOL, ITEM_SYMBOL)


class ComposeEncoding:
    """The tokenizer, vocabulary and item words of a model.

    Args:
        tokenizer: splits texts into tokens.
        vocabulary: the vocabulary of sources and targets.
        naming: the words that name items.
        reads_names: whether the model reads only the words that name an item.
    """

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: Vocabulary, naming: ItemWordModel, reads_names: bool = True
    ) -> None:
        self.tokenizer, self.vocabulary, self.naming, self.reads_names = tokenizer, vocabulary, naming, reads_names
        self.begin, self.end, self.item = (vocabulary.special(name) for name in _SPECIALS)

    def items(self, example: Composition) -> list[list[str]]:
        """The words of each item."""
        return [split_words(item, self.tokenizer) for item in example.items]

    def read_words(self, example: Composition) -> list[list[str]]:
        """The words of each item that the model reads, without items that have none."""
        listed = self.items(example)
        listed = [self.naming.names(item) for item in listed] if self.reads_names else listed
        return [item for item in listed if item]

    def source(self, example: Composition) -> list[int]:
        """The ids of the goal, followed by a separator and the ids of each item."""
        ids = self.vocabulary.ids(self.tokenizer.tokens(example.goal))
        for item in self.read_words(example):
            ids += [self.item, *self.vocabulary.ids(item)]
        return ids or [UNK]

    def target(self, text: str) -> list[int]:
        """The ids of a text with its end symbol."""
        return [*self.vocabulary.ids(self.tokenizer.tokens(text)), self.end]

    def text(self, ids: Iterable[int]) -> str:
        return self.tokenizer.join(self.vocabulary.tokens(ids))

    def sides(self, counts: Sequence[int]) -> VocabularyInfo:
        """Vocabulary sizes and special ids for building a model."""
        v = len(self.vocabulary)
        return VocabularyInfo(v, counts, self.begin, self.end, (PAD, self.begin, self.item), shared=True)

    def names(self) -> list[int]:
        """The number of the item word of each id; singular and plural have the same number, and -1 means none."""
        numbers: dict[str, int] = {}
        fresh, of_ids = count(), []
        for id, symbol in enumerate(self.vocabulary.symbols):
            names = id >= len(self.vocabulary.specials) and any(letter.isalpha() for letter in symbol)
            word = normalize_word(symbol)
            if names and word not in numbers:
                numbers[word] = next(fresh)
            of_ids.append(numbers[word] if names else -1)
        return of_ids

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.vocabulary.save(folder / VOCABULARY)
        self.naming.save(folder)


def fit_encoding(config: ComposeConfig, train: Sequence[Composition]) -> ComposeEncoding:
    """The encoding with the item words of train, and the vocabulary of its sources and targets."""
    tokenizer = build_tokenizer(config.tokenizer)
    listed = [[split_words(item, tokenizer) for item in example.items] for example in train]
    texts = [tokenizer.tokens(example.text) for example in train]
    naming = ItemWordModel.learn(zip(listed, texts, strict=True))
    reads_names = config.data.item_words == "naming"
    words: list[Sequence[str]] = [*texts, *(tokenizer.tokens(example.goal) for example in train)]
    words += [naming.names(item) if reads_names else item for items in listed for item in items]
    return ComposeEncoding(tokenizer, Vocabulary.count(words, config.vocabulary, _SPECIALS), naming, reads_names)


def load_encoding(folder: Path, reads_names: bool) -> ComposeEncoding:
    """Load the encoding written by :meth:`ComposeEncoding.save`."""
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    return ComposeEncoding(load_tokenizer(folder / TOKENIZER), vocabulary, ItemWordModel.load(folder), reads_names)
