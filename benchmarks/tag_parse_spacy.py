"""Dependency prediction: Catena's default parser and spaCy's, on the same sentences, already split into words.

    CATENA_DATA=… python benchmarks/tag_parse.py spacy [--rounds 3] [--sentences 400]

Both are trained for a moment on a few sentences of EWT, enough for trees of the usual form, and parse the first
sentences of dev in batches. spaCy's parser is its default: a convolutional network over hashed features without word
vectors, and transitions that are chosen greedily. It is another network, which many
use for its speed.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tag_parse import line, verdict

from catena.data.examples import ConlluSentence
from catena.data.readers.conllu import read
from structure import installed

TRAIN, DEV, WANTED = 200, 400, 1.0


def read_trees(part: str, n: int) -> list[ConlluSentence]:
    """The first sentences of a part of EWT."""
    path = Path(os.environ["CATENA_DATA"]) / "ud_english_ewt" / f"en_ewt-ud-{part}.conllu"
    return list(islice(read(path), n))


def words_of(trees: Sequence[ConlluSentence]) -> list[list[str]]:
    """The words of each sentence."""
    return [[word.form for word in tree.words] for tree in trees]


def train_catena(trees: Sequence[ConlluSentence]) -> Callable[[list[list[str]]], Any]:
    """A function from sentences to trees."""
    from catena import Parser

    return Parser("biaffine", max_epochs=2).fit(trees).predict


def train_spacy(trees: Sequence[ConlluSentence]) -> Callable[[list[list[str]]], Any]:
    """A function from sentences to documents with trees."""
    import spacy
    from spacy.tokens import Doc
    from spacy.training import Example

    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("parser")
    examples = []
    for tree in trees:
        heads = [max(0, int(word.head) - 1) if word.head != "0" else i for i, word in enumerate(tree.words)]
        words = [word.form for word in tree.words]
        gold = Doc(nlp.vocab, words=words, heads=heads, deps=[word.deprel for word in tree.words])
        examples.append(Example(Doc(nlp.vocab, words=words), gold))
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(4):
        random.Random(0).shuffle(examples)
        for low in range(0, len(examples), 32):
            nlp.update(examples[low : low + 32], sgd=optimizer)
    return lambda sentences: list(nlp.pipe(Doc(nlp.vocab, words=words) for words in sentences))


def parse_runs() -> tuple[dict[str, Callable[[], Any]], int]:
    """Runs of each parser over the sentences of dev, and the number of their words."""
    train = read_trees("train-full", TRAIN)
    sentences = words_of(read_trees("dev", DEV))
    ours = train_catena(train)
    runs: dict[str, Callable[[], Any]] = {"catena": lambda: ours(sentences)}
    if installed("spacy"):
        theirs = train_spacy(train)
        runs["spaCy"] = lambda: theirs(sentences)
    return runs, sum(map(len, sentences))


def run(options: argparse.Namespace) -> None:
    """Print the words a second of each parser."""
    runs, n_words = parse_runs()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(1 + options.rounds):
        for name, parse in runs.items():
            begun = time.process_time()
            parse()
            times[name].append(time.process_time() - begun)
    for name, spent in times.items():
        line(name, {"words/s, best": f"{n_words / min(spent):.0f}",
                    "median": f"{n_words / statistics.median(spent[1:]):.0f}"})  # fmt: skip
    if "spaCy" in times:
        ratio = statistics.median(b / a for a, b in zip(times["catena"][1:], times["spaCy"][1:], strict=True))
        print(f"  {verdict(ratio, WANTED)}")
