"""Training data of Rasa in YAML and Markdown against the examples that went in."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.data.inspection import inspect
from catena.data.records import read_examples

EXAMPLES = [("greet", "hey"), ("greet", "good day: you?"), ("book", "a table in [Rome](city)"),
            ("book", 'from [Bern]{"entity": "city", "role": "start"} - now'), ("bye", "see you")]  # fmt: skip
PLAIN = [("greet", "hey"), ("greet", "good day: you?"), ("book", "a table in Rome"), ("book", "from Bern - now"),
         ("bye", "see you")]  # fmt: skip
YAML = """version: "3.1"

nlu:
- intent: greet
  examples: |
    - hey
    - good day: you?
# a comment
- synonym: Rome
  examples: |
    - Roma
- intent: book
  examples: |
    - a table in [Rome](city)
    - from [Bern]{"entity": "city", "role": "start"} - now
- intent: "bye"
  examples:
  - text: see you
    metadata:
      sentiment: neutral
- lookup: city
  examples: |
    - Oslo
stories:
- story: happy
  steps:
  - intent: greet
  - action: utter_greet
"""
MARKDOWN = """## intent:greet
- hey
- good day: you?

## synonym:Rome
- Roma

## intent: book
* a table in [Rome](city)
- from [Bern]{"entity": "city", "role": "start"} - now

## intent:bye
- see you
## lookup:city
- Oslo
"""


@pytest.mark.parametrize(("name", "content"), [("nlu.yml", YAML), ("nlu.yaml", YAML), ("nlu.md", MARKDOWN)])
def test_examples_of_intents_are_read_without_marks_of_entities(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    found = list(read_examples(path))
    assert [(example.labels[0], example.text) for example in found] == PLAIN
    lines = content.splitlines()
    assert [lines[example.location.line - 1].split("- ", 1)[-1].split("* ")[-1].removeprefix("text: ")
            for example in found] == [text for _, text in EXAMPLES]  # fmt: skip
    report = inspect([path]).files[0]
    assert (report.format, report.task, report.n_read, report.n_examples) == ("rasa", "classify", 5, 5)
    assert report.labels == {"greet": 2, "book": 2, "bye": 1}


@pytest.mark.parametrize(
    "content",
    [
        "stories:\n- story: happy\n  steps:\n  - intent: greet\n  - action: utter_greet\n",
        "intents:\n- greet\n- bye\nresponses:\n  utter_greet:\n  - text: hello\n",
    ],
)
def test_other_files_of_rasa_are_not_training_data(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text(content)
    assert not inspect([tmp_path / "x.yml"]).is_usable
