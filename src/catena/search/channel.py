r"""A noisy channel of text: p(observed | true), symbol by symbol, with four kinds of errors.

Before each true symbol, and at the end, symbols are inserted, each with probability ``insert``. Then the symbol is
deleted, or swapped with the next one, or substituted, or else copied. The probability is the sum over all sequences of
edits that turn one text into the other, so the channel is a distribution over all observed texts:

.. math::  B_i(j) = (1 - \iota) \sum_{j' \le j} A_i(j') \prod_{j' < l \le j} \iota\, u(o_l), \qquad
    A_{i+1}(j) = B_i(j)\,\delta + B_i(j-1)\,e(o_j \mid x_{i+1}) + B_{i-1}(j-2)\,\tau\,[o_{j-1} o_j = x_{i+1} x_i]

Kernighan, Church & Gale (1990) have the four errors, Ristad & Yianilos (1998) the sum. Time O(true × observed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ConfigError, DataError
from catena.numerics import NEG_INF

_Confusions = Mapping[int, Sequence[int]]


class EditChannel:
    """A model of typing errors.

    Args:
        symbols: the ids that texts consist of, without the end.
        v: the size of the vocabulary.
        insert: the probability that a random symbol is inserted, uniformly.
        delete: the probability that a symbol is deleted.
        substitute: the probability that a symbol is replaced by another.
        transpose: the probability that a symbol is swapped with the next.
        confusions: for a true symbol, those that are often written instead: homophones, neighbors on the keyboard.
        near: the fraction of the substitutions of a symbol that go to its confusions, if it has any.
    """

    def __init__(
        self,
        symbols: Sequence[int],
        v: int,
        insert: float = 0.01,
        delete: float = 0.01,
        substitute: float = 0.05,
        transpose: float = 0.01,
        confusions: _Confusions | None = None,
        near: float = 0.9,
    ) -> None:
        self.symbols, self.v = sorted(set(symbols)), v
        self.insert, self.delete, self.transpose, self.near = insert, delete, transpose, near
        self.substitute = substitute if len(self.symbols) > 1 else 0.0  # no other symbol exists
        rates = {"insert": insert, "delete": delete, "substitute": substitute, "transpose": transpose, "near": near}
        wrong = {name: rate for name, rate in rates.items() if not 0 <= rate <= 1}
        if wrong or insert == 1 or delete + substitute + transpose > 1:
            raise ConfigError(
                "rates must be from 0 to 1, insert below 1, and delete + substitute + transpose at most 1, got "
                f"{rates}. Lower the rates."
            )
        if not self.symbols or not 0 <= self.symbols[0] <= self.symbols[-1] < v:
            raise ConfigError(
                f"symbols must be one or more ids from 0 to {v - 1}, got {self.symbols[:20]}. Pass ids below {v}."
            )
        known = set(self.symbols)
        self.confusions = {
            x: sorted(set(others) & known - {x}) for x, others in (confusions or {}).items() if x in known
        }

    def given(self, observed: Sequence[int]) -> ChannelLikelihood:
        """The likelihood of true texts, given the observed text."""
        strange = sorted(set(observed) - set(self.symbols))
        if strange:
            raise DataError(
                f"observed must contain only symbols of the channel, got the ids {strange[:9]}. Remove them, or add "
                "them to symbols."
            )
        return ChannelLikelihood(self, observed)

    def substitution(self, x: int, other: int) -> float:
        """The probability of writing ``other`` instead of ``x``, given that ``x`` is substituted."""
        near, others = self.confusions.get(x, []), len(self.symbols) - 1
        if other == x or others == 0:
            return 0.0
        if not near:
            return 1.0 / others
        return (self.near / len(near) if other in near else 0.0) + (1.0 - self.near) / others


class ChannelLikelihood:
    """log p(observed | true) as a function of the true text."""

    def __init__(self, channel: EditChannel, observed: Sequence[int]) -> None:
        self.channel = channel
        self.ids = torch.tensor(observed, dtype=torch.int64)
        self._changed = self._changes()

    @torch.no_grad()
    def log_prob(self, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """log p(observed | true) of true texts; ids after ``lengths[i]`` are not read."""
        channel, (n, t) = self.channel, ids.shape
        arrived = torch.full((n, len(self.ids) + 1), NEG_INF, dtype=torch.float64)
        arrived[:, 0] = 0.0
        swapped = torch.full_like(arrived, NEG_INF)  # arrivals by a transposition, one symbol later
        found = torch.full((n,), NEG_INF, dtype=torch.float64)
        for i in range(t + 1):
            left = self._inserted(arrived)
            found = torch.where(lengths == i, left[:, -1], found)
            if i == t:
                break
            follows = lengths > i + 1
            copied = (1 - channel.substitute - channel.delete - channel.transpose * follows.double()).clamp(min=0)
            written = torch.where(ids[:, i, None] == self.ids, copied.log()[:, None], self._changed[ids[:, i]])
            arrived = torch.logaddexp(left + _log(channel.delete), _shifted(left[:, :-1] + written, 1))
            arrived = torch.logaddexp(arrived, swapped)
            swapped = self._swaps(left, ids, i) if i + 1 < t else swapped
        return found

    def _inserted(self, arrived: Float[Tensor, "n j"]) -> Float[Tensor, "n j"]:
        """After any number of insertions: a geometric sum, computed as a cumulative sum of quotients."""
        channel = self.channel
        if channel.insert == 0:
            return arrived
        each = math.log(channel.insert / len(channel.symbols)) * torch.arange(arrived.shape[1], dtype=torch.float64)
        return (arrived - each).logcumsumexp(dim=1) + each + math.log1p(-channel.insert)

    def _swaps(self, left: Float[Tensor, "n j"], ids: Int[Tensor, "n t"], i: int) -> Float[Tensor, "n j"]:
        first, second = ids[:, i, None], ids[:, i + 1, None]
        same = (self.ids[:-1] == second) & (self.ids[1:] == first)
        gone = left[:, :-2] + _log(self.channel.transpose)
        return _shifted(gone.masked_fill(~same, NEG_INF), 2) if len(self.ids) > 1 else torch.full_like(left, NEG_INF)

    def _changes(self) -> Float[Tensor, "v j"]:
        """``[x, j]`` is the log-probability that the j-th observed symbol was written for another one, x."""
        channel = self.channel
        table = torch.zeros(channel.v, len(self.ids), dtype=torch.float64)
        table[channel.symbols] = 1.0 / max(len(channel.symbols) - 1, 1)
        for j, other in enumerate(self.ids.tolist()):
            for x in channel.confusions:
                table[x, j] = channel.substitution(x, other)
        return (channel.substitute * table).log()


def _shifted(x: Float[Tensor, "n j"], by: int) -> Float[Tensor, "n k"]:
    return torch.nn.functional.pad(x, (by, 0), value=NEG_INF)


def _log(p: float) -> float:
    return math.log(p) if p > 0 else NEG_INF
