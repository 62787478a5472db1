r"""A contextual edit transducer: insertions, deletions and substitutions scored by their context.

.. math::  s(\text{write } q \text{ at } i \text{ after } p) = w_q \cdot f(x, i) + T_{pq} + U_{x_i p q}

f are the symbols around position i, as single symbols and n-grams (log-linear), or the output of a recurrent network
over the source. Since the previous target symbol is the only memory, all sums are exact:
see :mod:`catena.structure.edits`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.data.batches import pad
from catena.encoders.build import build_encoder
from catena.numerics import NEG_INF
from catena.structure.edits import DELETE, INSERT, EditLattice
from catena.transduction.alphabet import Alphabet
from catena.transduction.base import Link, SymbolSequence, TransducedString
from catena.transduction.config import EditConfig
from catena.transduction.network import NetworkTransducer, StringPairBatch, alike

OUTSIDE = 1
"""The id of the positions before and after a source; 0 is padding. Unknown symbols are 2, and known ones follow."""
FIRST = 3
_ROOM = 1000
"""Largest number of source symbols in one search batch."""


def source_ids(alphabet: Alphabet, tokens: SymbolSequence) -> list[int]:
    """Return the ids of a source as the model expects them."""
    return [id - 1 + FIRST if id else FIRST - 1 for id in alphabet.ids(tokens)]


class HashedWindow(nn.Module):
    """Weights of the symbols around each position, in a table indexed by feature hash.

    Args:
        window: number of symbols to the left and right.
        buckets: rows of the table.
        d_out: number of scores to which each feature contributes.
    """

    def __init__(self, window: int, buckets: int, d_out: int) -> None:
        super().__init__()
        self.window, self.buckets = window, buckets
        self.table = nn.EmbeddingBag(buckets, d_out, mode="sum")
        nn.init.zeros_(self.table.weight)
        spans = [(a, b) for a in range(-window, window + 1) for b in range(a, window + 1) if b - a < 4]
        self.spans = [span for span in spans if span[0] == span[1] or span[0] <= 0 <= span[1] + 1]

    def forward(self, ids: Int[Tensor, "b u"]) -> Float[Tensor, "b u d"]:
        """Return the scores of the positions of a padded batch that ends with an outside position."""
        b, u = ids.shape
        around = nn.functional.pad(ids, (self.window, self.window), value=OUTSIDE)
        around = torch.where(around == 0, OUTSIDE, around)
        features = []
        for number, (low, high) in enumerate(self.spans):
            key = torch.full_like(ids, number + 1)
            for k in range(low, high + 1):
                key = (key * 1_000_003 + around[:, self.window + k : self.window + k + u]) % 2_147_483_647
            features.append(key % self.buckets)
        return self.table(torch.stack(features, -1).reshape(b * u, -1)).reshape(b, u, -1)


class EncodedSource(nn.Module):
    """The same scores from a recurrent network over the source."""

    def __init__(self, settings: EditConfig, n: int, d_out: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n, settings.size, padding_idx=0)
        self.encoder = build_encoder(settings.encoder, settings.size)
        self.dropout = nn.Dropout(settings.dropout)
        self.output = nn.Linear(self.encoder.d_out, d_out)

    def forward(self, ids: Int[Tensor, "b u"]) -> Float[Tensor, "b u d"]:
        states = self.encoder(self.dropout(self.embedding(ids)), (ids != 0).sum(-1))
        return self.output(self.dropout(states))


class EditTransducer(nn.Module):
    """Scores of all edits of a batch of sources.

    Args:
        settings: the config of the model.
        source: the number of source symbols.
        target: the number of target symbols, v.
    """

    def __init__(self, settings: EditConfig, source: int, target: int) -> None:
        super().__init__()
        self.settings, self.v = settings, target
        n, d = source + FIRST, 2 * target + 1  # insertions, substitutions, the deletion
        self.places: nn.Module = (
            HashedWindow(settings.window, settings.buckets, d)
            if settings.scores == "features"
            else EncodedSource(settings, n, d)
        )
        self.insertion_bias = nn.Parameter(torch.tensor(-3.0))
        self.transitions = nn.Parameter(torch.zeros(target + 1, d))
        self.pairs = nn.Parameter(torch.zeros(n, target + 1, d)) if settings.pairs else None
        self.end = nn.Parameter(torch.zeros(target + 1))

    def forward(self, ids: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> EditLattice:
        """Return the lattice of padded sources (ids of :func:`source_ids`)."""
        v, (b, t) = self.v, ids.shape
        ended = torch.cat((ids, torch.zeros_like(ids[:, :1])), 1).scatter(1, lengths[:, None], OUTSIDE)
        scores = self.places(ended)[:, :, None, :] + self.transitions  # b t+1 p d
        if self.pairs is not None:
            scores = scores + self.pairs[ended]
        insert = scores[..., :v] + self.insertion_bias
        substitute, delete = scores[:, :t, :, v : 2 * v], scores[:, :t, :, 2 * v]
        end = self.end.expand(b, -1)
        if self.settings.normalize == "local":
            insert, substitute, delete, end = _local(insert, substitute, delete, end, lengths)
        else:
            # Rows of exp(insert) sum to less than one for all weights, so the sum over targets converges.
            insert = insert - nn.functional.softplus(insert.logsumexp(-1, keepdim=True))
        return EditLattice(substitute, insert, delete, end, lengths)

    def loss(
        self,
        ids: Int[Tensor, "b t"],
        lengths: Int[Tensor, " b"],
        targets: Int[Tensor, "b s"],
        target_lengths: Int[Tensor, " b"],
    ) -> Float[Tensor, " b"]:
        """Return -log p(y | x) of each pair."""
        lattice = self(ids, lengths)
        weights = lattice.log_weights(targets, target_lengths)
        return -weights if self.settings.normalize == "local" else lattice.log_partition() - weights


def _local(
    insert: Tensor, substitute: Tensor, delete: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the probabilities of the edits at each position after each symbol, which sum to one."""
    t, v = substitute.shape[1], substitute.shape[-1]
    inside = torch.cat((insert[:, :t], substitute, delete[..., None]), -1).log_softmax(-1)
    rows = torch.arange(len(lengths), device=lengths.device)
    last = torch.cat((insert[rows, lengths], end[..., None]), -1).log_softmax(-1)  # b p v+1
    padded = torch.cat((inside[..., :v], torch.full_like(insert[:, :1], NEG_INF)), 1)
    at_end = torch.arange(t + 1, device=lengths.device) == lengths[:, None]
    inserted = torch.where(at_end[:, :, None, None], last[:, None, :, :v], padded)
    return inserted, inside[..., v : 2 * v], inside[..., 2 * v], last[..., v]


def best_targets(
    lattice: EditLattice, r: int, x: SymbolSequence, target: Alphabet, n_best: int, width: int
) -> list[TransducedString]:
    """Return the best targets of one source of a batch."""
    listed, _ = lattice.best(r, n_best, width)
    return [
        TransducedString(target.spelled(id + 1 for id in y.ids), y.log_prob, _links(lattice, r, x, y.ids, target))
        for y in listed
    ]


def _links(lattice: EditLattice, r: int, x: SymbolSequence, y: Sequence[int], target: Alphabet) -> tuple[Link, ...]:
    links, i, j = [], 0, 0
    for edit in lattice.align(r, y) or ():
        read = () if edit == INSERT else (x[i],)
        wrote = () if edit == DELETE else target.spelled([y[j] + 1])
        links.append(Link(tuple(read), wrote))
        i, j = i + len(read), j + len(wrote)
    return tuple(links)


class EditModel(NetworkTransducer):
    """An edit network with its alphabets.

    Args:
        network: computes the scores of edits.
        source: the symbols of sources.
        target: the symbols of targets.
        settings: the options, such as the width of the search.
    """

    def __init__(self, network: EditTransducer, source: Alphabet, target: Alphabet, settings: EditConfig) -> None:
        self.network: EditTransducer = network
        self.source, self.target, self.settings = source, target, settings

    def source_ids(self, x: SymbolSequence) -> np.ndarray:
        return np.array(source_ids(self.source, x), np.int64)

    def target_ids(self, y: SymbolSequence) -> np.ndarray:
        return np.array(self.target.ids(y), np.int64) - 1

    def loss(self, batch: StringPairBatch) -> tuple[Float[Tensor, ""], int]:
        losses = self.network.loss(batch.ids, batch.lengths, batch.targets, batch.target_lengths)
        return losses.mean(), len(losses)

    @torch.no_grad()
    def search_all(self, sources: Sequence[SymbolSequence], n_best: int = 1) -> list[list[TransducedString]]:
        found: list[list[TransducedString]] = [[] for _ in sources]
        for rows in alike(sources, _ROOM):
            ids, lengths = pad([self.source_ids(sources[r]) for r in rows])
            lattice = self.network(ids.to(self.device), lengths.to(self.device))
            for k, r in enumerate(rows):
                found[r] = best_targets(lattice, k, sources[r], self.target, n_best, self.settings.width)
        return found

    def describe(self) -> list[str]:
        parameters = sum(p.numel() for p in self.network.parameters())
        return [
            f"an edit transducer, normalized {self.settings.normalize}ly, of {parameters:,} parameters",
            *self._symbols_line(),
        ]
