"""Conversations from files: read, filter and split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from catena.data.dialogue import Exchange, inner_exchanges
from catena.data.readers.dialogue import READERS, read, recognize
from catena.data.reading import ReadCounter
from catena.errors import DataError, FormatError
from catena.randomness import hash_fraction
from catena.registry import did_you_mean
from catena.tasks.converse.config import ConverseConfig, ConverseDataConfig


@dataclass(eq=False)
class ConverseDataset:
    """The train, dev and test exchanges; ``taught`` is train with the exchanges added by ``inner_turns``."""

    train: list[Exchange]
    dev: list[Exchange]
    test: list[Exchange]
    taught: list[Exchange]
    tally: ReadCounter
    formats: dict[str, str]
    lines: list[str] = field(default_factory=list)
    old: Path | None = None
    """The folder of the model whose tokenizer and vocabulary are reused, if any."""

    def responses(self) -> list[str]:
        """The distinct correct responses of train, in order."""
        return list(dict.fromkeys(text for exchange in self.train for text in exchange.responses))


def dialogue_format(path: Path, data: ConverseDataConfig) -> tuple[str, str]:
    """The format of a file of conversations, from the config or detected, and the reason."""
    if data.format == "auto":
        return recognize(path, data.encoding, data.columns)
    if data.format not in READERS:
        raise FormatError(f"Unknown data.format {data.format!r} of conversations: {did_you_mean(data.format, READERS)}")
    return data.format, "set by data.format"


def exchanges(path: Path, data: ConverseDataConfig, tally: ReadCounter) -> list[Exchange]:
    """The usable exchanges of a file, truncated to the window; ``tally`` counts the dropped ones."""
    found = []
    for exchange in read(path, dialogue_format(path, data)[0], data.encoding, data.columns):
        tally.saw()
        context = tuple(turn for turn in exchange.context if turn.strip())
        own = tuple(own for turn, own in zip(exchange.context, exchange.own, strict=True) if turn.strip())
        good = tuple(dict.fromkeys(text for text in exchange.responses if text.strip()))
        wrong, hard = (tuple(text for text in side if text.strip()) for side in (exchange.wrong, exchange.hard))
        shown = " / ".join(exchange.context)
        if not context:
            tally.drop("with an empty context", exchange.place, " / ".join(exchange.responses))
        elif not good and not wrong:
            tally.drop("with an empty response", exchange.place, shown)
        else:
            w = data.window
            found.append(Exchange(context[-w:], good, exchange.place, own[-w:], wrong, hard))
    return found


def prepare(config: ConverseConfig) -> ConverseDataset:
    """Read the files of a config, and split train if dev has no file."""
    data, tally = config.data, ReadCounter()
    if not data.train:
        raise DataError("There is no training file. Name a file of conversations, as in 'catena train converse FILE'.")
    formats = {name: dialogue_format(path, data) for name, path in data.files().items()}
    lines = [f"{name}: {Path(path).name} is read as {formats[name][0]}: {formats[name][1]}"
             for name, path in data.files().items()]  # fmt: skip
    train = [exchange for path in data.train for exchange in exchanges(Path(path), data, tally)]
    held: list[Exchange] = []
    if data.dev is None:
        train, held = split_dialogues(train, data)
    dev = held if data.dev is None else exchanges(Path(data.dev), data, tally)
    test = exchanges(Path(data.test), data, tally) if data.test is not None else []
    counts = tally.counts(len(train) + len(dev) + len(test))
    for name, part in (("train", train), ("dev", dev)):
        if not any(exchange.responses for exchange in part):
            raise DataError(f"There is no correct response in {name}: {counts.sentence('')}. Check the file.")
    taught = list(train)
    if data.inner_turns:
        taught += [inner for exchange in train for inner in inner_exchanges(exchange)]
    lines.append(counts.sentence())
    lines += [summary_line(name, part) for name, part in (("train", train), ("dev", dev), ("test", test)) if part]
    if data.inner_turns:
        lines.append(f"the turns of contexts add {len(taught) - len(train):,} pairs to train")
    names = {name: format for name, (format, _) in formats.items()}
    return ConverseDataset(train, dev, test, taught, tally, names, lines)


def split_dialogues(found: Sequence[Exchange], data: ConverseDataConfig) -> tuple[list[Exchange], list[Exchange]]:
    """Split into train and dev by a hash of the first turn, or with the last contexts as dev.

    Both splits have at least one exchange.
    """
    if len(found) < 2:
        if not found:
            raise DataError("There are no responses. Use dialogues with at least two turns.")
        raise DataError("1 exchange cannot be split into train and dev. Pass a dev file with --dev.")
    if data.split == "end":
        n = min(max(1, round(len(found) * data.dev_fraction)), len(found) - 1)
        return list(found[:-n]), list(found[-n:])
    places = [hash_fraction(exchange.context[0]) for exchange in found]
    limit = max(data.dev_fraction, min(places))
    train = [exchange for exchange, place in zip(found, places, strict=True) if place > limit]
    dev = [exchange for exchange, place in zip(found, places, strict=True) if place <= limit]
    if not train:
        raise DataError(
            "All contexts have the same first turn, so a split by first turn is not possible. Pass a dev file with "
            "--dev, or use the last contexts with --data.split end."
        )
    return train, dev


def summary_line(name: str, part: Sequence[Exchange]) -> str:
    """A report line about a split."""
    good, bad = (sum(map(len, side)) for side in zip(*((e.responses, e.wrong) for e in part), strict=True))
    turns = sum(len(exchange.context) for exchange in part) / len(part)
    wrong = f" and {bad:,} incorrect ones" if bad else ""
    return f"{name}: {len(part):,} contexts of {turns:.1f} turns, {good:,} responses{wrong}"


def context_response_pairs(part: Sequence[Exchange]) -> Iterator[tuple[Exchange, str]]:
    """Every context with each of its right responses."""
    return ((exchange, response) for exchange in part for response in exchange.responses)
