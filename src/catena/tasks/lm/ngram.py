"""n-gram models in the task: counted in one go, kept in a run folder like any other model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena.config import to_toml
from catena.lm.base import LanguageModel
from catena.tasks.application import Trained
from catena.tasks.lm.dataset import Dataset, Part
from catena.tasks.lm.encoding import LmEncoding
from catena.tasks.lm.scoring import judge
from catena.tasks.lm.settings import METRICS, WHAT_NEXT, LmConfig, NgramSettings
from catena.training.report import Evaluated, LinesReporter, Outcome, Progress, Reporter, Started, Together
from catena.training.run import RunFolder
from catena.training.state import TrainingState

CONFIG, MODEL = "config.toml", "ngrams.bin"
CPU = torch.device("cpu")


def train_ngram(config: LmConfig, data: Dataset, run: RunFolder, reporter: Reporter) -> Trained:
    """Count and estimate a model, score it on dev and test, and write it as the only checkpoint of a run."""
    from catena.lm.ngram.model import NgramModel  # brings compiled kernels, which networks do without

    assert isinstance(config.model, NgramSettings)
    began, both = time.monotonic(), Together([reporter, LinesReporter(run.log)])
    both.started(Started("cpu", 0, 0, tuple(data.lines), 1, 0, run.path))
    settings, encoding = config.model, data.encoding
    model = NgramModel.train_ids(
        (ids.tolist() for ids in sentences_of(data.train, encoding)),
        encoding.vocabulary,
        settings.order,
        settings.estimator,
        settings.prune,
    )
    for note in model.notes:
        both.note(note)
    scores = judge(model, data.dev, config, CPU).scores()
    test = judge(model, data.test, config, CPU).scores() if data.test is not None else {}
    seconds = time.monotonic() - began

    def save(folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(config), encoding="utf-8")
        encoding.save(folder)
        model.save(folder / MODEL)

    state = TrainingState(step=1, tokens=data.train.tokens, seconds=seconds, best_step=1, best_scores=dict(scores))
    run.cut_metrics(0)
    written = run.write(1, {}, save, {}, {"training": state.as_json()})
    run.point_best(1)
    row = {"step": 1, "epoch": 1, "tokens": data.train.tokens, "best": True, "seconds": round(seconds, 3)}
    run.append_metrics({**row, "loss": None, "learning_rate": None, "scores": scores})
    if test:
        run.append_metrics({"step": 1, "part": "test", **test})
    progress = Progress(1, 1, 1, scores["nats_per_token"], 0.0, data.train.tokens / max(seconds, 1e-9), 0.0)
    both.evaluated(Evaluated(progress, scores, METRICS[0], True, ()))
    folder = written.folder
    both.finished(Outcome("max_steps", 1, seconds, METRICS[0], 1, scores, folder, folder, run.path, WHAT_NEXT))
    both.close()
    return Trained(run.path, METRICS[0], scores, test)


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
