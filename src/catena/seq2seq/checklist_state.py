"""What a checklist model knows before its first step, after each, and tells of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from catena.numerics import NEG_INF
from catena.shapes import cat_padded

LM, NEW, USED = range(3)
"""The ways of the switch."""


class Agenda(NamedTuple):
    """What a source says of every step, projected once. Padded items have vectors of zeros and are never looked at."""

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
    """0 where there is an item to look at, -inf where there is none. Without any item, the first is looked at."""
    ways: Float[Tensor, "b 3"]
    """0, and -inf for the ways of the switch that an empty agenda closes."""
    words: Float[Tensor, "b s c"]
    """What a reader made of the words; no word and no feature where there is no reader. Then its keys and its mask."""
    word_keys: Float[Tensor, "b s a"]
    word_closed: Float[Tensor, "b s"]
    belongs: Float[Tensor, "b s n"]
    """1 for a word of an item."""

    def select(self, rows: Int[Tensor, " m"]) -> Agenda:
        """Those of the given rows."""
        return Agenda(*(part[rows] for part in self))

    @staticmethod
    def join(several: Sequence[Agenda]) -> Agenda:
        """One after another, with as many items and words as the longest has."""
        fills = {"closed": NEG_INF, "word_closed": NEG_INF}
        parts = zip(Agenda._fields, zip(*several, strict=True), strict=True)
        return Agenda(*(cat_padded(part, fills.get(name, 0.0)) for name, part in parts))


class ChecklistStep(NamedTuple):
    """The state of the model after a step."""

    h: Float[Tensor, "b d"]
    recurrent: Float[Tensor, "b r"]
    """U h, of all gates and the candidate: the next step reads it."""
    switch: Float[Tensor, "b 3"]
    new: Float[Tensor, "b n"]
    used: Float[Tensor, "b n"]
    ticked: Float[Tensor, "b n"]
    """a_t"""
    said: Float[Tensor, "b e"]
    """What the language model says, where the next step reads it; else empty."""

    @property
    def checked(self) -> Checked:
        """What this one step did."""
        return Checked(self.switch[:, None], self.new[:, None], self.used[:, None], self.ticked[:, None])


@dataclass(frozen=True, eq=False)
class Checked:
    """What the model did for each target: ``[i, t]`` is of the step that foretells target ``t``.

    Args:
        switch: the probabilities of language model, new item and used item.
        new: the weights of items among new ones.
        used: the weights of items among used ones.
        ticked: how far each item is ticked off after the step.
    """

    switch: Float[Tensor, "b t 3"]
    new: Float[Tensor, "b t n"]
    used: Float[Tensor, "b t n"]
    ticked: Float[Tensor, "b t n"]

    @property
    def share(self) -> Float[Tensor, "b t n"]:
        """How much of the prediction each item has."""
        return self.switch[..., NEW, None] * self.new + self.switch[..., USED, None] * self.used
