r"""ROUGE: the overlap of words, word pairs or word subsequences between a summary and its reference.

.. math::  F = \frac{2 \, \text{shared}}{\text{given} + \text{wanted}}

Lin 2004. ROUGE-1 and ROUGE-2 count common n-grams, clipped to the smaller count; ROUGE-L uses the longest common
subsequence. The corpus score is the mean over its texts, from 0 to 100. Words are lower-case runs of letters, digits
and combining marks of any script, without stemming; in scripts without blanks, each character is a word. The signature
has this as ``tokens:unicode``. The package rouge-score keeps only ASCII letters and digits, so that "naïve" is "na" and
"ve" there; on ASCII texts the two agree.
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
"""The names of the metrics in this module."""


def summary_measure(name: str) -> Metric:
    """A metric of summaries by name, ``rouge_1``, ``rouge_2`` or ``rouge_l``, for untokenized texts."""
    if name not in SUMMARY_METRICS:
        raise DataError(f"Unknown metric of summaries {name!r}: {did_you_mean(name, SUMMARY_METRICS)}")
    title = f"ROUGE-{name[-1].upper()}|case:lower|tokens:unicode|stem:no|score:F1"
    return Metric(title, partial(_statistics, name), mean_score)


def split_words(text: str) -> list[str]:
    """The words that are compared."""
    return _WORD.findall(text.lower())


def rouge(name: str, reference: str, prediction: str) -> float:
    """The score of one text, from 0 to 100; 0 if one side has nothing to compare.

    Args:
        name: ``rouge_1`` and ``rouge_2`` compare n-grams, ``rouge_l`` the longest common subsequence.
        reference: the reference.
        prediction: the predicted text.
    """
    wanted, given = split_words(reference), split_words(prediction)
    if name == "rouge_l":
        shared, n, m = common_subsequence(wanted, given), len(wanted), len(given)
    else:
        if regex.fullmatch(r"rouge_[1-9]", name) is None:
            raise DataError(f"name must be rouge_1, rouge_2 or rouge_l, got {name!r}. Choose one of them.")
        order = int(name[-1])
        left, right = _ngrams(wanted, order), _ngrams(given, order)
        shared, n, m = (left & right).total(), left.total(), right.total()
    return 200 * shared / (n + m) if n and m else 0.0


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence, by bit-parallel dynamic programming (Hyyrö 2004)."""
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
