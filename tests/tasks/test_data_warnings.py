"""Warnings about dev and test data: records of the training data, and labels that training never showed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import catena
from catena.cli.main import main
from catena.errors import DataError
from catena.tasks.sources import overlap_warnings, unseen_line

LINES = [f"label{i % 3}\tthis is a sentence with the number {i}" for i in range(100)]
BLOCKS = [f"the\tD\ncat{i}\tN\nsat\tV\n" for i in range(60)]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_same_file_is_reported_under_any_name(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", LINES)
    (tmp_path / "link.tsv").symlink_to(train)
    (line,) = overlap_warnings({"train": train, "dev": tmp_path / "link.tsv"})
    assert line.startswith(f"warning: dev is a training file ({tmp_path / 'link.tsv'}). Scores on dev do not measure")
    assert overlap_warnings({"train": train}) == []


@pytest.mark.parametrize(("shared", "warned"), [(0, False), (3, False), (20, True), (25, True)])
def test_common_lines_are_counted(tmp_path: Path, shared: int, warned: bool) -> None:
    train = write(tmp_path / "train.tsv", LINES)
    own = [f"label0\tanother sentence about the topic {i}" for i in range(25 - shared)]
    test = write(tmp_path / "test.tsv", [*LINES[:shared], *own, *LINES[:shared]])
    found = overlap_warnings({"train": train, "test": test})
    assert len(found) == warned
    if warned:
        assert found[0].startswith(
            f"warning: {shared} of the 25 different records of test ({test}) are in the training"
        )


def test_column_files_are_compared_by_sentence(tmp_path: Path) -> None:
    train = write(tmp_path / "train.conll", BLOCKS[:50])
    assert overlap_warnings({"train": train, "dev": write(tmp_path / "other.conll", BLOCKS[50:])}) == []
    (line,) = overlap_warnings({"train": train, "dev": write(tmp_path / "dev.conll", BLOCKS[40:])})
    assert "10 of the 20 different records of dev" in line


def test_short_records_count_if_all_are_short(tmp_path: Path) -> None:
    words = [f"w{i}\tv{i}" for i in range(40)]
    train = write(tmp_path / "train.tsv", words[:30])
    assert len(overlap_warnings({"train": train, "dev": write(tmp_path / "a.tsv", words[20:])})) == 1
    talk = ["yes", "no", "well", *(f"this is what I said to you on day {i}" for i in range(4))]
    more = [*talk[:3], *(f"and this is what you said to me on day {i}" for i in range(4))]
    files = {"train": write(tmp_path / "b.tsv", talk), "dev": write(tmp_path / "c.tsv", more)}
    assert overlap_warnings(files) == []


def test_several_and_compressed_files(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.txt", LINES[:50]), tmp_path / "b.txt.gz"
    second.write_bytes(gzip.compress("\n".join(LINES[50:]).encode()))
    files = {"train-source": first, "train-source-2": second, "train-target": first, "dev-target": first}
    assert overlap_warnings(files) == []
    (line,) = overlap_warnings({**files, "dev-source": write(tmp_path / "dev.txt", LINES[40:60])})
    assert "20 of the 20 different records of dev" in line


def test_train_prints_overlap_warning_and_logs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = write(tmp_path / "train.tsv", LINES)
    words = ["train", "classify", train, "--dev", train, "--model", "loglinear", "--max-epochs", "1"]
    assert main([str(word) for word in (*words, "-o", tmp_path / "run")]) == 0
    warning = f"warning: dev is a training file ({train})."
    assert warning in capsys.readouterr().out
    assert warning in (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    counted = [
        "train",
        "lm",
        train,
        "--input-format",
        "text",
        "--test",
        train,
        "--model",
        "ngram",
        "-o",
        tmp_path / "lm",
    ]
    assert main([str(word) for word in counted]) == 0
    assert "warning: test is a training file" in capsys.readouterr().out


def test_lines_of_a_json_document_are_not_records(tmp_path: Path) -> None:
    for name in ("train", "test"):
        rows = [{"context": f"a text of {name} with the number {i}", "answer": {"text": "number"}} for i in range(9)]
        (tmp_path / name).write_text(json.dumps({"data": rows}, indent=1), encoding="utf-8")
    assert overlap_warnings({"train": tmp_path / "train", "test": tmp_path / "test"}) == []


def test_unseen_line_names_the_five_most_frequent() -> None:
    counts = {"a": 1, "b": 7, "c": 2, "d": 3, "e": 4, "f": 5}
    assert unseen_line(counts, "this file", "words have a tag") == (
        "this file: 22 words have a tag that training never showed ('b' 7, 'f' 5, 'e' 4, 'd' 3, 'c' 2, …); they count "
        "as errors"
    )
    assert unseen_line({}, "this file", "words have a tag") is None


# --- too few examples -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "options", "header", "good", "bad", "reason"),
    [
        ("classify", {"model": "loglinear"}, "text,label", "fine day,x", "day {i},", "without a label"),
        ("classify", {"model": "cnn"}, "text,label", "fine day,x", "day {i},", "without a label"),
        ("regress", {"model": "ridge"}, "text,value", "fine day,1.5", "day {i},", "with a value that is missing"),
        ("transduce", {"model": "joint"}, "source,target", "day,dei", "day{i},", "with an empty target"),
        ("translate", {"model": "recurrent"}, "source,target", "a day,ein Tag", "day {i},", "with an empty target"),
    ],
)
def test_too_few_examples_are_explained_by_those_that_are_dropped(
    task: str, options: dict[str, str], header: str, good: str, bad: str, reason: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "x.csv", [header, *(bad.replace("{i}", str(i)) for i in range(7)), good])
    with pytest.raises(DataError) as raised:
        catena.train(path, task, options, output=tmp_path / "run")
    assert str(raised.value) == (
        "1 example cannot be split into train and dev. Add examples, or pass a dev file. "
        f"Read 8; used 1; dropped 7 (7 {reason}); the first dropped is {path}:2."
    )


def test_too_few_examples_without_dropped_ones_have_no_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["text,label", "fine day,x"])
    with pytest.raises(DataError, match=r"or pass a dev file\.$"):
        catena.train(path, "classify", {"model": "loglinear"}, output=tmp_path / "run")
