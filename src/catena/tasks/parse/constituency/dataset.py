"""From data files to trees: read, clean, drop and count, split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from catena.data.detect import UNKNOWN, DetectedFormat, detect_format
from catena.data.examples import Tree
from catena.data.readers.brackets import read
from catena.data.reading import ReadCounter
from catena.errors import DataError, FormatError
from catena.randomness import Randomness
from catena.tasks.parse.config import ParseConfig, ParseDataConfig
from catena.tasks.parse.constituency.config import ConstituencyParserConfig, GrammarParserConfig
from catena.tasks.parse.constituency.trees import clean_tree
from catena.tasks.unseen import unseen_line

_CURES = {
    "conllu": " For dependency trees, use --model biaffine.",
    "text": " For the rules of a grammar, use --model grammar.",
}
"""Hints for files of other formats."""


@dataclass(frozen=True, eq=False)
class Treebank:
    """The trees of a run, without traces, and lines that describe them."""

    train: list[Tree]
    dev: list[Tree]
    test: list[Tree]
    lines: list[str] = field(default_factory=list)
    tally: ReadCounter = field(default_factory=ReadCounter)


def bracket_format(data: ParseDataConfig, path: str | Path, to_score: bool = False) -> DetectedFormat:
    """The format of a file. Raise FormatError if it is not brackets."""
    found = (
        DetectedFormat(data.format, "it was chosen") if data.format != "auto" else detect_format(path, data.encoding)
    )
    if found.format == "brackets":
        return found
    what = "is evaluated on" if to_score else "is trained on"
    if found.format == UNKNOWN:
        raise FormatError(f"{found.why.removesuffix('.')}. Give a file of trees in brackets.")
    cure = " To parse a text, use 'catena predict'." if to_score else _CURES.get(found.format, "")
    raise FormatError(
        f"{path} is read as {found.format!r} ({found.why}), but this parser {what} trees in brackets. Give a file of "
        f"trees such as (S (NP (DT the) (NN cat)) (VP (VBZ sleeps))).{cure}"
    )


def read_trees(
    data: ParseDataConfig, functions: bool, path: str | Path, tally: ReadCounter | None = None, to_score: bool = False
) -> Iterator[Tree]:
    """The cleaned trees of a file; trees without words are counted as dropped."""
    bracket_format(data, path, to_score)
    for tree in read(path, encoding=data.encoding):
        if tally is not None:
            tally.saw()
        clean = clean_tree(tree, functions)
        if clean is not None and clean.word is None:
            yield clean
        elif tally is not None:
            tally.drop("without a word" if clean is None else "with only a word", tree.place, " ".join(tree.words()))


def prepare(config: ParseConfig, randomness: Randomness) -> Treebank:
    """Read the files of a config. The training files of a handwritten grammar are rules, which are not read here."""
    assert isinstance(config.model, ConstituencyParserConfig)
    data, tally = config.data, ReadCounter()
    written = isinstance(config.model, GrammarParserConfig)
    if not data.train:
        what = "a file of rules" if written else "a file of trees in brackets"
        raise DataError(f"there is nothing to train on: name {what}, as in 'catena train parse FILE'")
    parts: dict[str, list[Tree]] = {"train": []}
    lines = []
    for part, path in data.files().items():
        name = "train" if part.startswith("train") else part
        if name == "train" and written:
            lines.append(f"{part}: {path.name} holds rules")
            continue
        found = bracket_format(data, path)
        lines.append(f"{part}: {path.name} is {found.format}: {found.why}")
        parts.setdefault(name, []).extend(read_trees(data, config.model.functions, path, tally))
    if written:
        bank = Treebank([], parts.get("dev", []), parts.get("test", []), lines, tally)
    else:
        train, dev, test = _split(config, parts, randomness)
        train = list(tally.keep(train, lambda tree: _too_long(tree, data.max_length)))
        bank = Treebank(_not_empty(train, "train"), dev, test, lines, tally)
    if bank.train or bank.dev or bank.test:
        lines.append(tally.counts(len(bank.train) + len(bank.dev) + len(bank.test)).sentence())
        lines.extend(_described(bank))
        lines.extend(_unseen_labels(bank))
    return bank


def _unseen_labels(bank: Treebank) -> list[str]:
    """A line about phrase labels of dev and test that do not occur in train."""
    seen = {label for tree in bank.train for label in _phrase_labels(tree)}
    counts = Counter(label for tree in (*bank.dev, *bank.test) for label in _phrase_labels(tree) if label not in seen)
    line = unseen_line(counts, "dev and test", "phrases have a label") if bank.train else None
    return [line] if line else []


def _phrase_labels(tree: Tree) -> Iterator[str]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node.word is None:
            yield node.label
            waiting.extend(node.children)


def _too_long(tree: Tree, most: int) -> str | None:
    return f"longer than max_length={most}" if len(tree.words()) > most else None


def _split(
    config: ParseConfig, parts: Mapping[str, list[Tree]], randomness: Randomness
) -> tuple[list[Tree], list[Tree], list[Tree]]:
    """Trees of train, dev and test; missing sets are split from train with the seed."""
    data, train, test = config.data, parts["train"], parts.get("test", [])
    if data.folds is not None:
        if len(train) < data.folds:
            raise DataError(
                f"data.folds must be at most the number of trees, {len(train)}, got {data.folds}. Lower data.folds."
            )
        order = randomness.numpy("folds").permutation(len(train))
        train, test = _apart(train, np.array_split(order, data.folds)[data.fold or 0])
    if "dev" in parts:
        return _not_empty(train, "train"), _not_empty(parts["dev"], "dev"), test
    if len(train) < 2:
        raise DataError(
            f"{len(train)} tree{'s' if len(train) != 1 else ''} cannot be split into train and dev. Give a dev file "
            f"with --dev."
        )
    count = min(max(1, round(data.dev_fraction * len(train))), len(train) - 1)
    train, dev = _apart(train, randomness.numpy("dev", data.fold or 0).permutation(len(train))[:count])
    return train, dev, test


def _apart(trees: list[Tree], inside: np.ndarray) -> tuple[list[Tree], list[Tree]]:
    chosen = set(inside.tolist())
    return [t for i, t in enumerate(trees) if i not in chosen], [t for i, t in enumerate(trees) if i in chosen]


def _not_empty(trees: list[Tree], part: str) -> list[Tree]:
    if not trees:
        raise DataError(f"No tree of {part} is left. See dropped.tsv for the dropped ones and the reasons.")
    return trees


def _described(bank: Treebank) -> Iterator[str]:
    for part, trees in (("train", bank.train), ("dev", bank.dev), ("test", bank.test)):
        if trees:
            lengths = [len(tree.words()) for tree in trees]
            yield f"{part}: {len(trees):,} trees, {sum(lengths):,} words, {max(lengths):,} at most"
