"""One table of all speed comparisons: Catena and its peers in turns, CPU time, on one thread.

    make bench                                                # the quick table, in the environment of the peers
    CATENA_DATA=… PYTHONPATH=src .venv-peers/bin/python benchmarks/run.py [--quick] [--only chain cold] [--list]

A row is one work that Catena and a peer do. They alternate, so that a busy machine slows both. The table has the least
and the median CPU time of each (user and system, never the wall clock) and the median of the ratios peer / Catena of
neighboring turns: above 1 Catena is faster. Rows without a peer that is installed show Catena only. Rows that need the
evaluation data use made data if ``CATENA_DATA`` is not set.

A new row is a function with the decorator :func:`rows`; see :func:`chain_one`.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_threads] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

Turn = Callable[[], Sequence[float]]
"""Does the work once and returns the CPU seconds of each row of its group."""
_TURN_SECONDS = 0.05
"""A short work is repeated for about this CPU time in each turn."""


@dataclass(frozen=True)
class Group:
    """Rows that are measured together.

    Args:
        wanted: the ratio or the time to reach, by the name of the row.
        build: from whether the table is quick to a turn of each contestant, Catena first.
        rounds: number of turns of each contestant, and in a quick table.
    """

    wanted: Mapping[str, str]
    build: Callable[[bool], dict[str, Turn]]
    rounds: tuple[int, int]


GROUPS: dict[str, Group] = {}
NOTES: list[str] = []
"""Lines below the table, such as the accuracy of each contestant."""


def rows(wanted: Mapping[str, str], rounds: tuple[int, int] = (9, 3)) -> Callable[[Callable], Callable]:
    """Register the rows of a function that builds their contestants, under the name of the function.

    Args:
        wanted: the ratio or the time to reach, by the name of the row.
        rounds: number of turns of each contestant, and in a quick table.
    """

    def register(build: Callable[[bool], dict[str, Turn]]) -> Callable[[bool], dict[str, Turn]]:
        GROUPS[build.__name__.replace("_", "-")] = Group(wanted, build, rounds)
        return build

    return register


def repeat(run: Callable[[], object]) -> Turn:
    """A turn of a work in this process: the median CPU time of calls, after one that warms the caches."""

    def turn() -> list[float]:
        run()
        times: list[float] = []
        gc.collect()
        gc.disable()
        while sum(times) < _TURN_SECONDS:
            begun = time.process_time()
            run()
            times.append(time.process_time() - begun)
        gc.enable()
        return [statistics.median(times)]

    return turn


def repeat_short(run: Callable[[], object], calls: int = 1000) -> Turn:
    """As :func:`repeat` for works of a few microseconds: the mean of many calls, without reading the clock between."""

    def many() -> None:
        for _ in range(calls):
            run()

    turn = repeat(many)
    return lambda: [seconds / calls for seconds in turn()]


def repeat_all(runs: Mapping[str, Callable[[], object]], *names: str) -> dict[str, Turn]:
    """Turns of works in this process; of the named ones only, those that are there."""
    return {name: repeat(run) for name, run in runs.items() if not names or name in names}


# --- structures -------------------------------------------------------------------------------------------------------


@rows({"chain log Z and gradient, B1 T64 K32": "≥ 20"})
def chain_one(quick: bool) -> dict[str, Turn]:
    from structure_chain import chain_runs

    return repeat_all(chain_runs(1, 64, 32), "catena", "pytorch-crf")


@rows({"chain log Z and gradient, B256 T64 K32": "≥ 20"})
def chain_many(quick: bool) -> dict[str, Turn]:
    from structure_chain import chain_runs

    return repeat_all(chain_runs(256, 64, 32), "catena", "pytorch-crf")


@rows({"PCFG log Z and gradient, B4 L20, 20 + 20 symbols": "≥ 20"})
def pcfg(quick: bool) -> dict[str, Turn]:
    from structure_trees import grammar_runs

    return repeat_all(grammar_runs(4, 20, 20, 20), "catena", "torch-struct")


@rows({"span tree log Z and gradient, B8 L32": "≥ 30"})
def span_tree(quick: bool) -> dict[str, Turn]:
    from structure_trees import tree_runs

    return repeat_all(tree_runs(8, 32, 1), "catena", "torch-struct")


def _best_trees(b: int) -> dict[str, Turn]:
    from structure_dependency import arcs_like, by_ufal, installed

    from catena.structure.nonprojective import NonProjectiveTree

    batches = arcs_like(64 * b, 32).detach().split(b)
    runs = {"catena": lambda: [NonProjectiveTree(arcs, single_root=False).argmax() for arcs in batches]}
    if installed("ufal.chu_liu_edmonds"):
        peers = [by_ufal(arcs) for arcs in batches]
        runs["ufal"] = lambda: [peer() for peer in peers]
    return repeat_all(runs)


@rows({"Chu-Liu/Edmonds, 64 calls, B1 L32": "≥ 1"})
def best_tree_one(quick: bool) -> dict[str, Turn]:
    return _best_trees(1)


@rows({"Chu-Liu/Edmonds, 64 calls, B16 L32": "≥ 4"})
def best_tree_many(quick: bool) -> dict[str, Turn]:
    return _best_trees(16)


# --- n-gram models and tokens -----------------------------------------------------------------------------------------


def _wiki_lines(name: str) -> list[str]:
    """Lines of WikiText-2, or made ones."""
    data = os.environ.get("CATENA_DATA")
    if data:
        text = (Path(data) / "wikitext2_word" / f"wiki.{name}.tokens").read_text(encoding="utf-8")
        return [" ".join(line.split()).replace("<unk>", "UNKNOWN") for line in text.splitlines() if line.strip()]
    import classify_loglinear

    words = [word for text in classify_loglinear.made_collections(0).values() for word in text.split()]
    return [" ".join(words[low : low + 25]) for low in range(0, len(words), 25)]


def _ngram_turns(words: slice) -> dict[str, Turn]:
    from catena.lm.ngram.model import NgramModel

    model = NgramModel.train(_wiki_lines("train"), order=3)
    lines = [" ".join(line.split()[words]) for line in _wiki_lines("valid") if len(line.split()) > 5][:1000]
    runs = {"catena": lambda: [model.score([line]) for line in lines]}
    if importlib.util.find_spec("kenlm"):
        import kenlm

        with tempfile.TemporaryDirectory() as folder:
            model.save_arpa(Path(folder) / "model.arpa")
            peer = kenlm.Model(str(Path(folder) / "model.arpa"))
        runs["kenlm"] = lambda: [peer.score(line) for line in lines]
    return repeat_all(runs)


@rows({"trigram scores, a sentence a call, 1,000 sentences": "≥ 1"})
def ngram_sentence(quick: bool) -> dict[str, Turn]:
    return _ngram_turns(slice(None))


@rows({"trigram scores, three words a call, 1,000 calls": "≥ 0.3"})
def ngram_words(quick: bool) -> dict[str, Turn]:
    return _ngram_turns(slice(2, 5))


def _bpe() -> tuple[Any, list[str]]:
    from catena.data.config import BpeTokenizerConfig
    from catena.data.tokenizers.subwords import train_bpe

    lines = _wiki_lines("valid")[:1000]
    return train_bpe(BpeTokenizerConfig(size=4000), lines), lines


@rows({"BPE tokens, a line a call, 1,000 lines": "≥ 0.98"})
def bpe(quick: bool) -> dict[str, Turn]:
    tokenizer, lines = _bpe()
    peer = tokenizer._model
    return repeat_all(
        {
            "catena": lambda: [tokenizer.tokens(line) for line in lines],
            "tokenizers": lambda: [peer.encode(line, add_special_tokens=False).tokens for line in lines],
        }
    )


@rows({"BPE tokens, 1,000 lines, in a batch of the other library": "≥ 0.98"})
def bpe_batch(quick: bool) -> dict[str, Turn]:
    tokenizer, lines = _bpe()
    peer = tokenizer._model

    def fast() -> list[list[str]]:
        return [
            [*map(tokenizer._names.__getitem__, one.ids)]
            for one in peer.encode_batch_fast(lines, add_special_tokens=False)
        ]

    return repeat_all(
        {
            "catena": lambda: [tokenizer.tokens(line) for line in lines],
            "encode_batch": lambda: [one.tokens for one in peer.encode_batch(lines, add_special_tokens=False)],
            "encode_batch_fast": fast,
        }
    )


# --- parsing ----------------------------------------------------------------------------------------------------------


@rows({"dependency prediction, default biaffine, 400 sentences": "≥ 1"}, rounds=(5, 3))
def parse(quick: bool) -> dict[str, Turn]:
    if "CATENA_DATA" not in os.environ:
        raise FileNotFoundError("CATENA_DATA")
    from tag_parse_spacy import parse_runs

    return repeat_all(parse_runs()[0])


# --- search -----------------------------------------------------------------------------------------------------------


@rows({"beam 5, batch 16, 32 tokens": "≥ 3 (transformers)"})
def beam(quick: bool) -> dict[str, Turn]:
    import seq2seq

    return repeat_all(seq2seq.fixed_length_runs(16, 5, 32))


@rows({"beam 5, batch 16, 32 tokens, 8 bits": "≥ 1"})
def beam_int8(quick: bool) -> dict[str, Turn]:
    import seq2seq

    return repeat_all(seq2seq.fixed_length_runs(16, 5, 32, int8=True))


# --- log-linear classifiers -------------------------------------------------------------------------------------------

_LINES = 100_000, 20_000


@rows(
    {
        "log-linear classifier: training": "≤ 5 s of 100,000 lines",
        "log-linear classifier: prediction": "≥ 1 (scikit-learn)",
    },
    rounds=(3, 2),
)
def loglinear(quick: bool) -> dict[str, Turn]:
    import classify_loglinear

    return classify_loglinear.turns(_LINES[quick], NOTES.append)


# --- word vectors -----------------------------------------------------------------------------------------------------


@rows({"skip-gram, one epoch, reading included": "≥ 2", "skip-gram, one epoch": "≥ 3"}, rounds=(3, 1))
def word2vec(quick: bool) -> dict[str, Turn]:
    import classify_loglinear
    import word2vec

    home = tempfile.TemporaryDirectory()
    text = Path(home.name) / "text.txt"
    data = os.environ.get("CATENA_DATA")
    if data:
        lines = (Path(data) / "wikitext2_word" / "wiki.train.tokens").read_text(encoding="utf-8").splitlines()
    else:
        lines = [" ".join(text.split()) for text in classify_loglinear.made_collections(0).values()]
    text.write_text("\n".join(lines[: len(lines) // 8 if quick else len(lines)]) + "\n", encoding="utf-8")

    def turn(way: word2vec.Way, folder: object) -> list[float]:
        begun = time.process_time()
        _, training, _ = way(text, 1, 1, 0)
        return [time.process_time() - begun, training]

    ways = {"catena": word2vec.catena("skipgram")}
    if importlib.util.find_spec("gensim"):
        ways["gensim"] = word2vec.gensim("skipgram")
    for way in ways.values():
        way(word2vec.head_of(text, 200), 1, 1, 0)  # imports and loads kernels
    return {name: partial(turn, way, home) for name, way in ways.items()}


# --- cold starts ------------------------------------------------------------------------------------------------------


def _cold(family: str) -> dict[str, Turn]:
    """A cold command of a run of this family, and ``import torch``."""
    import cold_start

    folder = tempfile.TemporaryDirectory()
    command = cold_start.train(Path(folder.name), family)
    cold_start.cpu_seconds(command)  # the first run fills the caches of bytecode and kernels

    def turn(words: list[str], folder: object) -> list[float]:
        return [cold_start.cpu_seconds(words)[0]]

    words = {"catena": command, "import torch": [sys.executable, "-c", "import torch"]}
    return {name: partial(turn, own, folder) for name, own in words.items()}


def _register_cold_starts() -> None:
    import cold_start

    for family in cold_start.FAMILIES:
        limit = "≤ 0.6 s" if family in cold_start.WITHOUT_TORCH else "≥ 0.77"
        GROUPS[f"cold-{family}"] = Group(
            {f"cold start of {family}": limit}, lambda quick, family=family: _cold(family), (5, 1)
        )


# --- the table --------------------------------------------------------------------------------------------------------


def measure(group: Group, quick: bool) -> dict[str, list[Sequence[float]]]:
    """The times of the turns of each contestant."""
    turns = group.build(quick)
    times: dict[str, list[Sequence[float]]] = {name: [] for name in turns}
    for _ in range(group.rounds[quick]):
        for name, turn in turns.items():
            times[name].append(turn())
    return times


def show(seconds: float) -> str:
    """A time in a unit that fits."""
    for limit, unit, factor in ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "µs", 1e6)):
        if seconds >= limit:
            return f"{seconds * factor:.3g} {unit}"
    return str(seconds)


def table_rows(group: Group, times: Mapping[str, list[Sequence[float]]]) -> list[list[str]]:
    """The cells of a group: a line for each row and each peer."""
    ours, *peers = times
    lines = []
    for i, (name, wanted) in enumerate(group.wanted.items()):
        own = [turn[i] for turn in times[ours]]
        for peer in peers or [""]:
            theirs = [turn[i] for turn in times[peer] if len(turn) > i] if peer else []
            cells = [name, show(min(own)), show(statistics.median(own)), peer or "–"]
            if theirs:
                ratio = statistics.median(b / a for a, b in zip(own, theirs, strict=True))
                cells += [show(min(theirs)), show(statistics.median(theirs)), f"{ratio:.2f}"]
            elif peer and peers[0] != peer:
                continue
            else:
                cells = [*cells[:3], "–", "", "", ""]
            lines.append([*cells, wanted])
    return lines


HEAD = ["work", "Catena, least", "median", "peer", "least", "median", "peer / Catena", "to reach"]


def as_markdown(cells: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [HEAD, ["---"] * len(HEAD), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> str:
    """The processor, the versions and the date, in a line."""
    import torch

    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(": ")[2] if names else platform.machine()
    return (
        f"{processor}, one thread, Python {platform.python_version()}, torch {torch.__version__}, "
        f"{datetime.now(UTC):%Y-%m-%d}"
    )


def main() -> None:
    _register_cold_starts()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Fewer turns and smaller data: under five minutes.")
    parser.add_argument("--only", nargs="*", default=[""], help="Groups whose names begin with one of these.")
    parser.add_argument("--list", action="store_true", help="Print the names of the groups.")
    parser.add_argument("-o", "--output", type=Path, help="Write the table in Markdown to this file too.")
    options = parser.parse_args()
    chosen = {name: group for name, group in GROUPS.items() if name.startswith(tuple(options.only))}
    if options.list:
        print("\n".join(chosen))
        return
    import torch

    torch.set_num_threads(1)
    cells = []
    for name, group in chosen.items():
        begun = time.monotonic()
        try:
            found = table_rows(group, measure(group, options.quick))
        except Exception as error:  # a peer that is not installed must not end the table
            found = [[row, "", "", f"failed: {type(error).__name__}: {error}"[:80], "", "", "", wanted]
                     for row, wanted in group.wanted.items()]  # fmt: skip
        cells += found
        ratios = ", ".join(f"{line[3]} {line[6]}" for line in found if line[6])
        print(f"{name} ({time.monotonic() - begun:.0f} s) {ratios}", file=sys.stderr, flush=True)
    text = "\n\n".join([as_markdown(cells), *NOTES, machine()])
    print(text)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
