"""The word vector task: run folders, checkpoints and reports. The models are in :mod:`catena.vectors`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import numpy as np

from catena import checkpoint as files
from catena import config as configs
from catena.checkpoint import CONFIG, Checkpoint, open_checkpoint
from catena.config import Config, to_toml
from catena.data.texts import read_texts
from catena.data.tokenize import build_tokenizer
from catena.errors import CheckpointError, ConfigError, DataError
from catena.tasks.application import NO_LIMITS, Predictor, TaskApplication, TrainResult
from catena.tasks.embed.config import EmbedConfig
from catena.tasks.resuming import check_config
from catena.training.interrupt import Interruption
from catena.training.report import EvaluationDone, Progress, Reporter, RunResult, RunStarted
from catena.training.run import RunFolder, create_run, open_run
from catena.vectors.corpus import VectorCorpus, corpus_of_files
from catena.vectors.learning import VectorLoss
from catena.vectors.model import VectorNetwork, new_model
from catena.vectors.table import OWN, WordVectors
from catena.vectors.train import Position, Status, Trainer, infer_documents, no_documents
from catena.vectors.words import WordIndex

_METRIC = "epoch_loss"


class EmbedApplication(TaskApplication):
    """The task ``embed``, which trains word vectors on text."""

    def train(
        self,
        config: Config,
        folder: Path,
        reporter: Reporter,
        *,
        start_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> TrainResult:
        assert isinstance(config, EmbedConfig)
        old = load_model(start_from) if start_from else None
        corpus = _corpus(config, old.words if old else None)
        run = create_run(
            folder, to_toml(config), seed=config.seed, command=command, data=_files(config), overwrite=overwrite
        )
        model = new_model(config, corpus.words, corpus.lines, old)
        return _Run(config, run, Trainer(model, corpus), reporter, len(old.words) if old else 0).go()

    def fit_to_time(self, config: Config) -> NoReturn:
        raise ConfigError("--time is not supported for word vectors. Set --epochs instead.")

    def resume(self, folder: Path, reporter: Reporter, limits: Mapping[str, object] = NO_LIMITS) -> TrainResult:
        if limits:
            raise CheckpointError(
                f"{' and '.join(limits)} must not be set for word vectors, whose learning rate depends on a fixed "
                f"number of epochs, got {', '.join(map(str, limits.values()))}. Train a new run with --from {folder}."
            )
        run = open_run(folder)
        config = configs.load(EmbedConfig, folder / CONFIG)
        run.check_data(_files(config))
        last = run.last(reporter.note)
        if last is None:
            raise CheckpointError(f"The run {folder} has no checkpoint yet. Train it again with --overwrite.")
        check_config(config, folder, last)
        run.cut_metrics(files.parse_step(last.folder))
        model = VectorNetwork.of_tensors(config, last.weights())
        words = config.words.model_copy(update={"max_size": len(model.words)})  # only the words of the model
        n_older = last.state().get("older_words", len(model.words))  # early runs did not save it
        older = model.words.take(np.arange(n_older)) if n_older else None
        corpus = _corpus(config.model_copy(update={"words": words}), older)
        return _Run(config, run, Trainer(model, corpus, _position(last)), reporter, n_older).go()

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        raise DataError(
            f"{folder} has word vectors, which have no predictions. Use 'catena embed neighbors', 'analogy' or "
            f"'evaluate', or Vectors.load({str(folder)!r}) in Python."
        )


def load_model(path: Path) -> VectorNetwork:
    """The model of a run or checkpoint folder, to resume training or infer document vectors."""
    checkpoint = open_checkpoint(path)
    config = configs.load(EmbedConfig, checkpoint.folder / CONFIG)
    return VectorNetwork.of_tensors(config, checkpoint.weights())


def documents(path: Path, text: Path | None = None, epochs: int = 20, seed: int = 0) -> WordVectors:
    """The paragraph vectors of lines, named by line numbers from 1.

    The lines come from the training text, or from another text, whose vectors are inferred with the rest of the model
    fixed.

    Args:
        path: a run of paragraph vectors, or a checkpoint of it.
        text: another text, with the encoding and tokenization of the training text; phrases are not joined in it.
        epochs: number of passes over the other text.
        seed: seed of the inference.
    """
    model = load_model(path)
    if text is None:
        if not model.settings.is_paragraph:
            raise no_documents(model)
        rows = model.document_vectors()
    else:
        config = model.settings
        assert isinstance(config, EmbedConfig)
        texts = list(read_texts(text, config.data.format, config.data.text_column, config.data.encoding))
        tokenizer = build_tokenizer(config.tokens, texts)
        rows = infer_documents(model, (tokenizer.tokens(line) for line in texts), epochs, seed)
        if not len(rows):
            raise DataError(f"{text} has no lines. Use a text with one document per line.")
    return WordVectors.of([str(i + 1) for i in range(len(rows))], rows)


def _files(config: EmbedConfig) -> dict[str, Path]:
    return {f"train{i}": Path(path) for i, path in enumerate(config.data.train)}


def _corpus(config: EmbedConfig, known: WordIndex | None) -> VectorCorpus:
    return corpus_of_files(
        config.data.train,
        config.words,
        config.phrases,
        tokens=config.tokens,
        encoding=config.data.encoding,
        format=config.data.format,
        text_column=config.data.text_column,
        known=known,
    )


def _position(checkpoint: Checkpoint) -> Position:
    held = checkpoint.state()["position"]
    return Position(held["epoch"], held["block"], VectorLoss(**held["loss"]), tuple(held["epochs"]))


class _Run:
    """A training run with reports and a run folder. The first ``n_older`` words come from an older model."""

    def __init__(self, config: EmbedConfig, run: RunFolder, trainer: Trainer, reporter: Reporter, n_older: int) -> None:
        self.config, self.run, self.trainer, self.reporter, self.n_older = config, run, trainer, reporter, n_older
        self.steps = config.training.epochs * trainer.n_blocks
        self.began = time.monotonic()
        self.saved_at = self.began
        self.progress: Progress | None = None

    @property
    def step(self) -> int:
        position = self.trainer.position
        return position.epoch * self.trainer.n_blocks + position.block

    def go(self) -> TrainResult:
        """Train to the end or until interrupted, and save a checkpoint in both cases."""
        self.reporter.started(self._started())
        if self.step == 0:
            self._save()
        interrupted = False
        with Interruption() as interruption:
            for status in self.trainer.run():
                self._report(status)
                if interruption.requested and not self.trainer.is_over:
                    interrupted = True
                    break
        self._save()
        losses = self.trainer.position.epochs
        scores = {_METRIC: losses[-1]} if losses else {}
        if not interrupted:
            WordVectors.of_model(self.trainer.model).save(self.run.path / OWN)
        self.reporter.finished(self._outcome(interrupted, scores))
        if not interrupted:
            self.reporter.note(f"next: catena embed neighbors WORD --vectors {self.run.path}")
        return TrainResult(self.run.path, _METRIC, scores, interrupted=interrupted)

    def _report(self, status: Status) -> None:
        elapsed = time.monotonic() - self.began
        left = elapsed * (1 - status.share) / status.share if status.share > 0 else None
        speed = status.words / max(status.seconds, 1e-9)
        position = status.position
        loss = position.epochs[-1] if status.end_of_epoch else position.loss.mean
        epoch = position.epoch + (0 if status.end_of_epoch else 1)
        progress = Progress(self.step, self.steps, epoch, loss, status.rate, speed, left)
        self.reporter.progress(progress)
        if status.end_of_epoch:
            self.reporter.evaluated(EvaluationDone(progress, {_METRIC: loss}, _METRIC, False, ()))
            self.run.append_metrics({"step": self.step, "epoch": epoch, "loss": loss, "words_per_second": speed})
            self._save()
        elif time.monotonic() - self.saved_at > self.config.training.save_every:
            self._save()

    def _save(self) -> None:
        position = self.trainer.position
        tensors = self.trainer.model.tensors()
        state = {"position": asdict(position), "older_words": self.n_older}
        self.run.write(self.step, tensors, lambda folder: _write(folder, self.config), training={}, state=state)
        self.run.prune({self.step})
        self.saved_at = time.monotonic()

    def _started(self) -> RunStarted:
        model, corpus = self.trainer.model, self.trainer.corpus
        size = model.inputs.shape[0] * model.d + model.outputs.shape[0] * model.d + len(model.bias)
        share = corpus.size / max(1, corpus.read)
        summary = (
            f"text: {corpus.read:,} words in {corpus.lines:,} lines; vocabulary of {len(corpus.words):,} words, "
            f"{100 * share:.1f} % of the text",
            *corpus.notes,
            f"threads: {self.trainer.threads}" + (" (deterministic)" if self.trainer.threads == 1 else ""),
        )
        return RunStarted("cpu", size, size, summary, self.steps, self.step, self.run.path)

    def _outcome(self, interrupted: bool, scores: dict[str, float]) -> RunResult:
        return RunResult(
            reason="interrupted" if interrupted else "max_epochs",
            steps=self.step,
            seconds=time.monotonic() - self.began,
            metric=_METRIC,
            best_step=None,
            scores=scores,
            best=None,
            last=self.run.folder_of(self.step),
            run=self.run.path if interrupted else None,
        )


def _write(folder: Path, config: EmbedConfig) -> None:
    (folder / CONFIG).write_text(to_toml(config), encoding="utf-8")
