"""Symbols and their ids: tokens with padding and an unknown, and labels with neither.

Specials (``<pad>``, ``<unk>`` and those asked for) have ids, but text never reaches them by their spelling: a
text that holds the words ``<pad>`` or ``<s>`` gets the unknown id there, and so does one that holds
``<unk>``.
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
from catena.errors import CheckpointError, DataError
from catena.registry import did_you_mean

PAD = 0
UNK = 1
PAD_SYMBOL = "<pad>"
UNK_SYMBOL = "<unk>"
SPECIAL_NAMES = (PAD_SYMBOL, UNK_SYMBOL, "<s>", "</s>", "<mask>")
"""Names of specials that texts may hold, as corpora do that were cut to a vocabulary; tokenizers of words keep them
whole."""
FORMAT = 1


@dataclass(frozen=True)
class VocabularyCoverage:
    """How much of a text a vocabulary knows."""

    tokens: int
    known_tokens: int
    types: int
    known_types: int

    @property
    def share(self) -> float:
        """The share of running tokens that are known; 1 for no tokens."""
        return self.known_tokens / self.tokens if self.tokens else 1.0


class Vocabulary:
    """Ids of symbols: ``<pad>`` = 0, ``<unk>`` = 1, other specials, then the symbols in the order given.

    ``counts[i]`` is how often symbol ``i`` occurred where the vocabulary was counted; ``counts[UNK]`` is how
    many tokens found no place in it, so that the counts sum to all tokens that were seen.
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
        if (
            len(self._special_ids) < first
            or len(self._ids) < len(symbols)
            or self._special_ids.keys() & self._ids.keys()
        ):
            twice = [symbol for symbol, n in Counter(self._names).items() if n > 1]
            raise DataError(f"a vocabulary holds each symbol once, but {twice[0]!r} is in it twice: leave one out")
        if counts is not None and len(counts) != len(symbols):
            raise DataError(
                f"a vocabulary needs a count for each of its {len(symbols)} symbols, not {len(counts)} counts"
            )
        numbers = counts if counts is not None else [0] * len(symbols)
        self.counts: list[int] = [0, unknown_count, *([0] * len(specials)), *numbers]
        self.special_counts: dict[str, int] = {}
        """How often the text that was counted has the name of a special as a token, which is read as unknown."""

    @classmethod
    def count(
        cls,
        token_lists: Iterable[Iterable[str]],
        settings: VocabularyConfig | None = None,
        specials: Sequence[str] = (),
        symbols: Sequence[str] = (),
    ) -> Vocabulary:
        """Count tokens as they stream by, and keep those that the settings let in.

        ``symbols`` are kept in any case: those of a tokenizer that knows all it can give.
        """
        counter: Counter[str] = Counter()
        for tokens in token_lists:
            counter.update(tokens)
        return cls.from_counts(counter, settings, specials, symbols)

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        settings: VocabularyConfig | None = None,
        specials: Sequence[str] = (),
        symbols: Sequence[str] = (),
    ) -> Vocabulary:
        """Choose symbols by their counts and order them: the most frequent first, equal ones by spelling."""
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
        """Lines about the text that the vocabulary was counted on: names of specials in it."""
        if not self.special_counts:
            return []
        found = ", ".join(f"{name} {count:,} times" for name, count in self.special_counts.items())
        return [f"the text holds {found}: read as the unknown symbol {UNK_SYMBOL}"]

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, symbol: object) -> bool:
        """Whether text with this symbol gets an id of its own; specials are no part of text."""
        return symbol in self._ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        mine, theirs = (self._names, self.specials, self.counts), (other._names, other.specials, other.counts)
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]

    @property
    def symbols(self) -> list[str]:
        """Every name in the order of the ids, specials first."""
        return list(self._names)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of the tokens of a text; what is not known is ``UNK``, and no token is ever ``PAD``."""
        get = self._ids.get
        return [get(token, UNK) for token in tokens]

    def special(self, name: str) -> int:
        """The id of a special, which only its name and no text gives."""
        if name not in self._special_ids:
            raise DataError(f"the vocabulary has no special {name!r}: it has {', '.join(map(repr, self.specials))}")
        return self._special_ids[name]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The symbols of ids, specials by their names."""
        wanted = [int(i) for i in ids]
        if wanted and not (min(wanted) >= 0 and max(wanted) < len(self._names)):
            wrong = next(i for i in wanted if not 0 <= i < len(self._names))
            raise DataError(f"the id {wrong} is not in the vocabulary, which has ids 0 to {len(self._names) - 1}")
        return [self._names[i] for i in wanted]

    def coverage(self, token_lists: Iterable[Iterable[str]]) -> VocabularyCoverage:
        """How many of the tokens, and of the different ones, have an id of their own."""
        counter: Counter[str] = Counter()
        for tokens in token_lists:
            counter.update(tokens)
        known = {symbol: n for symbol, n in counter.items() if symbol in self._ids}
        return VocabularyCoverage(counter.total(), sum(known.values()), len(counter), len(known))

    def save(self, path: Path) -> None:
        """Write it as JSON, one symbol to a line."""
        first = len(self.specials)
        entries = list(zip(self._names[first:], self.counts[first:], strict=True))
        head = {"specials": list(self.specials[2:]), "unknown_count": self.counts[UNK]}
        _write(path, "vocabulary", head, entries)

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what :meth:`save` wrote."""
        data, names, counts = _read(path, "vocabulary")
        specials, unknown = data.get("specials"), data.get("unknown_count")
        if not isinstance(specials, list) or not all(isinstance(s, str) for s in specials) or type(unknown) is not int:
            raise CheckpointError(f"{path} is not a whole vocabulary: it is damaged, copy the model again")
        try:
            return cls(names, counts, specials, unknown)
        except DataError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from None


class Labels:
    """Names of classes or tags and their ids, sorted: whole numbers by value, other names by spelling."""

    def __init__(self, names: Sequence[str], counts: Sequence[int] | None = None) -> None:
        """Take the names in the order given; :meth:`count` sorts them."""
        self.names = tuple(names)
        self.counts = tuple(counts) if counts is not None else (0,) * len(self.names)
        self._ids = {name: i for i, name in enumerate(self.names)}
        if len(self._ids) < len(self.names):
            twice = next(name for name, n in Counter(self.names).items() if n > 1)
            raise DataError(f"labels have different names, but {twice!r} is there twice: leave one out")
        if len(self.counts) != len(self.names):
            raise DataError(
                f"each of the {len(self.names)} labels needs a count, but there are {len(self.counts)} counts"
            )

    @classmethod
    def count(cls, label_lists: Iterable[Iterable[str]]) -> Labels:
        """The labels of examples, each of which has a tuple of them."""
        counter: Counter[str] = Counter()
        for labels in label_lists:
            counter.update(labels)
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
        """The ids of labels, in their order."""
        return [self.id(name) for name in names]

    def name(self, id: int) -> str:
        """The label of an id."""
        if not 0 <= id < len(self.names):
            raise DataError(f"{id} is not the id of a label: there are ids 0 to {len(self.names) - 1}")
        return self.names[id]

    def save(self, path: Path) -> None:
        """Write them as JSON, one to a line."""
        _write(path, "labels", {}, list(zip(self.names, self.counts, strict=True)))

    @classmethod
    def load(cls, path: Path) -> Labels:
        """Read what :meth:`save` wrote, in the same order."""
        _, names, counts = _read(path, "labels")
        try:
            return cls(names, counts)
        except DataError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from None


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
    # Half a surrogate pair has no UTF-8; its Python escape is its JSON escape too.
    path.write_bytes(text.encode("utf-8", "backslashreplace"))


def _read(path: Path, kind: str) -> tuple[dict[str, Any], list[str], list[int]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"there is no {kind} {path}: a part of the model is missing, copy it again") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the {kind} {path} cannot be read ({error}): copy the model again") from None
    if not isinstance(data, dict) or data.get("kind") != kind:
        raise CheckpointError(f"{path} is not a file of kind {kind!r}: check the path")
    if data.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {data.get('format')!r}, and this version of Catena reads {FORMAT}: install a newer one"
        )
    entries = data.get("symbols")
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise CheckpointError(f"{path} must list symbols with their counts, and does not: it is damaged, copy it again")
    return data, [name for name, _ in entries], [n for _, n in entries]


def _is_entry(entry: object) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and type(entry[1]) is int
