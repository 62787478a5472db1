"""The parameters of word vectors: input rows of words, character n-grams and documents, and output rows.

Saved and loaded through :mod:`catena.checkpoint`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float32, Int

from catena.errors import CheckpointError
from catena.kernels.word2vec.cpu_sampling import ngram_parts
from catena.randomness import Randomness
from catena.vectors.config import SubwordConfig, VectorConfig
from catena.vectors.word_index import WordIndex

if TYPE_CHECKING:
    import torch

_LINE = 16
"""Number of float32 values in a cache line. Rows are aligned to cache lines."""
_PROJECTION = "projection."
"""The beginning of the names of the tensors of a projection."""
TOGETHER = 10_000
"""Number of words whose parts are summed in one batch."""
_FIRST_LENGTH = 0.25
"""Length of the initial rows. Outputs begin at zero and move in proportion to the length of the inputs: with rows of
length 0.03, as in the first word2vec (d = 100), they hardly move while the learning rate is largest."""


def aligned_zeros(n: int, d: int) -> Float32[np.ndarray, "n padded"]:
    """Zero rows, padded so that each begins on a cache line, which limits contention between threads."""
    padded = -(-d // _LINE) * _LINE
    memory = np.zeros(n * padded + _LINE, np.float32)
    start = (-memory.ctypes.data % (4 * _LINE)) // 4
    return memory[start : start + n * padded].reshape(n, padded)


@dataclass(eq=False)
class VectorNetwork:
    """The parameters of word vectors, which are trained in place.

    Args:
        settings: the training config.
        words: the words by id.
        inputs: rows of words, then buckets, then documents, padded with zeros.
        outputs: rows of predicted words, or of the inner nodes of a tree.
        bias: a value for each predicted word; empty except for noise-contrastive estimation.
        documents: number of documents.
        projection: for factor models, the arrays that map the counts of a new document to its vector.
    """

    settings: VectorConfig
    words: WordIndex
    inputs: Float32[np.ndarray, "n padded"]
    outputs: Float32[np.ndarray, "m padded"]
    bias: Float32[np.ndarray, " b"]
    documents: int
    projection: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def d(self) -> int:
        return self.settings.model.d

    @property
    def buckets(self) -> int:
        """Number of rows of character n-grams."""
        return self.settings.subwords.buckets if self.settings.subwords.longest else 0

    @property
    def first_document(self) -> int:
        """The input row of the first document."""
        return len(self.words) + self.buckets

    # --- vectors ----------------------------------------------------------------------------------------------

    def word_vectors(self) -> Float32[np.ndarray, "v d"]:
        """A vector for each word: its row (a view), or the mean of its row and the rows of its n-grams."""
        rows = self.inputs[: len(self.words), : self.d]
        if not self.buckets:
            return rows
        first, parts = word_parts(self.words, self.settings.subwords, len(self.words))
        result = np.empty((len(self.words), self.d), np.float32)
        for low in range(0, len(self.words), TOGETHER):
            edges = first[low : low + TOGETHER + 1]
            total = np.add.reduceat(self.inputs[parts[edges[0] : edges[-1]], : self.d], edges[:-1] - edges[0], axis=0)
            result[low : low + TOGETHER] = total / np.diff(edges)[:, None]
        return result

    def context_vectors(self) -> Float32[np.ndarray, "v d"]:
        """The output row of each word, as a view."""
        if self.settings.loss.kind == "hierarchical":
            raise CheckpointError(
                "There are no context vectors with loss = 'hierarchical', which trains vectors of inner tree nodes "
                "instead. Use the word vectors."
            )
        if len(self.outputs) < len(self.words):
            raise CheckpointError(
                f"There are no context vectors with model = {self.settings.model.kind!r} of counts in documents. Use "
                f"the word vectors."
            )
        return self.outputs[:, : self.d]

    def document_vectors(self) -> Float32[np.ndarray, "n d"]:
        """A vector for each line of the text, as a view."""
        return self.inputs[self.first_document :, : self.d]

    def bucket_vectors(self) -> Float32[np.ndarray, "n d"]:
        """The rows of character n-grams, as a view."""
        return self.inputs[len(self.words) : self.first_document, : self.d]

    # --- files ------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors to save, without padding."""
        import torch

        arrays = {
            "inputs": self.inputs[:, : self.d],
            "outputs": self.outputs[:, : self.d],
            "bias": self.bias,
            "words": self.words.names,
            "ends": self.words.ends,
            "counts": self.words.counts,
            **{_PROJECTION + name: array for name, array in self.projection.items()},
        }
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    @classmethod
    def of_tensors(cls, settings: VectorConfig, tensors: Mapping[str, torch.Tensor]) -> VectorNetwork:
        """The model from the tensors that :meth:`tensors` returned."""
        missing = [name for name in ("inputs", "outputs", "bias", "words", "ends", "counts") if name not in tensors]
        if missing:
            raise CheckpointError(f"This is not a checkpoint of word vectors: {missing[0]} is missing. Check the path.")
        held = {name: tensor.numpy() for name, tensor in tensors.items()}
        words = WordIndex(held["words"].copy(), held["ends"].astype(np.int64), held["counts"].astype(np.int64))
        rows = [aligned_zeros(*held[name].shape) for name in ("inputs", "outputs")]
        for row, name in zip(rows, ("inputs", "outputs"), strict=True):
            row[:, : settings.model.d] = held[name]
        buckets = settings.subwords.buckets if settings.subwords.longest else 0
        stored = {name: array for name, array in held.items() if name.startswith(_PROJECTION)}
        projection = {name.removeprefix(_PROJECTION): array.copy() for name, array in stored.items()}
        documents = len(rows[0]) - len(words) - buckets
        return cls(settings, words, rows[0], rows[1], held["bias"].copy(), documents, projection)


# --- new rows ---------------------------------------------------------------------------------------------------------


def new_model(
    settings: VectorConfig, words: WordIndex, documents: int, old: VectorNetwork | None = None
) -> VectorNetwork:
    """A model with small random inputs and zero outputs, or the rows of an older model where it has them.

    The words of the older model come first. Its documents are not reused. With a tree, whose inner nodes depend on the
    words, its outputs are not reused either.
    """
    v, d = len(words), settings.model.d
    buckets = settings.subwords.buckets if settings.subwords.longest else 0
    documents = documents if settings.is_paragraph else 0
    inputs = aligned_zeros(v + buckets + documents, d)
    tree = settings.loss.kind == "hierarchical"
    outputs = aligned_zeros(v - 1 if tree else v, d)
    seeds, stage = Randomness(settings.seed), len(old.words) if old else 0
    draw_rows(inputs[:v, :d], seeds.numpy("words", stage), settings)
    draw_rows(inputs[v : v + buckets, :d], seeds.numpy("buckets", stage), settings)
    draw_rows(inputs[v + buckets :, :d], seeds.numpy("documents", stage), settings)
    if getattr(settings.model, "unit_norm", False):
        draw_rows(outputs[:, :d], seeds.numpy("outputs", stage), settings)
    bias = np.zeros(0, np.float32)
    if settings.loss.kind == "nce":
        bias = np.log(np.maximum(words.counts, 1) / max(1, words.counts.sum())).astype(np.float32)
    if old is not None:
        _check_same(settings, old)
        n = len(old.words)
        inputs[:n] = old.inputs[:n]
        inputs[v : v + buckets] = old.inputs[n : n + buckets]
        if not tree:
            outputs[:n] = old.outputs
            bias[: len(old.bias)] = old.bias
    return VectorNetwork(settings, words, inputs, outputs, bias, documents)


def draw_rows(rows: Float32[np.ndarray, "n d"], generator: np.random.Generator, settings: VectorConfig) -> None:
    """Fill rows with uniform values of length about FIRST_LENGTH, or with unit vectors if ``unit_norm``."""
    limit = np.float32(_FIRST_LENGTH * math.sqrt(3 / settings.model.d))
    for low in range(0, len(rows), 1 << 16):
        part = rows[low : low + (1 << 16)]
        part[:] = (2 * generator.random(part.shape, dtype=np.float32) - 1) * limit
        if getattr(settings.model, "unit_norm", False):
            part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)


def _check_same(settings: VectorConfig, old: VectorNetwork) -> None:
    for name, ours, theirs in (
        ("model.d", settings.model.d, old.settings.model.d),
        ("loss", settings.loss.kind, old.settings.loss.kind),
        ("subwords", settings.subwords, old.settings.subwords),
    ):
        if ours != theirs:
            raise CheckpointError(
                f"{name} must be {theirs!r} as in the older model, got {ours!r}. Remove the option to continue with "
                f"the model."
            )


def word_parts(
    words: WordIndex, subwords: SubwordConfig, base: int
) -> tuple[Int[np.ndarray, " w"], Int[np.ndarray, " n"]]:
    """The rows of each word, ``parts[first[w] : first[w + 1]]``.

    With ``base`` = 0 these are the buckets of its n-grams; otherwise row ``w`` and the buckets offset by ``base`` rows.
    """
    first = np.zeros(len(words) + 1, np.int64)
    given = (words.names, words.ends, subwords.shortest, subwords.longest, subwords.buckets, base, first)
    parts = np.zeros(ngram_parts(*given, np.zeros(0, np.int32)), np.int32)
    ngram_parts(*given, parts)
    return first, parts
