"""Word vectors of unlabeled text, from which the networks of a search start.

Tested in tests/tasks/auto/test_unlabeled.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catena.config import parse
from catena.errors import ConfigError
from catena.tasks.auto.table import Candidate, merge
from catena.tasks.auto.trials import Slice
from catena.tasks.spec import TaskSpec

FOLDER = "vectors"
"""The folder of the word vectors inside the run folder."""
_FILE = "vectors.safetensors"
_EMBEDDINGS = {"classify": ("model", "embedding"), "tag": ("model", "words", "embedding")}
"""Where the networks of a task have the embeddings of their words."""
_FRACTION = 0.15
"""Largest fraction of the time for training word vectors."""
_VECTORS = {
    "tokenizer": {"kind": "words"},
    "words": {"min_count": 2},
    "model": {"kind": "skipgram", "d": 100},
    "training": {"epochs": 20},
}
"""The config of the word vectors."""


def check_unlabeled(spec: TaskSpec, files: Sequence[Path]) -> None:
    """Raise ConfigError if a task cannot use unlabeled text, or a file is missing."""
    if spec.name not in _EMBEDDINGS:
        raise ConfigError(f"--unlabeled must be for {' or '.join(_EMBEDDINGS)}, got the task {spec.name}. Remove it.")
    for file in files:
        if not file.is_file():
            raise ConfigError(f"--unlabeled must be a file, got {str(file)!r}. Check the path.")


def vectors_job(files: Sequence[Path], folder: Path, seconds: float) -> Slice:
    """The job of training word vectors on unlabeled text for a part of a time limit."""
    values = {**_VECTORS, "data": {"train": [str(file.resolve()) for file in files]}}
    return Slice("embed", values, folder / FOLDER, _FRACTION * seconds)


def with_vectors(
    spec: TaskSpec, candidates: Sequence[tuple[Candidate, Mapping[str, Any]]], folder: Path
) -> list[tuple[Candidate, dict[str, Any]]]:
    """The candidates, each network followed by the same one that starts from the word vectors.

    Args:
        spec: the task.
        candidates: the candidates with their config values.
        folder: the run folder, with the vectors.
    """
    values: Any = {"mode": "tuned", "vectors": str((folder / FOLDER / _FILE).resolve())}
    for name in reversed(_EMBEDDINGS[spec.name]):
        values = {name: values}
    found: list[tuple[Candidate, dict[str, Any]]] = []
    for candidate, its in candidates:
        found.append((candidate, dict(its)))
        changed = merge(its, values)
        try:
            parse(spec.config_class(), changed)
        except ConfigError:  # it has no word vectors, or the user set them
            continue
        about = f"{candidate.about}, vectors of the unlabeled text"
        found.append((Candidate(f"{candidate.name}-vectors", about, config=candidate.config), changed))
    return found
