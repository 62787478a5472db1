"""Features of texts as ids, compared with features as strings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from catena.data.config import FeatureConfig, WhitespaceTokenizerConfig, WordTokenizerConfig
from catena.data.features import display_key, keys
from catena.data.tokenize import build_tokenizer
from catena.errors import CheckpointError
from catena.tasks.classify.linear import features as module
from catena.tasks.classify.linear.features import (
    BagFeatures,
    HashedNgrams,
    ListedNgrams,
    NgramCounter,
    SymbolReader,
    load_features,
)

TEXTS = ["a b a b c", "", "don't stop", "b a zzz", "ab cd ab", "a a a", "\ud800 b"]
TOKENIZER = build_tokenizer(WordTokenizerConfig(lowercase=True))
SETTINGS = [
    FeatureConfig(ngrams=2),
    FeatureConfig(ngrams=3, values="counts"),
    FeatureConfig(ngrams=1, characters=4, characters_from=2, values="counts"),
    FeatureConfig(ngrams=0, characters=3),
]


def listed(settings: FeatureConfig, texts: list[str], min_count: int = 1, max_size: int | None = None) -> ListedNgrams:
    numbers: dict[str, int] = {}
    reader = SymbolReader(TOKENIZER, settings, 512, lambda name: numbers.setdefault(name, len(numbers)))
    counter = NgramCounter(settings)
    counter.add(reader.read(texts))
    return counter.finish(list(numbers), min_count, max_size)[0]


def encoded(features: BagFeatures, texts: list[str]) -> list[list[int]]:
    rows = features.encode(features.reader(TOKENIZER, 512).read(texts))
    return [rows.ids[rows.first[i] : rows.first[i + 1]].tolist() for i in range(len(rows))]


@pytest.fixture(params=[True, False], ids=["kernels", "reference"], autouse=True)
def uses_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "needs_kernels", lambda n: request.param)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_listed_features_equal_features_as_strings(settings: FeatureConfig) -> None:
    found = listed(settings, TEXTS)
    counts = Counter(key for text in TEXTS for key in keys(TOKENIZER.tokens(text), settings))
    names = [found.name(i) for i in range(len(found))]
    assert Counter(names) == Counter(map(display_key, counts))
    by_name = Counter(display_key(key) for key, n in counts.items() for _ in range(n))
    assert [by_name[name] for name in names] == sorted(by_name.values(), reverse=True)
    new = ["a b c", "never seen", "", "stop"]
    for text, row in zip([*TEXTS, *new], encoded(found, [*TEXTS, *new]), strict=True):
        wanted = Counter(display_key(key) for key in keys(TOKENIZER.tokens(text), settings) if key in counts)
        assert row == sorted(row)
        assert Counter(names[i] for i in row) == (Counter(set(wanted)) if settings.values == "binary" else wanted)


def test_min_count_and_max_size_keep_the_most_frequent_and_their_prefixes() -> None:
    settings = FeatureConfig(ngrams=3)
    every = listed(settings, TEXTS)
    names = [every.name(i) for i in range(len(every))]
    for size in range(1, len(every)):
        few = listed(settings, TEXTS, max_size=size)
        assert [few.name(i) for i in range(len(few))] == names[:size]
        assert (few.parents < np.arange(size)).all()
    counts = Counter(display_key(key) for text in TEXTS for key in keys(TOKENIZER.tokens(text), settings))
    often = listed(settings, TEXTS, min_count=2)
    assert {often.name(i) for i in range(len(often))} == {name for name, n in counts.items() if n >= 2}
    assert len(often.names) < len(every.names), "symbols of dropped features are dropped too"


def test_counting_in_parts_equals_counting_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{x}" for x in rng.integers(0, 40, rng.integers(1, 30))) for _ in range(300)]
    whole = listed(FeatureConfig(ngrams=2), texts)
    monkeypatch.setattr(module, "_BLOCK_SYMBOLS", 17)
    monkeypatch.setattr(module, "_SMALLEST_TABLE", 4)
    parts = listed(FeatureConfig(ngrams=2), texts)
    assert np.array_equal(whole.parents, parts.parents)
    assert np.array_equal(whole.lasts, parts.lasts)
    assert whole.names == parts.names
    assert len(whole) > 1000


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_hashed_features_are_the_same_in_every_text(settings: FeatureConfig) -> None:
    hashed = HashedNgrams(settings.model_copy(update={"buckets": 2**20}))
    buckets: dict[str, set[int]] = {}
    for text, row in zip(TEXTS, encoded(hashed, TEXTS), strict=True):
        own = Counter(keys(TOKENIZER.tokens(text), settings))
        assert len(set(row)) == len(own)
        if settings.values == "counts":
            assert sorted(Counter(row).values()) == sorted(own.values())
        for key in own:
            buckets.setdefault(key, set(row)).intersection_update(row)
    assert all(buckets.values()), "each feature has a bucket that is in all of its texts"


@pytest.mark.parametrize("settings", [*SETTINGS, FeatureConfig(buckets=64)], ids=str)
def test_saved_features_are_the_same(settings: FeatureConfig, tmp_path: Path) -> None:
    features = HashedNgrams(settings) if settings.buckets else listed(settings, TEXTS)
    features.save(tmp_path)
    loaded = load_features(tmp_path, features.arrays())
    assert encoded(loaded, TEXTS) == encoded(features, TEXTS)
    assert [loaded.name(i) for i in range(len(loaded))] == [features.name(i) for i in range(len(features))]


def test_features_without_symbols_are_rejected(tmp_path: Path) -> None:
    features = listed(SETTINGS[0], TEXTS)
    features.save(tmp_path)
    (tmp_path / "symbols.json").unlink()
    with pytest.raises(CheckpointError, match=r"symbols\.json cannot be read"):
        load_features(tmp_path, features.arrays())


@pytest.mark.parametrize(("name", "wrong"), [("parents", 10**5), ("parents", -2), ("lasts", 10**5), ("lasts", -1)])
def test_features_with_ids_out_of_range_are_rejected(name: str, wrong: int, tmp_path: Path) -> None:
    features = listed(SETTINGS[0], TEXTS)
    features.save(tmp_path)
    arrays = {key: array.copy() for key, array in features.arrays().items()}
    arrays[f"features.{name}"][-1] = wrong
    with pytest.raises(CheckpointError, match=f"{name} must be .* ids from"):
        load_features(tmp_path, arrays)


@pytest.mark.parametrize("config", [WordTokenizerConfig(lowercase=True), WhitespaceTokenizerConfig(digits="split")])
def test_tokens_of_chunks_are_the_tokens_of_the_text(config: WordTokenizerConfig | WhitespaceTokenizerConfig) -> None:
    tokenizer = build_tokenizer(config)
    texts = ["Don't  stop at 12:30, it's late!", "  ", "a1b2 c\n\td", "http://a.b/c, 你好 world"]
    joined = [[token for chunk in tokenizer.chunks(text) for token in tokenizer.chunk_tokens(chunk)] for text in texts]
    assert joined == [tokenizer.tokens(text) for text in texts]


def test_texts_are_cut_to_the_maximum_length() -> None:
    settings = FeatureConfig(ngrams=1, characters=3)
    reader = SymbolReader(TOKENIZER, settings, 2, lambda name: 7)
    rows = reader.read(["abc def ghi", "abc"])
    assert np.diff(rows.first).tolist() == [2, 1]
    assert np.diff(rows.single_first).tolist() == [6, 3]


def test_cache_of_chunks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.tasks.classify.linear.features._MOST_CACHED", 3)
    reader = SymbolReader(TOKENIZER, SETTINGS[0], 512, lambda name: int(name[1:]))
    rows = reader.read([" ".join(f"w{i}" for i in range(10))] * 2)
    assert rows.symbols.tolist() == [*range(10), *range(10)]
    assert len(reader._tokens) <= 3
