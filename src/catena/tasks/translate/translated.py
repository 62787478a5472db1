"""Predictions of a translator: translations with scores and attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from catena.data.vocabulary import UNK_SYMBOL
from catena.tasks.application import DEFAULT_PREDICT_OPTIONS, PredictOptions
from catena.tasks.written import NO_SCORE, score_value


@dataclass(frozen=True, eq=False)
class Translation:
    """One translation.

    Args:
        text: the translation as text.
        tokens: the generated tokens.
        log_prob: log p(translation | source), including its end symbol if it is finished.
        score: the ranking score of the search.
        log_probs: log-probability of each token, and of the end symbol if it is finished; None without ``scores``.
        attention: weights ``[head, t, s]`` of each layer that attends to the source; None without ``alignment``. The
            last row is the end symbol if the translation is finished; the last column is the end of the source.
        finished: whether it has an end symbol; otherwise it was truncated at the maximum length.
    """

    text: str
    tokens: tuple[str, ...]
    log_prob: float
    score: float
    log_probs: tuple[float, ...] | None = None
    attention: tuple[np.ndarray, ...] | None = None
    finished: bool = True

    def __str__(self) -> str:
        return self.text

    @property
    def weights(self) -> Float[np.ndarray, "t s"] | None:
        """The mean attention weights over all layers and heads; None without alignment or attention."""
        if not self.attention:
            return None
        return np.mean([layer.mean(axis=0) for layer in self.attention], axis=0)

    def alignment(self) -> list[tuple[int, int]]:
        """Pairs (source position, target position) of each target token and its most attended source token.

        Target tokens that attend most to the end of the source have no pair.
        """
        weights = self.weights
        if weights is None:
            return []
        most = weights[: len(self.tokens)].argmax(axis=1).tolist()
        return [(s, t) for t, s in enumerate(most) if s < weights.shape[1] - 1]


_BLANK = Translation("", (), NO_SCORE, NO_SCORE)
"""The translation of a text without tokens."""


@dataclass(frozen=True, eq=False)
class TranslationResult:
    """The translations of a text, best first; none for an empty text. ``str()`` gives the best one.

    Args:
        text: the source text.
        tokens: its tokens.
        translations: the translations, best first.
        known: whether any token of the text is in the vocabulary or can be copied.
    """

    text: str
    tokens: tuple[str, ...]
    translations: tuple[Translation, ...]
    options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    known: bool = True

    def __str__(self) -> str:
        return self.translations[0].text if self.translations else ""

    def links(self, one: Translation) -> list[tuple[str, str]]:
        """The alignment of a translation as (source token, target token) pairs."""
        return [(self.tokens[s], one.tokens[t]) for s, t in one.alignment()]

    def as_json(self) -> dict[str, Any]:
        """The source and its translations as JSON values, with the requested scores and alignments."""
        row: dict[str, Any] = {"source": self.text, "tokens": list(self.tokens), "known": self.known}
        row["translations"] = [self._one(one) for one in self.listed()]
        return row

    def listed(self) -> tuple[Translation, ...]:
        """The translations, or one empty translation without a score if there are none."""
        return self.translations or (_BLANK,)

    def _one(self, one: Translation) -> dict[str, Any]:
        row: dict[str, Any] = {"text": one.text, "tokens": list(one.tokens), "log_prob": score_value(one.log_prob)}
        row |= {"score": score_value(one.score), "finished": one.finished}
        if one.log_probs is not None:
            row["log_probs"] = [round(x, 6) for x in one.log_probs]
        if one.attention is not None:
            row["alignment"] = [list(pair) for pair in one.alignment()]
            row["attention"] = [_rounded(layer) for layer in one.attention]
        return row


def copy_unknown_words(tokens: Sequence[str], source: Sequence[str], attention: Sequence[np.ndarray]) -> list[str]:
    """The tokens with each unknown token replaced by the source word with the largest attention weight.

    Args:
        tokens: the target tokens.
        source: the source tokens, without the end symbol.
        attention: weights ``[head, t, s]`` of each layer.
    """
    if not attention:
        return list(tokens)
    weights = np.mean([layer.mean(axis=0) for layer in attention], axis=0)[:, :-1]
    return [source[int(weights[i].argmax())] if token == UNK_SYMBOL else token for i, token in enumerate(tokens)]


def _rounded(weights: np.ndarray) -> Sequence[Any]:
    return np.round(weights.astype(np.float64), 4).tolist()
