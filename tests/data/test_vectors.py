"""Files of word vectors: three formats, written here by hand, and all that can be wrong with them."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.readers.vectors import read_stored_vectors, read_vectors, read_word_vectors
from catena.errors import FormatError

Entries = list[tuple[str, list[float]]]

FLOATS = st.floats(-1000, 1000, width=32)
WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Z", "C"], exclude_characters="\x85"),
    min_size=1,
    max_size=6,
)


@st.composite
def entries_and_size(draw: st.DrawFn) -> tuple[Entries, int]:
    d = draw(st.integers(2, 5))
    words = draw(st.lists(WORDS, min_size=1, max_size=8, unique=True))
    return [(word, draw(st.lists(FLOATS, min_size=d, max_size=d))) for word in words], d


def as_glove(entries: Entries, end: str = "\n") -> bytes:
    return "".join(f"{word} {' '.join(map(repr, numbers))}{end}" for word, numbers in entries).encode()


def as_word2vec_text(entries: Entries, d: int, end: str = "\n") -> bytes:
    return f"{len(entries)} {d}{end}".encode() + as_glove(entries, end)


def as_word2vec_binary(entries: Entries, d: int, between: bytes = b"\n") -> bytes:
    body = [word.encode() + b" " + struct.pack(f"<{d}f", *numbers) + between for word, numbers in entries]
    return f"{len(entries)} {d}\n".encode() + b"".join(body)


def written(folder: Path, content: bytes, name: str = "vectors") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


PLAIN: Entries = [("the", [0.5, -1.0, 2.0]), ("naïve", [1.0, 0.0, 0.25]), ("中文", [-0.125, 3.0, 1e-3])]


@given(entries_and_size(), st.sampled_from(["\n", "\r\n", " \n"]), st.sampled_from([b"", b"\n"]))
def test_every_format_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[Entries, int], end: str, between: bytes
) -> None:
    entries, d = drawn
    folder = tmp_path_factory.mktemp("vectors")
    expected = np.array([numbers for _, numbers in entries], np.float32)
    contents = [
        as_glove(entries, end),
        as_word2vec_text(entries, d, end),
        as_word2vec_binary(entries, d, between),
    ]
    for content in contents:
        for wanted_d in (None, d):
            vectors = read_vectors(written(folder, content), d=wanted_d)
            assert vectors.words == tuple(word for word, _ in entries)
            assert vectors.matrix.dtype == np.float32
            assert np.array_equal(vectors.matrix, expected)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
@pytest.mark.parametrize("binary", [False, True])
def test_compressed_files_are_read(pack: object, binary: bool, tmp_path: Path) -> None:
    content = as_word2vec_binary(PLAIN, 3) if binary else as_glove(PLAIN)
    vectors = read_vectors(written(tmp_path, pack(content)))  # type: ignore[operator]
    assert vectors.words == ("the", "naïve", "中文")
    assert vectors.matrix[1].tolist() == [1.0, 0.0, 0.25]


@pytest.mark.parametrize("binary", [False, True])
def test_only_wanted_words_are_kept_in_the_order_of_the_file(binary: bool, tmp_path: Path) -> None:
    content = as_word2vec_binary(PLAIN, 3) if binary else as_word2vec_text(PLAIN, 3)
    vectors = read_vectors(written(tmp_path, content), {"中文", "the", "absent"})
    assert vectors.words == ("the", "中文")
    assert vectors.matrix.tolist() == np.array([PLAIN[0][1], PLAIN[2][1]], np.float32).tolist()
    nothing = read_vectors(written(tmp_path, content), set())
    assert nothing.matrix.shape == (0, 3)


def test_words_of_glove_may_hold_blanks_and_numbers(tmp_path: Path) -> None:
    entries: Entries = [
        *PLAIN,
        (". . .", [1.0, 2.0, 3.0]),
        ("area 51", [4.0, 5.0, 6.0]),
        ("51", [7.0, 8.0, 9.0]),
    ]
    vectors = read_vectors(written(tmp_path, as_glove(entries)), {". . .", "area 51", "51"})
    assert vectors.words == (". . .", "area 51", "51")
    assert vectors.matrix.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_odd_blanks_are_parts_of_words(tmp_path: Path) -> None:
    entries: Entries = [("a\u00a0b", [1.0, 2.0]), ("\u2028", [3.0, 4.0]), ("\u3000", [5.0, 6.0])]
    assert read_vectors(written(tmp_path, as_glove(entries))).words == ("a\u00a0b", "\u2028", "\u3000")


def test_a_byte_order_mark_is_taken_off(tmp_path: Path) -> None:
    for content in (as_glove(PLAIN), as_word2vec_text(PLAIN, 3)):
        assert read_vectors(written(tmp_path, b"\xef\xbb\xbf" + content)).words[0] == "the"


def test_first_word_that_is_a_number_is_not_a_header(tmp_path: Path) -> None:
    vectors = read_vectors(written(tmp_path, b"7 5\n8 1.5\n"))
    assert vectors.words == ("7", "8")
    assert vectors.matrix.tolist() == [[5.0], [1.5]]
    assert read_vectors(written(tmp_path, b"2 1\n8 1.5\n9 2.5\n")).words == ("8", "9")


def test_many_blocks_of_a_binary_file_are_read(tmp_path: Path) -> None:
    # More than a block of the reader, with vectors and words across its borders.
    entries: Entries = [(f"w{i}" * (1 + i % 3), [float(i)] * 101) for i in range(4000)]
    vectors = read_vectors(written(tmp_path, as_word2vec_binary(entries, 101)))
    assert vectors.words == tuple(word for word, _ in entries)
    assert np.array_equal(vectors.matrix[:, 100], np.arange(4000))


def test_invalid_utf8_word_raises_error_only_if_read(tmp_path: Path) -> None:
    bad = written(tmp_path, as_word2vec_text(PLAIN, 3).replace("naïve".encode(), b"na\xefve"))
    assert read_vectors(bad, {"the"}).words == ("the",)
    with pytest.raises(FormatError, match=r"not UTF-8, 'na.+ve', line 3\. Remove it, or read only wanted"):
        read_vectors(bad)


TEXT = as_word2vec_text(PLAIN, 3)
BINARY = as_word2vec_binary(PLAIN, 3)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", r"vectors is not a file of word vectors: they would have 0 dimensions"),
        (b"hello world\nthis is text\n", r"is not a file of word vectors"),
        (b"3 0\n", "would have 0 dimensions"),
        (b"3 99999999\nab\n", "would have 99999999 dimensions"),
        (TEXT.replace(b" 0.25", b""), r"vectors:3 must have a word and 3 numbers, got 3 fields"),
        (TEXT.replace(b"-1.0", b"x1"), r"vectors:2 .*could not convert"),
        (TEXT.replace(b"-1.0", b"nan"), r"The vector of 'the', line 2 of .* is not finite"),
        (TEXT.replace(b"3 3\n", b"4 3\n"), "must have the number of words, 3, got 4"),
        (TEXT.replace(b"3 3\n", b"2 3\n"), "must have the number of words, 3, got 2"),
        (b"\n".join(as_glove(PLAIN).split(b"\n")[:2])[:-4], "vectors:2 must have a word and 3 numbers"),
        (BINARY[:-6], "truncated: it ends in word 3 of 3 .'中文'."),
        (BINARY[:24], "truncated: it ends in word 2 of 3 "),
        (BINARY + b"more", "has more than the 3 words in its header"),
        (BINARY.replace(b"3 3\n", b"2 3\n"), "has more than the 2 words in its header"),
        (as_word2vec_binary([("a", [float("inf")] * 3)], 3), "The vector of 'a', word 1 of .* is not finite"),
        (b"1 3\n" + b"\xff" * 9000, "is not a word2vec binary file: word 1 of 1 does not end"),
        (gzip.compress(TEXT, mtime=0)[:-12], "The compressed data of .* is truncated"),
    ],
)
def test_invalid_file_raises_error_with_location(content: bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=problem):
        read_vectors(written(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (TEXT.replace("naïve".encode(), b"the"), "line 3"),
        (BINARY.replace("naïve".encode(), b"the"), "word 2"),
    ],
)
def test_first_vector_of_a_duplicate_word_is_kept(content: bytes, where: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    with pytest.warns(UserWarning, match=f"has 1 duplicate word, such as 'the' as {where}. The first vector"):
        vectors = read_vectors(path)
    assert vectors.words == ("the", "中文")
    assert vectors.matrix[0].tolist() == PLAIN[0][1]


PACKERS = pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])


@PACKERS
def test_truncated_compressed_vectors_raise_error(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    packed = pack(TEXT * 20)
    assert len(packed) > 20
    for length in range(2, len(packed)):
        for read in (read_vectors, read_stored_vectors):
            with pytest.raises(FormatError, match="vectors"):
                read(written(tmp_path, packed[:length]))


@PACKERS
@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_damaged_compressed_vectors_are_read_or_rejected(pack: Callable[[bytes], bytes], at: int, byte: int) -> None:
    packed = bytearray(pack(as_glove(PLAIN)))
    packed[at % len(packed)] = byte
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(FormatError):
        assert len(read_stored_vectors(written(Path(folder), bytes(packed))).matrix) > 0


def test_compressed_fasttext_model_raises_error(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(struct.pack("<i", 793_712_314) + bytes(100)))
    with pytest.raises(FormatError, match="Decompress it first"):
        read_stored_vectors(path)


def test_other_dimension_raises_error(tmp_path: Path) -> None:
    for content in (as_glove(PLAIN), TEXT, BINARY):
        for d in (2, 300):
            with pytest.raises(FormatError, match=f"must have {d} dimensions, got 3"):
                read_vectors(written(tmp_path, content), d=d)


def test_missing_file_and_folder_raise_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="File not found"):
        read_vectors(tmp_path / "absent.txt")
    with pytest.raises(FormatError, match="is a folder"):
        read_vectors(tmp_path)


@given(st.binary(max_size=200) | st.builds(lambda b: b"3 2\n" + b, st.binary(max_size=100)))
def test_arbitrary_bytes_are_read_or_rejected(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = written(tmp_path_factory.mktemp("vectors"), content)
    refused = ""
    try:
        vectors = read_vectors(path)
    except FormatError as error:
        refused = str(error)
    else:
        assert len(vectors.words) == len(set(vectors.words)) == len(vectors.matrix)
    assert not refused or str(path) in refused


def test_a_vocabulary_gets_a_row_for_each_symbol(tmp_path: Path) -> None:
    path = written(tmp_path, as_glove([("the", [1.0, 2.0]), ("Cat", [3.0, 4.0]), ("cat", [5.0, 6.0])]))
    matrix, known = read_word_vectors(path, ["<pad>", "<unk>", "THE", "Cat", "CAT", "dog"], d=2)
    assert known.tolist() == [False, False, True, True, True, False]
    assert matrix.tolist() == [[0, 0], [0, 0], [1, 2], [3, 4], [5, 6], [0, 0]]
    assert matrix.dtype == np.float32
    none, nothing_known = read_word_vectors(path, [])
    assert none.shape == (0, 2)
    assert nothing_known.shape == (0,)
