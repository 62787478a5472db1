r"""ROUGE: how many of the words, pairs of words, or words in order a summary shares with its reference.

.. math::  F = \frac{2 \, \text{shared}}{\text{given} + \text{wanted}}

Lin 2004. ROUGE-1 and ROUGE-2 share n-grams, each as often as it stands on both sides; ROUGE-L shares the longest
common subsequence. The score of a corpus is the mean over its texts, from 0 to 100. Words are runs of letters, digits
and combining marks of any script in lower case, nothing is stemmed; characters of scripts without blanks are words by
themselves. The signature names this as ``tokens:unicode``. The package rouge-score keeps ASCII letters and digits
only, so that "naïve" is "na" and "ve" there; on ASCII texts the two agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import partial

import numpy as np
import regex

from catena.errors import DataError
from catena.metrics.measure import Metric, as_pairs, mean_score, mean_statistics
from catena.registry import did_you_mean

_ALONE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = regex.compile(rf"[{_ALONE}]|[[\p{{L}}\p{{N}}\p{{M}}]--[{_ALONE}]]+", regex.VERSION1)

SUMMARY_METRICS = ("rouge_1", "rouge_2", "rouge_l")
"""The names that :func:`summary_measure` knows."""


def summary_measure(name: str) -> Metric:
    """A metric of summaries by its name: ``rouge_1``, ``rouge_2`` or ``rouge_l``; texts as written."""
    if name not in SUMMARY_METRICS:
        raise DataError(f"there is no metric of summaries {name!r}: {did_you_mean(name, SUMMARY_METRICS)}")
    title = f"ROUGE-{name[-1].upper()}|case:lower|tokens:unicode|stem:no|score:F1"
    return Metric(title, partial(_statistics, name), mean_score)


def split_words(text: str) -> list[str]:
    """The words that are compared."""
    return _WORD.findall(text.lower())


def rouge(name: str, reference: str, prediction: str) -> float:
    """The score of one text, from 0 to 100; 0 where one side has nothing to share."""
    wanted, given = split_words(reference), split_words(prediction)
    if name == "rouge_l":
        shared, n, m = common_subsequence(wanted, given), len(wanted), len(given)
    else:
        order = int(name[-1])
        left, right = _ngrams(wanted, order), _ngrams(given, order)
        shared, n, m = (left & right).total(), left.total(), right.total()
    return 200 * shared / (n + m) if n and m else 0.0


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence, a row of the table held in one whole number (Hyyrö 2004)."""
    places: dict[Hashable, int] = {}
    for i, x in enumerate(a):
        places[x] = places.get(x, 0) | (1 << i)
    everything = (1 << len(a)) - 1
    row = everything
    for y in b:
        met = row & places.get(y, 0)
        row = ((row + met) | (row - met)) & everything
    return len(a) - row.bit_count()


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))


def _statistics(name: str, references: Sequence[str], predictions: Sequence[str]) -> np.ndarray:
    right, given = as_pairs("ROUGE", references, predictions)
    return mean_statistics([rouge(name, a, b) for a, b in zip(right, given, strict=True)])
