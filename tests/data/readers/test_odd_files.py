"""Odd files through every reader: an exact count, or one clear sentence; never anything else."""

from __future__ import annotations

import bz2
import gzip
import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from catena.data.examples import SourceLocation, Tree
from catena.data.formats import FORMATS
from catena.data.reading import ReadCounter
from catena.data.records import Record
from catena.errors import CatenaError, FormatError
from tests.data.readers.specimens import SPECIMENS, Specimen

every_format = pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda s: s.id)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "odd"
    path.write_bytes(content)
    return path


def examples(specimen: Specimen, path: Path, **options: object) -> list:
    return list(FORMATS[specimen.format].read(path, **options))


def without_file(example):
    """The example as if it came from no file in particular; the line stays."""
    if isinstance(example, Record):
        return (dict(example.columns), example.location.line)
    if isinstance(example, Tree):
        return (example.label, example.word, example.location.line, tuple(map(without_file, example.children)))
    return replace(example, location=SourceLocation("", example.location.line))


@every_format
def test_example_file_is_read_completely_with_locations(specimen: Specimen, tmp_path: Path) -> None:
    found = examples(specimen, written(tmp_path, specimen.text.encode()))
    assert len(found) == specimen.count
    assert all(isinstance(example, FORMATS[specimen.format].example) for example in found)
    assert "café" in str(found[0])
    assert {example.location.file for example in found} == {str(tmp_path / "odd")}
    lines = [example.location.line for example in found]
    assert lines == sorted(set(lines))


@every_format
@pytest.mark.parametrize(
    "disguise",
    [
        pytest.param(lambda t: t.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(lambda t: t.replace("\n", "\r").encode(), id="CR"),
        pytest.param(lambda t: t.encode("utf-8-sig"), id="BOM"),
        pytest.param(lambda t: t.encode("utf-16"), id="UTF-16"),
        pytest.param(lambda t: t.encode("utf-32"), id="UTF-32"),
        pytest.param(lambda t: gzip.compress(t.encode()), id="gzip"),
        pytest.param(lambda t: lzma.compress(t.replace("\n", "\r\n").encode("utf-8-sig")), id="xz, CRLF and BOM"),
        pytest.param(lambda t: bz2.compress(t.encode()), id="bzip2"),
        pytest.param(lambda t: t.rstrip("\n").encode(), id="no last line end"),
    ],
)
def test_other_storage_gives_the_same_examples(specimen: Specimen, disguise, tmp_path: Path) -> None:
    plain = examples(specimen, written(tmp_path, specimen.text.encode()))
    found = examples(specimen, written(tmp_path, disguise(specimen.text)))
    assert [without_file(e) for e in found] == [without_file(e) for e in plain]


@every_format
def test_blanks_at_line_ends_change_no_count(specimen: Specimen, tmp_path: Path) -> None:
    blank = specimen.text.replace("\n", "  \n")
    assert len(examples(specimen, written(tmp_path, blank.encode()))) == specimen.count


@every_format
def test_latin_1_raises_error_with_line_byte_and_cure(specimen: Specimen, tmp_path: Path) -> None:
    path = written(tmp_path, specimen.text.encode("latin-1"))
    line = specimen.text[: specimen.text.index("é")].count("\n") + 1
    with pytest.raises(FormatError, match=rf"odd:{line} is not UTF-8: byte 0xe9 .*--encoding cp1252"):
        examples(specimen, path)
    assert len(examples(specimen, path, encoding="latin-1")) == specimen.count
    assert "café" in str(examples(specimen, path, encoding="cp1252")[0])


@every_format
def test_nul_byte_is_dropped_with_its_line(specimen: Specimen, tmp_path: Path) -> None:
    if specimen.format == "json":
        return  # a document is read as a whole
    line = specimen.text[: specimen.text.index("é")].count("\n") + 1
    counter, path = ReadCounter(), written(tmp_path, (specimen.text * 30).replace("é", "\0", 1).encode())
    found = examples(specimen, path, counter=counter)
    assert counter.used == len(found)
    reasons = [dropped.reason for dropped in counter.dropped if "NUL" in dropped.reason]
    assert reasons == ["with a NUL byte"]
    with pytest.raises(FormatError, match=rf"odd:{line}\b.*NUL byte|odd:\d .*NUL byte"):
        examples(specimen, path)


@every_format
def test_an_empty_file_has_no_examples(specimen: Specimen, tmp_path: Path) -> None:
    for content in (b"", b"\xef\xbb\xbf"):
        if specimen.format == "json":
            with pytest.raises(FormatError, match="is not valid JSON"):
                examples(specimen, written(tmp_path, content))
        else:
            assert examples(specimen, written(tmp_path, content)) == []


@every_format
def test_only_blank_lines_never_fail(specimen: Specimen, tmp_path: Path) -> None:
    if specimen.format == "json":
        return
    found = examples(specimen, written(tmp_path, b"\n \n\t\n\n"))
    assert len(found) == (0 if specimen.format in ("columns", "conllu", "brackets", "dialogue") else 4)


@pytest.mark.parametrize("name", list(FORMATS))
def test_folder_and_missing_file_raise_error(name: str, tmp_path: Path) -> None:
    if name in ("parquet", "datasets"):
        pytest.importorskip("pyarrow")
    (tmp_path / "train.txt").write_text("x\n")
    with pytest.raises(FormatError, match="is a folder"):
        list(FORMATS[name].read(tmp_path))
    missing = "is not a folder" if name == "folders" else "File not found: .*trian.txt. Did you mean .*train.txt"
    with pytest.raises(FormatError, match=missing):
        list(FORMATS[name].read(tmp_path / "trian.txt"))


@every_format
def test_truncated_gzip_raises_error(specimen: Specimen, tmp_path: Path) -> None:
    packed = gzip.compress(specimen.text.encode() * 50)
    for length in (len(packed) - 1, len(packed) // 2, 11, 3):
        with pytest.raises(FormatError, match=r"The compressed data of .*odd is truncated"):
            examples(specimen, written(tmp_path, packed[:length]))


@every_format
def test_damaged_compression_raises_error(specimen: Specimen, tmp_path: Path) -> None:
    for pack in (gzip.compress, lzma.compress):
        packed = bytearray(pack(specimen.text.encode() * 50))
        packed[len(packed) // 2] ^= 0xFF
        packed[-10] ^= 0xFF
        with pytest.raises(FormatError, match=r"(odd is damaged|odd is truncated|Cannot read .*odd)"):
            examples(specimen, written(tmp_path, bytes(packed)))


LONG = "word " * 2_100_000  # over 10 MB
LONG_LINES = {
    "text": (LONG, 1),
    "labels": (f"a\t{LONG}\nb\tshort", 2),
    "first-word": (f"0 {LONG}\n1 short", 2),
    "fasttext": (f"__label__a {LONG}", 1),
    "csv": (f'label,text\na,"{LONG}"\nb,short', 2),
    "tsv": (f"label\ttext\na\t{LONG}\nb\tshort", 2),
    "jsonl": (f'{{"text": "{LONG}", "label": 1}}\n', 1),
    "pairs": (f"{LONG}\tshort", 1),
    "json": (f'[{{"text": "{LONG}", "label": 1}}]\n', 1),
    "dialogue": (f"A: {LONG}\nB: short\n", 1),
    "dictionary": (f"{'w' * 10_000_000} W ER1 D\nshort SH AO1 R T", 2),
    "columns": (f"{'word' * 2_600_000} O\nshort O\n", 1),
    "conllu": (f"1\t{'w' * 10_000_000}\t_\t_\t_\t_\t0\troot\t_\t_\n\n", 1),
    "brackets": (f"(S {'(NN word) ' * 20_000} (NN {'w' * 10_000_000}))", 1),
}


@every_format
def test_a_line_of_ten_megabytes(specimen: Specimen, tmp_path: Path) -> None:
    text, count = LONG_LINES[specimen.id]
    assert max(map(len, text.split("\n"))) >= 10_000_000
    assert len(examples(specimen, written(tmp_path, text.encode()))) == count


@every_format
def test_every_reader_reads_or_rejects_every_other_format(specimen: Specimen, tmp_path: Path) -> None:
    for other in SPECIMENS:
        path = written(tmp_path, other.text.encode())
        message = ""
        try:
            examples(specimen, path)
        except CatenaError as error:
            message = str(error)
        assert not message or str(path) in message
