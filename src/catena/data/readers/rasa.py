"""Intents of Rasa: training data in YAML or Markdown, read without a library for YAML.

Only the examples of intents are records; synonyms, lookup tables, regular expressions, stories and rules are not. Marks
of entities are removed from the texts. Tested in tests/data/readers/test_rasa.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from catena.data.examples import SourceLocation
from catena.data.files import open_text
from catena.data.readers.delimited import Row
from catena.data.readers.label_maps import strip_entities

_INTENT = re.compile(r"(?:- |##\s*)?intent:\s*[\"']?([^\"'#]+?)[\"']?\s*")
_OTHER = re.compile(r"(?:- |##\s*)?(?:synonym|lookup|regex|story|rule|action)s?:.*")
_EXAMPLE = re.compile(r"[-*+]\s+(?:text:\s*)?(\S.*)")
_BLOCK = re.compile(r"[|>][-+]?\s*")
"""The mark of a text of several lines in YAML."""


def has_intents(lines: Sequence[str]) -> bool:
    """Whether lines have an intent of Rasa with an example below it. Steps of stories have none."""
    return next(_examples((0, line) for line in lines), None) is not None


def read(path: Path, encoding: str | None = None) -> Iterator[Row]:
    """The examples of all intents, with the line of each."""
    with open_text(path, encoding) as lines:
        for number, line, text, intent in _examples(lines):
            yield Row(SourceLocation(str(path), number), {"text": text, "intent": intent}, line)


def _examples(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str, str]]:
    """The number, the line, the text and the intent of each example."""
    intent, is_open, is_yaml, depth = "", False, True, 0
    for number, line in lines:
        content = line.strip()
        indent = len(line) - len(line.lstrip())
        if match := _INTENT.fullmatch(content):
            is_yaml, depth = not content.startswith("#"), indent
            intent, is_open = match[1], not is_yaml  # Markdown has no line "examples:"
        elif content.startswith("examples:"):
            is_open = bool(intent)
        elif _OTHER.fullmatch(content) and (indent <= depth if is_yaml else content.startswith("#")):
            intent, is_open = "", False
        elif is_open and (match := _EXAMPLE.fullmatch(content)) and not _BLOCK.fullmatch(match[1]):
            yield number, line, strip_entities(match[1]), intent
