r"""Classification metrics: accuracy, precision, recall and F1.

With ``hits``, ``predicted`` and ``gold`` the number of times a label is predicted correctly, predicted, and in
the references:

.. math::  P = hits / predicted \qquad  R = hits / gold \qquad  F_1 = 2\,hits / (predicted + gold)

Conventions for divisions by zero:

* The precision of a label that is never predicted, and the recall of one that is never a reference, are 0.
* A label that is in neither has score 0. Macro averages are over the labels that occur, or over ``labels`` if given,
  including those that do not occur, as in scikit-learn with ``zero_division=0``. The signature then has their number
  (``labels:5``). If no label occurs at all (texts without labels), every average is 0.
* Macro F1 is the mean of the labels' F1, not the F1 of mean precision and recall (Opitz & Burst 2019).

Labels may be any hashable values. References come first, as in scikit-learn. With ``labels``, only those are
scored; other predictions still count against their recall, and wrong predictions of them against their precision.

In the *multilabel* case, each example has a set of labels. Confusion tables are in ``confusion``, probabilities in
``probabilities``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from catena.errors import DataError
from catena.metrics.measure import (
    LabelSequence,
    Metric,
    MetricValue,
    as_pairs,
    mean_score,
    mean_statistics,
    safe_ratio,
    signature,
)
from catena.metrics.text_table import table_lines

_LabelSets = Sequence[Collection[Hashable]]
"""A set of labels, possibly empty, for each example."""

Average = Literal["macro", "micro", "weighted"]
"""macro: the mean over labels; micro: the score of all decisions together; weighted: the mean weighted by support."""

_Quantity = Literal["precision", "recall", "f1"]

_Numbers = np.ndarray | np.number
"""An array, or a numpy scalar."""


# --- one label for each example -----------------------------------------------------------------------------


def accuracy(references: LabelSequence, predictions: LabelSequence) -> MetricValue:
    """The fraction of examples with the correct label. Signature ``accuracy|n=…``.

    Args:
        references: the correct labels, one for each example.
        predictions: the predicted labels, in the same order.
    """
    return ACCURACY(references, predictions)


def precision(
    references: LabelSequence,
    predictions: LabelSequence,
    average: Average = "macro",
    labels: LabelSequence | None = None,
) -> MetricValue:
    """The fraction of predictions of a label that are correct. Signature ``precision|average:macro|n=…``.

    Args:
        references: the correct labels, one for each example.
        predictions: the predicted labels, in the same order.
        average: ``"macro"`` is the mean over labels, ``"weighted"`` weights them by their number of references,
            ``"micro"`` counts all labels together.
        labels: the labels to average over; all that occur if None.
    """
    return _averaged("precision", _count(*as_pairs("precision", references, predictions), labels), average, labels)


def recall(
    references: LabelSequence,
    predictions: LabelSequence,
    average: Average = "macro",
    labels: LabelSequence | None = None,
) -> MetricValue:
    """The fraction of references of a label that are predicted. Signature ``recall|average:macro|n=…``.

    Args:
        references: the correct labels, one for each example.
        predictions: the predicted labels, in the same order.
        average: ``"macro"`` is the mean over labels, ``"weighted"`` weights them by their number of references,
            ``"micro"`` counts all labels together.
        labels: the labels to average over; all that occur if None.
    """
    return _averaged("recall", _count(*as_pairs("recall", references, predictions), labels), average, labels)


def f1(
    references: LabelSequence,
    predictions: LabelSequence,
    average: Average = "macro",
    labels: LabelSequence | None = None,
) -> MetricValue:
    """The harmonic mean of precision and recall. Signature ``f1|average:macro|n=…``.

    Micro F1 over all labels is the accuracy.

    Args:
        references: the correct labels, one for each example.
        predictions: the predicted labels, in the same order.
        average: ``"macro"`` is the mean over labels, ``"weighted"`` weights them by their number of references,
            ``"micro"`` counts all labels together.
        labels: the labels to average over; all that occur if None.
    """
    return _averaged("f1", _count(*as_pairs("f1", references, predictions), labels), average, labels)


def label_report(
    references: LabelSequence, predictions: LabelSequence, labels: LabelSequence | None = None
) -> LabelReport:
    """Precision, recall, F1 and support of each label, and their averages."""
    return _report(_count(*as_pairs("a report", references, predictions), labels))


# --- a set of labels for each example -----------------------------------------------------------------------


def subset_accuracy(references: _LabelSets, predictions: _LabelSets) -> MetricValue:
    """The fraction of examples whose whole set of labels is correct. Signature ``subset-accuracy|n=…``."""
    return SUBSET_ACCURACY(references, predictions)


def multilabel_f1(
    references: _LabelSets, predictions: _LabelSets, average: Average = "micro", labels: LabelSequence | None = None
) -> MetricValue:
    """F1 over sets of labels. Signature ``multilabel-f1|average:micro|n=…``.

    Args:
        references: the correct labels of each example, as a set.
        predictions: the predicted sets, in the same order.
        average: ``"macro"`` is the mean over labels, ``"weighted"`` weights them by their number of references,
            ``"micro"`` counts all labels together.
        labels: the labels to average over; all that occur if None.
    """
    counts = _count_sets(*_as_sets("multilabel f1", references, predictions), labels)
    return _averaged("f1", counts, average, labels, name="multilabel-f1")


def multilabel_report(
    references: _LabelSets, predictions: _LabelSets, labels: LabelSequence | None = None
) -> LabelReport:
    """Precision, recall, F1 and support of each label, and their averages, for sets of labels."""
    return _report(_count_sets(*_as_sets("a report", references, predictions), labels))


# --- counting -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """The counts of each label: predicted correctly, predicted, and in the references, over ``n`` examples."""

    labels: tuple[Hashable, ...]
    hits: Int[np.ndarray, "k"]
    predicted: Int[np.ndarray, "k"]
    gold: Int[np.ndarray, "k"]
    n: int


def sorted_labels(*lists: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """The distinct labels, sorted. Labels of different types are sorted as text."""
    found = {label for labels in lists for label in labels}
    try:
        return tuple(sorted(found))  # type: ignore[type-var]
    except TypeError:
        return tuple(sorted(found, key=str))


def _count(references: list[Hashable], predictions: list[Hashable], labels: LabelSequence | None) -> LabelCounts:
    hits = [gold for gold, predicted in zip(references, predictions, strict=True) if gold == predicted]
    return _tally(hits, predictions, references, labels, len(references))


def _count_sets(
    references: list[frozenset[Hashable]], predictions: list[frozenset[Hashable]], labels: LabelSequence | None
) -> LabelCounts:
    hits = [label for gold, predicted in zip(references, predictions, strict=True) for label in gold & predicted]
    predicted_labels = [label for labels in predictions for label in labels]
    gold_labels = [label for labels in references for label in labels]
    return _tally(hits, predicted_labels, gold_labels, labels, len(references))


def _tally(
    hits: list[Hashable], predicted: list[Hashable], gold: list[Hashable], labels: LabelSequence | None, n: int
) -> LabelCounts:
    names = listed_labels(labels) if labels is not None else sorted_labels(predicted, gold)
    ids = {label: i for i, label in enumerate(names)}

    def numbers(found: list[Hashable]) -> Int[np.ndarray, "k"]:
        return np.bincount([ids[label] for label in found if label in ids], minlength=len(ids)).astype(np.int64)

    return LabelCounts(names, numbers(hits), numbers(predicted), numbers(gold), n)


def listed_labels(labels: LabelSequence) -> tuple[Hashable, ...]:
    """The labels in the given order. Raise DataError if one is listed twice."""
    names = tuple(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    if twice := [repr(label) for label, times in Counter(names).items() if times > 1]:
        raise DataError(f"labels must be unique, got {', '.join(twice)} twice. Remove the duplicates.")
    return names


def _as_sets(
    name: str, references: _LabelSets, predictions: _LabelSets
) -> tuple[list[frozenset[Hashable]], list[frozenset[Hashable]]]:
    gold, predicted = as_pairs(name, references, predictions)
    return _sets("reference", gold), _sets("prediction", predicted)


def _sets(what: str, found: list[Collection[Hashable]]) -> list[frozenset[Hashable]]:
    for i, labels in enumerate(found):
        if isinstance(labels, str) or not isinstance(labels, Collection):
            raise DataError(f"{what} {i} must be a set of labels, got {labels!r}. Write {{{labels!r}}}.")
    return [frozenset(labels) for labels in found]


# --- scoring ------------------------------------------------------------------------------------------------


def _quantity(quantity: _Quantity, hits: _Numbers, predicted: _Numbers, gold: _Numbers) -> np.ndarray:
    if quantity == "precision":
        return safe_ratio(hits, predicted)
    if quantity == "recall":
        return safe_ratio(hits, gold)
    return safe_ratio(2 * hits, predicted + gold)


def average_score(
    quantity: _Quantity,
    average: Average,
    hits: np.ndarray,
    predicted: np.ndarray,
    gold: np.ndarray,
) -> np.ndarray:
    """The average over labels, from counts with the labels on the last axis and any number of corpora before.

    A macro average is over all labels on that axis, including those that do not occur, whose score is 0.
    """
    if average == "micro":
        return _quantity(quantity, hits.sum(-1), predicted.sum(-1), gold.sum(-1))
    scores = _quantity(quantity, hits, predicted, gold)
    if average == "macro":
        return safe_ratio(scores.sum(-1), np.full(scores.shape[:-1], scores.shape[-1]))
    if average == "weighted":
        return safe_ratio((scores * gold).sum(-1), gold.sum(-1))
    raise ValueError(f"average must be 'macro', 'micro' or 'weighted', got {average!r}. Use 'macro'.")


def _averaged(
    quantity: _Quantity, counts: LabelCounts, average: Average, labels: LabelSequence | None, name: str = ""
) -> MetricValue:
    value = average_score(quantity, average, counts.hits, counts.predicted, counts.gold)
    return MetricValue(float(value), signature(name or quantity, counts.n, _options(average, labels)))


def _options(average: Average, labels: LabelSequence | None) -> dict[str, object]:
    return {"average": average} | ({} if labels is None else {"labels": len(labels)})


@dataclass(frozen=True)
class LabelScore:
    """The scores of one label. ``support`` is its count in the references."""

    label: Hashable
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class LabelReport:
    """The scores of each label, and their averages by name."""

    labels: tuple[LabelScore, ...]
    averages: dict[str, LabelScore]
    signature: str

    def lines(self) -> list[str]:
        """The report as fixed-width text."""
        rows = [["label", "precision", "recall", "f1", "support"]]
        for score in (*self.labels, *self.averages.values()):
            numbers = [f"{value:.4f}" for value in (score.precision, score.recall, score.f1)]
            rows.append([str(score.label), *numbers, str(score.support)])
        return table_lines(rows)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The scores of each label by name, as JSON values."""
        names = ("precision", "recall", "f1", "support")
        return {str(one.label): {name: getattr(one, name) for name in names} for one in self.labels}


def _report(counts: LabelCounts) -> LabelReport:
    numbers = (counts.hits, counts.predicted, counts.gold)
    quantities: tuple[_Quantity, ...] = ("precision", "recall", "f1")
    columns = [_quantity(quantity, *numbers).tolist() for quantity in quantities]
    rows = zip(counts.labels, *columns, counts.gold.tolist(), strict=True)
    averages: tuple[Average, ...] = ("macro", "micro", "weighted")
    means: dict[str, LabelScore] = {}
    for average in averages:
        p, r, f = (float(average_score(quantity, average, *numbers)) for quantity in quantities)
        means[average] = LabelScore(f"{average} average", p, r, f, int(counts.gold.sum()))
    return LabelReport(tuple(LabelScore(*row) for row in rows), means, signature("label-report", counts.n))


# --- measures, for intervals and comparisons ----------------------------------------------------------------


def _equal(references: LabelSequence, predictions: LabelSequence) -> Float[np.ndarray, "n 2"]:
    gold, predicted = as_pairs("accuracy", references, predictions)
    return mean_statistics([float(a == b) for a, b in zip(gold, predicted, strict=True)])


def _equal_sets(references: _LabelSets, predictions: _LabelSets) -> Float[np.ndarray, "n 2"]:
    gold, predicted = _as_sets("subset accuracy", references, predictions)
    return mean_statistics([float(a == b) for a, b in zip(gold, predicted, strict=True)])


ACCURACY = Metric("accuracy", _equal, mean_score)
SUBSET_ACCURACY = Metric("subset-accuracy", _equal_sets, mean_score)


def f1_measure(labels: LabelSequence | None = None, average: Average = "macro") -> Metric:
    """F1 as a function of sums.

    Args:
        labels: the labels to score. They must include all labels of the references and of every compared system. If
            None, those that occur; to compare two systems, fix them by ``measure.over(references, first, second)``.
        average: how the labels are averaged. In a resample the average is over the same labels.
    """

    def as_sets(
        references: LabelSequence, predictions: LabelSequence
    ) -> tuple[list[frozenset[Hashable]], list[frozenset[Hashable]]]:
        gold, predicted = as_pairs("f1", references, predictions)
        return [frozenset({label}) for label in gold], [frozenset({label}) for label in predicted]

    return _f1_measure("f1", labels, average, as_sets)


def multilabel_f1_measure(labels: LabelSequence | None = None, average: Average = "micro") -> Metric:
    """F1 over sets of labels as a function of sums. Arguments as in :func:`f1_measure`."""
    return _f1_measure("multilabel-f1", labels, average, partial(_as_sets, "multilabel f1"))


def _f1_measure(
    name: str,
    labels: LabelSequence | None,
    average: Average,
    as_sets: Callable[[Any, Any], tuple[list[frozenset[Hashable]], list[frozenset[Hashable]]]],
) -> Metric:
    listed = None if labels is None else listed_labels(labels)

    def statistics(references: Any, predictions: Any) -> Float[np.ndarray, "n s"]:
        gold, predicted = as_sets(references, predictions)
        return _rows(gold, predicted, sorted_labels(*gold, *predicted) if listed is None else listed)

    def over(references: Any, *predictions: Any) -> Metric:
        both = [as_sets(references, one) for one in predictions]
        found = sorted_labels(*(labels for pair in both for side in pair for labels in side))
        return _f1_measure(name, found, average, as_sets)

    of_labels = "" if listed is None else f"|labels:{len(listed)}"
    score = partial(_f1_of_sums, average)
    return Metric(f"{name}|average:{average}{of_labels}", statistics, score, over=over if listed is None else None)


def _rows(
    references: Sequence[Collection[Hashable]],
    predictions: Sequence[Collection[Hashable]],
    labels: tuple[Hashable, ...],
) -> Float[np.ndarray, "n s"]:
    """``rows[i]`` is, for example i, whether each label was a hit, was predicted, was in the reference."""
    ids = {label: j for j, label in enumerate(labels)}
    rows = np.zeros((len(references), 3, len(labels)))
    for i, (gold, predicted) in enumerate(zip(references, predictions, strict=True)):
        for kind, found in enumerate((set(gold) & set(predicted), predicted, gold)):
            for label in found:
                if label not in ids:
                    raise DataError(f"Example {i} has the label {label!r}, which is not in labels. Add it to labels.")
                rows[i, kind, ids[label]] = 1
    return rows.reshape(len(references), 3 * len(labels))


def _f1_of_sums(average: Average, sums: Float[np.ndarray, "*batch s"]) -> np.ndarray:
    hits, predicted, gold = np.split(sums, 3, axis=-1)
    return average_score("f1", average, hits, predicted, gold)
