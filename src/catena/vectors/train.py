"""Training of word vectors: blocks of text are distributed to threads, epoch after epoch.

Each epoch shuffles the text in pieces of a line or a few, because text in its own order would overfit to the current
topic. A block consists of consecutive pieces in this order. The learning rate decreases linearly with the words read.
The random choices and the learning rate of a block depend only on its epoch and index, so one thread gives exactly
reproducible vectors, and a training that was stopped between two blocks can be resumed exactly. Several threads change
the same rows without locks (Recht et al. 2011), which is faster but not reproducible.

Run folders are written by :mod:`catena.tasks.embed`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int

from catena.data.config import TokenizerConfig
from catena.errors import DataError, DivergedError
from catena.kernels.word2vec.cpu_sampling import LINE_END
from catena.kernels.word2vec.cpu_words import cut_pieces
from catena.randomness import Randomness
from catena.vectors.config import VectorConfig
from catena.vectors.corpus import VectorCorpus, corpus_of_files, corpus_of_sentences, ids_of_sentences
from catena.vectors.learning import TextBlock, VectorLearner, VectorLoss, block_size, piece_size
from catena.vectors.model import VectorNetwork, aligned_zeros, draw_rows, new_model

_NO_LOSS = VectorLoss()

_ROUND = 0.5
"""Approximate number of seconds between two reports."""


@dataclass(frozen=True)
class Position:
    """The position of a training between two blocks, which with the model is enough to resume."""

    epoch: int = 0
    block: int = 0
    loss: VectorLoss = _NO_LOSS
    """Loss of the blocks of this epoch."""
    epochs: tuple[float, ...] = ()
    """The mean loss of each completed epoch, in nats per example."""


@dataclass(frozen=True)
class Status:
    """A progress report between two rounds of blocks."""

    position: Position
    share: float
    """Completed fraction of the training, from 0 to 1."""
    words: int
    """Words of the text read since the last report, including rare ones."""
    seconds: float
    """Time since the last report."""
    rate: float
    end_of_epoch: bool


class Trainer:
    """A training of word vectors that can be stopped between blocks.

    Args:
        model: the model to train.
        corpus: the text, with the words of the model.
        position: the position to resume from.

    ``time_share`` is the completed fraction of a time limit, if there is one; the learning rate falls with it too.
    """

    def __init__(self, model: VectorNetwork, corpus: VectorCorpus, position: Position | None = None) -> None:
        self.model, self.corpus, self.settings = model, corpus, model.settings
        self.position = position or Position()
        self.time_share = 0.0
        self.learner = VectorLearner(model)
        self.threads = self.settings.threads or os.cpu_count() or 1
        self.seeds = Randomness(self.settings.seed)
        self.ids = np.asarray(corpus.ids)
        if self.settings.model.kind in ("skipgram", "cbow"):
            _check_neighbors(self.ids)
        size = block_size(self.settings, corpus.size)
        self.pieces = _Pieces.cut(self.ids, piece_size(corpus.size, size), 2 * size)
        self.per_block = max(1, round(size * self.pieces.n / max(1, len(self.ids))))
        self.n_blocks = -(-self.pieces.n // self.per_block)
        self.order = self._order(self.position.epoch)

    @property
    def is_over(self) -> bool:
        return self.position.epoch >= self.settings.training.epochs

    def run(self) -> Iterator[Status]:
        """Train and yield a report about twice a second. The training may be stopped at any report."""
        size, at, then = self.threads, self.position, time.perf_counter()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="catena-vectors") as pool:
            while not self.is_over:
                at = self.position
                end = min(at.block + size, self.n_blocks)
                losses = self._learn(pool, at.epoch, range(at.block, end))
                so_far = sum(losses, at.loss)  # block by block, so that it does not depend on the rounds
                _check_finite(so_far, at.epoch)
                over = end == self.n_blocks
                if over:
                    self.position = Position(at.epoch + 1, 0, VectorLoss(), (*at.epochs, so_far.mean))
                else:
                    self.position = Position(at.epoch, end, so_far, at.epochs)
                now = time.perf_counter()
                yield self._status(at, end, now - then, over)
                if now - then < _ROUND / 2:
                    size *= 2
                elif now - then > _ROUND * 2:
                    size = max(self.threads, size // 2)
                then = time.perf_counter()

    def _learn(self, pool: ThreadPoolExecutor, epoch: int, places: range) -> list[VectorLoss]:
        """Train on some blocks with all threads. Each thread takes the next block when it is free."""
        if self.order.epoch != epoch:
            self.order = self._order(epoch)
        waiting, lock, losses = iter(places), threading.Lock(), [_NO_LOSS] * len(places)

        def work() -> None:
            while True:
                with lock:
                    place = next(waiting, None)
                if place is None:
                    return
                losses[place - places.start] = VectorLoss(*self.learner.learn(self._block(place)).tolist())

        for job in [pool.submit(work) for _ in range(min(self.threads, len(places)))]:
            job.result()
        return losses

    def _order(self, epoch: int) -> _Order:
        numbers = self.seeds.numpy("order", epoch).permutation(self.pieces.n)
        words = np.diff(self.pieces.words)[numbers]
        return _Order(epoch, numbers, np.concatenate([[0], np.cumsum(words)]))

    def _block(self, place: int) -> TextBlock:
        numbers = self.order.numbers[place * self.per_block : (place + 1) * self.per_block]
        lows, highs, lines = self.pieces.starts[numbers], self.pieces.starts[numbers + 1], self.pieces.lines[numbers]
        seed = self.seeds.number("block", self.order.epoch * self.n_blocks + place)
        return TextBlock(self.ids, lows, highs, lines, seed, self._rate(place))

    def _rate(self, place: int) -> float:
        done = max(self._share(place), self.time_share)
        return max(self.settings.training.min_learning_rate, self.settings.rate * (1 - done))

    def _share(self, place: int) -> float:
        """The completed fraction of the training at an index of this epoch."""
        total, before = self.order.words[-1], self.order.words[min(place * self.per_block, self.pieces.n)]
        return (self.order.epoch + int(before) / max(1, int(total))) / self.settings.training.epochs

    def _status(self, before: Position, end: int, seconds: float, over: bool) -> Status:
        share = self._share(end)
        words = round((share - self._share(before.block)) * self.settings.training.epochs * self.corpus.read)
        return Status(self.position, share, words, seconds, self._rate(before.block), over)


class _Order(NamedTuple):
    """The pieces in the order of an epoch, and the number of words before each of them and the end."""

    epoch: int
    numbers: Int[np.ndarray, " n"]
    words: Int[np.ndarray, " n_and_end"]


@dataclass(frozen=True, eq=False)
class _Pieces:
    """The start of each piece of a text among the ids, the lines and the words, followed by the end."""

    starts: Int[np.ndarray, " n"]
    lines: Int[np.ndarray, " n"]
    words: Int[np.ndarray, " n"]

    @property
    def n(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def cut(cls, ids: Int[np.ndarray, " n"], size: int, longest: int) -> _Pieces:
        nothing = np.zeros(0, np.int64)
        n = cut_pieces(ids, size, longest, nothing, nothing, nothing, True)
        starts, lines, words = (np.zeros(n + 1, np.int64) for _ in range(3))
        cut_pieces(ids, size, longest, starts, lines, words, False)
        return cls(starts, lines, words)


def _check_neighbors(ids: Int[np.ndarray, " n"], at_once: int = 1 << 20) -> None:
    """Raise DataError for a text in which no word has a neighbor."""
    for i in range(0, len(ids), at_once):
        is_word = ids[i : i + at_once + 1] != LINE_END
        if (is_word[1:] & is_word[:-1]).any():
            return
    raise DataError(
        "No line has two words to learn from. Split lines into words with --tokenizer words, or --tokenizer "
        "characters for text without blanks, or lower --min-count."
    )


def _check_finite(loss: VectorLoss, epoch: int) -> None:
    if not np.isfinite(loss.total):
        raise DivergedError(f"The loss became {loss.total} in epoch {epoch + 1}. Lower --learning-rate.")


# --- in one call ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TrainedVectors:
    """A model and the mean loss of each epoch."""

    model: VectorNetwork
    losses: tuple[float, ...]


def train_vectors(
    source: Sequence[Path | str] | Iterable[Sequence[str]],
    settings: VectorConfig | None = None,
    *,
    tokens: TokenizerConfig | None = None,
    encoding: str | None = None,
    start_from: VectorNetwork | None = None,
) -> TrainedVectors:
    """Train vectors on files, or on sentences that are lists of words.

    Args:
        source: paths of text files, or lists of words. A generator of lists is read once.
        settings: the config.
        tokens: how lines of files are tokenized, if not at blanks.
        encoding: encoding of the files. UTF-8 if omitted.
        start_from: an older model to continue from. New words are added.
    """
    settings = settings or (start_from.settings if start_from else VectorConfig())
    known = start_from.words if start_from else None
    if isinstance(source, Sequence) and source and all(isinstance(item, str | Path) for item in source):
        paths = [item for item in source if isinstance(item, str | Path)]
        corpus = corpus_of_files(paths, settings.words, settings.phrases, tokens=tokens, encoding=encoding, known=known)
    else:
        corpus = corpus_of_sentences(source, settings.words, settings.phrases, known=known)  # type: ignore[arg-type]
    if settings.is_factor:
        from catena.vectors.factors import fit_factors

        return TrainedVectors(fit_factors(settings, corpus)[0], ())
    model = new_model(settings, corpus.words, corpus.lines, start_from)
    trainer = Trainer(model, corpus)
    for _ in trainer.run():
        pass
    return TrainedVectors(model, trainer.position.epochs)


def infer_documents(
    model: VectorNetwork, documents: Iterable[Sequence[str]], epochs: int = 20, seed: int = 0
) -> Float32[np.ndarray, "n d"]:
    """Vectors of new documents with all other parameters frozen (Le & Mikolov 2014, section 2.3).

    For a factor model the counts of each document are projected, and ``epochs`` and ``seed`` have no effect. Otherwise
    the result depends on the seed and on the index of each document. A document without known words keeps its random
    initial vector.

    Args:
        model: a model with paragraph vectors.
        documents: lists of words.
        epochs: number of epochs over the documents.
        seed: seed of the random choices.
    """
    if not model.settings.is_paragraph:
        raise no_documents(model)
    if model.settings.is_factor:
        from catena.vectors.factors import project_documents

        return project_documents(model, documents)
    ids, _ = ids_of_sentences(documents, model.words)
    ends = np.flatnonzero(ids < 0)
    n, base = len(ends), model.first_document
    inputs = aligned_zeros(base + n, model.d)
    inputs[:base] = model.inputs[:base]
    draw_rows(inputs[base:, : model.d], Randomness(seed).numpy("documents"), model.settings)
    training = model.settings.training.model_copy(update={"subsample": 0.0})
    settings = model.settings.model_copy(update={"training": training})
    learner = VectorLearner(VectorNetwork(settings, model.words, inputs, model.outputs, model.bias, n), frozen=True)
    for epoch in range(epochs):
        rate = max(training.min_learning_rate, settings.rate * (1 - epoch / epochs))
        learner.learn(TextBlock.whole(ids, Randomness(seed).number("infer", epoch), rate))
    return inputs[base:, : model.d].copy()


def no_documents(model: VectorNetwork) -> DataError:
    """The error for a model without paragraph vectors."""
    return DataError(
        f"Documents have no vectors with model = {model.settings.model.kind!r}. Train with --model dm or "
        f"--model dbow, or a factor model with --counts documents."
    )
