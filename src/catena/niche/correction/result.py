"""What a correction of a text returns. Tested in tests/niche/correction/test_text.py and tests/cli/test_correct.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TextChange:
    """A change of the characters ``start … end - 1`` of a text.

    Args:
        start: the first character.
        end: the character after the last.
        text: the characters.
        corrected: what they become.
        alternatives: other readings, the text as it is among them, with their probabilities given the rest of the
            corrected text, most probable first.
    """

    start: int
    end: int
    text: str
    corrected: str
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class CorrectionResult:
    """A text, its most probable correction and its posterior probability.

    Args:
        text: the observed text.
        corrected: the corrected text.
        probability: the posterior probability of the corrected text among all texts that were compared; of Markov
            chains, the fraction of samples.
        changes: the changed words; Markov chains do not list them.
        alternatives: other texts with their probabilities, most probable first; only of Markov chains.
        accepted: the acceptance rate of the proposed changes of Markov chains.
        effective_samples: the effective number of independent samples of Markov chains.
        unknown: symbols outside the vocabulary; Markov chains do not correct a text with such symbols.
    """

    text: str
    corrected: str
    probability: float
    changes: tuple[TextChange, ...] = ()
    alternatives: tuple[tuple[str, float], ...] = ()
    accepted: float | None = None
    effective_samples: float | None = None
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.corrected

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values, without those of the other method."""
        row: dict[str, Any] = {
            "text": self.text,
            "corrected": self.corrected,
            "probability": round(self.probability, 6),
        }
        if self.accepted is None:
            row["changes"] = [{**vars(c), "alternatives": _listed(c.alternatives)} for c in self.changes]
            return row
        row["alternatives"] = _listed(self.alternatives)
        row["accepted"] = round(self.accepted, 6)
        row["effective_samples"] = round(self.effective_samples or 0.0, 1)
        row["unknown"] = list(self.unknown)
        return row


def _listed(alternatives: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"text": text, "probability": round(p, 6)} for text, p in alternatives]
