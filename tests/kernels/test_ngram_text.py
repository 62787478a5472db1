"""Bytes to ids: the tokens of ``str.split``, line by line, whatever the bytes are."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catena.kernels.ngram.cpu_text import KINDS, hash_names, insert_keys, tokenize_lines

BEGIN, END, UNKNOWN = 900, 901, 902
BLANKS = " \t\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u202f\u205f\u3000"


def run(text: str, most: int = 800, begin: int = BEGIN, skip_blank: int = 1, known: tuple[str, ...] = ()) -> list[str]:
    """The tokens that the loop finds, written out again; lines end in ``</>``."""
    data = np.frombuffer(text.encode(), np.uint8).copy()
    keys, values = np.zeros(2048, np.uint64), np.zeros(2048, np.int32)
    names, ends = np.zeros(len(data) + 100, np.uint8), np.zeros(1000, np.int64)
    if known:
        blob = "".join(known).encode()
        names[: len(blob)] = np.frombuffer(blob, np.uint8)
        ends[: len(known)] = np.cumsum([len(word.encode()) for word in known])
        found = np.zeros(len(known), np.uint64)
        hash_names(names, ends[: len(known)].copy(), found)
        insert_keys(found, np.arange(len(known), dtype=np.int32), keys, values)
    out, at = np.zeros(2 * len(data) + 4, np.int32), np.array([0, 0, 0, len(known)], np.int64)
    tokenize_lines(
        data, at, keys, values, names, ends, out, KINDS, most, 0 if most else UNKNOWN, begin, END, skip_blank
    )
    written = {BEGIN: "<>", END: "</>", UNKNOWN: "<?>"}
    for t in range(at[3]):
        written[t] = bytes(names[ends[t - 1] if t else 0 : ends[t]]).decode()
    return [written[i] for i in out[: at[2]].tolist()]


@given(st.text(st.sampled_from("abé日🙂\n\r" + BLANKS), max_size=60))
def test_tokens_equal_str_split(text: str) -> None:
    lines = re.split("\r\n|\r|\n", text)
    wanted = []
    for i, line in enumerate(lines):
        if line.split():
            wanted += ["<>", *line.split()] + (["</>"] if i < len(lines) - 1 else [])
    assert run(text) == wanted


pieces = st.text(st.sampled_from("a!~\x7f\0\x01\x08é–€日🙂"), min_size=1, max_size=20)


@given(st.lists(st.tuples(pieces, st.sampled_from([*BLANKS, "  "])), max_size=8), pieces)
@example([("aaaaaaa", " "), ("aaaaaaaa", "\u3000"), ("a" * 16, "\x1f"), ("\0!!!!!!!", " ")], "a" * 9)
def test_long_words_end_where_they_end_whatever_bytes_surround_them(words: list[tuple[str, str]], last: str) -> None:
    text = "".join(word + blank for word, blank in words) + last
    assert run(text) == ["<>", *(word for word, _ in words), last]


@pytest.mark.parametrize("n", range(1, 18))
def test_every_blank_ends_a_word_of_any_length(n: int) -> None:
    for blank in BLANKS:
        assert run("a" * n + blank + "b" * 9) == ["<>", "a" * n, "b" * 9]


def hashes(words: list[bytes]) -> list[int]:
    names, found = np.frombuffer(b"".join(words), np.uint8), np.zeros(len(words), np.uint64)
    hash_names(names, np.cumsum([len(word) for word in words]), found)
    return found.tolist()


@given(st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=6))
def test_hash_of_a_word_does_not_depend_on_its_position(words: list[bytes]) -> None:
    assert hashes(words) == [hashes([word])[0] for word in words]


def test_similar_words_have_different_hashes() -> None:
    longest = bytes(range(65, 89))
    words = {longest[:n] + bytes(zeros) for n in range(25) for zeros in range(18)}  # zeros at the end are letters too
    words |= {longest[:k] + bytes([letter]) + longest[k + 1 :] for k in range(24) for letter in range(256)}
    words |= {longest[8:16] + longest[:8], longest[:8] + longest[8:16], longest[:8] + longest[:8]}
    found = hashes(sorted(words))
    assert len(set(found)) == len(words)
    assert 0 not in found
    # The places of a table come from the middle of the hash: no more of them may coincide than random ones.
    assert len({h >> 20 & 0xFFFF for h in found}) > 0.9 * len(words)


@given(st.lists(st.lists(st.sampled_from(["a", "bb", "日", "é"]), max_size=4), max_size=6))
def test_blank_lines_are_kept_by_an_option_and_begin_is_optional(lines: list[list[str]]) -> None:
    text = "".join(" ".join(line) + "\n" for line in lines)
    assert run(text, begin=-1, skip_blank=0) == [token for line in lines for token in (*line, "</>")]


def test_known_words_are_found_and_others_are_unknown_or_added() -> None:
    assert run("b a c\n", most=0, known=("a", "b")) == ["<>", "b", "a", "<?>", "</>"]
    assert run("b a c\n", known=("a", "b")) == ["<>", "b", "a", "c", "</>"]


def test_loop_stops_if_the_table_is_full() -> None:
    assert run("a b a c\n", most=2) == ["<>", "a", "b"]
