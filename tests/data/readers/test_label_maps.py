"""JSON with labels as keys, or with a list of texts for each label, against the examples that went in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catena.data.inspection import FileReport, inspect
from catena.data.records import read_examples

TEXTS = {
    "greeting": ["hi there", "good day to you", "hey"],
    "goodbye": ["see you later", "bye for now"],
    "hours": ["when do you open", "opening hours please", "are you open today", "when do you close"],
}
EXAMPLES = [(label, text) for label, texts in TEXTS.items() for text in texts]


def intents(label: str, texts: str, **more: Any) -> list[dict[str, Any]]:
    return [{label: name, texts: own, **more} for name, own in TEXTS.items()]


def look(folder: Path, content: Any, name: str = "x.json", indent: int | None = None) -> FileReport:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=indent))
    return inspect([path]).files[0]


RESPONSES = {"responses": ["ok", "fine"], "context": [""]}
CASES = {
    "intents": {"intents": intents("tag", "patterns", **RESPONSES)},
    "intents without a name": intents("tag", "patterns", **RESPONSES),
    "Watson": {"intents": [{"intent": name, "examples": [{"text": text} for text in own]}
                           for name, own in TEXTS.items()], "entities": []},
    "Alexa": {"interactionModel": {"languageModel": {"intents": intents("name", "samples", slots=[]),
              "types": [{"name": f"type{i}", "values": [{"name": {"value": "x"}}]} for i in range(20)]}}},
    "Dialogflow": [{"displayName": name, "trainingPhrases": [{"parts": [{"text": text[:3]}, {"text": text[3:]}]}
                    for text in own]} for name, own in TEXTS.items()],
    "Rasa as JSON": {"version": "3.1", "nlu": [
        *({"intent": name, "examples": "".join(f"- {text}\n" for text in own)} for name, own in TEXTS.items()),
        {"synonym": "Rome", "examples": "- Roma\n"}]},
    "objects by label": {name: {"patterns": own, "responses": ["ok"]} for name, own in TEXTS.items()},
    "texts by label": TEXTS,
    "labels by text": {text: label for label, text in EXAMPLES},
    "lists of labels by text": {text: [label] for label, text in EXAMPLES},
    "arrays by label": {name: [{"text": text, "id": i} for i, text in enumerate(own)] for name, own in TEXTS.items()},
    "SNIPS": {"language": "en", "intents": {name: {"utterances": [
        {"data": [{"text": text[:2]}, {"text": text[2:], "entity": "x", "slot_name": "x"}]} for text in own]}
        for name, own in TEXTS.items()}},
}  # fmt: skip


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", CASES)
def test_texts_of_each_label_are_examples(name: str, indent: int | None, tmp_path: Path) -> None:
    report = look(tmp_path, CASES[name], indent=indent)
    assert (report.format, report.task) == ("json", "classify")
    assert (report.n_read, report.n_examples, report.dropped) == (9, 9, {})
    found = read_examples(tmp_path / "x.json")
    assert [(example.labels[0], example.text) for example in found] == EXAMPLES


def test_lines_of_intents_are_records(tmp_path: Path) -> None:
    report = look(tmp_path, "".join(json.dumps(one) + "\n" for one in intents("intent", "examples")), "x.jsonl")
    assert (report.format, report.task, report.n_examples) == ("jsonl", "classify", 9)
    assert [example.location.line for example in read_examples(tmp_path / "x.jsonl")] == [1] * 3 + [2] * 2 + [3] * 4


def test_every_text_is_read_although_json_keeps_the_last_of_equal_keys(tmp_path: Path) -> None:
    lines = [f'  "{text}": "{label}"' for label, text in EXAMPLES]
    report = look(tmp_path, "{\n" + ",\n".join([*lines, lines[0]]) + "\n}\n")
    assert report.n_examples == len(EXAMPLES) + 1


def test_lists_of_the_same_length_are_labels_if_they_are_not_columns(tmp_path: Path) -> None:
    texts = [f"a long sentence with the number {i}" for i in range(30)]
    table = {"utterance_text": texts, "the_kind": [("a", "b")[i % 2] for i in range(30)]}
    report = look(tmp_path, table)
    assert (report.n_examples, report.labels) == (30, {"a": 15, "b": 15})
    report = look(tmp_path, {"pos": texts, "neg": [f"another {text}" for text in texts]})
    assert (report.n_examples, report.labels) == (60, {"pos": 30, "neg": 30})


@pytest.mark.parametrize(
    ("content", "task"),
    [
        ({"train": [{"text": "a b"}] * 3, "test": [{"text": "a b"}]}, None),
        ({"train": ["a b", "c d"], "test": ["e f"]}, None),
        ({"en": [f"a dog {i} sleeps here" for i in range(9)], "de": [f"ein Hund {i} schläft hier" for i in range(9)]},
         "translate"),
        ({"first": [{"speaker": "A", "text": "hi"}], "second": [{"speaker": "B", "text": "yo"}]}, None),
        ({"text": "a b c", "label": "x", "id": "1", "user": "x"}, "classify"),
    ],
)  # fmt: skip
def test_splits_languages_and_records_are_not_labels(content: Any, task: str | None, tmp_path: Path) -> None:
    report = look(tmp_path, content)
    assert report.task == task
    assert not {"train", "test", "en", "de", "first", "second", "user"} & report.labels.keys()


def test_array_with_an_object_in_each_line_has_no_lines_without_one(tmp_path: Path) -> None:
    objects = [json.dumps({"text": f"a sentence {i}", "label": "ab"[i % 2]}) for i in range(100)]
    report = look(tmp_path, "[\n" + ",\n".join(objects) + "\n]\n")
    assert (report.n_read, report.n_examples, report.dropped) == (100, 100, {})
    report = look(tmp_path, "[\n" + ",\n".join(objects) + "\n]\n", "x.jsonl")
    assert (report.n_read, report.n_examples, report.dropped) == (100, 100, {})
