"""Gold labels of texts as ids, including labels that the model does not know.

The classes of a model are the labels of its training data. A dev, test or evaluation file may have others. They get
the ids after those of the model, so that no prediction equals them and every metric counts them as errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from catena.data.vocabulary import Labels
from catena.tasks.unseen import unseen_line

TEXTS, SETS = "texts have a label", "labels of texts are ones"
"""The counted things in :func:`describe_unseen` for one label per text, and for several."""

_Labelists = Sequence[Sequence[str]]
"""The gold labels of each text."""


def find_unseen(labels: Iterable[Sequence[str]], names: Labels) -> tuple[str, ...]:
    """Return the labels that are not in ``names``, without duplicates, sorted."""
    return Labels.count([label for label in some if label not in names] for some in labels).names


def encode_labels(labels: _Labelists, names: Sequence[str], multilabel: bool) -> np.ndarray:
    """Return the class of each text, or a row of 0 and 1 over ``names`` for each text if ``multilabel``."""
    ids = {name: i for i, name in enumerate(names)}
    if not multilabel:
        return np.array([ids[label] for (label,) in labels], np.int64)
    rows = np.zeros((len(labels), len(names)), np.float32)
    for i, some in enumerate(labels):
        rows[i, [ids[label] for label in some]] = 1.0
    return rows


def describe_unseen(labels: Iterable[Sequence[str]], names: Labels, where: str, what: str) -> list[str]:
    """Return a line about gold labels that are not in ``names``, or an empty list if there are none.

    Args:
        labels: the gold labels of each text.
        names: the classes of the model.
        where: the data of the labels, such as ``"this file"``.
        what: what is counted, such as ``"texts have a label"``.
    """
    line = unseen_line(Counter(label for some in labels for label in some if label not in names), where, what)
    return [line] if line else []
