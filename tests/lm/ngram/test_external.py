"""Counting by runs on disk gives the same counts as in memory."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.data.config import VocabularyConfig
from catena.errors import ConfigError, FormatError
from catena.lm.ngram import external
from catena.lm.ngram.array_storage import MappedSpace, resident_bytes
from catena.lm.ngram.building import counted_ids
from catena.lm.ngram.counts import count_ids
from catena.lm.ngram.external import ExternalCounter
from catena.lm.ngram.model import NgramModel
from tests.lm.ngram.texts import FIRST, letters, orders, sentences

MEMORY = 32 << 20


@given(text=sentences, order=orders, most=st.integers(1, 40))
def test_external_counts_equal_counts_in_memory(text, order, most, tmp_path_factory):
    known = letters()
    folder = tmp_path_factory.mktemp("runs")
    counter = ExternalCounter(order, len(known), 2, 3, (0, 2), MEMORY, folder)
    counter.most = most  # many runs with one or a few sentences each
    for sentence in text:
        counter.add(np.array([2, *sentence, 3], np.int32))
    found = counter.finish(MappedSpace(MEMORY))
    wanted = counted_ids(text, order, known)
    for name in ("words", "first", "suffix", "bases"):
        assert (getattr(found.shape, name) == getattr(wanted.shape, name)).all(), name
    assert (found.counts == wanted.counts).all()
    assert (found.adjusted == wanted.adjusted).all()
    assert not list(folder.iterdir())


@given(order=st.integers(1, 3), blocks=st.integers(1, 3))
@settings(max_examples=10)
def test_external_counter_splits_pieces_between_sentences(order, blocks, tmp_path_factory):
    rng = np.random.default_rng(order)
    text = [[int(w) for w in rng.integers(FIRST, FIRST + 3, n)] for n in rng.integers(0, 9, 300)]
    counter = ExternalCounter(order, 7, 2, 3, (0, 2), MEMORY, tmp_path_factory.mktemp("runs"))
    counter.most = 50
    whole = np.array([i for sentence in text for i in [2, *sentence, 3]], np.int32)
    places = [0, *(np.flatnonzero(whole == 3) + 1)[99 : 99 * blocks + 1 : 99].tolist(), len(whole)]
    for low, high in itertools.pairwise(places):
        counter.add(whole[low:high])
    assert len(counter._runs) > 10
    assert (counter.finish(MappedSpace(MEMORY)).counts == counted_ids(text, order, letters()).counts).all()


@pytest.mark.parametrize("estimator", ["modified-kneser-ney", "katz", "good-turing", "stupid-backoff"])
def test_train_with_memory_limit_gives_the_same_model(estimator, tmp_path):
    path = tmp_path / "text"
    rng = np.random.default_rng(3)
    lines = [" ".join(f"w{i}" for i in rng.zipf(1.5, n) % 50) for n in rng.integers(0, 12, 2000)]
    path.write_text("\n".join(lines) + "\n")
    told: list[tuple[str, float]] = []
    known = VocabularyConfig(max_size=30)
    options = {"order": 3, "estimator": estimator, "prune": (0, 0, 1), "vocabulary": known}
    limited = NgramModel.train(path, memory=MEMORY, progress=lambda what, share: told.append((what, share)), **options)
    free = NgramModel.train(path, **options)
    assert limited.vocabulary == free.vocabulary
    assert (limited.packed.histories == free.packed.histories).all()
    assert limited.score(lines) == free.score(lines)
    assert [what for what, share in told if share == 1.0] == ["words", "counting", "estimating"]
    assert all(0 <= share <= 1 for _, share in told)
    limited.save(tmp_path / "model")
    assert NgramModel.load(tmp_path / "model").score(lines) == free.score(lines)


def test_train_with_memory_limit_accepts_sentences():
    text = ["a b", "b a b", ""]
    assert NgramModel.train(iter(text), order=2, memory=MEMORY).score(text) == NgramModel.train(text, order=2).score(
        text
    )
    assert NgramModel.train([], order=2, memory=MEMORY).score(["a"]) == NgramModel.train([], order=2).score(["a"])


def test_train_with_too_low_memory_limit_raises():
    with pytest.raises(ConfigError, match="memory must be at least 16,777,216 bytes, got 1,000"):
        NgramModel.train(["a"], memory=1000)


def test_mapped_arrays_keep_values_after_release():
    space = MappedSpace(1 << 20)
    array = space.zeros(1_000_000, np.int32)
    with space.watched():
        array[:] = np.arange(1_000_000)
        space.release()
        assert (array == np.arange(1_000_000)).all()
    assert array.sum() == 499_999_500_000
    assert resident_bytes() >= 0


@pytest.mark.parametrize("memory", [None, MEMORY])
def test_train_reads_files_in_any_encoding_and_compression(memory, tmp_path):
    text = "the dog ran\r\nשלום 🐕\n\nlast line without an end"
    sentences = ["the dog ran", "שלום 🐕", "", "last line without an end"]
    wanted = NgramModel.train(sentences, order=2).score(sentences)
    plain, packed, wide = tmp_path / "a.txt", tmp_path / "a.gz", tmp_path / "b.txt"
    plain.write_bytes(text.encode())
    packed.write_bytes(gzip.compress(text.encode()))
    wide.write_bytes(text.encode("utf-16"))
    for path in (plain, packed, wide, str(plain)):
        assert NgramModel.train(path, order=2, memory=memory).score(sentences) == wanted
    both = NgramModel.train([plain, wide], order=2, memory=memory)
    assert both.score(sentences) == NgramModel.train(sentences * 2, order=2).score(sentences)


@pytest.mark.parametrize("memory", [None, MEMORY])
def test_train_on_invalid_text_raises_with_line(memory, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(FormatError, match=r"a\.txt:2 is not UTF-8"):
        NgramModel.train(path, memory=memory)
    path.write_bytes(b"fine\nn\0l\n")
    with pytest.raises(FormatError, match=r"a\.txt:2 has a NUL byte"):
        NgramModel.train(path, memory=memory)
    with pytest.raises(FormatError, match="File not found"):
        NgramModel.train(tmp_path / "b.txt", memory=memory)


def test_train_with_long_lines_and_many_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("catena.lm.ngram.reading._PIECE", 7)
    path = Path(tmp_path / "a.txt")
    text = ["a much longer line than a piece", "b", "", "c c c"]
    path.write_text("\n".join(text))
    assert NgramModel.train(path, order=2).score(text) == NgramModel.train(text, order=2).score(text)
    assert external.LEAST == 16 << 20


def test_train_in_memory_reports_progress(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a b\n" * 10)
    told: list[tuple[str, float]] = []
    NgramModel.train(path, order=2, progress=lambda what, share: told.append((what, share)))
    assert [what for what, share in told if share == 1.0] == ["reading", "counting", "estimating"]


@pytest.mark.parametrize("sizes", [(4000, 3, 1), (3, 4000), (2500, 2500)])
def test_external_runs_longer_than_a_read_block(sizes, tmp_path):
    rng = np.random.default_rng(5)
    counter = ExternalCounter(2, 1000, 2, 3, (0, 2), MEMORY, tmp_path)
    counter.memory, counter.most = 1, 1  # blocks of 1024 rows, a run for each piece
    parts = [np.concatenate(([2], rng.integers(4, 1000, n), [3])).astype(np.int32) for n in sizes]
    for part in parts:
        counter.add(part)
    assert len(counter._runs) == len(sizes)
    found, wanted = counter.finish(MappedSpace(MEMORY)), count_ids(np.concatenate(parts), 2, 1000, 2, 3, (0, 2))
    assert (found.shape.words == wanted.shape.words).all()
    assert (found.counts == wanted.counts).all()
