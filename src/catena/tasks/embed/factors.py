"""The training of factor models of counts in a run folder. The models are in :mod:`catena.vectors.factors`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catena.checkpoint import CONFIG, Checkpoint
from catena.config import to_toml
from catena.errors import CheckpointError
from catena.extras import require
from catena.tasks.base import Origin, Training, TrainResult
from catena.tasks.embed.config import EmbedConfig
from catena.tasks.embed.training import describe_corpus, read_corpus
from catena.tasks.fitted import FitReporter
from catena.tasks.sources import Sources
from catena.training.report import Reporter, RunResult, RunStarted
from catena.training.run import RunFolder
from catena.vectors.factors import fit_factors
from catena.vectors.table import OWN, VectorTable


class FactorTraining(Training):
    """A factor model and its text, ready to be fitted."""

    def __init__(self, config: EmbedConfig, sources: Sources[Any], origin: Origin, commands: Sequence[str]) -> None:
        require("sklearn", "sklearn", f"--model {config.model.kind}")
        self.config, self.commands = config, tuple(commands)
        self.corpus = read_corpus(config, sources, None)

    def load_weights(self, checkpoint: Checkpoint) -> None:
        raise CheckpointError(
            f"--init-from {checkpoint.folder} needs a model that is trained in steps, but a model of kind "
            f"{self.config.model.kind!r} is always created from scratch. Remove --init-from."
        )

    def train(self, run: RunFolder, reporter: Reporter, *, saves_start: bool = False) -> TrainResult:
        progress, began = FitReporter(run, reporter), time.monotonic()
        summary = tuple(describe_corpus(self.corpus))
        progress.reporter.started(RunStarted("cpu", 0, 0, summary, None, 0, run.path))
        model, notes = fit_factors(self.config, self.corpus)
        for line in notes:
            progress.note(line)
        seconds = time.monotonic() - began
        run.cut_metrics(0)
        written = run.write(1, model.tensors(), self._write_config, training={}, state={})
        run.append_metrics({"step": 1, "epoch": 1, "loss": None, "seconds": round(seconds, 3)})
        VectorTable.of_model(model).save(run.path / OWN)
        folder = written.folder
        progress.reporter.finished(RunResult("fitted", 1, seconds, "", None, {}, None, folder, run.path, self.commands))
        progress.reporter.close()
        return TrainResult(run.path, "", {})

    def resume(self, run: RunFolder, reporter: Reporter) -> TrainResult:
        return self.train(run, reporter)

    def _write_config(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
