r"""Class-based softmax: the class of the word, then the word within its class (Goodman 2001).

.. math::  p(w \mid h) = p(c(w) \mid h)\; p(w \mid c(w), h)

Both factors are softmaxes, so it sums to one. With classes of about the square root of v words, the time for
the probability of a word is O(sqrt(v) d). Rows are grouped by the class of their target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from catena.errors import ConfigError, ShapeError
from catena.kernels.softmax.ops import softmax_log_prob, softmax_loss
from catena.kernels.softmax.reference import wide
from catena.numerics import NEG_INF
from catena.outputs.base import OutputLayer, checked_targets, log_normalize_counts
from catena.outputs.scores import check_forbidden, new_weight_rows, tied_rows
from catena.shapes import match_shape


class ClassSoftmax(OutputLayer):
    """A softmax over classes, and one over the words of each class. The classes are saved with the weights.

    Args:
        d_in: the size of an input vector.
        classes: the class of each word, from 0, without gaps among the words that are allowed.
        bias: whether each class and word has a bias.
        tied: rows of an embedding to use as weights of the words.
        forbidden: ids of probability 0.
    """

    normalized = True
    likelihood = True
    words: Tensor
    sizes: Tensor
    class_of: Tensor
    place: Tensor
    column: Tensor

    def __init__(
        self,
        d_in: int,
        classes: Sequence[int] | np.ndarray,
        bias: bool = True,
        tied: nn.Parameter | None = None,
        forbidden: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.d_in, self.v = d_in, len(classes)
        check_forbidden(forbidden, self.v)
        of = np.asarray(classes, dtype=np.int64)
        allowed = np.setdiff1d(np.arange(self.v), np.asarray(forbidden, dtype=np.int64))
        names, inverse = np.unique(of[allowed], return_inverse=True)  # drops classes of only forbidden words
        if (of < 0).any():
            raise ConfigError(f"classes must be integers from 0, got {of.min()}. Number the classes from 0.")
        words = allowed[np.argsort(inverse, kind="stable")]
        self.register_buffer("words", torch.from_numpy(words))
        self.register_buffer("sizes", torch.from_numpy(np.bincount(inverse, minlength=len(names))))
        self.tied = tied_rows(tied, self.v, d_in) if tied is not None else None
        self.weight = nn.Parameter(new_weight_rows(len(words), d_in)) if tied is None else None
        self.bias = nn.Parameter(torch.zeros(len(words))) if bias else None
        self.class_weight = nn.Parameter(new_weight_rows(len(names), d_in))
        self.class_bias = nn.Parameter(torch.zeros(len(names))) if bias else None
        self._prepare()
        self.register_load_state_dict_post_hook(_after_loading)

    def _prepare(self) -> None:
        """The class of each word, and its index within the class."""
        self._sizes = self.sizes.tolist()
        device, n = self.words.device, len(self.words)
        within = torch.cat([torch.arange(size) for size in self._sizes]).to(device)
        class_of, place = (torch.full((self.v,), -1, device=device) for _ in range(2))
        class_of[self.words] = torch.arange(len(self._sizes), device=device).repeat_interleave(self.sizes)
        place[self.words] = within
        column = torch.full((self.v,), n, device=device)
        column[self.words] = torch.arange(n, device=device)
        self.register_buffer("class_of", class_of, persistent=False)
        self.register_buffer("place", place, persistent=False)
        self.register_buffer("column", column, persistent=False)

    def expected_depth(self, counts: Sequence[int]) -> float:
        """The mean number of decisions for a word of the text: a class and, in classes of several words, a word."""
        weights = torch.tensor([float(c) for c in counts], dtype=torch.float64)[self.words.cpu()]
        lonely = (self.sizes == 1).cpu().repeat_interleave(self.sizes.cpu())
        return float(2 - (weights * lonely).sum() / weights.sum().clamp_min(1))

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        targets = checked_targets(self, hidden, targets)
        class_of = self.class_of[targets]
        of_class = softmax_loss(hidden, self.class_weight, self.class_bias, class_of.clamp_min(0))
        _, found = self._within(hidden, targets)
        missing = torch.where((class_of < 0).any(), torch.inf, 0.0)
        return of_class - found.sum() / max(len(targets), 1) + missing

    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        targets = checked_targets(self, hidden, targets)
        class_of = self.class_of[targets]
        of_class = softmax_log_prob(hidden, self.class_weight, self.class_bias, class_of.clamp_min(0))
        rows, found = self._within(hidden, targets)
        return of_class.index_add(0, rows, found.to(of_class.dtype)).masked_fill(class_of < 0, NEG_INF)

    @torch.no_grad()
    def start_at(self, frequencies: np.ndarray) -> None:
        if self.bias is None or self.class_bias is None:
            return
        ranked = frequencies[self.words.cpu().numpy()]
        self.bias.copy_(log_normalize_counts(ranked))
        starts = np.concatenate(([0], np.cumsum(self._sizes)))[:-1]
        self.class_bias.copy_(log_normalize_counts(np.add.reduceat(ranked, starts)))

    def _within(
        self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]
    ) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
        """The rows grouped by class, and log p(word | class) of each."""
        class_of, rows = self.class_of[targets].clamp_min(0).sort(stable=True)
        sorted_hidden, places = hidden.index_select(0, rows), self.place[targets].clamp_min(0)[rows]
        used, counts = class_of.unique_consecutive(return_counts=True)
        weights, biases = self._rows().split(self._sizes), self._biases()
        found = [sorted_hidden.new_zeros(0, dtype=wide(hidden.dtype))]
        groups = zip(used.tolist(), sorted_hidden.split(counts.tolist()), places.split(counts.tolist()), strict=True)
        for c, mine, place in groups:
            scores = _log_softmax(mine, weights[c], biases[c])
            found.append(scores.gather(1, place[:, None]).squeeze(1))
        return rows, torch.cat(found)

    def _rows(self) -> Tensor:
        """The weights of the words in the order of their classes."""
        if self.weight is not None:
            return self.weight
        assert self.tied is not None
        return functional.embedding(self.words, self.tied.to(wide(self.tied.dtype)))

    def _biases(self) -> Sequence[Tensor | None]:
        return [None] * len(self._sizes) if self.bias is None else self.bias.split(self._sizes)

    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        match_shape("hidden", tuple(hidden.shape), "n d_in", d_in=self.d_in)
        of_class = _log_softmax(hidden, self.class_weight, self.class_bias)
        scores = functional.linear(hidden, self._rows().to(hidden.dtype)).to(wide(hidden.dtype))
        scores = scores if self.bias is None else scores + self.bias
        parts = [
            of_class[:, c, None] + torch.log_softmax(part, dim=1) for c, part in enumerate(scores.split(self._sizes, 1))
        ]
        never = of_class.new_full((hidden.shape[0], 1), NEG_INF)  # len() would be a constant in an exported graph
        return torch.cat((*parts, never), dim=1)[:, self.column]


def _after_loading(layer: ClassSoftmax, _: Any) -> None:  # no lambda, so that a layer can be pickled
    layer._prepare()


def frequency_classes(counts: Sequence[int], n: int | None = None) -> np.ndarray:
    """The class of each word, by frequency (after Mikolov et al. 2011).

    Words are sorted by frequency and divided into ``n`` classes with equal sums of the square roots of frequencies.
    ``n`` is the square root of the number of words by default.
    """
    v = len(counts)
    n = max(1, round(v**0.5)) if n is None else n
    if n > v:
        raise ShapeError(f"n_classes must be at most {v}, the number of words, got {n}. Use at most {v}.")
    order = np.argsort(-np.asarray(counts, dtype=np.int64), kind="stable")
    weights = np.sqrt(np.maximum(np.asarray(counts, dtype=np.float64), 1.0))[order]
    middle = np.cumsum(weights) - weights / 2
    cut = np.minimum((middle / weights.sum() * n).astype(np.int64), n - 1)
    classes = np.empty(v, dtype=np.int64)
    classes[order] = np.unique(cut, return_inverse=True)[1]
    return classes


def _log_softmax(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    scores = functional.linear(hidden, weight.to(hidden.dtype)).to(wide(hidden.dtype))
    return torch.log_softmax(scores if bias is None else scores + bias, dim=-1)
