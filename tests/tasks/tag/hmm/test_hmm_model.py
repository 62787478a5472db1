"""Symbols of words seen and unseen, and chains of a hidden Markov model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from catena.errors import CheckpointError
from catena.tasks.tag.hmm.model import HmmModel, HmmSymbols, HmmTables, best_names, word_shapes
from catena.tasks.word_inputs.sentences import Sentence

RARE = [f"{letter}running" for letter in "abcdef"]
TEXT = [("the", "cat", "the"), ("cat",), tuple(RARE), ("X1",)]


def test_word_shapes_go_from_specific_to_general() -> None:
    assert word_shapes("Running", "endings") == ["<Xx -ng>", "<Xx>", "<word>"]
    assert word_shapes("12-34", "endings") == ["<d-d>", "<word>"]
    assert word_shapes("a.b.c.d.e", "shapes") == ["<x.x.…>", "<word>"]
    assert word_shapes("Running", "none") == ["<word>"]


def test_rare_words_use_the_symbol_of_their_class() -> None:
    symbols = HmmSymbols.count(TEXT, 2, "endings")
    assert symbols.words == ("cat", "the")
    assert symbols.looks == ("<x -ng>", "<x>", "<word>")
    named = [symbols.names[i] for i in symbols.ids([("the", "singing", "unseen", "X1", "Arunning")])]
    assert named == ["the", "<x -ng>", "<x>", "<word>", "<word>"]


def test_frequent_words_do_not_count_for_word_classes() -> None:
    frequent = [("baking", "baking")] * 5
    assert HmmSymbols.count(frequent, 2, "endings").looks == ("<word>",)
    often = [(word, word) for word in ("taking", "making", "waking", "raking", "faking")]
    assert HmmSymbols.count(often, 2, "endings").looks == ("<word>",)
    assert HmmSymbols.count(often, 3, "endings").looks == ("<x -ng>", "<x>", "<word>")


def test_saved_symbols_load_equal(tmp_path: Path) -> None:
    symbols = HmmSymbols.count(TEXT, 2, "shapes")
    symbols.save(tmp_path)
    assert HmmSymbols.load(tmp_path) == symbols
    (tmp_path / "symbols.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"symbols.json is damaged"):
        HmmSymbols.load(tmp_path)


def model() -> HmmModel:
    symbols = HmmSymbols.count(TEXT, 2, "none")
    emissions = np.log(np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]))
    transitions = np.log(np.array([[0.5, 0.3], [0.2, 0.3]]))
    return HmmModel(
        HmmTables(np.log(np.array([0.9, 0.1])), transitions, np.log(np.array([0.2, 0.5])), emissions), symbols
    )


def test_log_z_is_the_probability_of_the_words() -> None:
    chain = model().chain([Sentence(("cat",)), Sentence(("the", "what"))])
    one = 0.9 * 0.7 * 0.2 + 0.1 * 0.1 * 0.5
    two = (
        0.9 * 0.2 * (0.5 * 0.1 * 0.2 + 0.3 * 0.6 * 0.5)
        + 0.1 * 0.3 * (0.2 * 0.1 * 0.2 + 0.3 * 0.6 * 0.5)
    )  # fmt: skip
    assert chain.log_partition().tolist() == pytest.approx([math.log(one), math.log(two)])


def test_renamed_states_are_saved(tmp_path: Path) -> None:
    plain, other = model(), model().renamed([1, 0])
    sentences = [Sentence(("cat", "the", "x")), Sentence(("the",))]
    assert torch.allclose(plain.chain(sentences).marginals(), other.chain(sentences).marginals().flip(-1))
    other.symbols.save(tmp_path)
    loaded = HmmModel.load(tmp_path, other.arrays())
    assert torch.equal(loaded.chain(sentences).marginals(), other.chain(sentences).marginals())


def test_best_names_match_states_to_most_frequent_tags() -> None:
    assert best_names(np.array([[1.0, 9.0, 3.0], [8.0, 7.0, 0.0], [5.0, 2.0, 0.0]])) == [1, 0, 2]


def test_describe_shows_tables() -> None:
    lines = model().describe(["A", "B"], 2)
    assert lines[0] == "hidden Markov model of 2 tags and 3 symbols"
    assert lines[1].startswith("A: cat 0.700  the 0.200   then A 0.50  B 0.30  the end 0.20")
