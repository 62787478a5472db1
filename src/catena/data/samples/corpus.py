"""The bundled corpora: paths of their files, and their sentences as examples.

``assistant`` has requests to an assistant with intents and slots; ``garden`` has dependency trees. The README of each
describes how it was made. Tested in tests/data/test_samples.py and tests/tasks/classify/test_predict.py.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from catena.data.examples import Columns, LabeledText
from catena.data.readers import columns
from catena.data.records import read_examples
from catena.errors import UnknownNameError
from catena.registry import did_you_mean

_PACKAGE = "catena.data.samples"
SPLITS = ("train", "dev", "test")


def sample_names() -> list[str]:
    """The names of the bundled files, such as ``assistant/train.tsv``."""
    folders = [f for f in files(_PACKAGE).iterdir() if f.is_dir() and not f.name.startswith("_")]
    return sorted(f"{folder.name}/{file.name}" for folder in folders for file in folder.iterdir())


def sample_path(name: str) -> Path:
    """The path of a bundled file such as ``assistant/train.tsv``."""
    names = sample_names()
    if name not in names:
        raise UnknownNameError(f"Unknown sample file {name!r}: {did_you_mean(name, names)}")
    return Path(str(files(_PACKAGE).joinpath(name)))


def load_sample(split: str) -> list[LabeledText]:
    """The sentences of "train", "dev" or "test", each with its intent as the only label."""
    return list(read_examples(_part(split, "tsv"), format="tsv"))


def load_tagged_sample(split: str) -> list[Columns]:
    """The sentences of :func:`load_sample`, in the same order, as rows of a token and its BIO tag.

    ``comments`` holds ``# intent = …`` and ``# text = …``.
    """
    return list(columns.read(_part(split, "conll"), separator="tab"))


def _part(split: str, ending: str) -> Path:
    if split not in SPLITS:
        raise UnknownNameError(f"Unknown split {split!r} of the sample: {did_you_mean(split, SPLITS)}")
    return sample_path(f"assistant/{split}.{ending}")
