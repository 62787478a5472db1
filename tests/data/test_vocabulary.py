"""Vocabularies and labels: order, specials, counts, and files that come back exactly."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.config import ByteTokenizerConfig, VocabularyConfig
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import PAD, UNK, Labels, Vocabulary
from catena.errors import CheckpointError, DataError

SYMBOLS = st.text(max_size=8)
TOKEN_LISTS = st.lists(st.lists(st.sampled_from("abcdefgh") | SYMBOLS, max_size=12), max_size=8)


def test_the_most_frequent_come_first_and_ties_go_by_spelling() -> None:
    vocabulary = Vocabulary.count([["b", "c", "b"], ["a", "d", "d", "d"]])
    assert vocabulary.symbols == ["<pad>", "<unk>", "d", "b", "a", "c"]
    assert vocabulary.counts == [0, 0, 3, 2, 1, 1]
    assert (PAD, UNK) == (0, 1)
    assert vocabulary.ids(["a", "z", "d"]) == [4, UNK, 2]
    assert vocabulary.tokens([0, 1, 2]) == ["<pad>", "<unk>", "d"]


@given(TOKEN_LISTS, st.integers(1, 3), st.none() | st.integers(1, 5))
def test_kept_symbols_equal_the_definition(token_lists: list[list[str]], min_count: int, max_size: int | None) -> None:
    settings = VocabularyConfig(min_count=min_count, max_size=max_size)
    vocabulary = Vocabulary.count((iter(tokens) for tokens in token_lists), settings)
    flat = [token for tokens in token_lists for token in tokens if token not in ("<pad>", "<unk>")]
    candidates = [token for token in set(flat) if flat.count(token) >= min_count]
    expected = sorted(candidates, key=lambda token: (-flat.count(token), token))[:max_size]
    assert vocabulary.symbols[2:] == expected
    assert sum(vocabulary.counts) == sum(len(tokens) for tokens in token_lists)
    assert all(vocabulary.counts[vocabulary.ids([token])[0]] == flat.count(token) for token in expected)


@given(TOKEN_LISTS)
def test_known_tokens_come_back(token_lists: list[list[str]]) -> None:
    vocabulary = Vocabulary.count(token_lists)
    for tokens in token_lists:
        assert vocabulary.tokens(vocabulary.ids(tokens)) == [token if token != "<pad>" else "<unk>" for token in tokens]


def test_text_never_reaches_a_special_by_its_spelling() -> None:
    tokens = ["<pad>", "<unk>", "<s>", "word"] * 3
    vocabulary = Vocabulary.count([tokens], specials=["<s>", "</s>"])
    assert vocabulary.symbols == ["<pad>", "<unk>", "<s>", "</s>", "word"]
    assert vocabulary.ids(tokens[:4]) == [UNK, UNK, UNK, 4]
    assert vocabulary.counts == [0, 9, 0, 0, 3]
    assert vocabulary.special("</s>") == 3
    assert "<s>" not in vocabulary
    assert "word" in vocabulary
    with pytest.raises(DataError, match="one of '<pad>', '<unk>', '<s>', '</s>', got '<mask>'"):
        vocabulary.special("<mask>")


def test_names_of_specials_in_a_text_are_counted_and_reported() -> None:
    vocabulary = Vocabulary.count([["a", "<unk>", "<s>"], ["<unk>", "b"]], specials=["<s>"])
    assert vocabulary.special_counts == {"<unk>": 2, "<s>": 1}
    assert vocabulary.notes() == ["the text contains <unk> 2 times, <s> 1 times: read as the unknown symbol <unk>"]
    assert vocabulary.counts[UNK] == 3
    assert Vocabulary.count([["a"]]).notes() == []


def test_symbols_of_a_closed_tokenizer_are_kept_in_any_case() -> None:
    tokenizer = build_tokenizer(ByteTokenizerConfig())
    settings = VocabularyConfig(min_count=5, max_size=3)
    vocabulary = Vocabulary.count([tokenizer.tokens("abc")], settings, symbols=tokenizer.symbols)
    assert len(vocabulary) == 258
    assert UNK not in vocabulary.ids(tokenizer.tokens("中文 \x00 é"))


def test_the_largest_size_holds_for_what_is_added_to_given_symbols() -> None:
    counts = {"a": 5, "b": 4, "c": 3, "z": 0}
    vocabulary = Vocabulary.from_counts(counts, VocabularyConfig(max_size=2), symbols=["z"])
    assert vocabulary.symbols == ["<pad>", "<unk>", "a", "z"]
    assert vocabulary.counts == [0, 7, 5, 0]


def test_coverage_counts_tokens_and_types() -> None:
    vocabulary = Vocabulary.count([["a", "b"]])
    coverage = vocabulary.coverage([["a", "a", "x"], ["b", "<pad>"]])
    assert (coverage.tokens, coverage.known_tokens) == (5, 3)
    assert (coverage.types, coverage.known_types) == (4, 2)
    assert coverage.share == pytest.approx(0.6)
    assert vocabulary.coverage([]).share == 1.0


def test_invalid_id_raises_error() -> None:
    vocabulary = Vocabulary(["a"])
    for wrong in (3, -1):
        with pytest.raises(DataError, match=f"Ids must be from 0 to 2, got {wrong}"):
            vocabulary.tokens([1, wrong])


def test_duplicate_symbol_raises_error() -> None:
    with pytest.raises(DataError, match="got 'a' twice"):
        Vocabulary(["a", "b", "a"])
    with pytest.raises(DataError, match="got '<s>' twice"):
        Vocabulary(["<s>"], specials=["<s>"])
    with pytest.raises(DataError, match="got '<unk>' twice"):
        Vocabulary(["<unk>"])
    with pytest.raises(DataError, match="one entry for each of the 2 symbols, got 1"):
        Vocabulary(["a", "b"], [1])


@given(
    st.dictionaries(SYMBOLS, st.integers(0, 10**12), max_size=12),
    st.lists(SYMBOLS, unique=True, max_size=3),
    st.integers(0, 10**12),
)
def test_a_loaded_vocabulary_equals_the_saved_one(
    tmp_path_factory: pytest.TempPathFactory, counts: dict[str, int], specials: list[str], unknown: int
) -> None:
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.json"
    reserved = {"<pad>", "<unk>"}
    specials = [name for name in specials if name not in reserved]
    symbols = [name for name in counts if name not in reserved | set(specials)]
    vocabulary = Vocabulary(symbols, [counts[name] for name in symbols], specials, unknown)
    vocabulary.save(path)
    loaded = Vocabulary.load(path)
    assert loaded == vocabulary
    assert loaded.symbols == vocabulary.symbols
    assert loaded.counts == vocabulary.counts
    assert loaded.ids(symbols) == vocabulary.ids(symbols)
    # One line for each symbol, whatever is in it: you can read and compare the file.
    assert path.read_text(encoding="utf-8").count("\n") == max(1, len(symbols)) + 2


def test_equality_sees_every_part() -> None:
    one = Vocabulary(["a"], [1], ["<s>"], 2)
    assert one == Vocabulary(["a"], [1], ["<s>"], 2)
    assert one != Vocabulary(["b"], [1], ["<s>"], 2)
    assert one != Vocabulary(["a"], [3], ["<s>"], 2)
    assert one != Vocabulary(["a"], [1], ["<s>"], 3)
    assert one != Vocabulary(["<s>", "a"], [0, 1], [], 2)


def test_half_a_surrogate_pair_is_saved_too(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["a\ud800", "b"])
    vocabulary.save(tmp_path / "v.json")
    assert Vocabulary.load(tmp_path / "v.json") == vocabulary


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "The vocabulary .* is missing"),
        ("", "Cannot read"),
        ('{"kind": "vocabulary"', "Cannot read"),
        ("[]", "not a vocabulary file"),
        ('{"kind": "labels", "format": 1, "symbols": []}', "not a vocabulary file"),
        ('{"kind": "vocabulary", "format": 9, "symbols": []}', "must be 1 for this version of Catena, got 9"),
        ('{"kind": "vocabulary", "format": 1, "symbols": [["a"]]}', "does not list symbols with their counts"),
        ('{"kind": "vocabulary", "format": 1, "symbols": [["a", 1]]}', "is damaged"),
        (
            '{"kind": "vocabulary", "format": 1, "specials": [], "unknown_count": 0, "symbols": [["a", 1], ["a", 2]]}',
            "damaged: .*got 'a' twice",
        ),
    ],
)
def test_damaged_file_raises_error(content: str | None, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CheckpointError, match=problem) as caught:
        Vocabulary.load(path)
    assert "vocabulary.json" in str(caught.value)


# --- labels -----------------------------------------------------------------------------------------------


def test_labels_are_sorted_and_counted() -> None:
    labels = Labels.count([("pos",), ("neg",), ("pos", "funny")])
    assert labels.describe(2) == "pos 2, neg 1, …"
    assert labels.describe(3) == "pos 2, neg 1, funny 1"
    assert labels.names == ("funny", "neg", "pos")
    assert labels.counts == (1, 1, 2)
    assert labels.ids(["pos", "neg"]) == [2, 1]
    assert labels.name(0) == "funny"
    assert len(labels) == 3
    assert "neg" in labels


def test_labels_that_are_numbers_are_sorted_by_value() -> None:
    assert Labels.count([(str(n),) for n in range(11, -2, -1)]).names[:3] == ("-1", "0", "1")
    assert Labels.count([("10",), ("9",)]).names == ("9", "10")
    assert Labels.count([("10",), ("9",), ("x",)]).names == ("10", "9", "x")


def test_unknown_label_suggests_nearest() -> None:
    labels = Labels.count([("positive",), ("negative",)])
    with pytest.raises(DataError, match=r"'postive' is not one of the 2 labels .* did you mean 'positive'"):
        labels.ids(["positive", "postive"])
    with pytest.raises(DataError, match="known are 'negative', 'positive'"):
        labels.id("x")
    for wrong in (2, -1):
        with pytest.raises(DataError, match=f"must be from 0 to 1, got {wrong}"):
            labels.name(wrong)


@given(st.lists(st.lists(SYMBOLS, max_size=3), max_size=8))
def test_loaded_labels_equal_the_saved_ones(tmp_path_factory: pytest.TempPathFactory, lists: list[list[str]]) -> None:
    path = tmp_path_factory.mktemp("labels") / "labels.json"
    labels = Labels.count(lists)
    labels.save(path)
    assert Labels.load(path) == labels
    counter = Counter(name for names in lists for name in names)
    assert dict(zip(labels.names, labels.counts, strict=True)) == dict(counter)
    assert [labels.name(i) for i in labels.ids(labels.names)] == list(labels.names)


def test_loaded_labels_keep_the_order_of_the_file(tmp_path: Path) -> None:
    labels = Labels(["z", "a"], [1, 2])
    labels.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json").names == ("z", "a")
    data = json.loads((tmp_path / "labels.json").read_text())
    data["symbols"] = [["a", 1], ["a", 1]]
    (tmp_path / "labels.json").write_text(json.dumps(data))
    with pytest.raises(CheckpointError, match="got 'a' twice"):
        Labels.load(tmp_path / "labels.json")
    with pytest.raises(DataError, match="one entry for each of the 2 labels"):
        Labels(["a", "b"], [1])
    assert Labels(["a"]) != Labels(["a"], [1])
