"""The features of a text equal those of a naive implementation of the templates, with distinct ids."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import CheckpointError
from catena.tasks.tag.features import dictionary
from catena.tasks.tag.features.dictionary import FeatureDictionary, FeatureIds, feature_hash
from catena.tasks.tag.features.templates import parse_templates
from catena.tasks.word_inputs.sentences import Sentence
from tests.oracle.feature_tagger import features

TEMPLATES = [
    "bias", "w[0]", "w[-2]", "w[1]", "w[-1]|w[0]", "lower[0]|column1[1]", "suffix2[0]", "prefix3[1]",
    "column1[-1]|column1[0]|column1[1]",
]  # fmt: skip

WORD = st.sampled_from(["a", "b", "B", "ab", "abc", "Abc", "日本", "x" * 40, "\udc80"])
SENTENCES = st.lists(st.lists(st.tuples(WORD, st.sampled_from(["N", "V"])), max_size=6), max_size=8)
Rows = list[list[tuple[str, str]]]


def sentences_of(rows: Rows) -> list[Sentence]:
    return [Sentence(tuple(w for w, _ in row), (tuple(t for _, t in row),)) for row in rows]


def named(encoded: FeatureIds, names: list[str]) -> list[list[str]]:
    starts = encoded.token_first
    return [[names[f] for f in encoded.ids[starts[i] : starts[i + 1]]] for i in range(encoded.tokens)]


def naive(rows: Rows) -> list[list[str]]:
    return [features(TEMPLATES, [w for w, _ in row], [t for _, t in row], i) for row in rows for i in range(len(row))]


@given(SENTENCES, st.integers(1, 3))
def test_features_equal_a_naive_implementation(rows: Rows, least: int) -> None:
    counted, encoded = FeatureDictionary.count(sentences_of(rows), parse_templates(TEMPLATES), least)
    tokens = naive(rows)
    counts = Counter(feature for token in tokens for feature in token)
    kept = [[feature for feature in token if counts[feature] >= least] for token in tokens]
    assert counted.names is not None
    assert named(encoded, list(counted.names)) == kept
    assert sorted(counted.names) == sorted(feature for feature, n in counts.items() if n >= least)
    assert encoded.lengths.tolist() == [len(row) for row in rows]


@given(SENTENCES, SENTENCES)
def test_encode_keeps_only_known_features(rows: Rows, others: Rows) -> None:
    counted, _ = FeatureDictionary.count(sentences_of(rows), parse_templates(TEMPLATES))
    assert counted.names is not None
    known = set(counted.names)
    kept = [[feature for feature in token if feature in known] for token in naive(others)]
    assert named(counted.encode(sentences_of(others)), list(counted.names)) == kept


@pytest.mark.parametrize("least", [1, 4])
def test_block_size_and_table_growth_do_not_change_ids(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[(f"word{i % 50}x{i % 7}", "NV"[i % 2]) for i in range(begin, begin + 9)] for begin in range(0, 600, 7)]
    templates = parse_templates(TEMPLATES)
    whole, encoded = FeatureDictionary.count(sentences_of(rows), templates, least)
    monkeypatch.setattr(dictionary, "BLOCK", 1)
    monkeypatch.setattr(dictionary.sentence_blocks, "__defaults__", (10,))
    monkeypatch.setattr(dictionary, "REMEMBERED", 5)
    parts, again = FeatureDictionary.count(sentences_of(rows), templates, least)
    assert parts.names == whole.names
    assert np.array_equal(parts.keys, whole.keys)
    assert np.array_equal(again.ids, encoded.ids)
    assert np.array_equal(again.token_first, encoded.token_first)
    assert np.array_equal(parts.encode(sentences_of(rows)).ids, encoded.ids)


def test_feature_hash_is_the_same_on_every_machine() -> None:
    assert feature_hash("the") == int.from_bytes(blake2b(b"the", digest_size=8).digest(), "little")
    assert feature_hash(None) == 0
    assert len({feature_hash(value) for value in ("", "a", "A", "<-1>")}) == 4


def test_saved_dictionary_loads_equal(tmp_path: Path) -> None:
    rows = [[("a\u2028b", "N"), ("c", "V")], [("d", "N")]]
    counted, encoded = FeatureDictionary.count(sentences_of(rows), parse_templates(TEMPLATES))
    counted.save(tmp_path)
    loaded = FeatureDictionary.load(tmp_path, TEMPLATES, counted.keys)
    assert list(loaded.names or ()) == list(counted.names or ())
    assert np.array_equal(loaded.encode(sentences_of(rows)).ids, encoded.ids)
    with pytest.raises(CheckpointError, match=r"must have 2 features, got "):
        FeatureDictionary.load(tmp_path, TEMPLATES, counted.keys[:2])
