"""Responses of DailyDialog++: the training text of the word vectors, and a table of all models.

    python benchmarks/converse.py text DATA dialogue-text.txt
    catena train embed dialogue-text.txt --words.min-count 2 --window 8 --epochs 8 -o dialogue-vectors
    (the recipes dailydialog-tfidf, -bm25, -dual and -mixture, into runs/NAME)
    python benchmarks/converse.py table DATA runs/dailydialog-tfidf runs/dailydialog-bm25 runs/dailydialog-dual \
        runs/dailydialog-mixture

DATA is the folder with dailydialog_plusplus, wikitext2_word, multi30k_en_de, text_classification and ud_english_ewt.
The text only has the dialogues of the training data: the first 925 of the dev file. The table has the scores of each
run on the first 500 test contexts, with intervals, and a paired bootstrap of the last run against each other run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from catena.data.config import WordTokenizerConfig
from catena.data.tokenize import build_tokenizer

TRAINED_ON = 925
DIALOGUES = "dailydialog_plusplus/dev.jsonl"
TEST = "dailydialog_plusplus/test-first500.jsonl"


def lines_of(data: Path) -> Iterator[str]:
    """Yield lines of lower-case words separated by blanks."""
    tokens = build_tokenizer(WordTokenizerConfig(lowercase=True)).tokens
    for line in (data / "wikitext2_word/wiki.train.tokens").open(encoding="utf-8"):
        if line.strip():
            yield line.strip().lower().replace(" @-@ ", "-")
    for name in ("multi30k_en_de/train.en", "text_classification/rt-polarity.all"):
        for line in (data / name).open(encoding="utf-8", errors="ignore"):
            yield " ".join(tokens(line.strip()))
    for line in (data / "ud_english_ewt/en_ewt-ud-train-full.conllu").open(encoding="utf-8"):
        if line.startswith("# text ="):
            yield " ".join(tokens(line[8:].strip()))
    with (data / DIALOGUES).open(encoding="utf-8") as rows:
        for _, row in zip(range(TRAINED_ON), map(json.loads, rows), strict=False):
            context = " ".join(" ".join(tokens(turn)) for turn in row["context"])
            for response in row["positive_responses"]:
                yield context + " " + " ".join(tokens(response))
            for response in row["adversarial_negative_responses"]:
                yield " ".join(tokens(response))


def table(data: Path, runs: list[str]) -> Iterator[str]:
    """Yield a line for each run, and one for each significance test."""
    from catena.data.reading import ReadCounter
    from catena.metrics.significance import paired_bootstrap
    from catena.randomness import Randomness
    from catena.tasks.load import load_model

    found = {}
    for run in runs:
        task = load_model(run, "cpu")
        result = task.evaluate(task.read(task.config, data / TEST, ReadCounter()))
        cells = []
        for name in result.metrics():
            interval = result.interval(name)
            cells.append(f"{name} {interval.value:.4f} ({interval.low:.4f} to {interval.high:.4f})")
        found[run] = result.paired("recall@1")
        yield f"| {Path(run).name} | " + " | ".join(cells) + " |"
    *others, last = runs
    for run in others:
        first, second, metric = found[last], found[run], found[last].metric
        rows = (metric.statistics(one.references, one.predictions) for one in (first, second))
        tested = paired_bootstrap(*rows, metric.score, Randomness(0).numpy("compare"), metric="recall@1")
        yield tested.sentence(Path(last).name, Path(run).name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["text", "table"])
    parser.add_argument("data", type=Path)
    parser.add_argument("names", nargs="+")
    options = parser.parse_args()
    if options.what == "text":
        with Path(options.names[0]).open("w", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in lines_of(options.data))
    else:
        for line in table(options.data, options.names):
            print(line, flush=True)


if __name__ == "__main__":
    main()
