"""From files to ids: end symbols, blank lines, unknown words, sizes and splits."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.data.examples import SourceLocation, Text
from catena.data.vocabulary import UNK
from catena.errors import DataError, FormatError
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.data import LmData, encode_texts
from tests.tasks.lm.helpers import prepare_data

WORDS = {"kind": "whitespace"}


def dataset(tmp_path: Path, text: str, **options: object) -> LmData:
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    data = {"train": (str(path),), **options.pop("data", {})}
    settings = {"tokenizer": WORDS, "vocabulary": {"min_count": 1}, **options, "data": data}
    return prepare_data(LmConfig.model_validate(settings))


def names(found: LmData, part: str = "train") -> list[str]:
    return found.encoding.vocabulary.tokens(getattr(found, part).flat.tolist())


def test_line_unit_adds_one_end_symbol_also_to_blank_lines(tmp_path: Path) -> None:
    text = "a b\n\n c \nd\n"
    kept = dataset(tmp_path, text, data={"dev_fraction": 0.15})
    assert names(kept) == ["a", "b", "</s>", "</s>", "c", "</s>"]
    assert names(kept, "dev") == ["<unk>", "</s>"]
    dropped = dataset(tmp_path, text, data={"dev_fraction": 0.15, "blank_lines": "drop"})
    assert names(dropped) == ["a", "b", "</s>", "c", "</s>"]


def test_file_unit_keeps_line_breaks_and_adds_one_end_symbol(tmp_path: Path) -> None:
    text = "ab\n\nc\nd\n"
    found = dataset(tmp_path, text, tokenizer={"kind": "characters"}, data={"unit": "file", "dev_fraction": 0.2})
    assert names(found) + names(found, "dev") == ["a", "b", "\n", "\n", "c", "\n", "<unk>", "\n", "</s>"]
    assert (found.train.characters + found.dev.characters) == len(text)


def test_outside_does_not_count_literal_unk(tmp_path: Path) -> None:
    found = dataset(tmp_path, "a a <unk> b\na c <unk>\n", vocabulary={"min_count": 2}, data={"dev_fraction": 0.4})
    assert names(found) == ["a", "a", "<unk>", "<unk>", "</s>"]
    assert (found.train.unknown, found.train.outside) == (2, 1)
    assert (found.dev.unknown, found.dev.outside) == (2, 1)
    assert found.counts[UNK] == 2
    assert found.counts[found.encoding.end] == 1
    assert sum(found.counts) == found.train.tokens


def test_characters_and_bytes_include_line_breaks() -> None:
    config = LmConfig(tokenizer=WORDS)
    assert config.data.unit == "line"
    from catena.data.tokenize import build_tokenizer
    from catena.data.vocabulary import Vocabulary
    from catena.lm.base import SPECIALS
    from catena.tasks.lm.data import LmEncoding

    encoding = LmEncoding(build_tokenizer(config.tokenizer), Vocabulary(["é", "🙂"], specials=SPECIALS), "line")
    texts = [Text(line, SourceLocation("f", 1)) for line in ("é  🙂", "", "مرحبا")]
    part = encode_texts(texts, encoding)
    assert part.tokens == 3 + 3
    assert part.characters == 4 + 1 + 0 + 1 + 5 + 1
    assert part.bytes == 2 + 2 + 4 + 1 + 1 + 10 + 1
    assert part.outside == 1
    assert encode_texts([], encoding).tokens == 0
    assert encoding.text(part.flat.tolist()[:4]) == "é 🙂\n\n"


def test_split_fractions_count_characters_and_cut_at_lines(tmp_path: Path) -> None:
    text = "".join(f"{letter * (n - 1)}\n" for letter, n in zip("abcdef", [10, 10, 50, 10, 10, 10], strict=True))
    found = dataset(tmp_path, text, data={"dev_fraction": 0.2, "test_fraction": 0.1})
    assert [len(getattr(found, name)) for name in ("train", "dev", "test")] == [3, 2, 1]
    assert (found.train.characters, found.dev.characters, found.test.characters) == (70, 20, 10)
    assert names(found) == ["a" * 9, "</s>", "b" * 9, "</s>", "c" * 49, "</s>"]
    (tmp_path / "d.txt").write_text("a\n", encoding="utf-8")
    other = str(tmp_path / "d.txt")
    given = dataset(tmp_path, text, data={"dev": other, "test": other})
    assert [len(getattr(given, name)) for name in ("train", "dev", "test")] == [6, 1, 1]


def test_random_split_does_not_depend_on_equal_lines_but_on_the_seed(tmp_path: Path) -> None:
    text = "".join(f"w{i}\n" for i in range(100))
    parts = {}
    for seed in (0, 1):
        found = dataset(tmp_path, text, seed=seed, data={"dev_fraction": 0.2, "split": "random"})
        assert (len(found.train), len(found.dev), len(found.test)) == (80, 20, 0)
        parts[seed] = [name for name in names(found) if name != "</s>"]
        assert parts[seed] != [f"w{i}" for i in range(80)]
    assert parts[0] != parts[1]
    same = dataset(tmp_path, "a\n" * 100, data={"dev_fraction": 0.2, "split": "random"})
    assert (len(same.train), len(same.dev)) == (80, 20)


def test_text_of_one_line_cannot_be_split(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="A text of 1 line cannot be split into train and dev"):
        dataset(tmp_path, "a b\n")


def test_read_lines_of_table_column_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "poems.jsonl"
    path.write_text('{"lines": ["春眠", "不覺"]}\n{"lines": ["曉"]}\n', encoding="utf-8")
    config = LmConfig.model_validate(
        {
            "data": {"train": (str(path),), "text_column": "lines", "dev_fraction": 0.3},
            "tokenizer": {"kind": "characters"},
            "vocabulary": {"min_count": 1},
        }
    )
    found = prepare_data(config)
    assert names(found) == ["春", "眠", "\n", "不", "覺", "</s>"]


def test_prepare_without_text_raises(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is nothing to train on. Name a file, as in 'catena train lm FILE'"):
        prepare_data(LmConfig())
    with pytest.raises(DataError, match=r"A text of no lines cannot be split"):
        dataset(tmp_path, "", data={"input_format": "text"})
    with pytest.raises(FormatError, match=r"text\.txt is empty\. Pass a file with text"):
        dataset(tmp_path, "")
    (tmp_path / "d.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train has no tokens. Check its files"):
        dataset(tmp_path, "\n", data={"dev": str(tmp_path / "d.txt"), "blank_lines": "drop", "input_format": "text"})
