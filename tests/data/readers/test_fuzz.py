"""Whatever the bytes, a reader counts or raises CatenaError, and recognizing and the doctor never fail."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.detect import detect_format
from catena.data.inspection import inspect
from catena.data.readers.table import FORMATS
from catena.errors import CatenaError
from tests.data.readers.specimens import BY_NAME, SPECIMENS

TEXT_FORMATS = [specimen.format for specimen in SPECIMENS]

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


def read_or_refuse(name: str, path: Path, **options: object) -> int | None:
    """The count, or None with a message that names the file; any other exception fails the test."""
    try:
        return sum(1 for _ in FORMATS[name].read(path, **options))
    except CatenaError as error:
        message = str(error)
    assert str(path) in message
    return None


@pytest.mark.parametrize("name", list(FORMATS))
def test_arbitrary_bytes(name: str, folder: Path) -> None:
    path = folder / "soup"

    @given(soups | st.binary(max_size=200))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refuse(name, path)

    check()


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_mutated_valid_files(name: str, folder: Path) -> None:
    path = folder / "mutant"

    @given(mutated(BY_NAME[name].text))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refuse(name, path)
        assert read_or_refuse(name, path, encoding="latin-1") is None or b"\0" not in content

    check()


@given(soups | st.one_of([mutated(specimen.text) for specimen in SPECIMENS]))
def test_recognizing_and_the_doctor_never_fail(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "anything"
        path.write_bytes(content)
        with contextlib.suppress(CatenaError):  # compressed and damaged
            found = detect_format(path)
            assert found.why
            if found.format != "unknown":
                read_or_refuse(found.format, path, **found.options)
        report = inspect([path, path])
        assert json.loads(json.dumps(report.to_dict()))["files"][0]["path"] == str(path)
        assert report.lines()


@pytest.mark.parametrize("name", ["parquet", "datasets"])
def test_mutated_arrow_files(name: str, folder: Path) -> None:
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
    assert read_or_refuse(name, path) == 3

    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=3), st.integers(0, 40))
    def check(changes: list[tuple[int, int]], cut: int) -> None:
        content = bytearray(whole)
        for at, byte in changes:
            content[at] = byte
        file.write_bytes(bytes(content[: len(content) - cut]))
        read_or_refuse(name, path)

    check()
