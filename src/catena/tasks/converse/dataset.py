"""Conversations from files: read, dropped and counted, split."""

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
    """Exchanges to train on, to choose by and to score at the end; ``taught`` are those of train with what the settings
    add to them."""

    train: list[Exchange]
    dev: list[Exchange]
    test: list[Exchange]
    taught: list[Exchange]
    tally: ReadCounter
    formats: dict[str, str]
    lines: list[str] = field(default_factory=list)
    old: Path | None = None
    """The folder of a model whose tokens and vocabulary are taken over."""

    def responses(self) -> list[str]:
        """The different right responses of train, in their order."""
        return list(dict.fromkeys(text for exchange in self.train for text in exchange.responses))


def dialogue_format(path: Path, data: ConverseDataConfig) -> tuple[str, str]:
    """The format of a file of conversations, as it is named or recognized, and why."""
    if data.format == "auto":
        return recognize(path, data.encoding, data.columns)
    if data.format not in READERS:
        raise FormatError(f"data.format = {data.format!r} has no conversations: {did_you_mean(data.format, READERS)}")
    return data.format, "it was asked for"


def exchanges(path: Path, data: ConverseDataConfig, tally: ReadCounter) -> list[Exchange]:
    """The exchanges of a file that can be used, cut to the window; what cannot is counted as dropped."""
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
    """Read the files, and hold out what has no file of its own."""
    data, tally = config.data, ReadCounter()
    if not data.train:
        raise DataError("there is nothing to train on: name a file of conversations")
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
            raise DataError(f"there is no right response in {name}: {counts.sentence('')}")
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
    """Train and dev: by a hash of the first turn, or the last contexts. At least one on each side, if there are two."""
    if len(found) < 2:
        if not found:
            raise DataError("there is nothing said in answer to anything: give two turns or more of each dialogue")
        raise DataError("1 exchange cannot be split into train and dev: give a dev file with --dev")
    if data.split == "end":
        n = min(max(1, round(len(found) * data.dev_fraction)), len(found) - 1)
        return list(found[:-n]), list(found[-n:])
    places = [hash_fraction(exchange.context[0]) for exchange in found]
    limit = max(data.dev_fraction, min(places))
    train = [exchange for exchange, place in zip(found, places, strict=True) if place > limit]
    dev = [exchange for exchange, place in zip(found, places, strict=True) if place <= limit]
    if not train:
        raise DataError(
            "all contexts begin alike, so that none can be held out apart from the others: give a dev file with --dev, "
            "or hold out the last ones with --data.split end"
        )
    return train, dev


def summary_line(name: str, part: Sequence[Exchange]) -> str:
    """A line about a part of the data, for the report."""
    good, bad = (sum(map(len, side)) for side in zip(*((e.responses, e.wrong) for e in part), strict=True))
    turns = sum(len(exchange.context) for exchange in part) / len(part)
    wrong = f" and {bad:,} wrong ones" if bad else ""
    return f"{name}: {len(part):,} contexts of {turns:.1f} turns, {good:,} responses{wrong}"


def context_response_pairs(part: Sequence[Exchange]) -> Iterator[tuple[Exchange, str]]:
    """Every context with each of its right responses."""
    return ((exchange, response) for exchange in part for response in exchange.responses)
