"""Training: blocks of text are shared out to threads, epoch after epoch, and the loss of each epoch is kept.

Each epoch takes the text in an order of its own, drawn at random, in pieces of a line or a few; a block is some pieces
that follow one another in this order. Text in its own order would teach the topic of the day, and forget it. The step
falls in proportion to the words read. What a block draws and how large its step is depend on its epoch and its place
alone, so one thread gives the same vectors bit for bit each time, and a training that was stopped between two blocks
goes on as if nothing had happened. Several threads change the same rows without waiting for
one another (Recht et al. 2011): faster, and never twice the same.

Knows nothing of files: :mod:`catena.tasks.embed` writes run folders.
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
from catena.kernels.word2vec_draw import LINE_END
from catena.kernels.word2vec_words import cut_pieces
from catena.randomness import Randomness
from catena.vectors.config import VectorConfig
from catena.vectors.corpus import VectorCorpus, corpus_of_files, corpus_of_sentences, ids_of_sentences
from catena.vectors.learning import TextBlock, VectorLearner, VectorLoss, block_size, piece_size
from catena.vectors.model import VectorNetwork, aligned_zeros, draw_rows, new_model

_NO_LOSS = VectorLoss()

_ROUND = 0.5
"""Seconds between two reports, about."""


@dataclass(frozen=True)
class Position:
    """Where a training stands: between two blocks. All that a resumed training needs beside the rows."""

    epoch: int = 0
    block: int = 0
    loss: VectorLoss = _NO_LOSS
    """Of the blocks of this epoch."""
    epochs: tuple[float, ...] = ()
    """The mean loss of each epoch that is over, in nats for each example."""


@dataclass(frozen=True)
class Status:
    """What is told between two rounds of blocks."""

    position: Position
    share: float
    """How much of the training is done, from 0 to 1."""
    words: int
    """Words of the text read since the last report, rare ones included."""
    seconds: float
    """Time since the last report."""
    rate: float
    end_of_epoch: bool


class Trainer:
    """A training that can be stopped between blocks.

    Args:
        model: whose rows are learned.
        corpus: the text, whose words are those of the model.
        position: where to go on from.
    """

    def __init__(self, model: VectorNetwork, corpus: VectorCorpus, position: Position | None = None) -> None:
        self.model, self.corpus, self.settings = model, corpus, model.settings
        self.position = position or Position()
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
        """Learn, and tell how it goes about twice a second. Between two reports the training may be left."""
        size, at, then = self.threads, self.position, time.perf_counter()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="catena-vectors") as pool:
            while not self.is_over:
                at = self.position
                end = min(at.block + size, self.n_blocks)
                losses = self._learn(pool, at.epoch, range(at.block, end))
                so_far = sum(losses, at.loss)  # block by block, so that it is the same however rounds are cut
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
        """Learn some blocks on all threads, each of which takes the next one as soon as it is free."""
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
        return max(self.settings.training.min_learning_rate, self.settings.rate * (1 - self._share(place)))

    def _share(self, place: int) -> float:
        """How much of the training comes before a place of this epoch."""
        total, before = self.order.words[-1], self.order.words[min(place * self.per_block, self.pieces.n)]
        return (self.order.epoch + int(before) / max(1, int(total))) / self.settings.training.epochs

    def _status(self, before: Position, end: int, seconds: float, over: bool) -> Status:
        share = self._share(end)
        words = round((share - self._share(before.block)) * self.settings.training.epochs * self.corpus.read)
        return Status(self.position, share, words, seconds, self._rate(before.block), over)


class _Order(NamedTuple):
    """The numbers of the pieces in the order of an epoch, and how many words come before each of them and the end."""

    epoch: int
    numbers: Int[np.ndarray, " n"]
    words: Int[np.ndarray, " n_and_end"]


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Where each piece of a text begins: among the ids, the lines and the words; and at last the end."""

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
    """Refuse a text in which no word has another beside it."""
    for i in range(0, len(ids), at_once):
        is_word = ids[i : i + at_once + 1] != LINE_END
        if (is_word[1:] & is_word[:-1]).any():
            return
    raise DataError(
        "no line has two words that are kept, so that none has a neighbor to learn from: cut lines into words "
        "(--tokens words, or characters, where no blanks stand between words), or lower --min-count"
    )


def _check_finite(loss: VectorLoss, epoch: int) -> None:
    if not np.isfinite(loss.total):
        raise DivergedError(
            f"the loss became {loss.total} in epoch {epoch + 1}: the steps are too large; lower --learning-rate"
        )


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
    """Learn vectors from files, or from sentences that are lists of words.

    Args:
        source: paths of text files, or lists of words; a generator of lists is read once.
        settings: what to learn and how.
        tokens: how lines of files are cut into words, where not at blanks.
        encoding: of the files, if it is not UTF-8.
        start_from: an older model whose words are learned on; new words are added.
    """
    settings = settings or (start_from.settings if start_from else VectorConfig())
    known = start_from.words if start_from else None
    if isinstance(source, Sequence) and source and all(isinstance(item, str | Path) for item in source):
        paths = [item for item in source if isinstance(item, str | Path)]
        corpus = corpus_of_files(paths, settings.words, settings.phrases, tokens=tokens, encoding=encoding, known=known)
    else:
        corpus = corpus_of_sentences(source, settings.words, settings.phrases, known=known)  # type: ignore[arg-type]
    model = new_model(settings, corpus.words, corpus.lines, start_from)
    trainer = Trainer(model, corpus)
    for _ in trainer.run():
        pass
    return TrainedVectors(model, trainer.position.epochs)


def infer_documents(
    model: VectorNetwork, documents: Iterable[Sequence[str]], epochs: int = 20, seed: int = 0
) -> Float32[np.ndarray, "n d"]:
    """Vectors of new documents, lists of words, with all else kept as it is (Le and Mikolov 2014, section 2.3).

    Depends on the seed and on each document's place among the others. A document without known words has the vector
    that it was drawn with.
    """
    if not model.settings.is_paragraph:
        raise no_documents(model)
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
    """What is said of a model without paragraph vectors."""
    return DataError(
        f"documents have no vectors with model = {model.settings.model.kind!r}: train with --model dm or --model dbow"
    )
