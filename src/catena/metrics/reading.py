r"""Exact match and F1 of answers, as in the official SQuAD 1.1 and 2.0 scripts, and character F1.

An answer is compared with each reference after :func:`normalize_answer`, and the best reference counts:

.. math::  \text{EM}_i = \max_r [\hat a_i = r] \qquad
           \text{F1}_i = \max_r \frac{2 |\hat a_i \cap r|}{|\hat a_i| + |r|}

where :math:`\cap` intersects bags of words (Rajpurkar et al. 2016, section 6.1). The corpus value is the mean
over questions. ``""`` is the prediction "no answer", and a question without an answer has no references; a prediction
of None, a question that was left out, counts 0.

The scripts differ for texts that are empty after normalization, such as "the". Version 1.1 gives them an F1 of 0.
Version 2.0 drops such references, and gives the empty prediction 1 if none is left (Rajpurkar et al. 2018).

``unit="characters"`` is for languages that do not separate words, such as Chinese and Japanese: each Han or kana
character is a unit, a run of other characters between blanks is one unit, as in the segmentation of CMRC 2018 (Cui et
al. 2019), and punctuation of every script is dropped. F1 is the one of bags, where CMRC uses common substrings.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import regex
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.measure import Metric, MetricValue, as_pairs, mean_score, mean_statistics

SquadVersion = Literal["1.1", "2.0"]
AnswerUnit = Literal["words", "characters"]
References = Sequence[str]
"""The correct answers of one question; none if it has no answer."""

_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = regex.compile(r"\p{P}+")
_CHARACTER_UNIT = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}ー]\p{M}*|[^\s\p{Han}\p{Hiragana}\p{Katakana}ー]+", regex.V1
)


def normalize_answer(text: str) -> str:
    """The text in lower case without ASCII punctuation and English articles, separated by single blanks.

    Punctuation outside ASCII stays, such as the dash of "1965–66", as in the official scripts.
    """
    words = text.lower().translate(_ASCII_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def answer_units(text: str, unit: AnswerUnit = "words") -> list[str]:
    """The units of an answer that F1 counts: words after normalization, or characters and foreign words."""
    if unit == "words":
        return normalize_answer(text).split()
    return _CHARACTER_UNIT.findall(_PUNCTUATION.sub(" ", text.lower()))


# --- one question -----------------------------------------------------------------------------------------------------


def _match(reference: list[str], prediction: list[str], version: SquadVersion) -> float:
    return float(reference == prediction)


def _overlap(reference: list[str], prediction: list[str], version: SquadVersion) -> float:
    if version == "2.0" and not (reference and prediction):
        return float(reference == prediction)
    common = (Counter(reference) & Counter(prediction)).total()
    return 2 * common / (len(reference) + len(prediction)) if common else 0.0


def _score_question(
    compare: Callable[[list[str], list[str], SquadVersion], float],
    references: References,
    prediction: str | None,
    version: SquadVersion,
    unit: AnswerUnit,
) -> float:
    """The score of the best reference."""
    if prediction is None:
        return 0.0
    wanted = [answer_units(text, unit) for text in references]
    if version == "2.0":
        wanted = [units for units in wanted if units] or [[]]
    given = answer_units(prediction, unit)
    return max((compare(units, given, version) for units in wanted), default=0.0)


# --- metrics ----------------------------------------------------------------------------------------------------------


def exact_match_measure(version: SquadVersion = "2.0", unit: AnswerUnit = "words") -> Metric:
    """Exact match as a metric of sums, for intervals and significance tests."""
    return _measure("exact_match", _match, version, unit)


def answer_f1_measure(version: SquadVersion = "2.0", unit: AnswerUnit = "words") -> Metric:
    """F1 of answers as a metric of sums, for intervals and significance tests."""
    return _measure("answer_f1", _overlap, version, unit)


def _measure(
    name: str,
    compare: Callable[[list[str], list[str], SquadVersion], float],
    version: SquadVersion,
    unit: AnswerUnit,
) -> Metric:
    def statistics(references: Sequence[References], predictions: Sequence[str | None]) -> np.ndarray:
        gold, given = as_pairs(name, references, predictions)
        for i, wanted in enumerate(gold):
            if isinstance(wanted, str):  # its characters would be taken for answers
                raise DataError(
                    f"references must have a list of answers for each question, got {wanted!r:.60} for question {i}. "
                    f"Write [{wanted!r:.60}]."
                )
        pairs = zip(gold, given, strict=True)
        return mean_statistics([_score_question(compare, wanted, text, version, unit) for wanted, text in pairs])

    return Metric(f"{name}|squad:{version}|unit:{unit}", statistics, mean_score)


def exact_match(
    references: Sequence[References],
    predictions: Sequence[str | None],
    version: SquadVersion = "2.0",
    unit: AnswerUnit = "words",
) -> MetricValue:
    """The fraction of questions whose predicted answer equals a reference after normalization.

    Args:
        references: ``references[i]`` are the correct answers of question i; none if it has no answer.
        predictions: ``predictions[i]`` is the predicted answer, "" for no answer, or None if it is missing.
        version: the SQuAD script to agree with.
        unit: ``characters`` for Chinese and Japanese.
    """
    return exact_match_measure(version, unit)(references, predictions)


def answer_f1(
    references: Sequence[References],
    predictions: Sequence[str | None],
    version: SquadVersion = "2.0",
    unit: AnswerUnit = "words",
) -> MetricValue:
    """The mean over questions of the F1 of words between the prediction and the best reference.

    Args:
        references: ``references[i]`` are the correct answers of question i; none if it has no answer.
        predictions: ``predictions[i]`` is the predicted answer, "" for no answer, or None if it is missing.
        version: the SQuAD script to agree with.
        unit: ``characters`` for Chinese and Japanese.
    """
    return answer_f1_measure(version, unit)(references, predictions)


@dataclass(frozen=True)
class AnswerReport:
    """Exact match and F1 of all questions, and separately of those with and without an answer."""

    n: int
    exact_match: float
    f1: float
    n_answerable: int
    answerable_exact_match: float
    answerable_f1: float
    n_unanswerable: int
    unanswerable_accuracy: float

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def answer_report(
    references: Sequence[References],
    predictions: Sequence[str | None],
    version: SquadVersion = "2.0",
    unit: AnswerUnit = "words",
) -> AnswerReport:
    """Exact match and F1 in the groups of the SQuAD 2.0 script; 0 for an empty group.

    Args:
        references: ``references[i]`` are the correct answers of question i; none if it has no answer.
        predictions: ``predictions[i]`` is the predicted answer, "" for no answer, or None if it is missing.
        version: the SQuAD script to agree with.
        unit: ``characters`` for Chinese and Japanese.
    """
    exact = exact_match_measure(version, unit).statistics(references, predictions)[:, 0]
    f1 = answer_f1_measure(version, unit).statistics(references, predictions)[:, 0]
    has = np.array([bool(wanted) for wanted in references])
    return AnswerReport(
        len(has),
        _mean(exact),
        _mean(f1),
        int(has.sum()),
        _mean(exact[has]),
        _mean(f1[has]),
        int((~has).sum()),
        _mean(exact[~has]),
    )


def _mean(values: Float[np.ndarray, " n"]) -> float:
    return float(values.mean()) if len(values) else 0.0
