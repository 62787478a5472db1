"""Reading pairs: symbols, grouping, the split by hash, and dropped pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import config as configs
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError, FormatError
from catena.tasks.sources import Sources
from catena.tasks.transduce.config import TransduceConfig, TransduceDataConfig
from catena.tasks.transduce.data import Symbols, SymbolTokenizer, choose_tokens, gather_pairs, read_strings
from catena.tasks.transduce.task import CountedTransduceTask


def config(path: Path, **data: Any) -> TransduceConfig:
    made = configs.parse(TransduceConfig, {"data": {"train": [str(path)], **data}})
    return CountedTransduceTask.complete(made, lambda words: None)


class Prepared:
    """The pairs of a config as symbols."""

    def __init__(self, made: TransduceConfig) -> None:
        self.tokenizer = SymbolTokenizer.from_config(made.data)
        sources = Sources(CountedTransduceTask, made)
        parts, self.lines = gather_pairs(made, sources)
        self.counter = sources.counter
        self.train, self.dev, self.test = (
            list(map(self.tokenizer.pair, part)) for part in (parts.train, parts.dev, parts.test)
        )


def prepare(made: TransduceConfig) -> Prepared:
    return Prepared(made)


def sources_of(pairs: list[tuple[Symbols, Symbols]]) -> list[str]:
    return ["".join(source) for source, _ in pairs]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"word{i}s\tw o r d {i} s\n" for i in range(200)), encoding="utf-8")
    return path


def test_symbols_are_characters_or_separated_by_spaces(pairs: Path) -> None:
    data = prepare(config(pairs, target_tokens="symbols"))
    source, target = data.train[0]
    assert source[:4] == tuple("word")
    assert target[:4] == ("w", "o", "r", "d")
    assert data.tokenizer.join(target).startswith("w o r d ")
    plain = prepare(config(pairs))
    assert plain.train[0][1][:3] == ("w", " ", "o"), "a blank is a character like any other"
    swapped = prepare(config(pairs, swap=True, source_tokens="symbols"))
    assert swapped.train[0][0][:4] == ("w", "o", "r", "d")


def test_dictionary_symbols_and_stripped_stress(tmp_path: Path) -> None:
    path = tmp_path / "words.dict"
    path.write_text(
        "tomato T AH0 M EY1\ntomato(2) T AH0 M AA1\ntomato(3) T AH1 M AA0\n" + "".join(f"x{i} K S\n" for i in range(40))
    )
    dev = tmp_path / "dev.tsv"
    dev.write_text("a\tA B\n")
    data = prepare(config(path, strip="012", dev=str(dev)))
    targets = [target for source, target in data.train if len(source) == 6]
    assert targets == [("T", "AH", "M", "EY"), ("T", "AH", "M", "AA")], "equal ones are one"
    assert [dropped.reason for dropped in data.counter.dropped] == ["duplicate"]
    assert data.dev == [(("a",), ("A", "B"))], "the first training file decides what symbols are"


def test_tokens_of_a_dictionary_are_chosen_for_the_side_with_phonemes(tmp_path: Path) -> None:
    path = tmp_path / "words.dict"
    path.write_text("".join(f"x{i} K AA1 S\n" for i in range(40)))
    for swap, tokens in ((False, ("characters", "symbols")), (True, ("symbols", "characters"))):
        data = choose_tokens(TransduceDataConfig(train=(str(path),), swap=swap))
        assert (data.source_tokens, data.target_tokens) == tokens
    data = choose_tokens(TransduceDataConfig(train=(str(path),), target_tokens="characters"))
    assert data.target_tokens == "characters"
    assert choose_tokens(TransduceDataConfig()).target_tokens == "characters"


def test_targets_of_a_source_are_in_the_same_part(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"word{i}\tw{i}\nword{i}\tv{i}\n" for i in range(100)), encoding="utf-8")
    data = prepare(config(path, dev_fraction=0.2, test_fraction=0.2))
    parts = [set(sources_of(part)) for part in (data.train, data.dev, data.test)]
    assert [len(part) for part in parts] == [60, 20, 20]
    assert len(set.union(*parts)) == 100
    other = tmp_path / "other.tsv"
    other.write_text("\n".join(path.read_text().splitlines()[::-1]) + "\n")
    there = prepare(config(other, dev_fraction=0.2, test_fraction=0.2))
    assert set(sources_of(there.dev)) == parts[1], "the order of the lines does not matter"
    assert "dev: 20 sources with 40 targets" in data.lines


@pytest.mark.parametrize("n", [2, 3, 12])
def test_few_sources_leave_one_for_dev(n: int, tmp_path: Path) -> None:
    path = tmp_path / "few.tsv"
    path.write_text("".join(f"{word}\t{word.upper()}\n" for word in "abcdefghijkl"[:n]), encoding="utf-8")
    data = prepare(config(path, dev_fraction=1e-9))
    assert len(data.train) == n - 1
    assert len(data.dev) == 1
    assert data.lines[:2] == [f"train: {path} is read as tsv", f"read {n}; used {n}; dropped 0"]


def test_dev_and_test_files_are_not_split(pairs: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.tsv"
    dev.write_text("a\tb\nc\td\n")
    data = prepare(config(pairs, dev=str(dev), target_tokens="symbols"))
    assert len(data.train) == 200
    assert sources_of(data.dev) == ["a", "c"]


def test_dropped_pairs_are_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    kept = "".join(f"word{i}\tw{i}\n" for i in range(50))
    path.write_text(kept + "\tempty source\nempty target\t\n\n" + "a" * 30 + "\tlong\n")
    data = prepare(config(path, max_length=20))
    assert len(data.train) + len(data.dev) == 50
    words = data.counter.counts(used=50).sentence()
    assert words.startswith("read 54; used 50; dropped 4 (")
    assert "1 with an empty source" in words
    assert "1 empty" in words
    assert "1 with an empty target" in words
    assert "1 longer than max_length=20" in words


def test_line_with_two_tabs_is_dropped_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\nc\td\te\nf\tg\n")
    data = prepare(config(path))
    assert [(d.location.line, d.reason) for d in data.counter.dropped] == [(2, "with 3 fields instead of 2")]


def test_file_of_another_format_raises(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("just some words\nin lines without tabs\n")
    with pytest.raises(FormatError, match=r"has no pairs of strings: it is plain text.*source<TAB>target"):
        prepare(config(path))
    with pytest.raises(
        FormatError, match=r"data\.input_format must be one of .*dictionary, tmx for pairs of strings, got 'text'"
    ):
        prepare(config(path, input_format="text"))


def test_prepare_without_pairs_raises(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("\tx\n\ty\n")
    with pytest.raises(DataError, match="No example of train can be used: read 2; used 0; dropped 2"):
        prepare(config(path, input_format="tsv"))
    path.write_text("a\tx\n")
    with pytest.raises(DataError, match=r"1 example cannot be split into train and dev\. Add examples, or pass a dev"):
        prepare(config(path, input_format="tsv"))
    path.write_text("aaaa\tx\nbbbb\ty\n")
    with pytest.raises(DataError, match="No example of train can be used: read 2; used 1; dropped 1"):
        prepare(config(path, input_format="tsv", max_length=3))


def test_header_names_determine_the_source_column(tmp_path: Path) -> None:
    for names, swap, sources in (("word\tpronunciation", False, "ab"), ("pronunciation\tword", False, "xy"),
                                 ("pronunciation\tword", True, "ab")):  # fmt: skip
        (tmp_path / "x.tsv").write_text(f"{names}\na\tx\nb\ty\n", encoding="utf-8")
        found = read_strings(TransduceDataConfig(swap=swap), tmp_path / "x.tsv", ReadCounter())
        assert "".join(pair.source for pair in found) == sources


def test_repeated_targets_are_not_detected_as_labels(tmp_path: Path) -> None:
    """A column of few distinct targets looks like labels, but the task determines that it has targets."""
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"word{i}s\t{'yn'[i % 2]}\n" for i in range(60)))
    assert prepare(config(path)).train


def test_config_with_inconsistent_options_raises() -> None:
    for data, words in (
        ({"dev_fraction": 0.5, "test_fraction": 0.5}, "must be less than 1, got 0.5"),
        ({"test": "x", "test_fraction": 0.1}, "Remove one of them"),
        ({"folds": 3}, "folds"),
        ({"too_long": "cut"}, "too_long"),
    ):
        with pytest.raises(ConfigError, match=words):
            configs.parse(TransduceConfig, {"data": data})
    with pytest.raises(ConfigError, match=r"Unknown training\.metric 'accuracy' of this model"):
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


def test_single_line_without_pair_is_dropped_and_listed(pairs: Path) -> None:
    lines = pairs.read_text().splitlines()
    for odd, reason in (("word17", "with 1 field instead of 2"), ("a\tb\tc", "with 3 fields instead of 2")):
        pairs.write_text("\n".join([*lines[:17], odd, *lines[18:]]) + "\n")
        assert [(d.location.line, d.reason) for d in prepare(config(pairs)).counter.dropped] == [(18, reason)]
