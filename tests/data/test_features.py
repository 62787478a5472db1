"""Sparse features: against counting one by one, and a hash that never changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from catena.data.config import FeatureConfig
from catena.data.features import (
    BEGIN,
    BETWEEN,
    CHARACTERS,
    END,
    Features,
    build_features,
    load_features,
)
from catena.errors import CheckpointError
from tests.oracle.text_features import character_ngrams, ngrams, value

TOKEN_LISTS = st.lists(st.lists(st.sampled_from(["a", "b", "ab", "ba", "é中"]), max_size=7), max_size=6)
SETTINGS = st.builds(
    FeatureConfig,
    ngrams=st.integers(1, 3),
    characters=st.sampled_from([0, 1, 3]),
    characters_from=st.just(1),
    values=st.sampled_from(["binary", "counts", "log"]),
    min_count=st.integers(1, 2),
)


def counted(tokens: list[str], settings: FeatureConfig) -> Counter[str]:
    """The features of one text by the oracle, as the keys of the module."""
    keys = [BETWEEN.join(gram) for gram in ngrams(tokens, settings.ngrams)]
    if settings.characters:
        marks = {"BEGIN": BEGIN, "END": END}
        for token in tokens:
            for gram in character_ngrams(token, settings.characters_from, settings.characters):
                keys.append(CHARACTERS + "".join(marks.get(c, c) for c in gram))
    return Counter(keys)


def rows(features: Features) -> list[dict[int, float]]:
    pieces = [slice(a, b) for a, b in zip(features.offsets, features.offsets[1:], strict=False)]
    return [dict(zip(features.ids[p].tolist(), features.values[p].tolist(), strict=True)) for p in pieces]


@given(TOKEN_LISTS, TOKEN_LISTS, SETTINGS)
def test_listed_features_equal_those_counted_one_by_one(
    train: list[list[str]], test: list[list[str]], settings: FeatureConfig
) -> None:
    space = build_features(settings, train)
    total: Counter[str] = Counter()
    for tokens in train:
        total.update(counted(tokens, settings))
    kept = sorted((key for key, n in total.items() if n >= settings.min_count), key=lambda k: (-total[k], k))
    assert len(space) == len(kept)
    found = rows(space.features(iter(test)))
    assert len(found) == len(test)
    for tokens, row in zip(test, found, strict=True):
        expected = {
            kept.index(key): value(n, settings.values) for key, n in counted(tokens, settings).items() if key in kept
        }
        assert row == pytest.approx(expected)
        assert list(row) == sorted(row)


@given(TOKEN_LISTS, st.integers(1, 7))
def test_hashed_features_add_up_in_their_buckets(lists: list[list[str]], buckets: int) -> None:
    settings = FeatureConfig(ngrams=2, buckets=buckets, values="counts")
    features = build_features(settings, []).features(lists)
    for tokens, row in zip(lists, rows(features), strict=True):
        assert sum(row.values()) == len(ngrams(tokens, 2))
        assert all(0 <= i < buckets for i in row)


def test_the_hash_is_crc32_on_every_machine() -> None:
    # 0xCBF43926 is the published check value of CRC-32 for these nine characters.
    space = build_features(FeatureConfig(ngrams=1, buckets=2**32), [])
    assert space.features([["123456789"]]).ids.tolist() == [0xCBF43926]
    small = build_features(FeatureConfig(ngrams=1, buckets=1000), [])
    assert small.features([["123456789"]]).ids.tolist() == [0xCBF43926 % 1000]


@given(TOKEN_LISTS.filter(bool), st.data())
def test_taken_rows_are_the_rows(lists: list[list[str]], data: st.DataObject) -> None:
    features = build_features(FeatureConfig(values="counts"), lists).features(lists)
    wanted = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=6))
    taken = features.take(np.array(wanted, np.int64))
    assert rows(taken) == [rows(features)[i] for i in wanted]
    assert len(taken) == len(wanted)
    assert taken.ids.dtype == np.int64
    assert taken.values.dtype == np.float32


def test_different_features_have_different_keys() -> None:
    texts = [["a b"], ["a", "b"], ["<", "a"], ["<a"], ["a>"]]
    settings = FeatureConfig(ngrams=2, characters=3, characters_from=2)
    space = build_features(settings, texts)
    expected = set()
    for tokens in texts:
        expected |= {("tokens", *gram) for gram in ngrams(tokens, 2)}
        expected |= {("characters", *gram) for token in tokens for gram in character_ngrams(token, 2, 3)}
    assert len(space) == len(expected)


def test_features_have_readable_names() -> None:
    settings = FeatureConfig(ngrams=2, characters=3, characters_from=3)
    space = build_features(settings, [["not", "bad"]])
    names = {space.name(i) for i in range(len(space))}
    assert names == {"not", "bad", "not bad", "<no…", "…not…", "…ot>", "<ba…", "…bad…", "…ad>"}
    assert build_features(FeatureConfig(buckets=9), []).name(4) == "bucket 4"


def test_a_text_without_features_is_an_empty_row() -> None:
    space = build_features(FeatureConfig(ngrams=1), [["a"], ["b"]])
    features = space.features([[], ["new"], ["b"]])
    assert features.offsets.tolist() == [0, 0, 0, 1]
    assert len(build_features(FeatureConfig(), []).features([["a"], []])) == 2
    assert len(space.features([])) == 0


@pytest.mark.parametrize("settings", [FeatureConfig(min_count=2), FeatureConfig(buckets=64)])
def test_loaded_features_equal_the_saved_ones(settings: FeatureConfig, tmp_path: Path) -> None:
    texts = [["a", "b", "a"], ["b", "a", "c"]]
    space = build_features(settings, texts)
    space.save(tmp_path / "features")
    loaded = load_features(tmp_path / "features")
    assert loaded.settings == settings
    assert len(loaded) == len(space)
    assert rows(loaded.features(texts)) == rows(space.features(texts))
    assert [loaded.name(i) for i in range(len(space))] == [space.name(i) for i in range(len(space))]


def test_damaged_folder_raises_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no features\.json"):
        load_features(tmp_path)
    (tmp_path / "features.json").write_text("{")
    with pytest.raises(CheckpointError, match="Cannot read"):
        load_features(tmp_path)
    (tmp_path / "features.json").write_text('{"format": 7}')
    with pytest.raises(CheckpointError, match="format 1"):
        load_features(tmp_path)
    (tmp_path / "features.json").write_text('{"format": 1, "settings": {"ngram": 2}}')
    with pytest.raises(CheckpointError, match="did you mean 'ngrams'"):
        load_features(tmp_path)
    (tmp_path / "features.json").write_text('{"format": 1, "settings": {}}')
    with pytest.raises(CheckpointError, match=r"The vocabulary .* is missing"):
        load_features(tmp_path)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"ngrams": 0}, "ngrams = 0 and characters = 0 leave no features"),
        ({"characters": 2}, "characters must be at least characters_from = 3, got 2"),
        (
            {"buckets": 10, "min_count": 2},
            "min_count = 2 and buckets = 10 cannot be combined",
        ),
    ],
)
def test_invalid_config_raises_error(options: dict[str, int], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        FeatureConfig.model_validate(options)
