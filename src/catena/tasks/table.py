"""The registry of tasks. Imports no torch: the modules of a task are imported when it is chosen."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from catena.config import Config, read_toml
from catena.errors import ConfigError, FormatError
from catena.registry import Registry, did_you_mean

if TYPE_CHECKING:
    from catena.tasks.application import TaskApplication


@dataclass(frozen=True)
class TaskSpec:
    """The name, summary, config and application of a task."""

    name: str
    summary: str
    settings: str
    """``module:Class`` of its config, in a module that imports no torch."""
    application: str
    """``module:Class`` of its application, which trains, loads and evaluates."""
    formats: tuple[str, ...]
    """The data formats that imply this task if the user names none."""

    def config_class(self) -> type[Config]:
        return _named(self.settings)

    def open(self) -> TaskApplication:
        return _named(self.application)()


def _named(place: str) -> type:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


TASKS: Registry[TaskSpec] = Registry("task")
_ENTRIES = (
    TaskSpec(
        name="classify",
        summary="texts into classes",
        settings="catena.tasks.classify.config:ClassifyConfig",
        application="catena.tasks.classify.application:ClassifyApplication",
        formats=("tsv-label", "kim", "fasttext", "csv", "tsv", "jsonl", "parquet", "datasets"),
    ),
    TaskSpec(
        name="lm",
        summary="language models: score, complete and compare text",
        settings="catena.tasks.lm.config:LmConfig",
        application="catena.tasks.lm.application:LmApplication",
        formats=("text",),
    ),
    TaskSpec(
        name="embed",
        summary="text into word vectors",
        settings="catena.tasks.embed.config:EmbedConfig",
        application="catena.tasks.embed.application:EmbedApplication",
        formats=(),
    ),
    TaskSpec(
        name="tag",
        summary="a tag for each word: parts of speech, named entities, chunks, lemmas, Chinese word segmentation",
        settings="catena.tasks.tag.config:TagConfig",
        application="catena.tasks.tag.application:TagApplication",
        formats=("columns",),
    ),
    TaskSpec(
        name="parse",
        summary="sentences into trees: dependencies or phrase structure",
        settings="catena.tasks.parse.config:ParseConfig",
        application="catena.tasks.parse.application:ParseApplication",
        formats=("conllu", "brackets"),
    ),
    TaskSpec(
        name="transduce",
        summary="strings into strings: pronunciations, transliterations, spellings, inflected forms",
        settings="catena.tasks.transduce.config:TransduceConfig",
        application="catena.tasks.transduce.application:TransduceApplication",
        formats=("parallel", "dictionary"),
    ),
    TaskSpec(
        name="translate",
        summary="sentences into sentences: translations, summaries",
        settings="catena.tasks.translate.config:TranslateConfig",
        application="catena.tasks.translate.application:TranslateApplication",
        formats=(),
    ),
    TaskSpec(
        name="point",
        summary="positions of the input: sorting, convex hulls, triangulations, round trips, or your own data",
        settings="catena.tasks.point.config:PointConfig",
        application="catena.tasks.point.application:PointApplication",
        formats=(),
    ),
    TaskSpec(
        name="compose",
        summary="texts from a title and a list of what they must mention, such as recipes",
        settings="catena.tasks.compose.config:ComposeConfig",
        application="catena.tasks.compose.application:ComposeApplication",
        formats=(),
    ),
    TaskSpec(
        name="converse",
        summary="responses in a conversation: chosen from many, or written",
        settings="catena.tasks.converse.config:ConverseConfig",
        application="catena.tasks.converse.application:ConverseApplication",
        formats=(),
    ),
)
for _entry in _ENTRIES:
    TASKS.register(_entry.name)(_entry)


_TABLES = ("csv", "tsv", "jsonl", "parallel")
"""Formats that may have pairs of texts in two columns."""
_FORMATS_WITH_HEADER = ("csv", "tsv", "jsonl")
"""Formats with named columns or keys."""


def task_of_file(path: Path, encoding: str | None = None, labeled: bool = False) -> TaskSpec:
    """The task that a data file is for, by its format.

    Pairs of sentences are for translate, pairs of words for transduce, pairs of a question and a response for converse.
    JSON lines or tables with a title, a list and no label are for compose.

    Args:
        path: the data file.
        encoding: its encoding if it is not UTF-8.
        labeled: whether a column of labels is named, so that any table is for classify.
    """
    from catena.data.detect import UNKNOWN, detect_format
    from catena.data.pairing import are_sentences
    from catena.data.readers.paired import csv_width, find_pair_columns
    from catena.data.readers.sample import Sample

    found = detect_format(path, encoding)
    if found.format == UNKNOWN:
        complete = found.why.endswith(".")  # it names the cure itself
        raise FormatError(found.why if complete else f"The format of {path} is not known: {found.why}. Pass --format.")
    if (
        found.format in _FORMATS_WITH_HEADER
        and "label_column" not in found.options
        and _have_agendas(path, found.format, encoding)
    ):
        return TASKS["compose"]
    if labeled and (found.format in _FORMATS_WITH_HEADER or Sample(path).is_named(".csv")):
        return TASKS["classify"]
    if found.format in _TABLES or Sample(path).is_named(".csv"):
        if (pairs := find_pair_columns(path, found.options, encoding)) is not None:
            return TASKS["converse" if pairs.responses else "translate"]
        if found.format == "jsonl" and _have_turns(path, encoding):
            return TASKS["converse"]
        if found.format == "text" and (width := csv_width(path, encoding)) > 1:
            raise FormatError(
                f"{path} has {width} columns without a header line. Add one, such as text,label, or name the columns: "
                f"--text-column and --label-column for texts and labels, or --source-column 1 --target-column 2 for "
                f"pairs."
            )
    if found.format == "parallel" and are_sentences(path, encoding):
        return TASKS["translate"]
    for name in TASKS:
        if found.format in TASKS[name].formats:
            return TASKS[name]
    tasks = ", ".join(f"{name} ({', '.join(TASKS[name].formats)})" for name in TASKS)
    raise FormatError(
        f"{path} looks like {found.format!r} ({found.why}), which no task supports. Use a format of a task: {tasks}."
    )


def _have_turns(path: Path, encoding: str | None) -> bool:
    """Whether the first JSON object of a file has a list of turns."""
    from catena.data.readers.names import TURN_NAMES
    from catena.data.readers.sample import take_sample

    thing = json.loads(take_sample(path, encoding).filled[0])
    return any(isinstance(thing.get(name), list) for name in TURN_NAMES)


def _have_agendas(path: Path, format: str, encoding: str | None) -> bool:
    """Whether the first object or row of a file has a goal, items and a text, under their common names."""
    from catena.data.readers.names import COMPOSED_NAMES, GOAL_NAMES, ITEM_NAMES, find_name
    from catena.data.readers.paired import read_csv_sample, read_tsv_sample
    from catena.data.readers.sample import take_sample

    if format == "jsonl":
        names = list(json.loads(take_sample(path, encoding).filled[0]))
    else:
        names = list((read_csv_sample if format == "csv" else read_tsv_sample)(path, encoding).rows[0])
    return all(find_name(names, known) is not None for known in (GOAL_NAMES, ITEM_NAMES, COMPOSED_NAMES))


def task_of_config(path: Path) -> TaskSpec:
    """The task that a config file is for."""
    data, _ = read_toml(path)
    name = str(data.get("task"))
    if name not in TASKS:
        raise ConfigError(
            f"task in {path} must be the name of a task, got {name!r} ({did_you_mean(name, TASKS)}). Set task."
        )
    return TASKS[name]
