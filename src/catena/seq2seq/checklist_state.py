"""The states of a checklist model: before the first step, after each step, and of all steps.

Tested in tests/seq2seq/test_checklist.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from catena.numerics import NEG_INF
from catena.shapes import cat_padded

LM, NEW, USED = range(3)
"""The states of the switch."""


class Agenda(NamedTuple):
    """The projections of a source, computed once. Padded items have zero vectors and are masked."""

    goal: Float[Tensor, "b d"]
    """Y g"""
    begin: Float[Tensor, "b d"]
    """The state before the first step."""
    items: Float[Tensor, "b n e"]
    """E"""
    keys: Float[Tensor, "b n d"]
    """γ E P"""
    terms: Float[Tensor, "b n d"]
    """E Zᵀ"""
    closed: Float[Tensor, "b n"]
    """0 for items, -inf for padding. Without any item, the first one is attended to."""
    ways: Float[Tensor, "b 3"]
    """0, and -inf for the switch states that an empty agenda disables."""
    words: Float[Tensor, "b s c"]
    """The encoded words, then their keys and their mask; no words and no features without a reader."""
    word_keys: Float[Tensor, "b s a"]
    word_closed: Float[Tensor, "b s"]
    belongs: Float[Tensor, "b s n"]
    """1 for a word of an item."""

    def select(self, rows: Int[Tensor, " m"]) -> Agenda:
        """The agendas of the given rows."""
        return Agenda(*(part[rows] for part in self))

    @staticmethod
    def join(several: Sequence[Agenda]) -> Agenda:
        """Several agendas, concatenated and padded to the most items and words."""
        fills = {"closed": NEG_INF, "word_closed": NEG_INF}
        parts = zip(Agenda._fields, zip(*several, strict=True), strict=True)
        return Agenda(*(cat_padded(part, fills.get(name, 0.0)) for name, part in parts))


class ChecklistStep(NamedTuple):
    """The state of the model after a step."""

    h: Float[Tensor, "b d"]
    recurrent: Float[Tensor, "b r"]
    """U h, of all gates and the candidate, for the next step."""
    switch: Float[Tensor, "b 3"]
    new: Float[Tensor, "b n"]
    used: Float[Tensor, "b n"]
    ticked: Float[Tensor, "b n"]
    """a_t"""
    said: Float[Tensor, "b e"]
    """The vector of the language model, if the next step reads it; else empty."""

    @property
    def checked(self) -> Checked:
        """The switch and item weights of this step."""
        return Checked(self.switch[:, None], self.new[:, None], self.used[:, None], self.ticked[:, None])


@dataclass(frozen=True, eq=False)
class Checked:
    """The switch and item weights for each target: ``[i, t]`` is for the step that predicts target ``t``.

    Args:
        switch: the probabilities of language model, new item and used item.
        new: the weights of items among new ones.
        used: the weights of items among used ones.
        ticked: how much each item is checked off after the step.
    """

    switch: Float[Tensor, "b t 3"]
    new: Float[Tensor, "b t n"]
    used: Float[Tensor, "b t n"]
    ticked: Float[Tensor, "b t n"]

    @property
    def share(self) -> Float[Tensor, "b t n"]:
        """The weight of each item in the prediction."""
        return self.switch[..., NEW, None] * self.new + self.switch[..., USED, None] * self.used
