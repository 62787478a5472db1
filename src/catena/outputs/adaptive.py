r"""Adaptive softmax (Grave et al. 2017): frequent words in a short list, the others in clusters of smaller vectors.

.. math::
    p(w \mid h) = p_0(w \mid h) \quad \text{in the short list}, \qquad
    p(w \mid h) = p_0(c \mid h)\, p_c(w \mid P_c h) \quad \text{in cluster } c

An exact distribution, different from the full softmax. The clusters are not computed for rows with targets in the short
list, which are most rows. Words are ranked by their counts here, so ids may have any order. With tied weights the rows
of all words are the embedding's, in full size.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.errors import ConfigError
from catena.kernels.softmax.ops import softmax_log_prob, softmax_loss
from catena.kernels.softmax.reference import wide
from catena.numerics import NEG_INF
from catena.outputs.base import OutputLayer, checked_targets, log_normalize_counts
from catena.outputs.scores import check_forbidden, new_weight_rows, tied_rows
from catena.shapes import match_shape


class AdaptiveSoftmax(OutputLayer):
    """A softmax over a short list of frequent words, and clusters of rarer ones.

    Args:
        d_in: the size of an input vector.
        counts: the count of each id.
        cutoffs: the ranks at which clusters begin; those with the lowest cost if omitted. Ranks after the last word are
            ignored.
        shrink: the factor between the vector sizes of a cluster and the next; unused if tied.
        bias: whether each word and cluster has a bias.
        tied: rows of an embedding to use as weights of the words.
        forbidden: ids of probability 0.
    """

    normalized = True
    likelihood = True
    order: Tensor
    rank: Tensor
    edges: Tensor

    def __init__(
        self,
        d_in: int,
        counts: Sequence[int],
        cutoffs: Sequence[int] | None = None,
        shrink: float = 4.0,
        bias: bool = True,
        tied: nn.Parameter | None = None,
        forbidden: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.d_in, self.v = d_in, len(counts)
        check_forbidden(forbidden, self.v)
        order = by_frequency(counts, forbidden)
        self.cutoffs = _checked_cutoffs(cutoffs, len(order), counts, order, d_in, 1.0 if tied is not None else shrink)
        self.register_buffer("order", torch.from_numpy(order))
        rank = torch.full((self.v,), -1)
        rank[self.order] = torch.arange(len(order))
        self.register_buffer("rank", rank)
        self.register_buffer("edges", torch.tensor(self.cutoffs, dtype=torch.long), persistent=False)
        self.tied = tied_rows(tied, self.v, d_in) if tied is not None else None
        clusters = list(itertools.pairwise((*self.cutoffs, len(order))))
        self.short = self.cutoffs[0] if self.cutoffs else len(order)
        own = len(clusters) if tied is not None else self.short + len(clusters)
        self.head = nn.Parameter(new_weight_rows(own, d_in))
        self.head_bias = nn.Parameter(torch.zeros(self.short + len(clusters))) if bias else None
        widths = [max(1, int(d_in / shrink**i)) for i in range(1, len(clusters) + 1)]
        sizes = [high - low for low, high in clusters]
        self.projections, self.tails = nn.ModuleList(), nn.ParameterList()
        if tied is None:
            self.projections.extend(nn.Linear(d_in, d, bias=False) for d in widths)
            self.tails.extend(nn.Parameter(new_weight_rows(n, d)) for n, d in zip(sizes, widths, strict=True))
        self.tail_biases = nn.ParameterList(nn.Parameter(torch.zeros(n)) for n in sizes) if bias else None

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        rank, of_cluster = self._places(checked_targets(self, hidden, targets))
        n = max(len(targets), 1)
        total = softmax_loss(hidden, self._head(), self.head_bias, self._head_targets(rank, of_cluster))
        for i in range(len(self.cutoffs)):
            rows = (of_cluster == i + 1).nonzero().squeeze(1)
            inside = self._inside(i, hidden.index_select(0, rows))
            total = total + softmax_loss(*inside, rank[rows] - self.cutoffs[i]) * (len(rows) / n)
        return total + torch.where((rank < 0).any(), torch.inf, 0.0)

    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        rank, of_cluster = self._places(checked_targets(self, hidden, targets))
        found = softmax_log_prob(hidden, self._head(), self.head_bias, self._head_targets(rank, of_cluster))
        for i in range(len(self.cutoffs)):
            rows = (of_cluster == i + 1).nonzero().squeeze(1)
            inside = self._inside(i, hidden.index_select(0, rows))
            found = found.index_add(0, rows, softmax_log_prob(*inside, rank[rows] - self.cutoffs[i]).to(found.dtype))
        return found.masked_fill(rank < 0, NEG_INF)

    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        match_shape("hidden", tuple(hidden.shape), "n d_in", d_in=self.d_in)
        head = _log_softmax(hidden, self._head(), self.head_bias)
        parts = [head[:, : self.short]]
        for i in range(len(self.cutoffs)):
            parts.append(head[:, self.short + i, None] + _log_softmax(*self._inside(i, hidden)))
        never = head.new_full((hidden.shape[0], 1), NEG_INF)  # len() would be a constant in an exported graph
        return torch.cat((*parts, never), dim=1)[:, self.rank]  # the rank -1 of forbidden ids is the last column

    @torch.no_grad()
    def start_at(self, frequencies: np.ndarray) -> None:
        if self.head_bias is None or self.tail_biases is None:
            return
        ranked = frequencies[self.order.cpu().numpy()]
        parts = [ranked[low:high] for low, high in itertools.pairwise((*self.cutoffs, len(ranked)))]
        self.head_bias.copy_(
            log_normalize_counts(np.concatenate((ranked[: self.short], [part.sum() for part in parts])))
        )
        for bias, part in zip(self.tail_biases, parts, strict=True):
            bias.copy_(log_normalize_counts(part))

    def _places(self, targets: Int[Tensor, " n"]) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        """The rank of each target, and the index of its cluster, 0 for the short list."""
        rank = self.rank[targets]
        return rank, torch.bucketize(rank, self.edges, right=True)

    def _head_targets(self, rank: Int[Tensor, " n"], of_cluster: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        return torch.where(of_cluster > 0, self.short + of_cluster - 1, rank).clamp_min(0)

    def _head(self) -> Tensor:
        if self.tied is None:
            return self.head
        rows = nn.functional.embedding(self.order[: self.short], self.tied.to(wide(self.tied.dtype)))
        return torch.cat((rows, self.head.to(rows.dtype))).to(self.head.dtype)

    def _inside(self, i: int, hidden: Float[Tensor, "n d_in"]) -> tuple[Tensor, Tensor, Tensor | None]:
        """The inputs of a cluster's softmax: its vectors, its rows, its bias."""
        bias = None if self.tail_biases is None else self.tail_biases[i]
        if self.tied is None:
            return self.projections[i](hidden), self.tails[i], bias
        low, high = (*self.cutoffs, len(self.order))[i : i + 2]
        return hidden, nn.functional.embedding(self.order[low:high], self.tied), bias

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, cutoffs={list(self.cutoffs)}"


def by_frequency(counts: Sequence[int], forbidden: Sequence[int] = ()) -> np.ndarray:
    """The ids that are not forbidden, the most frequent first; of equal counts the smaller id first."""
    order = np.argsort(-np.asarray(counts, dtype=np.int64), kind="stable")
    return order[~np.isin(order, list(forbidden))]


OVERHEAD = 10_000
"""The overhead of a cluster for each token, in multiplications."""


MOST_MASS = (0.3, 0.1, 0.03)
"""The maximum fraction of the text after the first, second and third cutoff, where vectors shrink: by the number of
multiplications only, frequent words would get vectors of a few features."""


def cheapest_cutoffs(counts: Sequence[int], d_in: int, shrink: float = 4.0) -> tuple[int, ...]:
    """The cutoffs, at most three, with the fewest multiplications for a token of the text on average.

    ``counts`` are sorted in descending order. Cutoffs are searched on a grid of ranks that grows by a fifth.
    """
    m = len(counts)
    grid = sorted({round(1.2**i) for i in range(200) if round(1.2**i) < m})
    share = np.concatenate(([0.0], np.cumsum(np.maximum(np.asarray(counts, dtype=np.float64), 1.0))))
    share /= share[-1]
    best = float(d_in * m)
    found: tuple[int, ...] = ()
    sizes = [max(1, int(d_in / shrink**i)) for i in range(len(MOST_MASS) + 1)]
    for n in range(1, len(MOST_MASS) + 1):
        cuts = np.array(list(itertools.combinations(grid, n)), dtype=np.int64).reshape(-1, n)
        if shrink > 1:
            cuts = cuts[(1 - share[cuts] <= np.array(MOST_MASS[:n])).all(axis=1)]
        if not len(cuts):
            break
        ends = np.concatenate((cuts, np.full((len(cuts), 1), m)), axis=1)
        cost = d_in * (ends[:, 0] + n) + n * OVERHEAD
        for i in range(1, n + 1):
            inside = sizes[i] * (ends[:, i] - ends[:, i - 1] + (d_in if sizes[i] < d_in else 0))
            cost = cost + (share[ends[:, i]] - share[ends[:, i - 1]]) * inside
        if cost.min() < best:
            best, found = float(cost.min()), tuple(int(c) for c in cuts[cost.argmin()])
    return found


def _checked_cutoffs(
    cutoffs: Sequence[int] | None, m: int, counts: Sequence[int], order: np.ndarray, d_in: int, shrink: float
) -> tuple[int, ...]:
    if cutoffs is None:
        return cheapest_cutoffs([counts[i] for i in order], d_in, shrink)
    if list(cutoffs) != sorted(set(cutoffs)) or (cutoffs and cutoffs[0] < 1):
        raise ConfigError(f"cutoffs must be increasing and above 0, got {list(cutoffs)}. Sort them.")
    return tuple(c for c in cutoffs if c < m)


def _log_softmax(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    scores = nn.functional.linear(hidden, weight.to(hidden.dtype)).to(wide(hidden.dtype))
    return torch.log_softmax(scores if bias is None else scores + bias, dim=-1)
