from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import Columns, LabeledText, ParallelText, SourceLocation, Text, Tree, get_text
from catena.data.reading import ReadCounter, ReadCounts


def test_the_sentence_reconciles() -> None:
    counts = ReadCounts(10_662, 10_650, {"longer than max_length=400": 1, "empty": 11})
    assert counts.sentence() == (
        "read 10,662; used 10,650; dropped 12 (11 empty, 1 longer than max_length=400), listed in dropped.tsv"
    )
    assert counts.sentence(listed_in="") == (
        "read 10,662; used 10,650; dropped 12 (11 empty, 1 longer than max_length=400)"
    )
    assert ReadCounts(3, 3).sentence() == "read 3; used 3; dropped 0"
    assert counts.to_dict()["dropped"]["empty"] == 11


@given(st.lists(st.text("ab ", max_size=4)))
def test_kept_and_dropped_are_all_that_was_read(texts: list[str]) -> None:
    tally = ReadCounter()
    examples = [Text(text, SourceLocation("x", i)) for i, text in enumerate(texts, start=1)]
    filled = tally.keep(tally.seen(examples), lambda e: None if e.text.strip() else "empty")
    kept = list(tally.keep(filled, lambda e: "too long" if len(e.text) > 3 else None))
    counts = tally.counts(used=len(kept))
    assert counts.read == len(texts)
    assert kept == [e for e in examples if e.text.strip() and len(e.text) <= 3]
    assert counts.dropped.get("empty", 0) == sum(not text.strip() for text in texts)
    assert counts.used + sum(counts.dropped.values()) == counts.read
    assert [d.location for d in tally.dropped] == [e.location for e in examples if e not in kept]


def test_lost_example_raises_error() -> None:
    tally = ReadCounter()
    tally.saw(3)
    tally.drop("empty", SourceLocation("x", 1), "")
    with pytest.raises(RuntimeError, match=r"must be 2 \(3 read, 1 dropped\), got 1"):
        tally.counts(used=1)


def test_what_was_dropped_is_written_one_to_a_line(tmp_path: Path) -> None:
    tally = ReadCounter()
    tally.saw(3)
    tally.drop("empty", SourceLocation("train.tsv", 7), "")
    tally.drop("longer than 5", SourceLocation("dev.tsv", 12), "a\ttab \\ and\nmore\udce9")
    tally.drop("longer than 5", SourceLocation("dev.tsv", 13), "x" * 5000)
    path = tmp_path / "dropped.tsv"
    path.write_text("an older one")
    tally.write(path)
    header, *rows = path.read_text(encoding="utf-8").split("\n")
    assert header == "file\tline\treason\ttext"
    assert rows[0] == "train.tsv\t7\tempty\t"
    assert rows[1] == "dev.tsv\t12\tlonger than 5\ta\\ttab \\\\ and\\nmore\\udce9"
    assert rows[2] == "dev.tsv\t13\tlonger than 5\t" + "x" * 500 + "…"
    assert rows[3:] == [""]
    assert [p.name for p in tmp_path.iterdir()] == ["dropped.tsv"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dropped.tsv"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        ReadCounter().write(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["dropped.tsv"]


def test_every_example_has_a_text() -> None:
    place = SourceLocation("x", 1)
    leaves = (Tree("DT", (), "the", place), Tree("NN", (), "cat", place))
    assert get_text(LabeledText("a b", ("y",), place)) == "a b"
    assert get_text(ParallelText("a b", "c", place)) == "a b"
    assert get_text(Columns((("a", "X"), ("b", "Y")), place)) == "a b"
    assert get_text(Tree("NP", leaves, None, place)) == "the cat"
