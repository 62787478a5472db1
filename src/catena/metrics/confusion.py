"""Confusion tables of reference and predicted labels."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from catena.errors import DataError
from catena.metrics.classification import listed_labels, sorted_labels
from catena.metrics.measure import LabelSequence, as_pairs, signature
from catena.metrics.text_table import table_lines


@dataclass(frozen=True, eq=False)
class ConfusionTable:
    """The number ``counts[i, j]`` of examples with reference ``labels[i]`` and prediction ``labels[j]``."""

    labels: tuple[Hashable, ...]
    counts: Int[np.ndarray, "k k"]

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def signature(self) -> str:
        return signature("confusion", self.n)

    def mistakes(self, most: int = 10) -> list[tuple[Hashable, Hashable, int]]:
        """The most frequent wrong (reference, prediction, count), with ties in the order of labels."""
        wrong = self.counts * (1 - np.eye(len(self.labels), dtype=np.int64))
        order = np.argsort(-wrong.ravel(), kind="stable")[: max(most, 0)]
        cells = [divmod(int(cell), len(self.labels)) for cell in order]
        return [(self.labels[i], self.labels[j], int(wrong[i, j])) for i, j in cells if wrong[i, j]]

    def lines(self) -> list[str]:
        """Fixed-width text with totals: a row for each reference, a column for each prediction."""
        names = [str(label) for label in self.labels]
        rows = [["reference \\ predicted", *names, "total"]]
        for name, row in zip(names, self.counts, strict=True):
            rows.append([name, *map(str, row), str(row.sum())])
        rows.append(["total", *map(str, self.counts.sum(0)), str(self.n)])
        return table_lines(rows)


def confusion_table(
    references: LabelSequence, predictions: LabelSequence, labels: LabelSequence | None = None
) -> ConfusionTable:
    """Count pairs of reference and prediction.

    Args:
        references: the correct labels.
        predictions: the predicted labels, one for each reference.
        labels: the order of rows and columns, which must include all labels that occur; sorted if None.
    """
    gold, predicted = as_pairs("a confusion table", references, predictions)
    names = sorted_labels(gold, predicted) if labels is None else listed_labels(labels)
    ids = {label: i for i, label in enumerate(names)}
    if unknown := [label for label in dict.fromkeys((*gold, *predicted)) if label not in ids]:
        raise DataError(f"The label {unknown[0]!r} is not in labels. Add it to labels.")
    cells = [ids[a] * len(ids) + ids[b] for a, b in zip(gold, predicted, strict=True)]
    counts = np.bincount(cells, minlength=len(ids) ** 2).astype(np.int64)
    return ConfusionTable(names, counts.reshape(len(ids), len(ids)))
