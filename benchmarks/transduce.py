"""Pronunciations of CMUdict compared with Phonetisaurus: the same training words, the same test words.

    CATENA_DATA=… PYTHONPATH=src python benchmarks/transduce.py --peer FOLDER [--peer-model model.fst] [--share 1.0]

``FOLDER`` is the installed package (``pip install phonetisaurus==0.3.0`` in a separate environment, then
``…/site-packages/phonetisaurus``), whose programs are run: ``phonetisaurus-train`` (2-2 alignments, deletions, n-grams
up to 8) and ``phonetisaurus-g2pfst``. ``--peer-model`` uses an existing model; ``--share`` trains both on a fraction of
the words. Without ``--peer``, the table has only Catena's models.

Protocol: stress removed; 10 % of the words, by a hash of the word, are the test set; a prediction is correct if it is
any of the listed pronunciations; phoneme error is relative to the nearest. Times are process seconds on one thread.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from catena import config as configs
from catena.metrics.edits import SYMBOL_ERROR, WORD_ERROR
from catena.metrics.intervals import wilson_interval
from catena.metrics.significance import paired_bootstrap
from catena.randomness import hash_fraction
from catena.recipes.catalog import recipe_path
from catena.tasks.sources import Sources
from catena.tasks.transduce.config import TransduceConfig
from catena.tasks.transduce.data import Symbols, SymbolTokenizer, gather_pairs
from catena.tasks.transduce.task import CountedTransduceTask
from catena.transduction.base import StringTransducer
from catena.transduction.baseline import Baseline
from catena.transduction.config import BaselineConfig, JointConfig
from catena.transduction.joint import JointModel

Answers = list[tuple[str, ...]]


@dataclass
class StringPair:
    """A source and all of its targets."""

    source: Symbols
    targets: list[Symbols]


@dataclass
class TransduceDataset:
    """The sources of train and test with their targets."""

    train: list[StringPair]
    test: list[StringPair]
    lines: list[str]

    def pairs(self) -> list[tuple[Symbols, Symbols]]:
        return [(word.source, target) for word in self.train for target in word.targets]


def prepare(config: TransduceConfig) -> TransduceDataset:
    config = CountedTransduceTask.complete(config, print)
    parts, lines = gather_pairs(config, Sources(CountedTransduceTask, config))
    tokenizer = SymbolTokenizer.from_config(config.data)
    grouped: list[dict[Symbols, StringPair]] = [{}, {}]
    for part, words in zip((parts.train, parts.test), grouped, strict=True):
        for source, target in map(tokenizer.pair, part):
            words.setdefault(source, StringPair(source, [])).targets.append(target)
    return TransduceDataset(*([*words.values()] for words in grouped), lines)


def line(name: str, words: Sequence[StringPair], answers: Answers, train: float | None, each: float) -> None:
    references = [word.targets for word in words]
    wrong = WORD_ERROR(references, answers)
    interval = wilson_interval(round(wrong * len(words)), len(words))
    between = f"{100 * interval.low:.2f} to {100 * interval.high:.2f}"
    phonemes = 100 * SYMBOL_ERROR(references, answers)
    seconds = "" if train is None else f"{train:.1f}"
    print(
        f"{name:<28} {100 * wrong:>8.2f} {between:>16} {phonemes:>8.2f} {seconds:>9} {1000 * each:>8.2f}",
        flush=True,
    )


def ours(model: StringTransducer, words: Sequence[StringPair]) -> tuple[Answers, float]:
    model.search_all([words[0].source])  # compile once, not counted
    begun = time.process_time()
    found = model.search_all([word.source for word in words])
    seconds = time.process_time() - begun
    return [listed[0].tokens if listed else () for listed in found], seconds / len(words)


def trained(data: TransduceDataset, settings: JointConfig | BaselineConfig) -> tuple[StringTransducer, float]:
    kind = JointModel if isinstance(settings, JointConfig) else Baseline
    kind.train(data.pairs()[:300], settings)  # type: ignore[arg-type]  # compile once, not counted
    begun = time.process_time()
    model = kind.train(data.pairs(), settings)  # type: ignore[arg-type]
    return model, time.process_time() - begun


# --- Phonetisaurus --------------------------------------------------------------------------------------------------


def child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def phonetisaurus(
    data: TransduceDataset, package: Path, folder: Path, ready: Path | None
) -> tuple[Answers, float | None, float]:
    """Return its predictions, the training seconds (None for an existing model), and the seconds per word."""
    machine = platform.machine()
    programs = {
        "PATH": f"{package / 'bin' / machine}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(package / "lib" / machine),
    }
    model, seconds = ready, None
    if model is None:
        lexicon = "".join(f"{''.join(x)}\t{' '.join(y)}\n" for x, y in data.pairs())
        (folder / "train.tsv").write_text(lexicon, encoding="utf-8")
        begun = child_seconds()
        command = ["phonetisaurus-train", "--lexicon", "train.tsv", "--seq2_del"]
        subprocess.run(command, cwd=folder, env=programs, check=True, capture_output=True)
        model, seconds = folder / "train" / "model.fst", child_seconds() - begun
    (folder / "words").write_text("".join("".join(word.source) + "\n" for word in data.test), encoding="utf-8")
    begun = child_seconds()
    # The program that phonetisaurus-apply runs, with the same options.
    command = ["phonetisaurus-g2pfst", f"--model={model.resolve()}", "--wordlist=words", "--n-best=1", "--beam=10000"]
    out = subprocess.run(command, cwd=folder, env=programs, check=True, capture_output=True, text=True).stdout
    each = (child_seconds() - begun) / len(data.test)
    rows = [row.split("\t") for row in out.splitlines()]
    said = {row[0]: row[2].split() for row in rows if len(row) == 3}
    return [tuple(said.get("".join(word.source), ())) for word in data.test], seconds, each


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--peer-model", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    config = configs.load(TransduceConfig, recipe_path("cmudict-joint"))
    path = Path(os.environ["CATENA_DATA"]) / "cmudict" / "cmudict.dict"
    settings = config.data.model_copy(update={"train": (str(path),)})
    data = prepare(config.model_copy(update={"data": settings}))
    data.train = [word for word in data.train if hash_fraction((*word.source, "\n")) < flags.share]
    for row in data.lines:
        print(row)
    print(f"\n{'':<28} {'word':>8} {'95 % interval':>16} {'phoneme':>8} {'training':>9} {'per word':>8}")
    print(f"{'':<28} {'error %':>8} {'':>16} {'error %':>8} {'s':>9} {'ms':>8}")
    model, seconds = trained(data, BaselineConfig())
    line("baseline, frequent", data.test, *_timed(model, data, seconds))
    assert isinstance(config.model, JointConfig)
    model, seconds = trained(data, config.model)
    answers, each = ours(model, data.test)
    line("catena, joint", data.test, answers, seconds, each)
    if flags.peer:
        with tempfile.TemporaryDirectory() as folder:
            theirs, took, per_word = phonetisaurus(data, flags.peer, Path(folder), flags.peer_model)
        line("Phonetisaurus 0.3.0", data.test, theirs, took, per_word)
        references = [word.targets for word in data.test]
        both = [WORD_ERROR.statistics(references, said) for said in (answers, theirs)]
        tested = paired_bootstrap(*both, WORD_ERROR.score, np.random.default_rng(0), metric="word_error")
        low, high = tested.interval.low, tested.interval.high
        print(
            f"\ncatena minus Phonetisaurus, word error: {100 * tested.difference:+.2f} points (95 % interval "
            f"{100 * low:+.2f} to {100 * high:+.2f}), p = {tested.p_value:.2f}"
        )


def _timed(model: StringTransducer, data: TransduceDataset, seconds: float) -> tuple[Answers, float, float]:
    answers, each = ours(model, data.test)
    return answers, seconds, each


if __name__ == "__main__":
    main()
