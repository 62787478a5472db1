r"""The interface of output layers: a vector in, a distribution over ``v`` ids out, or the loss that trains it.

.. math::  \mathrm{loss} = \frac 1 n \sum_{i=1}^n \ell(h_i, y_i), \qquad \sum_{w=1}^{v} p(w \mid h) = 1

Knows nothing of words or sequences: rows are tokens that the caller has flattened, without padding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.errors import DataError
from catena.kernels.top_k.ops import largest
from catena.numerics import NEG_INF
from catena.shapes import as_int64, match_shape


class OutputLayer(nn.Module, ABC):
    """Abstract distribution over ``v`` ids given a vector of ``d_in`` features.

    ``normalized`` is True if the training loss is of a normalized distribution. If it is False, training uses scores
    that need not sum to one; ``log_prob`` and ``log_probs`` then normalize them explicitly.
    ``likelihood`` is True if ``loss`` is the mean of ``-log_prob``.

    Layers that sample in ``loss`` use torch's default generator, as dropout does.
    """

    d_in: int
    v: int
    normalized: bool
    likelihood: bool

    @abstractmethod
    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        """The mean training loss of the rows; 0, with a gradient of 0, if there are no rows."""

    @abstractmethod
    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """log p(target) of each row, exact and normalized; -inf for a forbidden id."""

    @abstractmethod
    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        """log p of every id; its exponentials sum to one."""

    def top_log_probs(self, hidden: Float[Tensor, "n d_in"], k: int) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
        """The ``k`` largest log p of each row in descending order, and their ids."""
        return largest(self.log_probs(hidden), k)

    def log_probs_among(self, hidden: Float[Tensor, "n d_in"], ids: Int[Tensor, " c"]) -> Float[Tensor, "n c"]:
        """log p of these ids, given that the id is one of them; most layers compute only these."""
        return torch.log_softmax(self.log_probs(hidden)[:, ids], dim=-1)

    def restricted(self, ids: Int[Tensor, " c"]) -> OutputLayer:
        """A copy of this layer over these ids only, for search: its id ``i`` is ``ids[i]``."""
        return RestrictedOutput(self, ids)

    @abstractmethod
    def start_at(self, frequencies: np.ndarray) -> None:
        """Set the biases so that a zero vector gives each word its frequency.

        Training then learns only how contexts differ, and losses that rarely see a rare word need not lower its score
        first. A layer without biases is unchanged. Frequencies need not sum to one, and must be above 0 for words that
        are allowed.
        """

    @torch.no_grad()
    def sample(self, hidden: Float[Tensor, "n d_in"], generator: torch.Generator) -> Int[Tensor, " n"]:
        """One id for each row, sampled from ``log_probs``."""
        return draw_ids(self.log_probs(hidden), generator)

    def forward(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        """The loss, for wrappers that use only ``forward``."""
        return self.loss(hidden, targets)

    def extra_repr(self) -> str:
        return f"d_in={self.d_in}, v={self.v}"


class RestrictedOutput(OutputLayer):
    """A layer over some ids of another one. Its id ``i`` is ``ids[i]`` there (Jean et al. 2015, section 3.3)."""

    likelihood = True
    ids: Tensor

    def __init__(self, layer: OutputLayer, ids: Int[Tensor, " c"]) -> None:
        super().__init__()
        self.d_in, self.v, self.normalized = layer.d_in, len(ids), layer.normalized
        self.layer = layer
        self.register_buffer("ids", checked_ids(ids, layer.v))
        with torch.no_grad():
            weight = next(layer.parameters())
            check_possible(self.ids, layer.log_probs(weight.new_zeros(1, layer.d_in))[0, self.ids])

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        return -self.log_prob(hidden, targets).sum() / max(len(hidden), 1)

    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        targets = checked_targets(self, hidden, targets)
        return self.log_probs(hidden).gather(1, targets[:, None]).squeeze(1)

    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        match_shape("hidden", tuple(hidden.shape), "n d_in", d_in=self.d_in)
        return self.layer.log_probs_among(hidden, self.ids)

    def start_at(self, frequencies: np.ndarray) -> None:
        raise NotImplementedError("start_at is not supported by a restricted layer. Call it on the original layer.")


def scatter_log_probs(log_probs: Float[Tensor, "n c"], ids: Int[Tensor, " c"], v: int) -> Float[Tensor, "n v"]:
    """The log-probabilities of a restricted layer at the indices of all ``v`` ids, -inf elsewhere."""
    return log_probs.new_full((len(log_probs), v), NEG_INF).index_copy(1, ids, log_probs)


def log_normalize_counts(frequencies: np.ndarray) -> Float[Tensor, " v"]:
    """The logs of frequencies, normalized to sum to one; 0 for a frequency of 0."""
    return torch.from_numpy(np.log(np.where(frequencies > 0, frequencies / frequencies.sum(), 1.0)))


def draw_ids(log_probs: Float[Tensor, "n v"], generator: torch.Generator) -> Int[Tensor, " n"]:
    """One id for each row, sampled as the argmax of ``log p - log E`` with E exponential (Gumbel's trick).

    This avoids sums of many small numbers, and never samples an id of log-probability -inf.
    """
    shape, dtype = log_probs.shape, torch.promote_types(log_probs.dtype, torch.float32)
    times = torch.empty(shape, dtype=dtype, device=generator.device).exponential_(generator=generator)
    smallest = torch.finfo(dtype).tiny
    return (log_probs.to(dtype) - times.clamp_min(smallest).log().to(log_probs.device)).argmax(dim=-1)


def checked_ids(ids: Int[Tensor, " c"], v: int) -> Int[Tensor, " c"]:
    """Candidates as indices; raises DataError unless there is at least one, all different and in range."""
    if not len(ids) or len(ids.unique()) < len(ids):
        what = "a duplicate" if len(ids) else "none"
        raise DataError(f"candidates must be different ids, at least one, got {what}. Pass ids.unique().")
    if int(ids.min()) < 0 or int(ids.max()) >= v:
        raise DataError(f"candidates must be ids from 0 to {v - 1}, got {ids.min()} to {ids.max()}. Remove the others.")
    return ids.long()


def check_possible(ids: Int[Tensor, " c"], scores: Float[Tensor, " c"] | None) -> None:
    """Raise DataError if all candidates are forbidden, so that there is no distribution over them."""
    if scores is not None and not bool((scores > NEG_INF).any()):
        raise DataError(
            f"candidates must contain an id that is not forbidden, got {ids[:9].tolist()}. Add another candidate."
        )


def checked_targets(layer: OutputLayer, hidden: Tensor, targets: Tensor) -> Int[Tensor, " n"]:
    """The targets as indices; raises DataError if one is out of range.

    On a GPU the range is left to torch's own assertion: a check would make every step wait for the device.
    """
    match_shape("hidden", tuple(hidden.shape), "n d_in", d_in=layer.d_in)
    match_shape("targets", tuple(targets.shape), "n", n=len(hidden))
    targets = as_int64("targets", targets)
    if targets.device.type == "cpu" and len(targets):
        low, high = (int(x) for x in torch.aminmax(targets))
        if low < 0 or high >= layer.v:
            raise DataError(
                f"targets must be ids from 0 to {layer.v - 1}, got {low if low < 0 else high}. Remove padding, and use "
                "ids of the layer's vocabulary."
            )
    return targets
