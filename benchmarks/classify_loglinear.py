"""The log-linear text classifier compared with fastText and scikit-learn on short lines of nine text collections.

    CATENA_DATA=… PYTHONPATH=src .venv-peers/bin/python benchmarks/classify_loglinear.py [--lines 100000] [--rounds 3]

Each line is a window of six lower-case tokens of one of nine sets, which is its label; without ``CATENA_DATA``, of nine
made texts. Every program trains and predicts in its own process, in turn, with one thread; the CPU time of training
counts everything from the file to the model, and of prediction from the lines to the labels, without imports. A peer
that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from catena.data.config import WordTokenizerConfig
from catena.data.tokenize import build_tokenizer

CATENA = """
import sys, time
from pathlib import Path
from catena import TextClassifier
train, test = sys.argv[1:]
lines = [line.rstrip("\\n").split("\\t") for line in open(test, encoding="utf-8")]
start = time.process_time()
model = TextClassifier("loglinear", threads=1).fit(Path(train))
trained = time.process_time() - start
texts = [text for _, text in lines]
model.predict(texts[:5000])
start = time.process_time()
found = model.predict(texts)
"""
FASTTEXT = """
import sys, time, fasttext
train, test = sys.argv[1:]
lines = [line.rstrip("\\n").split("\\t") for line in open(test, encoding="utf-8")]
start = time.process_time()
with open(train + ".ft", "w", encoding="utf-8") as file:
    for line in open(train, encoding="utf-8"):
        label, text = line.rstrip("\\n").split("\\t")
        file.write(f"__label__{label} {text}\\n")
model = fasttext.train_supervised(train + ".ft", wordNgrams=2, lr=0.5, epoch=5, dim=50, thread=1, verbose=0)
trained = time.process_time() - start
texts = [text for _, text in lines]
start = time.process_time()
found = [pair[0][1][len("__label__") :] for pair in (model.f.predict(text + "\\n", 1, 0.0, "strict") for text in texts)]
"""
SKLEARN = """
import sys, time, warnings
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
warnings.simplefilter("ignore")
train, test = sys.argv[1:]
lines = [line.rstrip("\\n").split("\\t") for line in open(test, encoding="utf-8")]
start = time.process_time()
rows = [line.rstrip("\\n").split("\\t") for line in open(train, encoding="utf-8")]
words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\\S+")
model = LogisticRegression(C=10, max_iter=200).fit(words.fit_transform([t for _, t in rows]), [y for y, _ in rows])
trained = time.process_time() - start
texts = [text for _, text in lines]
start = time.process_time()
found = model.predict(words.transform(texts)).tolist()
"""
REPORT = """
spent = time.process_time() - start
right = sum(a == b for a, (b, _) in zip(found, lines)) / len(lines)
import json, re
memory = int(re.search("VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) // 1024
print(json.dumps({"train": trained, "speed": len(lines) / spent, "accuracy": right, "memory": memory}))
"""


def collections(data: Path) -> dict[str, str]:
    """The text of each set."""

    def read(name: str, encoding: str = "utf-8") -> str:
        return (data / name).read_text(encoding=encoding)

    def forms(name: str) -> str:
        rows = (line.split("\t") for line in read(name).splitlines())
        return " ".join(row[1] for row in rows if len(row) > 1 and row[0].isdigit())

    recipes = [json.loads(line) for line in read("recipes/recipes_5000.jsonl").splitlines()]
    dialogues = [json.loads(line) for line in read("dailydialog_plusplus/dev.jsonl").splitlines()]
    return {
        "wikitext": read("wikitext2_word/wiki.train.tokens"),
        "shakespeare": read("tinyshakespeare/input.txt"),
        "multi30k-en": read("multi30k_en_de/train.en"),
        "multi30k-de": read("multi30k_en_de/train.de"),
        "ewt": forms("ud_english_ewt/en_ewt-ud-train-full.conllu"),
        "cltt": forms("ud_czech_cltt/cs_cltt-ud-train.conllu"),
        "recipes": " ".join(step for recipe in recipes for step in recipe["directions"]),
        "mr": " ".join(
            line.split(" ", 1)[1] for line in read("text_classification/rt-polarity.all", "latin-1").splitlines()
        ),
        "dialogue": " ".join(t for one in dialogues for t in (*one["context"], *one["positive_responses"])),
    }


def write_lines(folder: Path, n: int, seed: int) -> tuple[Path, Path]:
    """Write ``n`` training lines and 15 % as many test lines, ``label<TAB>six tokens``."""
    tokenizer, rng = build_tokenizer(WordTokenizerConfig(lowercase=True)), np.random.default_rng(seed)
    rows = []
    data = os.environ.get("CATENA_DATA")
    for name, text in (collections(Path(data)) if data else made_collections(seed)).items():
        tokens = tokenizer.tokens(text)
        rows += [f"{name}\t{' '.join(tokens[s : s + 6])}\n" for s in rng.integers(0, len(tokens) - 6, n * 13 // 100)]
    order = rng.permutation(len(rows)).tolist()
    paths = folder / "train.tsv", folder / "test.tsv"
    for path, index in zip(paths, (order[:n], order[n : n + n * 15 // 100]), strict=True):
        path.write_text("".join(rows[i] for i in index), encoding="utf-8")
    return paths


def made_collections(seed: int, n_words: int = 200_000) -> dict[str, str]:
    """Nine made texts, for a machine without the evaluation data: Zipf's law over one vocabulary, shifted a little."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{i}" for i in range(40_000)])
    made = {}
    for k in range(9):
        ranks = np.minimum(rng.zipf(1.2, n_words), 20_000)
        own = rng.random(n_words) < 0.3
        made[f"made-{k}"] = " ".join(words[np.where(own, (ranks * 31 + k * 977) % len(words), ranks)])
    return made


def measure(python: str, code: str, paths: tuple[Path, Path]) -> dict[str, float]:
    """The figures of a program."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    words = [python, "-c", code + REPORT, *map(str, paths)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


PROGRAMS = {"catena": ("catena", CATENA), "fastText": ("fasttext", FASTTEXT), "scikit-learn": ("sklearn", SKLEARN)}
"""The module and the code of each program."""


def turns(lines: int, note: Callable[[str], None], seed: int = 0) -> dict[str, Callable[[], list[float]]]:
    """A turn of each installed program, which returns the CPU seconds of training and of prediction.

    Args:
        lines: number of training lines.
        note: receives a line about the accuracy and the peak memory of each program.
        seed: chooses the lines.
    """
    home = tempfile.TemporaryDirectory()
    paths = write_lines(Path(home.name), lines, seed)
    noted: set[str] = set()

    def turn(name: str, folder: tempfile.TemporaryDirectory[str]) -> list[float]:
        found = measure(sys.executable, PROGRAMS[name][1], paths)
        if name not in noted:
            noted.add(name)
            note(
                f"log-linear classifier, {lines:,} lines, {name}: accuracy {found['accuracy']:.4f}, prediction of "
                f"{found['speed']:,.0f} lines/s, peak memory {found['memory']:.0f} MB"
            )
        return [found["train"], lines * 15 // 100 / found["speed"]]

    return {
        name: partial(turn, name, home) for name, (module, _) in PROGRAMS.items() if importlib.util.find_spec(module)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    programs = turns(options.lines, print, options.seed)
    times = {name: [] for name in programs}
    for _ in range(options.rounds):
        for name, turn in programs.items():
            times[name].append(turn())
    for i, what in enumerate(("training", "prediction")):
        for name, found in times.items():
            own = [turn[i] for turn in found]
            ratio = statistics.median(a / b[i] for a, b in zip(own, times["catena"], strict=True))
            print(
                f"{what:11} {name:13} {min(own):7.3f} s least, {statistics.median(own):7.3f} s median, "
                f"{ratio:5.2f} x catena"
            )


if __name__ == "__main__":
    main()
