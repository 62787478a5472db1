"""The automatic choice of a model on a grid of tasks, data sets, sizes and time limits, cell by cell.

    python benchmarks/auto.py $CATENA_DATA -o OUT [--only tag] [--sizes 500 all] [--minutes 1 3] [--models long]

Each cell trains with ``catena train FILE --max-time T`` and scores the test file. Next to it are the task's simplest
model (the first of its candidates, without a time limit) and, with ``--models long``, the search with ten times the
time. On a larger machine, ``--jobs 8`` runs eight cells at a time, each on ``--cores 2`` of its own. On a machine that
other programs keep busy, ``--cpu-clock`` trains with one thread and measures all times by the CPU.
A cell that is in OUT/cells.jsonl is not run again, so the script can be stopped and continued; with ``--end 560`` it
starts no cell that may last longer than that many seconds from its start. ``--table`` prints the cells that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from catena.config import parse, to_toml
from catena.tasks.auto.table import DataSize, suitable
from catena.tasks.spec import get_spec


@dataclass(frozen=True)
class DataSet:
    """Files of a task: how to write the first ``n`` training examples, and the options that name them.

    Args:
        name: its name in the table.
        task: the task.
        metric: the score of the test file that is compared.
        train: the training file, below the data folder.
        test: the test file, or that and its targets; a tenth of the training data if empty.
        split: how a training file is cut into examples.
        options: further options of ``catena train``.
        shuffled: whether the first ``n`` examples are chosen at random.
        columns: the names of the parts of a line, which are separated by spaces, to write it as a table.
        n_test: number of test examples at most; all if 0.
    """

    name: str
    task: str
    metric: str
    train: str
    test: str = ""
    split: str = "\n"
    options: tuple[str, ...] = ()
    shuffled: bool = True
    columns: str = ""
    n_test: int = 0


SETS = (
    DataSet(
        "MR", "classify", "accuracy", "text_classification/rt-polarity.all", options=("--input-format", "first-word")
    ),
    DataSet(
        "SST-2",
        "classify",
        "accuracy",
        "text_classification/stsa.binary.train",
        "text_classification/stsa.binary.test",
        options=("--input-format", "first-word"),
    ),
    DataSet(
        "SST-1 values",
        "regress",
        "pearson",
        "text_classification/stsa.fine.train",
        "text_classification/stsa.fine.test",
        columns="value text",
    ),
    DataSet(
        "SST-1",
        "classify",
        "accuracy",
        "text_classification/stsa.fine.train",
        "text_classification/stsa.fine.test",
        options=("--input-format", "first-word"),
    ),
    DataSet("CoNLL-2000", "tag", "f1", "conll2000_chunking/train.txt", "conll2000_chunking/test.txt", "\n\n"),
    DataSet(
        "CLTT tags",
        "tag",
        "accuracy",
        "ud_czech_cltt/cs_cltt-ud-train.conllu",
        "ud_czech_cltt/cs_cltt-ud-test.conllu",
        "\n\n",
    ),
    DataSet("WNUT-17", "tag", "f1", "wnut17_ner/wnut17-train.conll", "wnut17_ner/wnut17-test.conll", "\n\n"),
    DataSet(
        "CLTT lemmas",
        "tag",
        "accuracy",
        "ud_czech_cltt/cs_cltt-ud-train.conllu",
        "ud_czech_cltt/cs_cltt-ud-test.conllu",
        "\n\n",
        options=("--tags-column", "lemma"),
    ),
    DataSet(
        "EWT lemmas",
        "tag",
        "accuracy",
        "ud_english_ewt/en_ewt-ud-train-full.conllu",
        "ud_english_ewt/en_ewt-ud-test.conllu",
        "\n\n",
        options=("--tags-column", "lemma"),
    ),
    DataSet(
        "EWT",
        "parse",
        "las",
        "ud_english_ewt/en_ewt-ud-train-full.conllu",
        "ud_english_ewt/en_ewt-ud-test.conllu",
        "\n\n",
    ),
    DataSet(
        "CLTT trees",
        "parse",
        "las",
        "ud_czech_cltt/cs_cltt-ud-train.conllu",
        "ud_czech_cltt/cs_cltt-ud-test.conllu",
        "\n\n",
    ),
    *(
        DataSet(
            f"EWT tenth {what}",
            task,
            metric,
            "ud_english_ewt/en_ewt-ud-train-tenth.conllu",
            "ud_english_ewt/en_ewt-ud-test.conllu",
            "\n\n",
            options=options,
        )
        for what, task, metric, options in (
            ("trees", "parse", "las", ()),
            ("tags", "tag", "accuracy", ()),
            ("lemmas", "tag", "accuracy", ("--tags-column", "lemma")),
        )
    ),
    DataSet("PTB sample", "parse", "f1", "ptb_sample_brackets/wsj_0001-0199.mrg"),
    DataSet("CMUdict", "transduce", "word_error", "cmudict/cmudict.dict"),
    DataSet(
        "Arabic names",
        "transduce",
        "word_error",
        "transliteration_ar_en/ar2en-train.txt",
        "transliteration_ar_en/ar2en-test.txt",
    ),
    DataSet(
        "Multi30k",
        "translate",
        "bleu_lowercase",
        "multi30k_en_de/train.en multi30k_en_de/train.de",
        options=("--lowercase",),
    ),
    DataSet(
        "Multi30k 2016",
        "translate",
        "bleu_lowercase",
        "multi30k_en_de/train.en multi30k_en_de/train.de",
        "multi30k_en_de/test_2016_flickr.en multi30k_en_de/test_2016_flickr.de",
        options=("--lowercase",),
        shuffled=False,
    ),
    DataSet(
        "DailyDialog++",
        "converse",
        "recall@1",
        "dailydialog_plusplus/dev.jsonl",
        "dailydialog_plusplus/test-first500.jsonl",
    ),
    DataSet(
        "Tang poems", "lm", "perplexity", "chinese_poetry_tang/tang_4000.jsonl", options=("--text-column", "lines")
    ),
    DataSet("tinyshakespeare", "lm", "perplexity", "tinyshakespeare/input.txt"),
    DataSet("WikiText-2", "lm", "perplexity", "wikitext2_word/wiki.train.tokens", "wikitext2_word/wiki.test.tokens"),
    DataSet("recipes", "compose", "perplexity", "recipes/recipes_5000.jsonl", n_test=100),
)


MODELS = ("automatic", "simplest", "long")
_ALL_DATA = "--train-on-dev", "true"
"""n-grams choose nothing by dev. With all texts they know the same words as the winner that was trained again."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], help="tasks or data sets")
    parser.add_argument("--sizes", nargs="*", default=["500", "all"])
    parser.add_argument("--minutes", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--models", nargs="*", default=["automatic", "simplest"], choices=MODELS)
    parser.add_argument("--long", type=float, default=10.0, help="the model long searches this many times the time")
    parser.add_argument("--options", nargs="*", default=[], help="further options of catena train, without their --")
    parser.add_argument("--table", action="store_true", help="only print the cells")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    parser.add_argument("--cores", type=int, default=2, help="cores of each of several jobs")
    parser.add_argument("--cpu-clock", action="store_true", help="one thread, and limits in CPU time")
    parser.add_argument("--end", type=float, default=float("inf"), help="start no cell that may last longer (seconds)")
    parser.add_argument("--job", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.options = [f"--{word}" if i % 2 == 0 else word for i, word in enumerate(options.options)]
    if options.cpu_clock:
        folders = [str(Path(__file__).resolve().parent / "cpu_clock"), os.environ.get("PYTHONPATH", "")]
        os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, folders)), OMP_NUM_THREADS="1")
        options.options += ["--threads", "1"]
    options.end += time.monotonic()
    options.output.mkdir(parents=True, exist_ok=True)
    cells = Cells(options.output / "cells.jsonl")
    if options.jobs > 1:
        shutil.rmtree(cells.claims, ignore_errors=True)
        run_jobs(options.jobs, options.cores)
        cells = Cells(cells.path)
    elif not options.table:
        run_cells(cells, options)
    cells.print_table()


def run_jobs(n: int, n_cores: int) -> None:
    """Run this script n times, each process on cores of its own; they divide the cells among them."""
    cores = sorted(os.sched_getaffinity(0))
    command = [sys.executable, __file__, *sys.argv[1:], "--jobs", "1", "--job"]
    jobs = []
    for i in range(n):
        os.sched_setaffinity(0, cores[i * n_cores : (i + 1) * n_cores])  # a process inherits it
        jobs.append(subprocess.Popen([*command, str(i + 1)]))
    os.sched_setaffinity(0, cores)
    for job in jobs:
        job.wait()


def run_cells(cells: Cells, options: argparse.Namespace) -> None:
    chosen = [data for data in SETS if not options.only or {data.name, data.task} & set(options.only)]
    for minutes in sorted(options.minutes, reverse=True):  # the longest first, so that jobs end together
        for data in chosen:
            for size in options.sizes:
                run_cell(cells, data, size, minutes, options)


class Cells:
    """The finished cells, one JSON line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.claims = path.with_name("claims")
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.rows = [json.loads(line) for line in lines]

    def get(self, key: dict[str, object], compute: Callable[[], dict[str, object]], *, job: int = 0) -> None:
        """Compute a cell and store it, unless it is there or another job has claimed it."""
        if any(row["key"] == key for row in self.rows) or (job and not self.claim(key)):
            return
        row = {"key": key, **compute()}
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)

    def claim(self, key: dict[str, object]) -> bool:
        """Whether no other job has this cell."""
        self.claims.mkdir(exist_ok=True)
        try:
            (self.claims / "-".join(str(value).replace("/", "_") for value in key.values())).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def print_table(self) -> None:
        """One line for each data set, size and time, with the models next to each other."""
        found: dict[tuple[str, ...], dict[str, str]] = {}
        for row in self.rows:
            key = row["key"]
            place = key["data"], key["size"], str(key["minutes"])
            score = "failed" if row["score"] is None else f"{row['score']:.4f}"
            winner = f"{row['winner']}, " if "winner" in row else ""
            found.setdefault(place, {})[key["model"]] = (
                f"{score} ({winner}{row['seconds']:.0f} s, {row['cpu']:.0f} s of CPU)"
            )
        for place, models in found.items():
            print(*place, *(f"{name} {text}" for name, text in sorted(models.items())), sep="  ")


def run_cell(cells: Cells, data: DataSet, size: str, minutes: float, options: argparse.Namespace) -> None:
    work = options.output / f"work{options.job}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    train, test = write_files(data, size, options.data, work)
    key = {"data": data.name, "size": size, "minutes": minutes}
    config = work / "simple.toml"
    first = simplest(data, train)
    config.write_text(to_toml(parse(get_spec(data.task).config_class(), first)), encoding="utf-8")
    keys = {**dict.fromkeys(MODELS, key), "simplest": {**key, "minutes": 0}}
    limits = {
        "automatic": ("--max-time", f"{60 * minutes:.0f}s"),
        "simplest": ("-c", str(config), *(_ALL_DATA if data.task == "lm" else ())),
        "long": ("--max-time", f"{60 * minutes * options.long:.0f}s"),
    }
    longest = {"automatic": 1.1, "simplest": 0.0, "long": 1.1 * options.long}
    for model in options.models:
        if time.monotonic() + 60 * minutes * longest[model] + 20 > options.end:
            continue
        found = partial(measure, data, train, test, (*limits[model], *options.options), work / model)
        cells.get({**keys[model], "model": model}, found, job=options.job)


def simplest(data: DataSet, train: Sequence[Path]) -> dict[str, object]:
    """The config of the simplest candidate that the data allows."""
    values: dict[str, str | list[str]] = {"train": [str(train[0])]} if len(train) == 1 else {}
    if "lemma" in data.options:
        values["tags_column"] = "lemma"
    return dict(suitable(get_spec(data.task), {"data": values}, DataSize(1000, n_words=10_000), 0.0)[0][0].config)


def write_files(data: DataSet, size: str, folder: Path, work: Path) -> tuple[list[Path], list[Path]]:
    """The training and test files of a cell. Without a test file, a tenth of the examples by a fixed shuffle."""
    sources = [folder / name for name in data.train.split()]
    columns = [split_examples(path.read_text(encoding="utf-8"), data.split) for path in sources]
    rows = list(zip(*columns, strict=True))
    held_out: list[tuple[str, ...]] = []
    if not data.test:
        if data.shuffled and data.task != "lm":
            random.Random(0).shuffle(rows)
        cut = len(rows) - len(rows) // 10
        rows, held_out = rows[:cut], rows[cut:][: data.n_test or None]
    elif data.shuffled and data.task != "lm":
        random.Random(0).shuffle(rows)
    rows = rows if size == "all" else rows[: int(size)]
    train = list(write_columns(rows, sources, work / "train", data))
    if not data.test:
        return train, list(write_columns(held_out, sources, work / "test", data))
    test = [folder / name for name in data.test.split()]
    if data.columns:
        rows = [(line,) for line in test[0].read_text(encoding="utf-8").splitlines()]
        test = list(write_columns(rows, test, work / "test", data))
    return train, test


def split_examples(text: str, split: str) -> list[str]:
    """The examples of a file. Lines of white space end sentences as empty lines do."""
    if split == "\n\n":
        text = re.sub(r"\n(?:[^\S\n]*\n)+", split, text)
    return text.strip("\n").split(split)


def write_columns(rows: list[tuple[str, ...]], sources: list[Path], folder: Path, data: DataSet) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    for i, source in enumerate(sources):
        lines, path = [row[i] for row in rows], folder / source.name
        if data.columns:
            names = data.columns.split()
            lines = ["\t".join(names), *("\t".join(line.split(" ", len(names) - 1)) for line in lines)]
            path = folder / f"{source.name}.tsv"
        path.write_text(data.split.join(lines) + "\n", encoding="utf-8")
        yield path


def measure(
    data: DataSet, train: list[Path], test: list[Path], options: tuple[str, ...], run: Path
) -> dict[str, object]:
    """Train with some options, and score the test file."""
    began, before = time.monotonic(), cpu_seconds()
    pair = ["--target", str(train[1])] if len(train) == 2 else []
    catena("train", data.task, str(train[0]), *pair, *data.options, *options, "-q", "-o", str(run))
    seconds, cpu = time.monotonic() - began, cpu_seconds() - before
    other = ["--target", str(test[1])] if len(test) == 2 else []
    said = catena("evaluate", str(run), str(test[0]), *other, "--format", "json")
    scores = json.loads(said)["scores"] if said else {}
    return {"score": scores.get(data.metric), "scores": scores, "seconds": seconds, "cpu": cpu, **describe_search(run)}


def cpu_seconds() -> float:
    """CPU time of all programs that were run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def describe_search(run: Path) -> dict[str, object]:
    """The trials of a search, as the run stores them."""
    path = run / "search.json"
    if not path.exists():
        return {}
    record = json.loads(path.read_text(encoding="utf-8"))
    keys = ("name", "status", "seconds", "overhead", "steps", "best_step", "scores", "evaluation", "note")
    trials = [{key: trial[key] for key in keys} for trial in record["trials"]]
    return {"winner": record["winner"], "refit": record["refit"], "n_dev": record["n_dev"], "trials": trials}


def catena(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "catena", *words], capture_output=True, text=True)
    if done.returncode:
        print(" ".join(words), done.stderr.strip(), sep="\n", flush=True)
    return done.stdout if done.returncode == 0 else ""


if __name__ == "__main__":
    main()
