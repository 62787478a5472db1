"""Training on one block of text: subsampling, contexts, noise samples, and gradient steps.

Each block has its own seed, so its random choices do not depend on the thread or on previous blocks. All loops over
words are compiled and release the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

from catena.kernels.word2vec import cpu_learn as learn
from catena.kernels.word2vec import cpu_sampling as draw
from catena.randomness import Randomness
from catena.vectors.config import BaseVectorConfig, NCELossConfig, NegativeLossConfig, VectorConfig
from catena.vectors.model import VectorNetwork, word_parts

_NOTHING = np.zeros(0, np.float32)
_WORK = 3_000_000
"""Approximate maximum number of samples of a block, so that its arrays stay small."""


_PIECE = 64
"""Minimum number of words of a piece of text. Each epoch shuffles the pieces."""
_PIECES = 1 << 19
"""Approximate maximum number of pieces of a text, whose positions are kept in memory."""


class TextBlock(NamedTuple):
    """Pieces of a text, with a seed and a learning rate."""

    ids: Int[np.ndarray, " n"]
    """The whole text."""
    lows: Int[np.ndarray, " p"]
    """Start of each piece."""
    highs: Int[np.ndarray, " p"]
    """End of each piece."""
    lines: Int[np.ndarray, " p"]
    """The line in which each piece begins."""
    seed: int
    rate: float

    @classmethod
    def whole(cls, ids: Int[np.ndarray, " n"], seed: int, rate: float) -> TextBlock:
        """A text as one piece."""
        return cls(ids, np.array([0]), np.array([len(ids)]), np.array([0]), seed, rate)


def block_size(settings: VectorConfig, words: int) -> int:
    """The number of words of a block.

    It is small enough for a smooth learning rate and for the caches, and large enough to amortize a call.
    """
    noise = settings.loss.noise if isinstance(settings.loss, NegativeLossConfig | NCELossConfig) else 1
    most = max(64, min(8192, _WORK // (2 * settings.model.window * noise)))
    return max(64, min(most, words // 200))


def piece_size(words: int, block: int) -> int:
    """The number of words of a piece: a line or a few.

    Adjacent lines have similar topics, and training is more effective if consecutive steps differ.
    """
    return min(block, max(_PIECE, words // _PIECES))


def keep_thresholds(counts: Int[np.ndarray, " v"], share: float) -> UInt64[np.ndarray, " v"]:
    """The probability of keeping each word, times 2^32.

    It is (sqrt(f / t) + 1) t / f for frequency f and threshold t.
    """
    if share == 0:
        return np.full(len(counts), draw.ALWAYS, np.uint64)
    f = np.maximum(counts, 1) / max(1, counts.sum())
    kept = (np.sqrt(f / share) + 1) * share / f
    return np.minimum(np.round(kept * 2.0**32), 2.0**32).astype(np.uint64)


def noise_shares(counts: Int[np.ndarray, " v"], power: float) -> Float[np.ndarray, " v"]:
    """The probability of each word as a noise sample, proportional to count ** power."""
    weights = np.maximum(counts, 1).astype(np.float64) ** power
    return weights / weights.sum()


def tree_paths(counts: Int[np.ndarray, " v"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Huffman tree: for each word the inner nodes and turns from the root, with offsets."""
    order = np.argsort(-counts, kind="stable")
    sorted_counts = np.ascontiguousarray(counts[order])
    first = np.zeros(len(counts) + 1, np.int64)
    n = draw.huffman_paths(sorted_counts, first, np.zeros(0, np.int32), np.zeros(0, np.uint8))
    nodes, codes = np.zeros(n, np.int32), np.zeros(n, np.uint8)
    draw.huffman_paths(sorted_counts, first, nodes, codes)
    if (order == np.arange(len(order))).all():
        return first, nodes, codes
    rank = np.argsort(order)  # the words are not sorted by frequency: those of an older model come first
    sizes = np.diff(first)[rank]
    new_first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.repeat(first[rank] - new_first[:-1], sizes) + np.arange(n)
    return new_first, nodes[places], codes[places]


class _Examples(NamedTuple):
    """Bags of input rows and the words they predict."""

    first: np.ndarray
    bag: np.ndarray
    targets: np.ndarray
    n: int


class VectorLearner:
    """Trains a model on blocks of text. Several threads may call :meth:`learn` concurrently.

    Args:
        model: the model to train.
        frozen: train only the document rows, as for new documents.
    """

    def __init__(self, model: VectorNetwork, frozen: bool = False) -> None:
        self.model, self.settings, self.frozen = model, model.settings, frozen
        counts = model.words.counts
        self.keep = keep_thresholds(counts, self.settings.training.subsample)
        self.learn_from = model.first_document if frozen else 0
        self.parts = word_parts(model.words, self.settings.subwords, len(model.words)) if model.buckets else None
        self.step = _STEPS[self.settings.loss.kind](self)

    def learn(self, block: TextBlock) -> Float[np.ndarray, " 2"]:
        """Take the steps of a block. Returns the sum of the losses and the number of examples."""
        loss, rate = np.zeros(2), np.float32(block.rate)
        size = int((block.highs - block.lows).sum())
        words, lines, spans = (np.empty(size, np.int32) for _ in range(3))
        seeds = Randomness(block.seed)
        where = (block.lows, block.highs, block.lines)
        n = draw.subsample_words(block.ids, *where, self.keep, _bits(seeds, "kept"), words, lines, spans)
        if n:
            for i, examples in enumerate(self._examples(words, lines, spans, n, _bits(seeds, "windows"))):
                self.step(examples, _bits(seeds, "noise", i), rate, loss)
        return loss

    def _examples(
        self, words: np.ndarray, lines: np.ndarray, spans: np.ndarray, n: int, seed: np.uint64
    ) -> list[_Examples]:
        model = self.settings.model
        assert isinstance(model, BaseVectorConfig)
        first, context = np.empty(n + 1, np.int64), np.empty(2 * model.window * n, np.int32)
        draw.windows(words, spans, n, model.window, model.dynamic, model.positions or 0, seed, first, context)
        base = self.model.first_document
        if model.kind == "dbow":
            bags = _Examples(np.arange(n + 1), (base + lines[:n]).astype(np.int32), words, n)
            return [bags, self._pairs(words, first, context, n)] if model.words and not self.frozen else [bags]
        if model.kind == "skipgram" and not self.settings.is_shared:
            return [self._pairs(words, first, context, n)]
        examples = self._spelled(_Examples(first, context, words, n))
        if model.kind == "dm":
            new_first, bag = np.empty(n + 1, np.int64), np.empty(int(examples.first[n]) + n, np.int32)
            draw.with_documents(examples.first, examples.bag, lines, n, base, new_first, bag)
            examples = _Examples(new_first, bag, words, n)
        return [examples]

    def _pairs(self, words: np.ndarray, first: np.ndarray, context: np.ndarray, n: int) -> _Examples:
        pairs = int(first[n])
        targets = np.empty(pairs, np.int32)
        draw.pair_targets(words, first, n, targets)
        return self._spelled(_Examples(np.arange(pairs + 1), context, targets, pairs))

    def _spelled(self, examples: _Examples) -> _Examples:
        """With character n-grams, the bags with each word replaced by its parts."""
        if self.parts is None:
            return examples
        part_first, parts = self.parts
        used = examples.bag[: int(examples.first[examples.n])]
        size = int((part_first[used + 1] - part_first[used]).sum())
        first, bag = np.empty(examples.n + 1, np.int64), np.empty(size, np.int32)
        draw.expand_subwords(examples.first, examples.bag, examples.n, part_first, parts, first, bag)
        return _Examples(first, bag, examples.targets, examples.n)

    @property
    def mean(self) -> bool:
        """Whether the rows of a bag are averaged. The parts of a word always are."""
        return getattr(self.settings.model, "combine", "mean") == "mean"

    @property
    def whole(self) -> bool:
        """Whether the whole gradient is applied to each row of a bag."""
        return getattr(self.settings.model, "whole_error", True)


def _bits(seeds: Randomness, name: str, index: int = 0) -> np.uint64:
    return np.uint64(seeds.number(name, index))


# --- steps by loss ----------------------------------------------------------------------------------------------------

_Step = Callable[[_Examples, np.uint64, np.float32, np.ndarray], None]


def _against_noise(learner: VectorLearner) -> _Step:
    model, settings = learner.model, learner.settings
    loss = settings.loss
    assert isinstance(loss, NegativeLossConfig | NCELossConfig)
    k, contrastive = loss.noise, isinstance(loss, NCELossConfig)
    shares = noise_shares(model.words.counts, loss.power)
    alias = np.zeros(len(shares), np.uint64)
    draw.fill_alias(shares, alias)
    shift = -np.log(k * shares).astype(np.float32) if contrastive else _NOTHING
    unit = bool(getattr(settings.model, "unit_norm", False))

    def step(examples: _Examples, seed: np.uint64, rate: np.float32, total: np.ndarray) -> None:
        first, bag, targets, n = examples
        noise = np.empty(n * k, np.int32)
        draw.noise(targets, n, k, alias, not contrastive, seed, noise)
        if settings.is_shared:
            learn.learn_shared(first, bag, targets, n, noise, k, model.inputs, model.outputs, unit, rate, total)
            return
        learn.learn_negative(
            first, bag, targets, n, noise, k, model.inputs, model.outputs, learner.mean, learner.whole, unit,
            model.bias, shift, learner.learn_from, not learner.frozen, rate, total,
        )  # fmt: skip

    return step


def _down_the_tree(learner: VectorLearner) -> _Step:
    model = learner.model
    first, nodes, codes = tree_paths(model.words.counts)

    def step(examples: _Examples, seed: np.uint64, rate: np.float32, total: np.ndarray) -> None:
        learn.learn_hierarchical(
            *examples, first, nodes, codes, model.inputs, model.outputs, learner.mean, learner.whole,
            learner.learn_from, not learner.frozen, rate, total,
        )  # fmt: skip

    return step


def _against_all(learner: VectorLearner) -> _Step:
    model = learner.model

    def step(examples: _Examples, seed: np.uint64, rate: np.float32, total: np.ndarray) -> None:
        learn.learn_softmax(
            *examples, model.inputs, model.outputs, learner.mean, learner.whole, learner.learn_from,
            not learner.frozen, rate, total,
        )  # fmt: skip

    return step


_STEPS: dict[str, Callable[[VectorLearner], _Step]] = {
    "negative": _against_noise,
    "nce": _against_noise,
    "hierarchical": _down_the_tree,
    "softmax": _against_all,
}


@dataclass(frozen=True)
class VectorLoss:
    """A sum of losses in nats, and the number of examples."""

    total: float = 0.0
    examples: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.examples if self.examples else 0.0

    def __add__(self, other: VectorLoss) -> VectorLoss:
        return VectorLoss(self.total + other.total, self.examples + other.examples)
