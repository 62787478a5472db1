"""Goals, agendas and texts from files, split by a hash of the goal, and their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from catena.data.files import shorten
from catena.data.reading import ReadCounter
from catena.data.tokenize import Tokenizer, build_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.errors import DataError
from catena.randomness import hash_fraction
from catena.tasks.compose.config import ComposeConfig
from catena.tasks.compose.encoding import SPECIALS, ComposeEncoding
from catena.tasks.compose.naming import ItemWordModel, split_words
from catena.tasks.compose.reading import BETWEEN, Composition, read

PARTS = ("train", "dev", "test")


@dataclass(eq=False)
class ComposeDataset:
    """The examples of each split and their encoding.

    Args:
        encoding: the tokenizer, vocabulary and item words.
        counts: frequency of each id in the targets of train.
    """

    encoding: ComposeEncoding
    counts: list[int]
    parts: dict[str, list[Composition]]
    tally: ReadCounter
    lines: list[str] = field(default_factory=list)

    def ids(self, part: str, longest: int | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The ids of the sources and targets of a split; targets are truncated to ``longest`` tokens."""
        examples = self.parts[part]
        targets = [self.encoding.target(example.text) for example in examples]
        if longest is not None:
            targets = [ids if len(ids) <= longest + 1 else [*ids[:longest], self.encoding.end] for ids in targets]
        sources = [np.array(self.encoding.source(example), np.int64) for example in examples]
        return sources, [np.array(ids, np.int64) for ids in targets]


def prepare(config: ComposeConfig, encoding: ComposeEncoding | None = None) -> ComposeDataset:
    """Read and split the files of a config, and learn the item words and the vocabulary from train.

    Args:
        config: the config of the run.
        encoding: the encoding of a trained model if training starts from it; a new one is learned otherwise.
    """
    data, tally = config.data, ReadCounter()
    if not data.train:
        raise DataError(
            "There is no training file. Name a file of goals, items and texts, as in 'catena train compose FILE'."
        )
    tokenizer = encoding.tokenizer if encoding else build_tokenizer(config.tokenizer)

    def usable(example: Composition) -> str | None:
        if not example.text:
            return "without a text"
        if not example.goal and not example.items:
            return "without a goal and items"
        too_long = data.too_long == "drop" and len(tokenizer.tokens(example.text)) > data.max_length
        return f"longer than max_length={data.max_length}" if too_long else None

    def kept(paths: Iterable[str], why_not: Callable[[Composition], str | None]) -> list[Composition]:
        found = []
        for path in paths:
            for example in read(Path(path), data):
                tally.saw()
                reason = why_not(example)
                if reason is None:
                    found.append(example)
                else:
                    tally.drop(reason, example.place, f"{example.goal}\t{example.text}")
        return found

    parts = _held_out(kept(data.train, usable), config)
    for name, path in (("dev", data.dev), ("test", data.test)):
        if path is not None:
            parts[name] = kept([path], lambda example: None if example.text else "without a text")
    counts = tally.counts(used=sum(map(len, parts.values())))
    summary = counts.sentence("")
    longer = ", or raise data.max_length (--data.max-length)" if "max_length" in summary else ""
    for name, cure in (("train", longer), ("dev", f", a dev file, or a larger data.dev_fraction{longer}")):
        if not parts[name]:
            raise DataError(f"There are no texts in {name}: {summary}. Add texts{cure}.")
    encoding = encoding or _learned(config, tokenizer, parts["train"])
    dataset = ComposeDataset(encoding, _counts(encoding, parts["train"]), parts, tally)
    dataset.lines = [counts.sentence(), *(_line(name, parts[name]) for name in PARTS if parts[name])]
    dataset.lines += encoding.vocabulary.notes()
    if _are_unparted(parts["train"]):
        dataset.lines.append(
            f"every text has one item, such as {shorten(parts['train'][0].items[0], 60)}: if it lists several items, "
            f"write them as a JSON list, or separate them by {BETWEEN}"
        )
    dataset.lines.append(
        f"vocabulary: {len(encoding.vocabulary):,} words; {len(encoding.naming.telling):,} words that name items"
    )
    return dataset


def _held_out(examples: Sequence[Composition], config: ComposeConfig) -> dict[str, list[Composition]]:
    data = config.data
    parts: dict[str, list[Composition]] = {name: [] for name in PARTS}
    test_end = data.test_fraction if data.test is None else 0.0
    dev_end = test_end + (data.dev_fraction if data.dev is None else 0.0)
    for example in examples:
        at = hash_fraction(example.goal.lower())
        parts["test" if at < test_end else "dev" if at < dev_end else "train"].append(example)
    if data.dev is None and not parts["dev"] and len(parts["train"]) > 1:  # few goals: the one nearest to dev_fraction
        nearest = min(parts["train"], key=lambda example: hash_fraction(example.goal.lower()))
        parts["train"].remove(nearest)
        parts["dev"].append(nearest)
    return parts


def _learned(config: ComposeConfig, tokenizer: Tokenizer, train: Sequence[Composition]) -> ComposeEncoding:
    """The item words, and the vocabulary of sources and targets."""
    listed = [[split_words(item, tokenizer) for item in example.items] for example in train]
    texts = [tokenizer.tokens(example.text) for example in train]
    naming = ItemWordModel.learn(zip(listed, texts, strict=True))
    telling = config.data.item_words == "telling"  # style: config value
    words: list[Sequence[str]] = [*texts, *(tokenizer.tokens(example.goal) for example in train)]
    words += [naming.names(item) if telling else item for items in listed for item in items]
    vocabulary = Vocabulary.count(words, config.vocabulary, SPECIALS)
    return ComposeEncoding(tokenizer, vocabulary, naming, telling)


def _counts(encoding: ComposeEncoding, train: Sequence[Composition]) -> list[int]:
    counted = Counter(id for example in train for id in encoding.target(example.text))
    return [counted[id] for id in range(len(encoding.vocabulary))]


def _line(name: str, examples: Sequence[Composition]) -> str:
    items = sum(len(example.items) for example in examples)
    return f"{name}: {len(examples):,} texts, {items / len(examples):.1f} items each"


def _are_unparted(examples: Sequence[Composition]) -> bool:
    """Whether the items look like unsplit lists: one item per text, mostly with commas."""
    if any(len(example.items) != 1 for example in examples):
        return False
    return sum("," in example.items[0] for example in examples) > len(examples) / 2
