"""Train, load and export n-gram models as runs of the task."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.errors import ConfigError, DataError
from catena.lm.base import AutoregressiveLM
from catena.tasks.application import TrainResult
from catena.tasks.fitted import FitReporter, FitResult
from catena.tasks.lm.config import METRICS, WHAT_NEXT, LmConfig, NgramConfig
from catena.tasks.lm.dataset import LmDataset, TextPart
from catena.tasks.lm.encoding import LmEncoding
from catena.tasks.lm.scoring import judge
from catena.training.report import Reporter
from catena.training.run import RunFolder

_MODEL = "ngrams.bin"
CPU = torch.device("cpu")
_MIB = 2**20
_SENTENCES = 1000
"""Number of sentences between two progress reports."""


def train_ngram(config: LmConfig, data: LmDataset, run: RunFolder, reporter: Reporter) -> TrainResult:
    """Estimate an n-gram model, evaluate it on dev and test, and save it as the only checkpoint of a run."""
    from catena.lm.ngram.model import NgramModel  # loads compiled kernels, which networks do not need

    assert isinstance(config.model, NgramConfig)
    fitting = FitReporter(run, reporter, data.lines)
    settings, encoding = config.model, data.encoding
    model = NgramModel.train_ids(
        _with_progress(count_sequences(data.train, encoding), data.train.tokens, fitting),
        encoding.vocabulary,
        settings.order,
        build_estimator(settings),
        settings.prune,
        None if settings.memory is None else settings.memory * _MIB,
        fitting.working,
    )
    if settings.prune_entropy:
        before = sum(model.packed.trie().shape.sizes)
        model = model.pruned(settings.prune_entropy)
        fitting.note(f"n-grams: {sum(model.packed.trie().shape.sizes):,} of {before:,} remain after entropy pruning")
    for note in model.notes:
        fitting.note(note)
    scores = judge(model, data.dev, config, CPU).scores()
    test = judge(model, data.test, config, CPU).scores() if data.test is not None else {}

    def save(folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(config), encoding="utf-8")
        encoding.save(folder)
        model.save(folder / _MODEL)

    return fitting.keep(FitResult(scores, METRICS[0], save, data.train.tokens, test), WHAT_NEXT)


def build_estimator(settings: NgramConfig) -> Any:
    """The estimator of a config, with its options bound."""
    from catena.lm.ngram.estimators import ESTIMATORS

    options = settings.options()
    if "backoff" in options:
        options["weight"] = options.pop("backoff")
    return partial(ESTIMATORS[settings.estimator], **options) if options else settings.estimator


def _with_progress(sentences: Iterator[np.ndarray], tokens: int, fitting: FitReporter) -> Iterator[np.ndarray]:
    """The same sentences, with progress reported by the number of tokens read."""
    read = 0
    for n, ids in enumerate(sentences):
        if n % _SENTENCES == 0:
            fitting.working("reading", min(1.0, read / max(tokens, 1)))
        read += len(ids) + 1
        yield ids


def count_sequences(part: TextPart, encoding: LmEncoding) -> Iterator[np.ndarray]:
    """The sequences that an n-gram model counts, without end symbols: the lines, or the whole text as one."""
    corpus = part.corpus
    whole = [part.flat] if encoding.unit == "file" else (corpus[i] for i in range(len(corpus)))
    for ids in whole:
        yield ids[:-1] if len(ids) and ids[-1] == encoding.end else ids


def load_ngram(folder: Path) -> AutoregressiveLM[Any]:
    """Load the n-gram model of a checkpoint."""
    from catena.lm.ngram.model import NgramModel

    return NgramModel.load(folder / _MODEL)


def export_ngram(to: str, model: AutoregressiveLM[Any], path: Path, quantization: str | None) -> None:
    """Export an n-gram model to a new ARPA file."""
    from catena.lm.ngram.model import NgramModel

    if to != "arpa":
        raise ConfigError(f"--to must be arpa for a language model, got {to!r}. Pass --to arpa.")
    if quantization is not None:
        raise ConfigError(f"--quantization applies only to networks, got {quantization!r}. Remove it.")
    if not isinstance(model, NgramModel):
        raise DataError("Only an n-gram model can be exported to ARPA. Train one with --model ngram.")
    if path.exists():
        raise DataError(f"{path} exists already. Choose another file name.")
    if not path.parent.is_dir():
        raise DataError(f"Folder not found: {path.parent}. Create it before exporting to {path}.")
    model.save_arpa(path)
