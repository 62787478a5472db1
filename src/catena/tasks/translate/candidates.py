r"""Candidate vocabularies: the table of candidates of each source word, and search over them.

The output layer computes scores only for the candidates of a batch. Each row is then restricted to its own candidates,
so that a translation does not depend on the other sources of its batch. Jean et al. 2015, section 3.3.

The candidates of a source token are its most probable translations in a word alignment of the training pairs,

.. math::  t(e \mid f) \propto \sum_{(x, y) : f \in x, e \in y} \frac{t(e \mid f)}{\sum_{f' \in x} t(e \mid f')}

IBM Model 1 (Brown et al. 1993), trained by expectation maximization; each token counts once per sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import CheckpointError, ConfigError
from catena.numerics import NEG_INF
from catena.outputs.base import OutputLayer, scatter_log_probs
from catena.search.filters import log_normalize
from catena.search.stepper import Stepper, WrapperStepper
from catena.seq2seq.base import EncoderDecoder
from catena.tasks.translate.config import TranslateConfig
from catena.tasks.translate.data import PairRows
from catena.tasks.translate.encoding import PairEncoding

_FILE = "candidates.npy"
_ROUNDS = 5
_MAX_TOKEN_PAIRS = 20_000_000
"""Largest number of token pairs to count; later sentences are ignored."""


class CandidateOutput(OutputLayer):
    """An output layer that computes only some ids and gives all others probability 0. For search only."""

    likelihood = False
    ids: Tensor

    def __init__(self, layer: OutputLayer, ids: Int[Tensor, " c"]) -> None:
        super().__init__()
        self.d_in, self.v, self.normalized = layer.d_in, layer.v, True
        self.few = layer.restricted(ids)
        self.register_buffer("ids", ids)

    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        return scatter_log_probs(self.few.log_probs(hidden), self.ids, self.v)

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        raise NotImplementedError("CandidateOutput is only for search. Train the wrapped layer.")

    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        return self.log_probs(hidden).gather(1, targets[:, None])[:, 0]

    def start_at(self, frequencies: np.ndarray) -> None:
        raise NotImplementedError("CandidateOutput is only for search. Initialize the wrapped layer.")


@contextmanager
def restrict_output(model: EncoderDecoder, ids: Int[Tensor, " c"]) -> Iterator[None]:
    """Context in which steppers of the model compute scores only for ``ids``.

    Output layers that cannot be restricted are left unchanged.
    """
    output = getattr(model, "output", None)
    if not isinstance(output, OutputLayer):
        yield
        return
    owner: Any = model
    owner.output = CandidateOutput(output, ids)
    try:
        yield
    finally:
        owner.output = output


class CandidateState(NamedTuple):
    """The inner state, the candidates of all sources, and the source index of each row."""

    inner: Any
    allowed: Bool[Tensor, "b v"]
    sources: Int[Tensor, " n"]


class CandidateStepper(WrapperStepper[CandidateState]):
    """Stepper of p(next | prefix, next is a candidate of the source).

    Args:
        stepper: the stepper to restrict.
        allowed: ``allowed[i, w]`` is True if ``w`` is a candidate of source ``i``.
    """

    def __init__(self, stepper: Stepper[Any], allowed: Bool[Tensor, "b v"]) -> None:
        self.stepper, self.allowed, self.v, self.end = stepper, allowed, stepper.v, stepper.end

    def start(self, n: int) -> CandidateState:
        return CandidateState(self.stepper.start(n), self.allowed, torch.arange(n, device=self.allowed.device))

    def inner(self, state: CandidateState) -> Any:
        return state.inner

    def log_probs(self, state: CandidateState) -> Float[Tensor, "n v"]:
        return log_normalize(self.stepper.log_probs(state.inner).masked_fill(~self.allowed[state.sources], NEG_INF))

    def advance(self, state: CandidateState, ids: Int[Tensor, " n"]) -> CandidateState:
        return state._replace(inner=self.stepper.advance(state.inner, ids))

    def select(self, state: CandidateState, rows: Int[Tensor, " m"]) -> CandidateState:
        return CandidateState(self.stepper.select(state.inner, rows), self.allowed, state.sources[rows])

    def join(self, states: Sequence[CandidateState]) -> CandidateState:
        """Join states of this stepper.

        Raises:
            ConfigError: if a state belongs to another stepper, whose output layer has other candidates.
        """
        if other := [i for i, state in enumerate(states) if state.allowed is not self.allowed]:
            raise ConfigError(
                f"states must all come from this CandidateStepper, got states of other steppers at indices {other}. "
                f"Translate all sources with one stepper."
            )
        joined = self.stepper.join([state.inner for state in states])
        return CandidateState(joined, self.allowed, torch.cat([state.sources for state in states]))


class Candidates:
    """Candidate target ids of sources.

    Args:
        frequent: candidates of every source, including the end symbol.
        table: ``table[f]`` are the candidates of source id ``f``, padded with -1.
        v: size of the target vocabulary.
    """

    def __init__(self, frequent: np.ndarray, table: np.ndarray, v: int) -> None:
        self.frequent, self.table, self.v = frequent, table, v

    def allowed(self, sources: Sequence[np.ndarray]) -> Bool[Tensor, "b v"]:
        """The candidates of each source, given its ids."""
        found = np.zeros((len(sources), self.v), bool)
        found[:, self.frequent] = True
        for row, ids in zip(found, sources, strict=True):
            own = self.table[ids]
            row[own[own >= 0]] = True
        return torch.from_numpy(found)


# --- the table of candidates ------------------------------------------------------------------------------------------


def learn_candidates(train: PairRows, each: int) -> np.ndarray:
    """A table whose row ``f`` has the ``each`` most probable target ids of source id ``f``, padded with -1."""
    encoding = train.pairs.encoding
    return word_table(_sentences(train), len(encoding.source.vocabulary), len(encoding.target.vocabulary), each)


def word_table(sentences: Iterable[tuple[np.ndarray, np.ndarray]], n: int, v: int, each: int) -> np.ndarray:
    """The table of :func:`learn_candidates` from ids of sources and targets.

    Args:
        sentences: pairs of source ids and target ids, without duplicates within a sentence.
        n: size of the source vocabulary.
        v: size of the target vocabulary.
        each: number of target ids per source id.
    """
    sources, targets, occurrences = _cooccurrences(sentences)
    keys, inverse = np.unique(sources.astype(np.int64) * v + targets, return_inverse=True)
    weight: np.ndarray = np.ones(len(keys))
    for _ in range(_ROUNDS):
        fraction = weight[inverse]
        fraction /= np.bincount(occurrences, weights=fraction)[occurrences]
        weight = np.bincount(inverse, weights=fraction, minlength=len(keys))
        weight = weight / np.bincount(keys // v, weights=weight)[keys // v]
    return _best(keys // v, keys % v, weight, n, each)


def _cooccurrences(sentences: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All (source token, target token) pairs of each sentence pair, and the index of the target occurrence."""
    parts, occurrence = [], 0
    for source, target in sentences:
        numbers = np.arange(occurrence, occurrence + len(target))
        parts.append((np.tile(source, len(target)), np.repeat(target, len(source)), np.repeat(numbers, len(source))))
        occurrence += len(target)
    sources, targets, occurrences = (np.concatenate(column) for column in zip(*parts, strict=True))
    return sources, targets, occurrences


def _sentences(train: PairRows) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    counted = 0
    for i in train.rows.tolist():
        source, target = (np.unique(train.pairs.batch(np.array([i]), side)[0][0]) for side in (0, 1))
        counted += len(source) * len(target)
        if counted > _MAX_TOKEN_PAIRS:
            return
        yield source, target


def _best(sources: np.ndarray, targets: np.ndarray, weight: np.ndarray, n: int, each: int) -> np.ndarray:
    order = np.lexsort((targets, -weight, sources))
    rank = np.arange(len(order)) - np.searchsorted(sources[order], sources[order])
    kept = order[rank < each]
    table = np.full((n, each), -1, np.int32)
    table[sources[kept], rank[rank < each]] = targets[kept]
    return table


def save_candidates(table: np.ndarray, folder: Path) -> None:
    """Save the candidates in the folder of the weights."""
    np.save(folder / _FILE, table, allow_pickle=False)


def load_candidates(folder: Path, n: int) -> np.ndarray:
    """Load the table written by :func:`save_candidates`, for ``n`` source tokens."""
    try:
        table = np.load(folder / _FILE, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / _FILE} cannot be read: {error}. Copy the model folder again.") from None
    if table.ndim != 2 or len(table) != n:
        raise CheckpointError(
            f"{folder / _FILE} must have {n} rows, one per source token, got shape {table.shape}. Copy the model "
            f"folder again."
        )
    return table


def find_candidates(config: TranslateConfig, encoding: PairEncoding, table: np.ndarray) -> Candidates:
    """The candidates of sources: special tokens, the most frequent target tokens, and those of the table."""
    vocabulary = encoding.target.vocabulary
    first = len(vocabulary.specials)
    by_count = sorted(range(first, len(vocabulary)), key=lambda i: (-vocabulary.counts[i], i))
    frequent = [*range(1, first), *by_count[: config.writing.candidates]]
    return Candidates(np.array(frequent), table, len(vocabulary))
