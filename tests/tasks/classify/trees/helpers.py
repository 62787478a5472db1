"""A small treebank and small models for the tests of tree classifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena.data.examples import Tree
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.trees.task import TreeTask
from catena.tasks.neural import NetworkTraining
from catena.tasks.sources import Sources
from tests.tasks.classify.helpers import config_of

TREEBANK = """\
(4 (2 a) (4 (4 lovely) (2 film)))
(0 (2 a) (0 (0 dull) (2 film)))
(3 (2 it) (3 (2 is) (3 good)))
(1 (2 it) (1 (2 is) (1 bad)))
(2 (2 the) (2 film))
(1 (2 it) (1 (2 is) (1 (1 not) (3 good))))
(3 (2 it) (3 (2 is) (3 (1 not) (1 bad))))
(2 (2 it) (2 (2 is) (2 (2 a) (2 film))))
"""
MODELS: dict[str, dict[str, Any]] = {
    "tree_lstm": {"kind": "tree_lstm", "embedding": {"d": 6}, "encoder": {"d": 7}, "dropout_hidden": 0.0},
    "summed": {
        "kind": "tree_lstm",
        "embedding": {"d": 6},
        "encoder": {"d": 7, "children": "summed"},
        "dropout_hidden": 0.0,
    },
    "recursive": {"kind": "recursive", "embedding": {"d": 16}},
    "mv_rnn": {"kind": "mv_rnn", "embedding": {"d": 6}, "encoder": {"rank": 2}},
    "rntn": {"kind": "rntn", "embedding": {"d": 8}},
}


def treebank(folder: Path, text: str = TREEBANK, name: str = "trees.txt") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def tree_config(
    folder: Path, model: dict[str, Any], text: str = TREEBANK, **sections: dict[str, Any]
) -> ClassifyConfig:
    """A config with the same treebank as train, dev and test."""
    path = treebank(folder, text)
    data = {"train": [path], "dev": path, "test": path, **sections.pop("data", {})}
    training = {"learning_rate": 0.03, "optimizer": "adam", "max_epochs": 30, "patience": 0}
    training |= sections.pop("training", {})
    batches = {"batch_size": 3, **sections.pop("batches", {})}
    return config_of({"model": model, "data": data, "training": training, "batches": batches, **sections})


def tree_task(config: ClassifyConfig, sources: Sources[Tree] | None = None) -> NetworkTraining:
    """A new model with the trees of a config, ready to be trained."""
    return TreeTask.prepare(config, sources or Sources(TreeTask, config), Origin(Randomness(config.seed)))
