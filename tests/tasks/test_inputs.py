"""Files to predict: every task reads the text column of tables and JSON, and never their lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catena.config import parse
from catena.data.reading import ReadCounter
from catena.errors import FormatError
from catena.tasks.spec import TASKS

TEXTS = ["Ada went to Cairo , again .", "Noam sings ."]
ROWS = [{"id": i, "text": text} for i, text in enumerate(TEXTS)]
FILES = {
    "a.csv": 'id,text\n0,"Ada went to Cairo , again ."\n1,Noam sings .\n',
    "a.tsv": "".join(f"{a}\t{b}\n" for a, b in [("id", "text"), *enumerate(TEXTS)]),
    "a.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    "a.json": json.dumps(ROWS),
    "a.txt": "".join(text + "\n" for text in TEXTS),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "tag": {}, "parse": {}, "span": {"model": {"kind": "span"}}, "translate": {}, "transduce": {}, "lm": {},
}  # fmt: skip


def read(task: str, path: Path) -> list[Any]:
    spec = TASKS["parse" if task == "span" else task]
    config: Any = parse(spec.config_class(), SETTINGS[task])
    return list(spec.family(config).read(config, path, ReadCounter(), gold=False))


def text_of(example: Any) -> str:
    for name in ("source", "text"):
        if isinstance(found := getattr(example, name, None), str):
            return found
    return " ".join(example.words if hasattr(example, "words") else example.sentence.words)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("task", SETTINGS)
def test_inputs_are_the_texts_of_a_file(task: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    assert [text_of(example) for example in read(task, tmp_path / name)] == TEXTS


@pytest.mark.parametrize("task", ["tag", "parse", "span"])
def test_damaged_json_is_not_read_as_text(task: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"text": "a b"}, {"text": ', encoding="utf-8")
    with pytest.raises(FormatError, match=r"a\.json:1 is not valid JSON"):
        read(task, tmp_path / "a.json")


@pytest.mark.parametrize("task", ["tag", "parse"])
def test_table_without_a_text_column_is_not_read_as_text(task: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n", encoding="utf-8")
    with pytest.raises(FormatError, match="text"):
        read(task, tmp_path / "a.csv")
