"""Pairs of strings: reading, and their symbols. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from catena.data.detect import detect_format
from catena.data.examples import ParallelText
from catena.data.reading import ReadCounter
from catena.errors import FormatError
from catena.tasks.base import DataParts
from catena.tasks.pairs import PAIR_FORMATS, read_pairs
from catena.tasks.sources import Sources
from catena.tasks.transduce.config import TransduceConfig, TransduceDataConfig

Symbols = tuple[str, ...]
"""The symbols of a source or a target."""


@dataclass(frozen=True)
class SymbolTokenizer:
    """Splits texts into symbols, and joins symbols to texts.

    Args:
        separates_source: whether the symbols of a source are separated by spaces; otherwise they are characters.
        separates_target: the same for targets.
        lowercase: whether texts are lowercased.
        strip: characters to remove from every target symbol.
    """

    separates_source: bool
    separates_target: bool
    lowercase: bool = False
    strip: str = ""

    @classmethod
    def from_config(cls, data: TransduceDataConfig) -> SymbolTokenizer:
        """The tokenizer of a data config; ``auto`` is characters."""
        return cls(data.source_tokens == "symbols", data.target_tokens == "symbols", data.lowercase, data.strip)

    def source(self, text: str) -> Symbols:
        """The symbols of a source."""
        return _symbols(text.lower() if self.lowercase else text, self.separates_source)

    def target(self, text: str) -> Symbols:
        """The symbols of a target."""
        symbols = _symbols(text.lower() if self.lowercase else text, self.separates_target)
        if not self.strip:
            return symbols
        removed = str.maketrans("", "", self.strip)
        return tuple(left for symbol in symbols if (left := symbol.translate(removed)))

    def join(self, symbols: Sequence[str]) -> str:
        """The text of a target."""
        return (" " if self.separates_target else "").join(symbols)

    def join_source(self, symbols: Sequence[str]) -> str:
        """The text of a source."""
        return (" " if self.separates_source else "").join(symbols)

    def pair(self, example: ParallelText) -> tuple[Symbols, Symbols]:
        """The symbols of both sides of a pair."""
        return self.source(example.source), self.target(example.target)


def _symbols(text: str, are_separate: bool) -> Symbols:
    return tuple(text.split()) if are_separate else tuple(text.strip())


def choose_tokens(data: TransduceDataConfig) -> TransduceDataConfig:
    """The data config with ``auto`` resolved: phonemes of a pronouncing dictionary are separate symbols."""
    has_phonemes = bool(data.train) and pair_format(data, Path(data.train[0])) == "dictionary"
    sides = ("target_tokens", "source_tokens") if data.swap else ("source_tokens", "target_tokens")
    chosen = dict(zip(sides, ("characters", "symbols" if has_phonemes else "characters"), strict=True))
    return data.model_copy(update={side: tokens for side, tokens in chosen.items() if getattr(data, side) == "auto"})


def pair_format(data: TransduceDataConfig, path: Path) -> str:
    """The format of a file of pairs, from the config or detected."""
    if data.input_format != "auto":
        if data.input_format not in PAIR_FORMATS:
            raise FormatError(
                f"data.input_format must be one of {', '.join(PAIR_FORMATS)} for pairs of strings, got "
                f"{data.input_format!r}. Choose tsv for lines of source<TAB>target."
            )
        return data.input_format
    found = detect_format(path, data.encoding)
    if found.format in PAIR_FORMATS:
        return found.format
    if found.format == "columns" and found.options.get("separator") == "tab":
        return "tsv"
    why = f"it is {found.why}" if found.is_known else found.why
    raise FormatError(
        f"{path} has no pairs of strings: {why.removesuffix('.')}. Write source<TAB>target on every line, or pass "
        f"--input-format dictionary for lines of a word and its phonemes."
    )


def read_strings(data: TransduceDataConfig, path: Path, counter: ReadCounter) -> Iterator[ParallelText]:
    """The pairs of a file. A header line is skipped; its names determine which column has the sources."""
    format = pair_format(data, path)
    is_certain = data.input_format != "auto" or format in ("dictionary", "tsv")
    return read_pairs(data, path, counter, format=format if is_certain else None)


def gather_pairs(config: TransduceConfig, sources: Sources[ParallelText]) -> tuple[DataParts[ParallelText], list[str]]:
    """The pairs of train, dev and test without those that cannot be trained on, and lines about them."""
    lines, parts = sources.describe(), sources.split()
    tokenizer, limit = SymbolTokenizer.from_config(config.data), config.data.max_length
    seen: set[tuple[Symbols, Symbols]] = set()

    def usable(example: ParallelText) -> ParallelText | str:
        pair = tokenizer.pair(example)
        if not pair[0] or not pair[1]:
            return f"with an empty {'target' if pair[0] else 'source'}"
        if max(map(len, pair)) > limit:
            return f"longer than max_length={limit}"
        if pair in seen:
            return "duplicate"
        seen.add(pair)
        return example

    parts = DataParts(sources.keep_usable(parts.train, usable), parts.dev, parts.test)
    named = {"train": parts.train, "dev": parts.dev, "test": parts.test}
    sizes = [_describe(name, part, tokenizer) for name, part in named.items() if part]
    return parts, [*lines, sources.counts(parts), *sizes]


def _describe(name: str, part: Sequence[ParallelText], tokenizer: SymbolTokenizer) -> str:
    n_sources = len({tokenizer.source(example.source) for example in part})
    return f"{name}: {n_sources:,} sources with {len(part):,} targets"
