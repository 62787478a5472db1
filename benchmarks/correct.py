"""Correction of misspelled words compared with Norvig's corrector, which sees no context.

    CATENA_DATA=… PYTHONPATH=src python benchmarks/correct.py [--n 2000] [--order 3]

Protocol: pairs of ``spelling_errors`` that differ by one edit and whose wrong form is not a word of WikiText-2, each
placed in a random sentence of WikiText-2's test part that holds the right form. A pair is mended if the right form
comes out. Both correctors know the words of the train part: Catena trains an n-gram model of its sentences with
``catena train lm``, Norvig's counts them. They take turns, sentence by sentence, in one process and thread. Times are
milliseconds for the whole sentence (Catena) and for the wrong word (Norvig).

Rows: *default*: all options as they are; *estimated*: the weights of errors from the pairs of one half of the right
words, for the other half. Right words changed: in the test sentences as they are. Real-word errors: pairs whose wrong
form is a word. New words: right words of the test part that occur at most 20 times in train, if a tenth of such words
is removed from train.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import string
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from catena.cli.main import main as command
from catena.metrics.intervals import wilson_interval
from catena.niche.correction.error_model import single_edit
from catena.niche.correction.text import TextCorrector
from catena.tasks.lm.task import LmTask
from catena.tasks.load import load_model

Pair = tuple[str, str]


class Item(NamedTuple):
    """A sentence with an error at one position."""

    words: list[str]
    position: int
    right: str
    wrong: str

    @property
    def text(self) -> str:
        return " ".join([*self.words[: self.position], self.wrong, *self.words[self.position + 1 :]])


def read_pairs(folder: Path) -> list[Pair]:
    """The distinct (right, wrong) pairs that differ by one edit."""
    pairs: dict[Pair, None] = {}
    for line in (folder / "spelling_errors" / "spell-errors.txt").read_text("utf-8", "replace").splitlines():
        right, _, listed = line.partition(":")
        for wrong in listed.split(","):
            pairs[right.strip(), re.sub(r"\*\d+$", "", wrong.strip())] = None
    return [(right, wrong) for right, wrong in pairs if single_edit(wrong, right)]


def read_sentences(path: Path) -> list[list[str]]:
    """Sentences, which end at . ! or ?; headings are left out."""
    sentences = []
    for line in path.read_text("utf-8").splitlines():
        words = line.split()
        if words and words[0] != "=":
            sentences += [found.split() for found in re.findall(r"(?:\S+ )+?[.!?](?= |$)|(?:\S+ ?)+$", " ".join(words))]
    return sentences


def locate(sentences: Sequence[list[str]]) -> dict[str, list[tuple[int, int]]]:
    positions = defaultdict(list)
    for i, words in enumerate(sentences):
        for k, word in enumerate(words):
            positions[word].append((i, k))
    return dict(positions)


def place(pairs: Iterable[Pair], sentences: Sequence[list[str]], seed: int) -> list[Item]:
    """Each pair in a random sentence that holds the right form, in random order."""
    rng, positions = random.Random(seed), locate(sentences)
    items = []
    for right, wrong in pairs:
        if right in positions:
            i, k = rng.choice(positions[right])
            items.append(Item(sentences[i], k, right, wrong))
    rng.shuffle(items)
    return items


class Norvig:
    """The most frequent known word within one edit, or else within two (Norvig 2007)."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts

    def correct(self, word: str) -> str:
        near = self.neighbors(word)
        for found in ({word}, near, (far for one in near for far in self.neighbors(one))):
            known = [other for other in found if other in self.counts]
            if known:
                return max(known, key=self.counts.__getitem__)
        return word

    def neighbors(self, word: str) -> set[str]:
        found = set()
        for i in range(len(word) + 1):
            head, tail = word[:i], word[i:]
            found |= {head + letter + tail for letter in string.ascii_lowercase}
            if tail:
                found |= {head + tail[1:], *(head + letter + tail[1:] for letter in string.ascii_lowercase)}
            if len(tail) > 1:
                found.add(head + tail[1] + tail[0] + tail[2:])
        return found


def train(sentences: Sequence[list[str]], dev: Sequence[list[str]], folder: Path, order: int) -> LmTask:
    """The n-gram model that ``catena train lm`` makes of sentences."""
    folder.mkdir(parents=True)
    for name, part in (("train.txt", sentences), ("dev.txt", dev)):
        (folder / name).write_text("".join(" ".join(words) + "\n" for words in part), "utf-8")
    options = ["--model", "ngram", "--model.order", str(order), "--tokenizer", "whitespace", "--min-count", "1", "-q"]
    files = [str(folder / "train.txt"), "--dev", str(folder / "dev.txt"), "-o", str(folder / "run")]
    assert command(["train", "lm", *files, *options]) == 0
    model = load_model(folder / "run", device="cpu")
    assert isinstance(model, LmTask)
    return model


def corrector_of(model: LmTask, misspellings: Iterable[Pair] = ()) -> TextCorrector:
    encoding = model.encoding
    return TextCorrector(model.stepper, encoding.tokenizer, encoding.vocabulary, misspellings=misspellings)


def corrected_words(corrector: TextCorrector, text: str) -> dict[int, str]:
    """The changed words, by position."""
    found = corrector.correct(text)
    return {text[: change.start].count(" "): change.corrected for change in found.changes}


def percent(n: int, total: int) -> str:
    interval = wilson_interval(n, total)
    return f"{100 * n / total:.2f} % ({100 * interval.low:.2f} to {100 * interval.high:.2f}; {n:,} of {total:,})"


def compare(name: str, items: Sequence[Item], corrector: Callable[[Item], TextCorrector], norvig: Norvig) -> None:
    """Print how many pairs each corrector mends and how long it takes, both in turn."""
    mended, others, spent, wall, theirs, their_time = 0, 0, 0.0, 0.0, 0, 0.0
    for item in items:
        begun, clock = time.process_time(), time.perf_counter()
        changes = corrected_words(corrector(item), item.text)
        spent += time.process_time() - begun
        wall += time.perf_counter() - clock
        mended += changes.pop(item.position, item.wrong) == item.right
        others += len(changes)
        begun = time.process_time()
        theirs += norvig.correct(item.wrong) == item.right
        their_time += time.process_time() - begun
    n = len(items)
    print(f"{name}: Catena mends {percent(mended, n)}, {1e3 * spent / n:.2f} ms CPU, {1e3 * wall / n:.2f} ms wall")
    print(f"{'':{len(name)}}  Norvig mends {percent(theirs, n)}, {1e3 * their_time / n:.2f} ms CPU")
    print(f"{'':{len(name)}}  other words of these sentences changed by Catena: {others:,}", flush=True)


def print_changed(name: str, corrector: TextCorrector, sentences: Iterable[Sequence[str]], words: set[str]) -> None:
    """Print how many of the given words are changed where they are right."""
    n = changed = 0
    for sentence in sentences:
        changes = corrected_words(corrector, " ".join(sentence))
        n += sum(word in words for word in sentence)
        changed += sum(sentence[position] in words for position in changes)
    print(f"{name}: {percent(changed, n)}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--n", type=int, default=100_000, help="the largest number of pairs and of right sentences")
    arguments.add_argument("--order", type=int, default=3)
    given = arguments.parse_args()
    data = Path(os.environ["CATENA_DATA"])
    parts = {
        name: read_sentences(data / "wikitext2_word" / f"wiki.{name}.tokens") for name in ("train", "valid", "test")
    }
    known = {word for sentences in parts.values() for words in sentences for word in words}
    counts = Counter(word for words in parts["train"] for word in words)
    pairs = read_pairs(data)
    with tempfile.TemporaryDirectory() as folder:
        run_all(parts, known, counts, pairs, given.n, given.order, Path(folder))


def run_all(
    parts: dict[str, list[list[str]]],
    known: set[str],
    counts: Counter[str],
    pairs: Sequence[Pair],
    n: int,
    order: int,
    folder: Path,
) -> None:
    test, norvig = parts["test"], Norvig(counts)
    items = place([pair for pair in pairs if pair[1] not in known], test, seed=1)[:n]
    print(f"{len(items):,} pairs, {len(test):,} test sentences, {sum(map(len, test)) / len(test):.1f} tokens each")
    begun = time.process_time()
    model = train(parts["train"], parts["valid"], folder / "all", order)
    print(f"{order}-gram model: {time.process_time() - begun:.1f} s CPU", end="; ")
    begun = time.process_time()
    default = corrector_of(model)
    print(f"index and error model: {time.process_time() - begun:.1f} s CPU")
    default.correct("compile teh loops")
    compare("default", items, lambda item: default, norvig)
    halves = [corrector_of(model, [(wrong, right) for right, wrong in pairs if half(right) != k]) for k in (0, 1)]
    compare("estimated", items, lambda item: halves[half(item.right)], norvig)
    shuffled = random.Random(2).sample(test, min(n, len(test)))
    words = {word for word in known if any(map(str.isalpha, word)) and word != "<unk>"}
    print_changed("right words changed", default, shuffled, words)
    real = place([pair for pair in pairs if pair[1] in counts], test, seed=3)[:n]
    compare("real-word errors", real, lambda item: default, norvig)
    rare = sorted(word for word, count in counts.items() if count <= 20 and word.isalpha())
    removed = set(random.Random(4).sample(rare, len(rare) // 10))
    smaller = [["<unk>" if word in removed else word for word in sentence] for sentence in parts["train"]]
    corrector = corrector_of(train(smaller, parts["valid"], folder / "smaller", order))
    holding = [sentence for sentence in test if removed & set(sentence)][:n]
    print_changed("new words changed, lower case", corrector, holding, {w for w in removed if w.islower()})
    print_changed("new words changed, capitalized", corrector, holding, {w for w in removed if not w.islower()})


def half(word: str) -> int:
    return zlib.crc32(word.lower().encode()) % 2


if __name__ == "__main__":
    main()
