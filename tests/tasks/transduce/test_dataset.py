"""Reading pairs: symbols, grouping, the split by hash, and dropped pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import config as configs
from catena.errors import ConfigError, DataError, FormatError
from catena.randomness import hash_fraction
from catena.tasks.transduce.config import TransduceConfig, TransduceDataConfig
from catena.tasks.transduce.dataset import SymbolTokenizer, prepare, read_pairs


def config(path: Path, **data: Any) -> TransduceConfig:
    return configs.parse(TransduceConfig, {"data": {"train": [str(path)], **data}})


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"word{i}\tw o r d {i}\n" for i in range(200)), encoding="utf-8")
    return path


def test_symbols_are_characters_or_separated_by_spaces(pairs: Path) -> None:
    data = prepare(config(pairs, target_tokens="symbols"))
    word = data.train[0]
    assert word.source[:4] == tuple("word")
    assert word.targets[0][:4] == ("w", "o", "r", "d")
    assert data.cutting.join(word.targets[0]).startswith("w o r d ")
    plain = prepare(config(pairs))
    assert plain.train[0].targets[0][:3] == ("w", " ", "o"), "a blank is a character like any other"
    swapped = prepare(config(pairs, swap=True, source_tokens="symbols"))
    assert swapped.train[0].source[:4] == ("w", "o", "r", "d")


def test_dictionary_symbols_and_stripped_stress(tmp_path: Path) -> None:
    path = tmp_path / "words.dict"
    path.write_text(
        "tomato T AH0 M EY1\ntomato(2) T AH0 M AA1\ntomato(3) T AH1 M AA0\n" + "".join(f"x{i} K S\n" for i in range(40))
    )
    data = prepare(config(path, strip="012", dev_fraction=0.5))
    word = next(word for word in data.train + data.dev if len(word.source) == 6)
    assert word.targets == (("T", "AH", "M", "EY"), ("T", "AH", "M", "AA")), "equal ones are one"


def test_split_depends_only_on_the_source(pairs: Path, tmp_path: Path) -> None:
    data = prepare(config(pairs, dev_fraction=0.2, test_fraction=0.2))
    parts = {"train": data.train, "dev": data.dev, "test": data.test}
    for name, part in parts.items():
        for word in part:
            at = hash_fraction("".join(word.source))
            assert name == ("test" if at < 0.2 else "dev" if at < 0.4 else "train")
    assert 20 < len(data.test) < 60
    assert 20 < len(data.dev) < 60
    lines = pairs.read_text().splitlines()[::-1]
    other = tmp_path / "other.tsv"
    other.write_text("\n".join(lines[:100]) + "\n")
    there = {word.source for word in prepare(config(other, dev_fraction=0.2, test_fraction=0.2)).dev}
    assert there == {word.source for word in data.dev} & {tuple(line.split("\t")[0]) for line in lines[:100]}


@pytest.mark.parametrize("n", [2, 3, 12])
def test_few_sources_leave_one_for_dev(n: int, tmp_path: Path) -> None:
    path = tmp_path / "few.tsv"
    path.write_text("".join(f"{word}\t{word.upper()}\n" for word in "abcdefghijkl"[:n]), encoding="utf-8")
    data = prepare(config(path, dev_fraction=1e-9))
    assert len(data.train) == n - 1
    assert len(data.dev) == 1
    assert hash_fraction("".join(data.dev[0].source)) < min(hash_fraction("".join(word.source)) for word in data.train)
    assert data.lines[:2] == [f"{path} is read as parallel", f"read {n}; used {n}; dropped 0"]


def test_dev_and_test_files_are_not_split(pairs: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.tsv"
    dev.write_text("a\tb\nc\td\n")
    data = prepare(config(pairs, dev=str(dev), target_tokens="symbols"))
    assert len(data.train) == 200
    assert [word.source for word in data.dev] == [("a",), ("c",)]


def test_dropped_pairs_are_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    kept = "".join(f"word{i}\tw{i}\n" for i in range(50))
    path.write_text(kept + "\tempty source\nempty target\t\n\n" + "a" * 30 + "\tlong\n")
    data = prepare(config(path, max_length=20))
    assert len(data.train) + len(data.dev) == 50
    words = data.tally.counts(used=50).sentence()
    assert words.startswith("read 54; used 50; dropped 4 (")
    assert "2 with an empty source" in words
    assert "1 with an empty target" in words
    assert "1 longer than max_length=20" in words


def test_line_with_two_tabs_raises_with_location(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\nc\td\te\n")
    with pytest.raises(FormatError, match=r"pairs\.tsv:2 must have 2 tab-separated fields, got 3"):
        prepare(config(path, format="parallel"))


def test_file_of_another_format_raises(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("just some words\nin lines without tabs\n")
    with pytest.raises(FormatError, match=r"has no pairs of strings .*source<TAB>target"):
        prepare(config(path))
    with pytest.raises(
        FormatError, match=r"data\.format must be parallel or dictionary for pairs of strings, got 'text'"
    ):
        prepare(config(path, format="text"))


def test_prepare_without_pairs_raises(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("\tx\n\ty\n")
    with pytest.raises(DataError, match="There are no pairs in train: read 2; used 0; dropped 2"):
        prepare(config(path, format="parallel"))
    path.write_text("a\tx\n")
    with pytest.raises(DataError, match="There are no pairs in"):
        prepare(config(path, format="parallel"))


def test_header_names_determine_the_source_column(tmp_path: Path) -> None:
    for names, swap, sources in (("word\tpronunciation", False, "ab"), ("pronunciation\tword", False, "xy"),
                                 ("pronunciation\tword", True, "ab")):  # fmt: skip
        (tmp_path / "x.tsv").write_text(f"{names}\na\tx\nb\ty\n", encoding="utf-8")
        found = read_pairs(tmp_path / "x.tsv", TransduceDataConfig(swap=swap), "parallel")
        assert "".join(pair.source for pair in found) == sources


def test_repeated_targets_are_not_detected_as_labels(tmp_path: Path) -> None:
    """A column of few distinct targets looks like labels, but the task determines that it has targets."""
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"word{i}\t{'yn'[i % 2]}\n" for i in range(60)))
    assert prepare(config(path)).train


def test_config_with_inconsistent_options_raises() -> None:
    for data, words in (
        ({"dev_fraction": 0.5, "test_fraction": 0.5}, "must be less than 1, got 0.5"),
        ({"test": "x", "test_fraction": 0.1}, "Remove one of them"),
        ({"folds": 3}, "data.folds is not supported for pairs"),
        ({"too_long": "cut"}, "data.too_long must be 'drop'"),
    ):
        with pytest.raises(ConfigError, match=words):
            configs.parse(TransduceConfig, {"data": data})
    with pytest.raises(ConfigError, match=r"Unknown training\.metric 'accuracy' of a transducer"):
        configs.parse(TransduceConfig, {"training": {"metric": "accuracy"}})


def test_tokenizer_lowercases_and_strips() -> None:
    cutting = SymbolTokenizer(False, True, lowercase=True, strip="012")
    assert cutting.source(" Ab ") == ("a", "b")
    assert cutting.target("AH0 B 1") == ("ah", "b"), "an empty symbol is removed"


def test_training_defaults_follow_the_scores() -> None:
    def rate(**model: Any) -> float:
        return configs.parse(TransduceConfig, {"model": {"kind": "edit", **model}}).training.learning_rate

    assert rate() > rate(scores="encoder")
    given = {"model": {"kind": "edit"}, "training": {"optimizer": "adam", "learning_rate": 0.5}}
    assert configs.parse(TransduceConfig, given).training.learning_rate == 0.5


def test_single_line_without_pair_raises_with_location(pairs: Path) -> None:
    lines = pairs.read_text().splitlines()
    for odd, problem in (("word17", "has no tab"), ("a\tb\tc", "has 2 tabs")):
        pairs.write_text("\n".join([*lines[:17], odd, *lines[18:]]) + "\n")
        with pytest.raises(FormatError, match=rf"pairs.tsv:18 {problem}"):
            prepare(config(pairs))
