"""Symbols and their ids: tokens with padding and an unknown token, and labels without them.

Special tokens (``<pad>``, ``<unk>`` and others) have ids, but text never maps to them by spelling: the words ``<pad>``,
``<s>`` and ``<unk>`` in a text get the unknown id.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.data.config import VocabularyConfig
from catena.data.special_tokens import PAD_SYMBOL, UNK_SYMBOL
from catena.errors import CheckpointError, DataError
from catena.registry import did_you_mean

PAD = 0
UNK = 1
FORMAT = 1


@dataclass(frozen=True)
class VocabularyCoverage:
    """How much of a text is in a vocabulary."""

    tokens: int
    known_tokens: int
    types: int
    known_types: int

    @property
    def share(self) -> float:
        """The fraction of running tokens that are known; 1 if there are no tokens."""
        return self.known_tokens / self.tokens if self.tokens else 1.0


class Vocabulary:
    """Ids of symbols: ``<pad>`` = 0, ``<unk>`` = 1, other special tokens, then the symbols in the given order.

    ``counts[i]`` is the count of symbol ``i`` in the text of the vocabulary. ``counts[UNK]`` is the number of tokens
    that are not in the vocabulary, so the counts sum to the number of tokens.

    Args:
        symbols: the symbols, without the special tokens.
        counts: how often each symbol occurs; 0 if None.
        specials: special tokens after ``<pad>`` and ``<unk>``.
        unknown_count: number of tokens that are not in the vocabulary.
    """

    def __init__(
        self,
        symbols: Sequence[str],
        counts: Sequence[int] | None = None,
        specials: Sequence[str] = (),
        unknown_count: int = 0,
    ) -> None:
        self.specials = (PAD_SYMBOL, UNK_SYMBOL, *specials)
        self._names = [*self.specials, *symbols]
        self._special_ids = {name: i for i, name in enumerate(self.specials)}
        first = len(self.specials)
        self._ids = {symbol: i for i, symbol in enumerate(symbols, start=first)}
        _check_unique(self._names, "symbols of a vocabulary")
        _check_counts(symbols, counts, "symbols")
        numbers = counts if counts is not None else [0] * len(symbols)
        self.counts: list[int] = [0, unknown_count, *([0] * len(specials)), *numbers]
        self.special_counts: dict[str, int] = {}
        """Counts of special token names in the text, which are read as unknown."""

    @classmethod
    def count(
        cls,
        token_lists: Iterable[Iterable[str]],
        settings: VocabularyConfig | None = None,
        specials: Sequence[str] = (),
        symbols: Sequence[str] = (),
    ) -> Vocabulary:
        """Count tokens from a stream and keep those that the config admits.

        Args:
            token_lists: the tokenized texts.
            settings: minimum count and maximum size.
            specials: names of more special tokens.
            symbols: symbols that are always kept, such as those of a tokenizer that knows all its tokens.
        """
        return cls.from_counts(_count(token_lists), settings, specials, symbols)

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        settings: VocabularyConfig | None = None,
        specials: Sequence[str] = (),
        symbols: Sequence[str] = (),
    ) -> Vocabulary:
        """A vocabulary of the most frequent symbols, in descending order of count and then by spelling."""
        settings = settings or VocabularyConfig()
        reserved = {PAD_SYMBOL, UNK_SYMBOL, *specials}
        always = {symbol: counts.get(symbol, 0) for symbol in symbols if symbol not in reserved}
        others = [
            (symbol, n)
            for symbol, n in counts.items()
            if n >= settings.min_count and symbol not in reserved and symbol not in always
        ]
        others.sort(key=_by_count)
        if settings.max_size is not None:
            others = others[: max(0, settings.max_size - len(always))]
        kept = sorted([*always.items(), *others], key=_by_count)
        unknown = sum(counts.values()) - sum(n for _, n in kept)
        made = cls([symbol for symbol, _ in kept], [n for _, n in kept], specials, unknown)
        made.special_counts = {name: counts[name] for name in made.specials if counts.get(name)}
        return made

    def notes(self) -> list[str]:
        """Messages about the text of the vocabulary: special token names in it."""
        if not self.special_counts:
            return []
        found = ", ".join(f"{name} {count:,} times" for name, count in self.special_counts.items())
        return [f"the text contains {found}: read as the unknown symbol {UNK_SYMBOL}"]

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, symbol: object) -> bool:
        """Whether a symbol in a text has its own id. Special tokens do not."""
        return symbol in self._ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        mine, theirs = (self._names, self.specials, self.counts), (other._names, other.specials, other.counts)
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]

    @property
    def symbols(self) -> list[str]:
        """Every name in id order, special tokens first."""
        return list(self._names)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of the tokens of a text. Unknown tokens are ``UNK``, and no token is ``PAD``."""
        get = self._ids.get
        return [get(token, UNK) for token in tokens]

    def special(self, name: str) -> int:
        """The id of a special token."""
        if name not in self._special_ids:
            raise DataError(
                f"The special token must be one of {', '.join(map(repr, self.specials))}, got {name!r}. Choose one of "
                f"them."
            )
        return self._special_ids[name]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The symbols of ids, including special tokens."""
        wanted = [int(i) for i in ids]
        if wanted and not (min(wanted) >= 0 and max(wanted) < len(self._names)):
            wrong = next(i for i in wanted if not 0 <= i < len(self._names))
            raise DataError(f"Ids must be from 0 to {len(self._names) - 1}, got {wrong}. Use ids of this vocabulary.")
        return [self._names[i] for i in wanted]

    def coverage(self, token_lists: Iterable[Iterable[str]]) -> VocabularyCoverage:
        """How many tokens and how many distinct tokens have their own ids."""
        counter = _count(token_lists)
        known = {symbol: n for symbol, n in counter.items() if symbol in self._ids}
        return VocabularyCoverage(counter.total(), sum(known.values()), len(counter), len(known))

    def save(self, path: Path) -> None:
        """Write it as JSON, one symbol per line."""
        first = len(self.specials)
        entries = list(zip(self._names[first:], self.counts[first:], strict=True))
        head = {"specials": list(self.specials[2:]), "unknown_count": self.counts[UNK]}
        _write(path, "vocabulary", head, entries)

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Load a vocabulary that :meth:`save` wrote."""
        data, names, counts = _read(path, "vocabulary")
        specials, unknown = data.get("specials"), data.get("unknown_count")
        if not isinstance(specials, list) or not all(isinstance(s, str) for s in specials) or type(unknown) is not int:
            raise CheckpointError(f"The vocabulary {path} is damaged. Copy the model again.")
        try:
            return cls(names, counts, specials, unknown)
        except DataError as error:
            raise CheckpointError(f"{path} is damaged: {error} Copy the model again.") from None


class Labels:
    """Names of classes or tags and their ids, sorted: integers by value, other names by spelling."""

    def __init__(self, names: Sequence[str], counts: Sequence[int] | None = None) -> None:
        """Keep the names in the given order; :meth:`count` sorts them."""
        self.names = tuple(names)
        self.counts = tuple(counts) if counts is not None else (0,) * len(self.names)
        self._ids = {name: i for i, name in enumerate(self.names)}
        _check_unique(self.names, "labels")
        _check_counts(self.names, counts, "labels")

    @classmethod
    def count(cls, label_lists: Iterable[Iterable[str]]) -> Labels:
        """The labels of examples, each given as a tuple of labels."""
        counter = _count(label_lists)
        ordered = _sorted_labels(counter)
        return cls(ordered, [counter[name] for name in ordered])

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        return (self.names, self.counts) == (other.names, other.counts)

    __hash__ = None  # type: ignore[assignment]

    def id(self, name: str) -> int:
        """The id of a label."""
        if name not in self._ids:
            raise DataError(
                f"{name!r} is not one of the {len(self.names)} labels of the training data: "
                f"{did_you_mean(name, self.names)}"
            )
        return self._ids[name]

    def ids(self, names: Iterable[str]) -> list[int]:
        """The ids of labels, in order."""
        return [self.id(name) for name in names]

    def name(self, id: int) -> str:
        """The label of an id."""
        if not 0 <= id < len(self.names):
            raise DataError(f"The id of a label must be from 0 to {len(self.names) - 1}, got {id}. Use a smaller id.")
        return self.names[id]

    def describe(self, most: int) -> str:
        """The ``most`` frequent labels with their counts: ``nsubj 120, obj 83, …``."""
        ordered = sorted(zip(self.counts, self.names, strict=True), reverse=True)
        shown = ", ".join(f"{name} {count:,}" for count, name in ordered[:most])
        return shown + (", …" if len(ordered) > most else "")

    def save(self, path: Path) -> None:
        """Write them as JSON, one per line."""
        _write(path, "labels", {}, list(zip(self.names, self.counts, strict=True)))

    @classmethod
    def load(cls, path: Path) -> Labels:
        """Load labels that :meth:`save` wrote, in the same order."""
        _, names, counts = _read(path, "labels")
        try:
            return cls(names, counts)
        except DataError as error:
            raise CheckpointError(f"{path} is damaged: {error} Copy the model again.") from None


def _count(lists: Iterable[Iterable[str]]) -> Counter[str]:
    counter: Counter[str] = Counter()
    for names in lists:
        counter.update(names)
    return counter


def _check_unique(names: Sequence[str], what: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise DataError(f"{what.capitalize()} must be unique, got {twice!r} twice. Remove one.")


def _check_counts(names: Sequence[str], counts: Sequence[int] | None, what: str) -> None:
    if counts is not None and len(counts) != len(names):
        raise DataError(
            f"counts must have one entry for each of the {len(names)} {what}, got {len(counts)}. Pass as many counts."
        )


def _by_count(entry: tuple[str, int]) -> tuple[int, str]:
    return -entry[1], entry[0]


def _sorted_labels(names: Iterable[str]) -> list[str]:
    listed = list(names)
    if all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in listed):
        return sorted(listed, key=lambda name: (int(name), name))
    return sorted(listed)


def _write(path: Path, kind: str, head: Mapping[str, Any], entries: Sequence[tuple[str, int]]) -> None:
    lines = ",\n".join("  " + json.dumps(list(entry), ensure_ascii=False) for entry in entries)
    opening = json.dumps({"kind": kind, "format": FORMAT, **head}, ensure_ascii=False)[:-1]
    text = f'{opening}, "symbols": [\n{lines}\n]}}\n'
    # A lone surrogate has no UTF-8; its Python escape is its JSON escape too.
    path.write_bytes(text.encode("utf-8", "backslashreplace"))


def _read(path: Path, kind: str) -> tuple[dict[str, Any], list[str], list[int]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"The {kind} {path} is missing. Copy the model again.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"Cannot read the {kind} {path} ({error}). Copy the model again.") from None
    if not isinstance(data, dict) or data.get("kind") != kind:
        raise CheckpointError(f"{path} is not a {kind} file. Check the path.")
    if data.get("format") != FORMAT:
        raise CheckpointError(
            f"The format of {path} must be {FORMAT} for this version of Catena, got {data.get('format')!r}. Install a "
            f"newer version."
        )
    entries = data.get("symbols")
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise CheckpointError(f"{path} does not list symbols with their counts: it is damaged. Copy the model again.")
    return data, [name for name, _ in entries], [n for _, n in entries]


def _is_entry(entry: object) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and type(entry[1]) is int
