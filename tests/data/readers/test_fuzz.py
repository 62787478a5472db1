"""Whatever the bytes, a reader counts or raises CatenaError, and detection and inspection never fail."""

from __future__ import annotations

import contextlib
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.conversations import Exchange, read_exchanges
from catena.data.detect import detect_format
from catena.data.formats import FORMATS
from catena.data.inspection import inspect
from catena.data.reading import ReadCounter
from catena.data.records import read_examples, read_pairs
from catena.errors import CatenaError
from tests.data.readers.specimens import SPECIMENS, Specimen
from tests.data.readers.workbooks import workbook

# Pieces that mean something to some format, so that arbitrary files come near to valid ones.
pieces = st.sampled_from(
    [
        *(b"\n", b"\r", b"\r\n", b"\t", b" ", b",", b'"', b'""', b"(", b")", b"((", b"(S ", b"(NN x)", b"{", b"}"),
        *(b'{"text": "a", "label": ', b"1}", b"null}", b"[1, 2]}", b"#", b"# text = x\n", b"-DOCSTART-", b"0 "),
        *(b"__label__", b"__label__a ", b"1\t", b"1-2\t", b"1.1\t", b"_\t_\t_\t_\t_\t0\t_\t_\t_\n", b"B-x", b"O"),
        *(b"text", b"label", b"text,label\n", b"\0", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\xa9", b"\x85"),
        *(b"\xe2\x80\xa8", b"\x0b", b"\x0c", b"\\ud800", b"\x1f\x8b", b"PAR1", b"ARROW1", b"word", b"9" * 30),
    ]
)
soups = st.lists(pieces | st.binary(max_size=4), max_size=40).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> bytes:
    """A valid file with a few bytes taken out, put in or doubled."""
    content = text.encode()
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 12)))
        middle = draw(st.one_of(st.just(b""), pieces, st.just(content[start:end] * 2)))
        content = content[:start] + middle + content[end:]
    return content


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def read_or_refuse(read: Callable[[ReadCounter | None], Iterator[object]], path: Path) -> int | None:
    """The count, or None with a message that names the file; any other exception fails the test.

    With a counter the counts reconcile, and nothing is dropped without one.
    """
    counter = ReadCounter()
    try:
        used = sum(1 for _ in read(counter))
    except CatenaError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert str(path) in message
        return None
    assert counter.read == used + len(counter.dropped)
    assert all(dropped.reason and dropped.location.file for dropped in counter.dropped)
    with contextlib.suppress(CatenaError):  # damaged records raise an error without a counter
        assert sum(1 for _ in read(None)) >= used
    return used


def read_format(name: str, path: Path, **options: object) -> int | None:
    if name == "vectors":
        return read_or_refuse(lambda counter: iter(()), path)
    return read_or_refuse(lambda counter: FORMATS[name].read(path, counter=counter, **options), path)


@pytest.mark.parametrize("name", list(FORMATS))
def test_arbitrary_bytes_are_read_or_rejected(name: str, folder: Path) -> None:
    path = folder / "soup"

    @given(soups | st.binary(max_size=200))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_format(name, path)

    check()


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.id)
def test_mutated_files_are_read_or_rejected(specimen: Specimen, folder: Path) -> None:
    path = folder / "mutant"

    @given(mutated(specimen.text * 3), st.sampled_from(["", ".csv", ".tsv", ".jsonl", ".json", ".conll", ".conllu"]))
    def check(content: bytes, ending: str) -> None:
        named = path.with_suffix(ending)
        named.write_bytes(content)
        read_format(specimen.format, named)
        read_format(specimen.format, named, encoding="latin-1")
        read_or_refuse(lambda counter: read_examples(named, counter=counter), named)
        read_or_refuse(lambda counter: read_pairs(named, counter=counter), named)
        with contextlib.suppress(CatenaError):
            assert all(isinstance(exchange, Exchange) for exchange in read_exchanges(named, counter=ReadCounter()))

    check()


@given(
    soups | st.one_of([mutated(specimen.text) for specimen in SPECIMENS]),
    st.sampled_from(["", ".csv", ".tsv", ".jsonl", ".json", ".conll", ".conllu", ".zip", ".xlsx"]),
    st.sampled_from([None, "classify", "tag", "parse", "translate", "transduce", "converse", "compose", "lm"]),
)
def test_detection_and_inspection_never_fail(content: bytes, ending: str, task: str | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"anything{ending}"
        path.write_bytes(content)
        with contextlib.suppress(CatenaError):  # compressed and damaged
            found = detect_format(path)
            assert found.why
            if found.is_known:
                read_format(found.format, path, **found.options)
        report = inspect([path, path], task=task)
        assert json.loads(json.dumps(report.to_dict()))["files"][0]["path"] == str(path)
        assert all(line.isprintable() for line in report.lines())
        for file in report.files:
            assert file.findings or file.n_examples
            if file.n_read is not None and file.is_usable:
                assert file.n_read == file.n_examples + sum(file.dropped.values())


@pytest.mark.parametrize("name", ["parquet", "datasets"])
def test_mutated_arrow_files_are_read_or_rejected(name: str, folder: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"text": ["good film", "bad film", "café"], "label": [1, 0, 1]})
    stored = folder / name
    stored.mkdir()
    file = stored / "data-00000-of-00001.arrow"
    with pa.ipc.new_stream(str(file), table.schema) as writer:
        writer.write_table(table)
    (stored / "state.json").write_text(json.dumps({"_data_files": [{"filename": file.name}]}))
    whole = file.read_bytes()
    path = stored if name == "datasets" else file
    assert read_format(name, path) == 3

    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=3), st.integers(0, 40))
    def check(changes: list[tuple[int, int]], cut: int) -> None:
        content = bytearray(whole)
        for at, byte in changes:
            content[at] = byte
        file.write_bytes(bytes(content[: len(content) - cut]))
        read_format(name, path)

    check()


def test_mutated_workbooks_are_read_or_rejected(folder: Path) -> None:
    path = folder / "mutant.xlsx"
    whole = workbook({"one": [["text", "label"], ["a good film", "yes"], ["a bad film", "no"]]}, zipfile.ZIP_STORED)

    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4), st.integers(0, 40))
    def check(changes: list[tuple[int, int]], cut: int) -> None:
        content = bytearray(whole)
        for at, byte in changes:
            content[at] = byte
        path.write_bytes(bytes(content[: len(content) - cut]))
        read_or_refuse(lambda counter: read_examples(path, counter=counter), path)
        inspect([path])

    check()
