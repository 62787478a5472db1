"""Pairs of strings from files: split into symbols, grouped by source, split by a hash of the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from catena.data.detect import UNKNOWN, detect_format
from catena.data.examples import ParallelText
from catena.data.files import bad_line, open_text
from catena.data.pairing import find_pair_columns_by_name, names_columns
from catena.data.readers.table import FORMATS
from catena.data.reading import ReadCounter
from catena.errors import DataError, FormatError
from catena.randomness import hash_fraction
from catena.tasks.transduce.config import TransduceConfig, TransduceDataConfig

_Symbols = tuple[str, ...]


@dataclass(frozen=True)
class SymbolTokenizer:
    """Splits texts into symbols, and joins symbols to texts."""

    source_apart: bool
    target_apart: bool
    lowercase: bool = False
    strip: str = ""

    @classmethod
    def of(cls, data: TransduceDataConfig, format: str) -> SymbolTokenizer:
        """The tokenizer of a data config; the file format resolves ``auto``."""
        phonemes = format == "dictionary"
        auto = (phonemes, False) if data.swap else (False, phonemes)
        source, target = (
            on if cut == "auto" else cut == "symbols"
            for cut, on in zip((data.source_tokens, data.target_tokens), auto, strict=True)
        )
        return cls(source, target, data.lowercase, data.strip)

    def source(self, text: str) -> _Symbols:
        """The symbols of a source."""
        return _symbols(text.lower() if self.lowercase else text, self.source_apart)

    def target(self, text: str) -> _Symbols:
        """The symbols of a target."""
        found = _symbols(text.lower() if self.lowercase else text, self.target_apart)
        if not self.strip:
            return found
        gone = str.maketrans("", "", self.strip)
        return tuple(left for symbol in found if (left := symbol.translate(gone)))

    def join(self, symbols: Sequence[str]) -> str:
        """The text of a target."""
        return (" " if self.target_apart else "").join(symbols)

    def join_source(self, symbols: Sequence[str]) -> str:
        return (" " if self.source_apart else "").join(symbols)


def _symbols(text: str, apart: bool) -> _Symbols:
    return tuple(text.split()) if apart else tuple(text.strip())


@dataclass(frozen=True)
class StringPair:
    """A source and all of its targets."""

    source: _Symbols
    targets: tuple[_Symbols, ...]


@dataclass(eq=False)
class TransduceDataset:
    """The train, dev and test pairs of a run."""

    cutting: SymbolTokenizer
    train: list[StringPair]
    dev: list[StringPair]
    test: list[StringPair]
    tally: ReadCounter
    lines: list[str] = field(default_factory=list)
    old: Path | None = None
    """The folder of the model whose symbols are reused, if any."""

    def pairs(self) -> list[tuple[_Symbols, _Symbols]]:
        """Every source of train with each of its targets."""
        return [(word.source, target) for word in self.train for target in word.targets]


def pairs_format(path: Path, data: TransduceDataConfig) -> str:
    """The format of a file of pairs, from the config or detected."""
    if data.format != "auto":
        return data.format
    found = detect_format(path, data.encoding)
    if found.format in ("parallel", "dictionary"):
        return found.format
    if found.format in ("tsv-label", "columns", "tsv", UNKNOWN) and _has_two_fields(path, data):
        return "parallel"
    why = f"it looks like {found.format!r}: {found.why}" if found.format != UNKNOWN else found.why
    raise FormatError(
        f"{path} has no pairs of strings ({why}). Write source<TAB>target on every line, or pass --data.format "
        f"dictionary for lines of a word and its phonemes."
    )


def _has_two_fields(path: Path, data: TransduceDataConfig) -> bool:
    """Whether the first lines have one tab each.

    Without this check short columns with repeated targets would be detected as labels. If only a few lines have no
    tab, raise an error that names the first of them.
    """
    with open_text(path, data.encoding) as lines:
        filled = [(number, line) for number, line in islice(lines, 200) if line.strip()]
    odd = [(number, line) for number, line in filled if line.count("\t") != 1]
    if odd and len(odd) <= len(filled) / 10:
        tabs = odd[0][1].count("\t")
        raise bad_line(
            path,
            *odd[0],
            f"has {tabs} tabs" if tabs else "has no tab",
            "Write source<TAB>target on every line, or pass --data.format for a file with other columns.",
        )
    return bool(filled) and not odd


def read_pairs(path: Path, data: TransduceDataConfig, format: str) -> Iterator[ParallelText]:
    """The pairs of a file, swapped if the config says so.

    A header line is skipped; its names determine which column has the sources.
    """
    reader = FORMATS[format]
    if reader.example is not ParallelText:
        raise FormatError(
            f"data.format must be parallel or dictionary for pairs of strings, got {format!r}. Choose parallel for "
            f"lines of source<TAB>target."
        )
    swap = data.swap
    for pair in reader.read(path, encoding=data.encoding):
        names = pair.source, pair.target
        if pair.place.line == 1 and names_columns(names):
            swap ^= find_pair_columns_by_name(names) == (1, 0)
            continue
        yield ParallelText(pair.target, pair.source, pair.place) if swap else pair


def group_by_source(
    pairs: Iterable[ParallelText], cutting: SymbolTokenizer, tally: ReadCounter, max_length: int | None = None
) -> list[StringPair]:
    """The pairs grouped by source, in the order of the sources.

    Args:
        pairs: the pairs of texts.
        cutting: splits texts into symbols.
        tally: counts the dropped pairs, which are empty, repeated or too long.
        max_length: largest number of symbols of a source or target; None for no limit.
    """
    grouped: dict[_Symbols, list[_Symbols]] = {}
    for pair in tally.seen(pairs):
        source, target = cutting.source(pair.source), cutting.target(pair.target)
        shown = f"{pair.source}\t{pair.target}"
        if not source or not target:
            tally.drop(f"with an empty {'target' if source else 'source'}", pair.place, shown)
        elif max_length is not None and max(len(source), len(target)) > max_length:
            tally.drop(f"longer than max_length={max_length}", pair.place, shown)
        else:
            targets = grouped.setdefault(source, [])
            if target in targets:
                tally.drop("duplicate", pair.place, shown)
            else:
                targets.append(target)
    return [StringPair(source, tuple(targets)) for source, targets in grouped.items()]


def prepare(config: TransduceConfig) -> TransduceDataset:
    """Read the files of a config, and split train if dev or test has no file."""
    data, tally = config.data, ReadCounter()
    if not data.train:
        raise DataError("There is no training file. Name a file of pairs, as in 'catena train transduce FILE'.")
    formats = [pairs_format(Path(path), data) for path in data.train]
    cutting = SymbolTokenizer.of(data, formats[0])
    pairs = (
        pair for path, format in zip(data.train, formats, strict=True) for pair in read_pairs(Path(path), data, format)
    )
    words = group_by_source(pairs, cutting, tally, data.max_length)
    parts: dict[str, list[StringPair]] = {"train": [], "dev": [], "test": []}
    test_end = data.test_fraction if data.test is None else 0.0
    dev_end = test_end + (data.dev_fraction if data.dev is None else 0.0)
    for word in words:
        at = hash_fraction("".join(word.source))
        parts["test" if at < test_end else "dev" if at < dev_end else "train"].append(word)
    if (
        data.dev is None and not parts["dev"] and len(parts["train"]) > 1
    ):  # few sources: the one nearest to dev_fraction
        nearest = min(parts["train"], key=lambda word: hash_fraction("".join(word.source)))
        parts["train"].remove(nearest)
        parts["dev"].append(nearest)
    for name, path in (("dev", data.dev), ("test", data.test)):
        if path is not None:
            parts[name] = group_by_source(read_pairs(Path(path), data, pairs_format(Path(path), data)), cutting, tally)
    counts = tally.counts(used=sum(len(word.targets) for part in parts.values() for word in part))
    for name, cure in (("train", ""), ("dev", ", a dev file, or a larger data.dev_fraction")):
        if not parts[name]:
            raise DataError(f"There are no pairs in {name}: {counts.sentence('')}. Add pairs{cure}.")
    lines = [f"{path} is read as {format}" for path, format in zip(data.train, formats, strict=True)]
    lines.append(counts.sentence())
    lines += [_line(name, part) for name, part in parts.items() if part]
    return TransduceDataset(cutting, parts["train"], parts["dev"], parts["test"], tally, lines)


def _line(name: str, words: Sequence[StringPair]) -> str:
    targets = sum(len(word.targets) for word in words)
    return f"{name}: {len(words):,} sources with {targets:,} targets"
