"""The models of phrase-structure parsers. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from catena.config import Config


class PcfgModel(Config):
    """A probabilistic grammar, counted from trees."""

    kind: Literal["pcfg"] = "pcfg"
    """The model."""


class GrammarModel(Config):
    """A grammar that a person wrote."""

    kind: Literal["grammar"] = "grammar"
    """The model."""


class SpanModel(Config):
    """Scores of spans by a neural network."""

    kind: Literal["span"] = "span"
    """The model."""


METRICS: dict[str, tuple[str, ...]] = {"pcfg": ("f1",), "grammar": ("f1",), "span": ("f1",)}
"""The scores of each model; the first decides which checkpoint is best."""

SUGGESTED: dict[str, dict[str, Any]] = {}
"""How each model likes to be trained, where the config does not say."""
