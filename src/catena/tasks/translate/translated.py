"""What a translator answers: translations with their scores, and where the model looked."""

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
        tokens: as the model wrote them.
        log_prob: log p(translation | source), with the factor of its end if it is finished.
        score: what the search ranked it by.
        log_probs: of each token, and of the end if it is finished, if scores were asked for.
        attention: if alignments were asked for: for each layer that looks at the source, ``[head, t, s]``, the end of
            the translation as last row if it is finished, and that of the source as last column.
        finished: whether it came to its end; if not, it was cut at the greatest length.
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
        """Where it looked: the mean over all layers and heads; None if that was not asked for, or it looks nowhere."""
        if not self.attention:
            return None
        return np.mean([layer.mean(axis=0) for layer in self.attention], axis=0)

    def alignment(self) -> list[tuple[int, int]]:
        """(source token, target token) pairs: each target token with the source token that was looked at most; none
        where that is the end of the source."""
        weights = self.weights
        if weights is None:
            return []
        most = weights[: len(self.tokens)].argmax(axis=1).tolist()
        return [(s, t) for t, s in enumerate(most) if s < weights.shape[1] - 1]


_BLANK = Translation("", (), NO_SCORE, NO_SCORE)
"""What is written for a text without a token."""


@dataclass(frozen=True, eq=False)
class TranslationResult:
    """The translations of a text, the best first; none for an empty text. Prints as the best one.

    Args:
        known: whether the model knows any token of the text, or copies; if not, the translations are a guess.
    """

    text: str
    tokens: tuple[str, ...]
    translations: tuple[Translation, ...]
    asking: PredictOptions = DEFAULT_PREDICT_OPTIONS
    known: bool = True

    def __str__(self) -> str:
        return self.translations[0].text if self.translations else ""

    def links(self, one: Translation) -> list[tuple[str, str]]:
        """The alignment of a translation in tokens."""
        return [(self.tokens[s], one.tokens[t]) for s, t in one.alignment()]

    def as_json(self) -> dict[str, Any]:
        """Plain values: the source and its translations, with all that was asked for."""
        row: dict[str, Any] = {"source": self.text, "tokens": list(self.tokens), "known": self.known}
        row["translations"] = [self._one(one) for one in self.listed()]
        return row

    def listed(self) -> tuple[Translation, ...]:
        """What is written: the translations, or an empty one without a score."""
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
    """Tokens with the source word that was looked at most, its end left out, in place of each unknown one."""
    if not attention:
        return list(tokens)
    weights = np.mean([layer.mean(axis=0) for layer in attention], axis=0)[:, :-1]
    return [source[int(weights[i].argmax())] if token == UNK_SYMBOL else token for i, token in enumerate(tokens)]


def _rounded(weights: np.ndarray) -> Sequence[Any]:
    return np.round(weights.astype(np.float64), 4).tolist()
