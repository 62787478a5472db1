"""Word vectors: Catena compared with gensim and fastText, on the same text, with the same settings and threads.

    CATENA_DATA=… python benchmarks/word2vec.py speed      # words per second, alternating, medians and ratios
    CATENA_DATA=… python benchmarks/word2vec.py quality    # analogies and WordSim-353 of three seeds each
    CATENA_DATA=… python benchmarks/word2vec.py growth     # time and memory over four sizes of text
    … --text FILE                                          # another text, plain, a sentence on each line

Run it in the environment of the other libraries (requirements-peers.txt, with gensim and fasttext). Each side reads the
text from a file; reading and counting are not timed, and runs that fastText aborts are dropped. Rates count all words
of the text, also rare ones, in wall time and in process time: on a busy machine, trust the second. docs/vectors.md has
the results.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SETTINGS = {"d": 100, "window": 5, "noise": 5, "min_count": 5, "subsample": 1e-3}
RATES = {"skipgram": 0.025, "cbow": 0.05}
Way = Callable[[Path, int, int, int], tuple[float, float, object]]
"""(text, epochs, threads, seed) to wall seconds, process seconds, and the vectors."""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


# --- Catena -----------------------------------------------------------------------------------------------------------


def catena(kind: str, shared: bool = False) -> Way:
    def run(text: Path, epochs: int, threads: int, seed: int) -> tuple[float, float, object]:
        from catena.vectors import config as s
        from catena.vectors.corpus import corpus_of_files
        from catena.vectors.model import new_model
        from catena.vectors.table import VectorTable
        from catena.vectors.train import Trainer

        model_class = s.SkipGramConfig if kind == "skipgram" else s.CBOWConfig
        settings = s.VectorConfig(
            seed=seed,
            threads=threads,
            words=s.WordConfig(min_count=SETTINGS["min_count"]),
            model=model_class(d=SETTINGS["d"], window=SETTINGS["window"]),
            loss=s.NegativeLossConfig(noise=SETTINGS["noise"], shared=shared),
            training=s.VectorTrainingConfig(epochs=epochs, learning_rate=RATES[kind], subsample=SETTINGS["subsample"]),
        )
        corpus = corpus_of_files([text], settings.words, settings.phrases)
        model = new_model(settings, corpus.words, corpus.lines)
        trainer = Trainer(model, corpus)
        clock, processor = timed(lambda: [None for _ in trainer.run()])
        return clock, processor, VectorTable.of_model(model)

    return run


# --- other libraries --------------------------------------------------------------------------------------------------


def gensim(kind: str, as_said: bool = False) -> Way:
    """Return a training function of gensim, with a correct learning rate schedule if ``as_said``.

    When it lowers the learning rate, each of gensim's threads counts only its own lines, blank ones included: with two
    threads an epoch lowers the rate by half of the correct amount, or by more if lines are blank. ``as_said`` gives it
    the number of lines of one thread, so that the rate decreases as documented by gensim and as in Catena.
    """

    def run(text: Path, epochs: int, threads: int, seed: int) -> tuple[float, float, object]:
        from gensim.models import Word2Vec

        model = Word2Vec(
            sg=int(kind == "skipgram"), vector_size=SETTINGS["d"], window=SETTINGS["window"],
            negative=SETTINGS["noise"], min_count=SETTINGS["min_count"], sample=SETTINGS["subsample"],
            alpha=RATES[kind], workers=threads, seed=seed + 1, epochs=epochs,
        )  # fmt: skip
        model.build_vocab(corpus_file=str(text))
        lines = math.ceil(count_lines(text) / threads) if as_said else model.corpus_count
        clock, processor = timed(
            lambda: model.train(
                corpus_file=str(text), total_examples=lines, total_words=model.corpus_total_words, epochs=epochs
            )
        )  # fmt: skip
        from catena.vectors.table import VectorTable

        return clock, processor, VectorTable.of(model.wv.index_to_key, model.wv.vectors)

    return run


def fasttext(kind: str) -> Way:
    def run(text: Path, epochs: int, threads: int, seed: int) -> tuple[float, float, object]:
        import fasttext

        def train() -> None:
            held.append(
                fasttext.train_unsupervised(
                    str(text),
                    model=kind,
                    dim=SETTINGS["d"],
                    ws=SETTINGS["window"],
                    neg=SETTINGS["noise"],
                    minCount=SETTINGS["min_count"],
                    t=SETTINGS["subsample"],
                    lr=RATES[kind],
                    epoch=epochs,
                    thread=threads,
                    maxn=0,
                    minn=0,
                    verbose=0,
                )
            )

        held: list = []
        for _ in range(5):  # fastText 0.9.3 sometimes aborts with "Encountered NaN"
            try:
                clock, processor = timed(train)
                break
            except RuntimeError:
                continue
        else:
            return math.nan, math.nan, None
        from catena.vectors.table import VectorTable

        model = held[0]
        return clock, processor, VectorTable.of(model.words, model.get_input_matrix()[: len(model.words)])

    return run


WAYS: dict[str, dict[str, Way]] = {
    "skip-gram": {
        "gensim": gensim("skipgram"),
        "gensim, rate as said": gensim("skipgram", as_said=True),
        "catena": catena("skipgram"),
        "catena, shared noise": catena("skipgram", shared=True),
        "fasttext": fasttext("skipgram"),
    },
    "cbow": {
        "gensim": gensim("cbow"),
        "gensim, rate as said": gensim("cbow", as_said=True),
        "catena": catena("cbow"),
        "fasttext": fasttext("cbow"),
    },
}


# --- measurements -----------------------------------------------------------------------------------------------------


def speed(text: Path, threads: int, epochs: int, repeats: int, groups: tuple[str, ...], peers: tuple[str, ...]) -> None:
    words = count_words(text) * epochs
    print(f"{text.name}: {words // epochs:,} words, {epochs} epochs, {threads} threads, medians of {repeats} rounds\n")
    for group in groups:
        chosen = {name: way for name, way in WAYS[group].items() if name.startswith("catena") or name in peers}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
        for name, way in chosen.items():
            if name.startswith("catena"):
                way(head_of(text, 2000), 1, threads, 0)  # compiles
        for turn in range(repeats):
            for name, way in chosen.items():
                times[name].append(way(text, epochs, threads, turn)[:2])
        print(f"{group:<24} {'words/s':>11} {'x gensim':>9} {'range':>13} {'by process':>13} {'x gensim':>9}")
        for name in chosen:
            turns = [(a, b) for a, b in zip(times[name], times["gensim"], strict=True) if not math.isnan(a[0])]
            if not turns:
                print(f"  {name:<22} {'aborted':>11}")
                continue
            ratios = [[b[i] / a[i] for a, b in turns] for i in (0, 1)]
            clock, processor = (statistics.median(a[i] for a, _ in turns) for i in (0, 1))
            print(
                f"  {name:<22} {words / clock:>11,.0f} {statistics.median(ratios[0]):>9.2f} "
                f"{min(ratios[0]):>6.2f}-{max(ratios[0]):<6.2f} {words / processor:>13,.0f} "
                f"{statistics.median(ratios[1]):>9.2f}"
            )
        print()


def quality(text: Path, threads: int, epochs: int, seeds: int, groups: tuple[str, ...], only: str) -> None:
    from catena.vectors.evaluate import evaluate_analogies, evaluate_similarities

    data = Path(os.environ["CATENA_DATA"]) / "word_analogy"
    print(f"{text.name}, {epochs} epochs, {threads} threads, {seeds} seeds each\n")
    for group in groups:
        print(f"{group:<24} {'analogies %':>24} {'WordSim-353':>24}")
        for name, way in WAYS[group].items():
            if name == "fasttext" or not name.startswith(only):
                continue
            right, rho = [], []
            for seed in range(seeds):
                vectors = way(text, epochs, threads, seed)[2]
                right.append(100 * evaluate_analogies(vectors, data / "questions-words.txt").total.accuracy)
                rho.append(evaluate_similarities(vectors, data / "EN-WS-353-ALL.txt").spearman)
                print(f"    {name}, seed {seed}: {right[-1]:.2f} % {rho[-1]:.4f}", file=sys.stderr, flush=True)
            shown = ["  ".join(f"{x:.{n}f}" for x in values) for values, n in ((right, 2), (rho, 4))]
            print(f"  {name:<22} {shown[0]:>24} {shown[1]:>24}", flush=True)
        print()


def growth(text: Path, threads: int) -> None:
    """Measure each size in its own process: process seconds, and peak memory above that of the smallest text."""
    print(f"{'words':>12} {'distinct':>10} {'seconds':>9} {'ns/word':>9} {'peak MB':>9}")
    lines = count_lines(text)
    for part in (8, 4, 2, 1):
        piece = head_of(text, lines // part)
        out = subprocess.run(
            [sys.executable, __file__, "one", "--text", str(piece), "--threads", str(threads)],
            check=True, capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        words, distinct, seconds, peak = int(out[0]), int(out[1]), float(out[2]), float(out[3])
        print(f"{words:>12,} {distinct:>10,} {seconds:>9.2f} {1e9 * seconds / words:>9.0f} {peak:>9.0f}", flush=True)


def one(text: Path, threads: int) -> None:
    way = catena("skipgram")
    way(head_of(text, 500), 1, threads, 0)
    began = time.process_time()
    vectors = way(text, 1, threads, 0)[2]
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(count_words(text), len(vectors), seconds, peak)  # type: ignore[arg-type]


def count_lines(text: Path) -> int:
    with text.open("rb") as file:
        return sum(1 for _ in file)


def count_words(text: Path) -> int:
    with text.open("rb") as file:
        return sum(len(line.split()) for line in file)


PIECES = tempfile.TemporaryDirectory()


def head_of(text: Path, lines: int) -> Path:
    piece = Path(PIECES.name) / f"{text.stem}-{lines}.txt"
    if not piece.exists():
        with text.open("rb") as source, piece.open("wb") as target:
            for _, line in zip(range(lines), source, strict=False):
                target.write(line)
    return piece


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["speed", "quality", "growth", "one"])
    parser.add_argument("--text", type=Path, help="a plain text file; default: WikiText-2 in the folder of CATENA_DATA")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, help="default: 1 for speed and 20 for quality")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peers", default="gensim,fasttext", help="for speed; must include gensim")
    parser.add_argument("--groups", default="skip-gram,cbow", help="for speed and quality")
    parser.add_argument("--only", default="", help="for quality: only gensim or only catena")
    flags = parser.parse_args()
    text = flags.text or Path(os.environ["CATENA_DATA"]) / "wikitext2_word" / "wiki.train.tokens"
    if flags.what == "speed":
        groups, peers = tuple(flags.groups.split(",")), tuple(flags.peers.split(","))
        speed(text, flags.threads, flags.epochs or 1, flags.repeats, groups, peers)
    elif flags.what == "quality":
        quality(text, flags.threads, flags.epochs or 20, flags.seeds, tuple(flags.groups.split(",")), flags.only)
    elif flags.what == "growth":
        growth(text, flags.threads)
    else:
        one(text, flags.threads)


if __name__ == "__main__":
    main()
