"""Saved models: the same when loaded, and errors for damaged files."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import CheckpointError
from catena.lm.ngram.model import NgramModel
from tests.lm.ngram.texts import orders, sentences, trained
from tests.oracle import ngram as oracle

TEXT = ["the dog ran away", "the cat ran home", "", "犬 走る 🐕", "שלום עולם"]


def same(a: NgramModel, b: NgramModel) -> None:
    assert (a.order, a.about, a.vocabulary) == (b.order, b.about, b.vocabulary)
    assert a.score([*TEXT, "the the the zebra"]) == b.score([*TEXT, "the the the zebra"])
    every = np.arange(a.packed.n_states)
    assert (a.packed.spread(every) == b.packed.spread(every)).all()


@pytest.mark.parametrize("estimator", sorted(oracle.ESTIMATORS))
def test_binary_round_trip(estimator, tmp_path):
    model = NgramModel.train(TEXT, order=3, estimator=estimator)
    model.save(tmp_path / "a.ngram")
    assert [path.name for path in tmp_path.iterdir()] == ["a.ngram"]
    same(NgramModel.load(tmp_path / "a.ngram"), model)
    same(NgramModel.load(tmp_path / "a.ngram", verify=False), model)


def test_loaded_model_can_be_saved_over_its_own_file(tmp_path):
    NgramModel.train(TEXT, order=2).save(tmp_path / "a")
    loaded = NgramModel.load(tmp_path / "a")
    loaded.save(tmp_path / "a")
    same(NgramModel.load(tmp_path / "a"), loaded)


@given(text=sentences, order=orders)
@settings(max_examples=20)
def test_packed_model_trie_round_trip(text, order):
    from catena.lm.ngram.packed import PackedNgrams

    packed = trained(text, order).packed
    again = PackedNgrams.of(packed.trie())
    assert (again.histories == packed.histories).all()
    used = packed.slots[::3] >= 0
    assert (used == (again.slots[::3] >= 0)).all()
    assert (again.slots.reshape(-1, 3)[used] == packed.slots.reshape(-1, 3)[used]).all()


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_binary_changed_bit_raises(place, bit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("flip")
    path = folder / "a"
    NgramModel.train(TEXT, order=2).save(path)
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as error:
        NgramModel.load(path)
    assert str(error.value).count(". ") <= 1
    path.unlink()


@given(share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=20)
def test_binary_truncated_file_raises(share, tmp_path_factory):
    path = tmp_path_factory.mktemp("cut") / "a"
    NgramModel.train(TEXT, order=2).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    for verify in (True, False):
        with pytest.raises(CheckpointError, match=r"must have [\d,]+ bytes, got [\d,]+|is neither a"):
            NgramModel.load(path, verify)


def test_binary_other_files_and_versions_raise(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(CheckpointError, match="File not found: n-gram model"):
        NgramModel.load(path)
    for content in (b"", b"some text", b"\x00" * 100):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="is neither a saved n-gram model nor an ARPA file"):
            NgramModel.load(path)
    path.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0" + bytes(100))
    with pytest.raises(CheckpointError, match=r"is a KenLM binary file. Load the ARPA file"):
        NgramModel.load(path)
    NgramModel.train(TEXT, order=2).save(path)
    data = bytearray(path.read_bytes())
    data[8:16] = struct.pack("<Q", 9)
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"must be 1, got 9. Install a version of Catena"):
        NgramModel.load(path)


def test_binary_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    NgramModel.train(TEXT, order=2).save(path)
    before = path.read_bytes()
    monkeypatch.setattr("catena.lm.ngram.binary.checksum", lambda data: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        NgramModel.train(TEXT, order=3).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
