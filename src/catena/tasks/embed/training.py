"""The training of word vectors and factor models in a run folder. The algorithm is in :mod:`catena.vectors.train`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from catena.checkpoint import CONFIG, Checkpoint, parse_step
from catena.config import load as load_config
from catena.config import to_toml
from catena.data.tokenize import build_tokenizer
from catena.errors import CheckpointError, DataError
from catena.extras import require
from catena.tasks.base import Origin, Training, TrainResult
from catena.tasks.embed.config import EmbedConfig
from catena.tasks.fitted import FitReporter
from catena.tasks.sources import Sources
from catena.training.device import Interruption
from catena.training.report import (
    EvaluationDone,
    LinesReporter,
    Progress,
    Reporter,
    ReporterGroup,
    RunResult,
    RunStarted,
)
from catena.training.run import RunFolder
from catena.vectors.corpus import VectorCorpus, corpus_of_files, corpus_of_sentences
from catena.vectors.factors import fit_factors
from catena.vectors.learning import VectorLoss
from catena.vectors.model import VectorNetwork, new_model
from catena.vectors.table import OWN, VectorTable
from catena.vectors.train import Position, Status, Trainer
from catena.vectors.word_index import WordIndex

_METRIC = "epoch_loss"


class VectorTraining(Training):
    """Word vectors and their text, ready to be trained.

    The text is numbered by the words of the model that training starts from, so it is read here for new vectors, in
    :meth:`load_weights` if they start from an older run, and in :meth:`resume` for a resumed run.
    """

    def __init__(self, config: EmbedConfig, sources: Sources[Any], origin: Origin, commands: Sequence[str]) -> None:
        self.config, self.sources, self.commands = config, sources, tuple(commands)
        self.n_older = 0
        """Number of words of the older model that the vectors started from. They come first."""
        self.trainer = None if origin.folder else self._new_trainer(None)
        self.seconds = 0.0

    def _new_trainer(self, older: VectorNetwork | None) -> Trainer:
        corpus = read_corpus(self.config, self.sources, older.words if older else None)
        return Trainer(new_model(self.config, corpus.words, corpus.lines, older), corpus)

    def load_weights(self, checkpoint: Checkpoint) -> None:
        config = load_config(EmbedConfig, checkpoint.folder / CONFIG)
        older = VectorNetwork.of_tensors(config, checkpoint.weights())
        self.n_older = len(older.words)
        self.trainer = self._new_trainer(older)

    def train(self, run: RunFolder, reporter: Reporter, *, saves_start: bool = False) -> TrainResult:
        assert self.trainer is not None
        return _VectorRun(self.config, run, self.trainer, reporter, self.n_older, self.commands, self.seconds).go()

    def resume(self, run: RunFolder, reporter: Reporter) -> TrainResult:
        last = run.last(reporter.note)
        if last is None:
            run.cut_metrics(0)
            return self.train(run, reporter)
        run.cut_metrics(parse_step(last.folder))
        model = VectorNetwork.of_tensors(self.config, last.weights())
        self.n_older, self.seconds = last.state()["older_words"], float(last.state().get("seconds", 0.0))
        self.trainer = Trainer(model, self._resumed_corpus(model.words), _position(last))
        return self.train(run, reporter)

    def _resumed_corpus(self, words: WordIndex) -> VectorCorpus:
        """The text with the ids that it had: only the words of the model, in the order of their first occurrence."""
        older = words.take(np.arange(self.n_older)) if self.n_older else None
        limit = self.config.words.model_copy(update={"max_size": len(words)})
        return read_corpus(self.config.model_copy(update={"words": limit}), self.sources, older)


def read_corpus(config: EmbedConfig, sources: Sources[Any], known: WordIndex | None) -> VectorCorpus:
    """The text of the files of a config, or of given examples, as ids of words."""
    if "train" in sources.given:
        sentences = _sentences(config, list(sources.read("train")))
        return corpus_of_sentences(sentences, config.words, config.phrases, known=known)
    data = config.data
    return corpus_of_files(
        data.train,
        config.words,
        config.phrases,
        tokens=config.tokenizer,
        encoding=data.encoding,
        format=data.input_format,
        text_column=data.text_column,
        known=known,
    )


def describe_corpus(corpus: VectorCorpus) -> list[str]:
    """Lines about the text."""
    fraction = corpus.size / max(1, corpus.read)
    words = f"vocabulary of {len(corpus.words):,} words, {100 * fraction:.1f} % of the text"
    return [f"text: {corpus.read:,} words in {corpus.lines:,} lines; {words}", *corpus.notes]


def _sentences(config: EmbedConfig, examples: Sequence[str | Sequence[str]]) -> Iterator[Sequence[str]]:
    """The words of given texts, which are tokenized unless they are lists of words."""
    texts = [one for one in examples if isinstance(one, str)]
    if texts and len(texts) < len(examples):
        raise DataError("The texts must be all strings or all lists of words, got both. Split the strings into words.")
    if not texts:
        return iter(examples)
    tokenizer = build_tokenizer(config.tokenizer, texts)
    return (tokenizer.tokens(text) for text in texts)


def _position(checkpoint: Checkpoint) -> Position:
    stored = checkpoint.state()["position"]
    return Position(stored["epoch"], stored["block"], VectorLoss(**stored["loss"]), tuple(stored["epochs"]))


class _VectorRun:
    """A training run with reports and a run folder.

    The first ``n_older`` words come from an older model. ``before`` is the time of the trainings that this one resumes.
    """

    def __init__(
        self, config: EmbedConfig, run: RunFolder, trainer: Trainer, reporter: Reporter, n_older: int,
        commands: tuple[str, ...], before: float,
    ) -> None:  # fmt: skip
        self.before = before
        self.config, self.run, self.trainer, self.n_older = config, run, trainer, n_older
        self.commands = commands
        self.reporter = ReporterGroup([reporter, LinesReporter(run.log)])
        self.steps = config.training.epochs * trainer.n_blocks
        self.began = time.monotonic()
        self.saved_at = self.began

    @property
    def step(self) -> int:
        position = self.trainer.position
        return position.epoch * self.trainer.n_blocks + position.block

    def go(self) -> TrainResult:
        """Train to the end or until interrupted, and save a checkpoint in both cases."""
        try:
            self.reporter.started(self._started())
            reason = self._train()
            self._save()
            if reason != "interrupted":
                VectorTable.of_model(self.trainer.model).save(self.run.path / OWN)
            self.reporter.finished(self._outcome(reason))
        finally:
            self.reporter.close()
        return TrainResult(self.run.path, _METRIC, {}, interrupted=reason == "interrupted")

    def _train(self) -> str:
        """Train, and return why it stopped."""
        if self.step == 0:
            self._save()
        limit = self.config.training.max_seconds
        with Interruption() as interruption:
            for status in self.trainer.run():
                self._report(status)
                if self.trainer.is_over:
                    break
                if limit is not None:
                    self.trainer.time_share = min(1.0, self.seconds / limit)
                if interruption.requested:
                    return "interrupted"
                if self.trainer.time_share == 1:
                    return "max_time"
        return "max_epochs"

    @property
    def seconds(self) -> float:
        """Seconds of this training and of those it resumes."""
        return self.before + time.monotonic() - self.began

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
        state = {"position": asdict(self.trainer.position), "older_words": self.n_older, "seconds": self.seconds}
        self.run.write(self.step, self.trainer.model.tensors(), self._write_config, training={}, state=state)
        self.run.prune({self.step})
        self.saved_at = time.monotonic()

    def _write_config(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")

    def _started(self) -> RunStarted:
        model, corpus, threads = self.trainer.model, self.trainer.corpus, self.trainer.threads
        size = model.inputs.shape[0] * model.d + model.outputs.shape[0] * model.d + len(model.bias)
        used = f"threads: {threads}" + (" (deterministic)" if threads == 1 else "")
        summary = (*describe_corpus(corpus), used)
        return RunStarted("cpu", size, size, summary, self.steps, self.step, self.run.path)

    def _outcome(self, reason: str) -> RunResult:
        losses = self.trainer.position.epochs
        return RunResult(
            reason=reason,
            steps=self.step,
            seconds=self.seconds,
            metric=_METRIC,
            best_step=None,
            scores={_METRIC: losses[-1]} if losses else {},
            best=None,
            last=self.run.folder_of(self.step),
            run=self.run.path,
            what_next=self.commands,
        )


# --- factor models ----------------------------------------------------------------------------------------------------


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
        progress = FitReporter(run, reporter)
        summary = tuple(describe_corpus(self.corpus))
        progress.reporter.started(RunStarted("cpu", 0, 0, summary, None, 0, run.path))
        model, notes = fit_factors(self.config, self.corpus)
        for line in notes:
            progress.note(line)
        seconds = progress.seconds
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
