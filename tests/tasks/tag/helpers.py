"""Small files of tagged sentences, small models, and a generator whose tags are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from catena import config as configs
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.neural import NetworkTraining
from catena.tasks.runs import load_task, train_run
from catena.tasks.sources import Sources
from catena.tasks.tag.base import TagTask
from catena.tasks.tag.config import TagConfig
from catena.tasks.tag.task import NeuralTagTask
from catena.training.report import SilentReporter

TINY = {
    "words": {"embedding": {"d": 12, "scale": 0.5}, "characters": {"kind": "none"}, "dropout": 0.0},
    "encoder": {"d": 12},
    "dropout": 0.0,
}

SENTENCES = [
    "Anna/B-PER Smith/I-PER went/O to/O New/B-LOC York/I-LOC",
    "she/O saw/O Bob/B-PER in/O Paris/B-LOC",
    "Paris/B-LOC is/O old/O",
    "Bob/B-PER Smith/I-PER saw/O Anna/B-PER",
]


def columns(sentences: Sequence[str]) -> str:
    """A column file of sentences that are written as word/tag."""
    blocks = ["\n".join("\t".join(pair.rsplit("/", 1)) for pair in one.split()) for one in sentences]
    return "\n\n".join(blocks) + "\n\n"


def write(path: Path, sentences: Sequence[str] = SENTENCES, times: int = 4) -> Path:
    path.write_text(columns(list(sentences) * times), encoding="utf-8")
    return path


def config(train: Path, model: dict[str, Any] | None = None, **values: Any) -> TagConfig:
    data = {"train": [str(train)], **values.pop("data", {})}
    training = {"max_epochs": 2, "learning_rate": 0.02, "optimizer": "adam", **values.pop("training", {})}
    whole = {
        "machine": {"device": "cpu", "threads": 1},
        "data": data,
        "model": {**TINY, **(model or {})},
        "batches": {"batch_size": 6},
        "training": training,
        **values,
    }
    return configs.parse(TagConfig, whole)


def prepared(made: TagConfig) -> NetworkTraining:
    """A new neural tagger and its data, ready to be trained."""
    return NeuralTagTask.prepare(made, Sources(NeuralTagTask, made), Origin(Randomness(0)))


def trained(made: TagConfig, folder: Path) -> TagTask:
    """The tagger of a new run."""
    train_run(made, folder, SilentReporter())
    task = load_task(folder, "cpu")
    assert isinstance(task, TagTask)
    return task


def drawn(n: int, seed: int) -> list[str]:
    """Sentences of a hidden Markov model over spans.

    A word determines its tag, except for one word in five, whose tag depends only on the tags around it.
    """
    rng = np.random.default_rng(seed)
    after = {"O": ["O", "B-X", "O", "B-Y"], "B-X": ["I-X", "I-X", "O"], "I-X": ["O", "I-X"], "B-Y": ["O", "O", "B-X"]}
    found = []
    for _ in range(n):
        tag, words = "O", []
        for _ in range(int(rng.integers(3, 9))):
            tag = str(rng.choice(after[tag]))
            word = "blur" if rng.random() < 0.2 else f"{tag.replace('-', '').lower()}{rng.integers(3)}"
            words.append(f"{word}/{tag}")
        found.append(" ".join(words))
    return found
