"""From files to ids: end symbols, blank lines, unknown words, sizes and splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catena.data.vocabulary import UNK
from catena.errors import DataError
from catena.randomness import Randomness
from catena.tasks.lm.config import LmConfig, LmDataConfig
from catena.tasks.lm.dataset import LmDataset, encode_lines, prepare, split

WORDS = {"kind": "whitespace"}


def dataset(tmp_path: Path, text: str, **options: object) -> LmDataset:
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    data = {"train": (str(path),), **options.pop("data", {})}
    settings = {"tokenizer": WORDS, "vocabulary": {"min_count": 1}, **options, "data": data}
    return prepare(LmConfig.model_validate(settings), Randomness(0))


def names(found: LmDataset, part: str = "train") -> list[str]:
    return found.encoding.vocabulary.tokens(getattr(found, part).flat.tolist())


def test_line_unit_adds_one_end_symbol_also_to_blank_lines(tmp_path: Path) -> None:
    text = "a b\n\n c \nd\n"
    kept = dataset(tmp_path, text, data={"dev_fraction": 0.2})
    assert names(kept) == ["a", "b", "</s>", "</s>", "c", "</s>"]
    assert names(kept, "dev") == ["<unk>", "</s>"]
    dropped = dataset(tmp_path, text, data={"dev_fraction": 0.2, "blank_lines": "drop"})
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
    from catena.tasks.lm.encoding import LmEncoding

    encoding = LmEncoding(build_tokenizer(config.tokenizer), Vocabulary(["é", "🙂"], specials=SPECIALS), "line")
    part = encode_lines(["é  🙂", "", "مرحبا"], encoding)
    assert part.tokens == 3 + 3
    assert part.characters == 4 + 1 + 0 + 1 + 5 + 1
    assert part.bytes == 2 + 2 + 4 + 1 + 1 + 10 + 1
    assert part.outside == 1
    assert encode_lines([], encoding).tokens == 0
    assert encoding.text(part.flat.tolist()[:4]) == "é 🙂\n\n"


def test_split_fractions_count_characters_and_cut_at_lines() -> None:
    sizes = np.array([10, 10, 50, 10, 10, 10])
    rows = split(sizes, LmDataConfig(dev_fraction=0.2, test_fraction=0.1), Randomness(0))
    assert {name: list(lines) for name, lines in rows.items()} == {"train": [0, 1, 2], "dev": [3, 4], "test": [5]}
    rows = split(sizes, LmDataConfig(dev="d", test="t"), Randomness(0))
    assert list(rows) == ["train"]
    assert len(rows["train"]) == 6
    random = split(np.ones(100), LmDataConfig(dev_fraction=0.2, split="random"), Randomness(0))
    assert len(random["dev"]) == 20
    assert list(random["dev"]) != list(range(80, 100))
    assert sorted([*random["train"], *random["dev"]]) == list(range(100))
    with pytest.raises(DataError, match="A text of 1 line cannot be split into train, dev and test"):
        split(np.ones(1), LmDataConfig(), Randomness(0))


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
    found = prepare(config, Randomness(0))
    assert names(found) == ["春", "眠", "\n", "不", "覺", "</s>"]


def test_prepare_without_text_raises(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no training file. Name a text file"):
        prepare(LmConfig(), Randomness(0))
    with pytest.raises(DataError, match=r"The training text is empty. Check .*text\.txt"):
        dataset(tmp_path, "")
