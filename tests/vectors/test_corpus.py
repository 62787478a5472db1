"""Text to ids: the words that plain Python would count, from files of any kind, and clear words for what cannot be."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.config import WordTokenizerConfig
from catena.errors import DataError, FormatError
from catena.vectors.config import PhraseConfig, WordConfig
from catena.vectors.corpus import VectorCorpus, corpus_of_files, corpus_of_sentences, ids_of_sentences
from catena.vectors.word_index import WordIndex

ALL, NO_PHRASES = WordConfig(min_count=1), PhraseConfig()


def written(corpus: VectorCorpus) -> list[list[str]]:
    lines: list[list[str]] = [[]]
    for i in np.asarray(corpus.ids).tolist():
        lines.append([]) if i < 0 else lines[-1].append(corpus.words[i])
    assert lines.pop() == []
    return lines


def of_text(folder: Path, text: str | bytes, settings: WordConfig = ALL, name: str = "text.txt") -> VectorCorpus:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return corpus_of_files([path], settings, NO_PHRASES)


WORD = st.sampled_from(["a", "b", "cc", "日本", "é", "🙂", "x" * 50])


@given(
    st.lists(st.lists(WORD, max_size=8), min_size=1, max_size=8).filter(lambda s: len({w for x in s for w in x}) > 1)
)
def test_sentences_come_back_and_words_are_sorted_by_frequency(sentences: list[list[str]]) -> None:
    corpus = corpus_of_sentences(sentences, ALL, NO_PHRASES)
    assert written(corpus) == sentences
    counts = Counter(word for sentence in sentences for word in sentence)
    assert dict(zip(corpus.words, corpus.words.counts.tolist(), strict=True)) == counts
    assert corpus.words.counts.tolist() == sorted(counts.values(), reverse=True)
    assert (corpus.read, corpus.size, corpus.lines) == (counts.total(), counts.total(), len(sentences))


@given(st.lists(st.lists(WORD, max_size=8), min_size=1, max_size=8), st.integers(1, 4), st.integers(2, 4))
def test_rare_words_are_left_out_and_the_vocabulary_has_a_limit(
    sentences: list[list[str]], least: int, most: int
) -> None:
    counts = Counter(word for sentence in sentences for word in sentence)
    order = [word for word, count in counts.most_common() if count >= least][:most]
    settings = WordConfig(min_count=least, max_size=most)
    if len(order) < 2:
        with pytest.raises(DataError, match="words"):
            corpus_of_sentences(sentences, settings, NO_PHRASES)
        return
    corpus = corpus_of_sentences(sentences, settings, NO_PHRASES)
    assert list(corpus.words) == order  # of equal counts the word seen first comes first, in Counter too
    assert written(corpus) == [[word for word in sentence if word in order] for sentence in sentences]
    assert corpus.read == counts.total()


def test_files_may_be_compressed_have_tabs_and_other_line_ends(tmp_path: Path) -> None:
    lines = [["a", "b"], [], ["c"], ["a"]]
    assert written(of_text(tmp_path, "a\tb\n\nc \t\r\n  a")) == lines
    assert written(of_text(tmp_path, gzip.compress(b"a b\n\nc\na\n"), name="text.gz")) == lines
    assert written(of_text(tmp_path, b"\xef\xbb\xbfa b\n\nc\na\n")) == lines
    assert written(of_text(tmp_path, "a b\n\nc\na\n".encode("utf-16"))) == lines


def test_files_follow_one_another_and_a_line_never_runs_into_the_next_file(tmp_path: Path) -> None:
    for name, text in (("one", "a b"), ("two", "c a\n"), ("three", "b")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    corpus = corpus_of_files([tmp_path / name for name in ("one", "two", "three")], ALL, NO_PHRASES)
    assert written(corpus) == [["a", "b"], ["c", "a"], ["b"]]


def test_a_line_of_many_blocks_is_one_line_and_its_words_are_whole(tmp_path: Path) -> None:
    words = [f"wörd{i % 1000}" for i in range(150_000)]
    corpus = of_text(tmp_path, " ".join(words))
    assert (corpus.lines, corpus.size, len(corpus.words)) == (1, 150_000, 1000)
    assert set(corpus.words.counts.tolist()) == {150}
    assert corpus.words[int(corpus.ids[149_123])] == words[149_123]


def test_a_word_may_be_longer_than_a_block(tmp_path: Path) -> None:
    long = "x" * 3_000_000
    corpus = of_text(tmp_path, f"a {long} a {long}\n")
    assert written(corpus) == [["a", long, "a", long]]


def test_a_vocabulary_of_any_size_is_counted(tmp_path: Path) -> None:
    corpus = of_text(tmp_path, " ".join(f"w{i}" for i in range(200_000)) + "\nw7 w7\n")
    assert len(corpus.words) == 200_000
    assert (corpus.words[0], int(corpus.words.counts[0])) == ("w7", 3)
    assert corpus.words.find(["w199999", "w0", "w200000"]).tolist() == [199_999, 1, -1]


def test_words_after_scan_limit_are_dropped_with_note(tmp_path: Path) -> None:
    corpus = of_text(tmp_path, "a b a c d c a b\n", WordConfig(min_count=1, scan_limit=2))
    assert written(corpus) == [["a", "b", "a", "a", "b"]]
    assert corpus.read == 8
    assert corpus.notes == ("3 words that first occurred after words.scan_limit = 2 distinct words were dropped",)


def test_words_may_be_put_in_lower_case_or_cut_by_a_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("Don't SHOUT, Été!\n", encoding="utf-8")
    tokens = WordTokenizerConfig(lowercase=True)
    assert written(corpus_of_files([path], ALL, NO_PHRASES, tokens=tokens)) == [["do", "n't", "shout", ",", "été", "!"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", r"text\.txt has no words"),
        (b" \n\t\n", "has no words"),
        (b"word", "At least 2 words must occur words.min_count = 1 times, got 1"),
        (b"fine\nfine caf\xe9 x\n", r"text\.txt:2 is not UTF-8: byte 0xe9, near .*--encoding cp1252"),
        (b"a b\n\nc \0 d\n", r"text\.txt:3 has a NUL byte"),
    ],
)
def test_unusable_text_raises_error(tmp_path: Path, text: bytes, message: str) -> None:
    with pytest.raises((DataError, FormatError), match=message):
        of_text(tmp_path, text)


@pytest.mark.parametrize("tokens", [None, WordTokenizerConfig()])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'label,text\ngood,"a fine, day"\nbad,"two\nlines"\n'),
        ("b.TSV", "text\tlabel\na fine, day\tgood\ntwo lines\tbad\n"),
        ("c.jsonl", '{"text": "a fine, day", "n": 1}\n{"text": "two\\nlines", "n": 2}\n'),
    ],
)
def test_of_tables_one_column_is_read(tmp_path: Path, name: str, text: str, tokens: WordTokenizerConfig | None) -> None:
    path, packed = tmp_path / name, tmp_path / f"{name}.gz"
    path.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    wanted = [["a", "fine,", "day"] if tokens is None else ["a", "fine", ",", "day"], ["two", "lines"]]
    for file in (path, packed):
        assert written(corpus_of_files([file], ALL, NO_PHRASES, tokens=tokens)) == wanted
    if name != "c.jsonl":
        named = corpus_of_files([path], ALL, NO_PHRASES, tokens=tokens, text_column="label")
        assert written(named) == [["good"], ["bad"]]
    as_text = corpus_of_files([path], ALL, NO_PHRASES, format="text")
    assert [" ".join(line) for line in written(as_text)] == [" ".join(line.split()) for line in text.splitlines()]


def test_another_encoding_is_read_when_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("café olé\n".encode("latin-1"))
    corpus = corpus_of_files([path], ALL, NO_PHRASES, encoding="latin-1")
    assert written(corpus) == [["café", "olé"]]


def test_no_files_or_strings_raise_error() -> None:
    with pytest.raises(DataError, match="no training files"):
        corpus_of_files([], ALL, NO_PHRASES)
    with pytest.raises(DataError, match="A sentence must be a list of words, got the string 'a b'"):
        corpus_of_sentences(["a b"], ALL, NO_PHRASES)
    with pytest.raises(DataError, match="must not contain a line feed or NUL"):
        corpus_of_sentences([["a\nb", "c"]], ALL, NO_PHRASES)


def test_known_words_keep_their_numbers_and_counts_are_added() -> None:
    old = WordIndex.of(["z", "a", "b"], [9, 5, 1])
    corpus = corpus_of_sentences(
        [["new", "a", "new", "rare", "a", "z"]], WordConfig(min_count=2), NO_PHRASES, known=old
    )
    assert list(corpus.words) == ["z", "a", "b", "new"]
    assert corpus.words.counts.tolist() == [10, 7, 1, 2]
    assert written(corpus) == [["new", "a", "new", "a", "z"]]


def test_ids_of_sentences_are_of_known_words_alone() -> None:
    ids, unknown = ids_of_sentences([["a", "q"], [], ["b"]], WordIndex.of(["b", "a"]))
    assert ids.tolist() == [1, -1, -1, 0, -1]
    assert unknown == 1


def test_the_ids_of_a_text_lie_in_a_file_that_goes_with_it(tmp_path: Path) -> None:
    corpus = of_text(tmp_path, "a b\n")
    assert isinstance(corpus.ids, np.memmap)
    folder = Path(corpus.folder.name)
    assert folder.exists()
    del corpus
    assert not folder.exists()
