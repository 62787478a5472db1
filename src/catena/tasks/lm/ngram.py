"""n-gram models in the task: counted in one go, kept in a run folder like any other model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena.config import to_toml
from catena.lm.base import LanguageModel
from catena.tasks.application import Trained
from catena.tasks.fitted import Fitted, Fitting
from catena.tasks.lm.dataset import Dataset, Part
from catena.tasks.lm.encoding import LmEncoding
from catena.tasks.lm.scoring import judge
from catena.tasks.lm.settings import METRICS, WHAT_NEXT, LmConfig, NgramSettings
from catena.training.report import Reporter
from catena.training.run import RunFolder

CONFIG, MODEL = "config.toml", "ngrams.bin"
CPU = torch.device("cpu")
MIB = 2**20


def train_ngram(config: LmConfig, data: Dataset, run: RunFolder, reporter: Reporter) -> Trained:
    """Count and estimate a model, score it on dev and test, and write it as the only checkpoint of a run."""
    from catena.lm.ngram.model import NgramModel  # brings compiled kernels, which networks do without

    assert isinstance(config.model, NgramSettings)
    fitting = Fitting(run, reporter, data.lines)
    settings, encoding = config.model, data.encoding
    model = NgramModel.train_ids(
        (ids.tolist() for ids in sentences_of(data.train, encoding)),
        encoding.vocabulary,
        settings.order,
        settings.estimator,
        settings.prune,
        None if settings.memory is None else settings.memory * MIB,
    )
    if settings.prune_entropy:
        before = sum(model.packed.trie().shape.sizes)
        model = model.pruned(settings.prune_entropy)
        fitting.note(f"n-grams: {sum(model.packed.trie().shape.sizes):,} of {before:,} stay after entropy pruning")
    for note in model.notes:
        fitting.note(note)
    scores = judge(model, data.dev, config, CPU).scores()
    test = judge(model, data.test, config, CPU).scores() if data.test is not None else {}

    def save(folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(config), encoding="utf-8")
        encoding.save(folder)
        model.save(folder / MODEL)

    return fitting.keep(Fitted(scores, METRICS[0], save, data.train.tokens, test), WHAT_NEXT)


def sentences_of(part: Part, encoding: LmEncoding) -> Iterator[np.ndarray]:
    """The ids that an n-gram model counts, without their ends: lines, or all the text in one."""
    corpus = part.corpus
    whole = [part.flat] if encoding.unit == "file" else (corpus[i] for i in range(len(corpus)))
    for ids in whole:
        yield ids[:-1] if len(ids) and ids[-1] == encoding.end else ids


def load_ngram(folder: Path) -> LanguageModel[Any]:
    """Read the model of a checkpoint."""
    from catena.lm.ngram.model import NgramModel

    return NgramModel.load(folder / MODEL)
