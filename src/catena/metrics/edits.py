r"""Edit distance (Levenshtein 1966) and error rates based on it.

.. math::  \text{word error} = \frac{\#\{i : \hat y_i \notin Y_i\}}{n}, \qquad
           \text{symbol error} = \frac{\sum_i d(\hat y_i, y_i^*)}{\sum_i |y_i^*|}

An example may have several references Y. It is correct if it equals one of them, and its distance is to the nearest,
y*: the one with the fewest edits per symbol. Strings are sequences of anything: characters, phonemes, words.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from catena.errors import DataError
from catena.metrics.measure import LabelPairs, Metric, MetricValue, as_pairs, mean_score, mean_statistics

_Symbols = Sequence[Hashable]
_References = Sequence[_Symbols]


def edit_distance(a: _Symbols, b: _Symbols) -> int:
    """The minimum number of insertions, deletions and substitutions from a to b. Time O(|a| |b|).

    Args:
        a: a string, list, array or tensor of symbols.
        b: the other one.
    """
    a, b = (x.tolist() if hasattr(x, "tolist") else x for x in (a, b))  # arrays and tensors
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


def nearest(prediction: _Symbols, references: _References) -> tuple[int, int]:
    """(edits, length) of the reference with the fewest edits for its length, the shorter one of equals."""
    if not references:
        raise DataError("An example must have at least one reference, got none. Add a reference.")
    listed = [(edit_distance(prediction, reference), len(reference)) for reference in references]
    return min(listed, key=lambda pair: (pair[0] / max(pair[1], 1), pair))


def _listed(name: str, references: Sequence[_References], predictions: Sequence[_Symbols]) -> LabelPairs:
    right, given = as_pairs(name, references, predictions)
    for i, listed in enumerate(right):
        if isinstance(listed, str):  # its characters would be taken for references
            raise DataError(
                f"{name} needs a list of references for each example, got the string {listed!r} for example {i}. Write "
                f"[{listed!r}]."
            )
        if not isinstance(given[i], str) and any(isinstance(one, str) for one in listed):
            raise DataError(
                f"{name} needs references that are sequences of symbols as the prediction {given[i]!r:.60} is, got "
                f"strings: {listed!r:.60} for example {i}. Write [{listed!r:.60}] if they are the symbols of one."
            )
    return right, given


def _error_statistics(references: Sequence[_References], predictions: Sequence[_Symbols]) -> np.ndarray:
    right, given = _listed("word error", references, predictions)
    wrong = [tuple(y) not in {tuple(r) for r in listed} for listed, y in zip(right, given, strict=True)]
    return mean_statistics([float(x) for x in wrong])


def _edit_statistics(references: Sequence[_References], predictions: Sequence[_Symbols]) -> np.ndarray:
    right, given = _listed("symbol error", references, predictions)
    return np.array([nearest(y, listed) for listed, y in zip(right, given, strict=True)], np.float64)


WORD_ERROR = Metric("word_error|references:any", _error_statistics, mean_score, higher_is_better=False)
"""The fraction of examples whose prediction is not one of the references."""

SYMBOL_ERROR = Metric("symbol_error|references:nearest", _edit_statistics, mean_score, higher_is_better=False)
"""Edits to the nearest references divided by their length: phoneme error, character error."""


def word_error(references: Sequence[_References], predictions: Sequence[_Symbols]) -> MetricValue:
    """The fraction of predictions that are not one of their references.

    Args:
        references: a list for each prediction, with its reference or several that are all correct.
        predictions: the predicted sequences of symbols.
    """
    return WORD_ERROR(references, predictions)


def symbol_error(references: Sequence[_References], predictions: Sequence[_Symbols]) -> MetricValue:
    """Edits to the nearest references divided by their length.

    Args:
        references: a list for each prediction, with its reference or several; the nearest counts.
        predictions: the predicted sequences of symbols.
    """
    return SYMBOL_ERROR(references, predictions)
