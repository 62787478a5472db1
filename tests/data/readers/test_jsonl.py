from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.readers import jsonl
from catena.errors import FormatError
from tests.data.readers.writing import file_with, labels, texts


@given(st.lists(st.tuples(labels, texts()), min_size=1), st.booleans())
def test_round_trip(examples: list[tuple[str, str]], ascii_only: bool) -> None:
    lines = [json.dumps({"intent": label, "query": text}, ensure_ascii=ascii_only) for label, text in examples]
    with file_with("\n".join(lines)) as path:
        found = list(jsonl.read(path))
    assert [(e.labels, e.text) for e in found] == [((label,), text) for label, text in examples]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('"a"', ("a",)),
        ("3", ("3",)),
        ("3.0", ("3",)),
        ("true", ("true",)),
        ('["a", 2, "a"]', ("a", "2")),
        ("[]", ()),
    ],
)
def test_labels_of_every_kind(value: str, found: tuple[str, ...]) -> None:
    with file_with(f'{{"text": "x", "label": {value}}}\n') as path:
        assert [e.labels for e in jsonl.read(path)] == [found]


def test_multilabel_in_one_string_and_texts_alone() -> None:
    with file_with('{"text": "x", "label": "a|b"}\n\n') as path:
        assert [e.labels for e in jsonl.read(path, separator="|")] == [("a", "b"), ()]
        assert [(e.text, e.labels) for e in jsonl.read(path, labeled=False)] == [("x", ()), ("", ())]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", r"txt:2 is not JSON \(Expecting property name"),
        ("[1, 2]", r"txt:2 must be a JSON object, got a list"),
        ('{"text": "x"}', r"txt:2 has no key 'label', only 'text'; .* Give every object the keys of the first"),
        ('{"text": 3, "label": "a"}', r"txt:2 has a key 'text' that is a int, not a string"),
        ('{"text": "x", "label": null}', r"txt:2 has a key 'label' that is missing, not a string, an integer"),
        ('{"text": "x", "label": 0.5}', r"txt:2 has a key 'label' that is a float"),
        ('{"text": "x", "label": {}}', r"txt:2 has a key 'label' that is a dict"),
        ('{"text": "x", "label": " "}', r"txt:2 has a key 'label' that is empty"),
        ('{"text": "\\ud800", "label": 1}', r"txt:2 has a key 'text' that has a lone surrogate, \\ud800"),
        ('{"text": "x", "label": ' + "9" * 5000 + "}", r"txt:2 is not JSON"),
        ("[" * 100_000, r"txt:2 is JSON nested too deeply|txt:2 is not JSON"),
    ],
)
def test_invalid_line_raises_error(line: str, problem: str) -> None:
    content = f'{{"text": "x", "label": "a"}}\n{line}\n'
    with file_with(content) as path, pytest.raises(FormatError, match=problem):
        list(jsonl.read(path))


def test_single_json_document_raises_error() -> None:
    document = json.dumps([{"text": "x", "label": "a"}], indent=2)
    with file_with(document) as path, pytest.raises(FormatError, match=r"looks like one JSON document.*jq -c"):
        list(jsonl.read(path))
