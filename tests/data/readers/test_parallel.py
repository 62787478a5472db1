from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import ParallelText, SourceLocation
from catena.data.readers import parallel, tsv_label
from catena.errors import FormatError
from tests.data.readers.writing import file_with, texts

sides = st.lists(st.tuples(texts(without="\t\ufeff"), texts(without="\t\ufeff")), min_size=1)


@given(sides)
def test_two_files_round_trip(pairs: list[tuple[str, str]]) -> None:
    sources = "".join(source + "\n" for source, _ in pairs)
    targets = "".join(target + "\n" for _, target in pairs)
    with file_with(sources) as source, file_with(targets) as target:
        found = list(parallel.read(source, target))
        expected = [ParallelText(s, t, SourceLocation(str(source), i)) for i, (s, t) in enumerate(pairs, start=1)]
    assert found == expected


@given(sides)
def test_one_tsv_round_trip(pairs: list[tuple[str, str]]) -> None:
    with file_with("\n".join(f"{s}\t{t}" for s, t in pairs)) as path:
        found = [(e.source, e.target) for e in parallel.read(path)]
    assert found == [("", "") if not (s + t).strip() else (s, t) for s, t in pairs]


@pytest.mark.parametrize(("n", "m"), [(3, 1), (1, 4), (0, 2), (2, 0)])
def test_files_of_different_lengths_raise_error(n: int, m: int, tmp_path: Path) -> None:
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("x\n" * n)
    target.write_text("y\n" * m)
    examples = parallel.read(source, target)
    for _ in range(min(n, m)):
        next(examples)
    with pytest.raises(FormatError, match=rf"a\.en has {n} lines and .*a\.de has {m}: they must be parallel"):
        next(examples)


@pytest.mark.parametrize(("line", "count"), [("no tab", 1), ("a\tb\tc", 3)])
def test_line_without_two_fields_raises_error(line: str, count: int) -> None:
    problem = f"txt:2 must have 2 tab-separated fields, got {count}"
    with file_with(f"a\tb\n{line}\n") as path, pytest.raises(FormatError, match=problem):
        list(parallel.read(path))


def test_error_names_line_of_misalignment(tmp_path: Path) -> None:
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    lines = ["x" * (7 + 31 * i % 50) for i in range(60)]
    source.write_text("".join(f"{line}\n" for line in lines))
    target.write_text("".join(f"{line}\n" for i, line in enumerate(lines) if i != 40))
    with pytest.raises(FormatError, match=r"misalign at line 41, where line 41 is extra in .*a\.en\. Look there"):
        list(parallel.read(source, target))
    with pytest.raises(FormatError, match=r"line 41 is extra in .*a\.en"):
        list(parallel.read(target, source))


def test_few_first_words_are_not_evidence_for_labels(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("the dog\n" + "the cat sleeps\tdie Katze\na bird sings\tein Vogel\n" * 20, encoding="utf-8")
    with pytest.raises(FormatError, match=r"pairs\.tsv:1 must have 2 tab-separated fields, got 1") as refused:
        list(parallel.read(path))
    assert "kim" not in str(refused.value)
    labels = tmp_path / "labels.txt"
    labels.write_text("the dog\na cat\nthe bird\na fish\n" * 20, encoding="utf-8")
    with pytest.raises(
        FormatError, match="To train on it, pass --format kim; to predict or evaluate, pass --input-format kim"
    ):
        list(tsv_label.read(labels))
