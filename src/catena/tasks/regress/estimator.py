"""Regression as an estimator of scikit-learn. Tested in tests/tasks/regress/test_estimator.py."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from catena.data.examples import SourceLocation
from catena.errors import DataError
from catena.tasks.estimator import Estimator, is_path
from catena.tasks.regress.data import RegressExample
from catena.tasks.regress.predict import ValuePrediction
from catena.tasks.regress.task import RegressTask
from catena.tasks.targets import as_items, as_texts, check_same_length

if TYPE_CHECKING:
    from catena.training.report import Reporter


class Regressor(Estimator, task="regress"):
    """Regression: texts or columns of numbers in, numbers with intervals out.

    model = Regressor("ridge").fit(texts, values)
    model.predict(["two windows and a garden"])

    Inputs are texts, as a list, a generator, an array or a series; or a table of numbers with one row for each example,
    as an array or a data frame. A file may have both. Values are finite numbers.
    """

    _names: tuple[str, ...]

    def fit(self, x: Any, y: Any = None, sample_weight: Any = None, *, reporter: Reporter | None = None) -> Self:
        """Train on examples.

        Args:
            x: the texts, the rows of numbers, or the ``Path`` of a file with inputs and values.
            y: the values, one for each input; None if ``x`` is a path.
            sample_weight: a factor of the loss of each example. An integer counts as that number of equal examples, but
                the vocabulary and the dev set count each example once. Examples of weight 0 are left out.
            reporter: receives the progress; None for silence.
        """
        x = self._start(x)
        return self._fit(x, self._weighted_examples(x, y, sample_weight), reporter)

    def config_values(self) -> dict[str, Any]:
        values = super().config_values()
        if getattr(self, "_names", ()):
            values.setdefault("data", {})["number_columns"] = list(self._names)
        return values

    def predict(self, x: Any, *, return_std: bool = False) -> Any:  # type: ignore[override]
        """The predicted value of each input; :meth:`predict_stream` also has intervals.

        Args:
            x: the texts, the rows of numbers, or the ``Path`` of a file.
            return_std: return the standard deviations too.

        Returns:
            An array of values; with ``return_std`` a pair of arrays.
        """
        found = list(self.predict_stream(x))
        values, deviations = (np.array([getattr(one, name) for one in found], np.float64) for name in ("value", "std"))
        return (values, deviations) if return_std else values

    def predict_stream(self, x: Any, *, level: float = 0.95) -> Iterator[ValuePrediction]:  # type: ignore[override]
        """Predictions with their uncertainty for any number of inputs, in order, with constant memory.

        Args:
            x: the texts, the rows of numbers, or the ``Path`` of a file.
            level: probability of the interval from ``low`` to ``high``.
        """
        return super().predict_stream(x, level=level)

    def score(self, x: Any, y: Any = None) -> float:
        """R2, the explained fraction of the variance of the values."""
        return self.evaluate(x, y).scores()["r2"]

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _items(self, x: Any) -> Any:
        return x  # columns of numbers are a table

    def _inputs(self, x: Any) -> Any:
        return super()._inputs(x) if is_path(x) or isinstance(x, str) else self._rows(x, None)

    def _examples(self, x: Any, y: Any) -> list[RegressExample]:
        values = _as_values(y)
        examples = self._rows(x, values)
        check_same_length(examples, values, "input", "value")
        return examples

    def _rows(self, x: Any, values: Sequence[float] | None) -> list[RegressExample]:
        """The examples of texts, or of a table of numbers, whose columns are remembered while fitting."""
        if isinstance(x, Mapping):
            x = as_items(x)  # raises
        if hasattr(x, "__array__") and not hasattr(x, "shape"):
            x = np.asarray(x)
        given = x if hasattr(x, "shape") or hasattr(x, "columns") else list(x)
        if _is_table(given):
            table, names = _as_table(given)
            self._check_names(names, is_named=hasattr(given, "columns"))
            texts = [""] * len(table)
        else:
            texts = as_texts(given)
            table, names = np.zeros((len(texts), 0)), ()
            self._check_names(names)
        gold = [math.nan] * len(texts) if values is None else list(values)[: len(texts)]
        gold += [math.nan] * (len(texts) - len(gold))
        return [
            RegressExample(text, tuple(row), value, SourceLocation("fit", i))
            for i, (text, row, value) in enumerate(zip(texts, table.tolist(), gold, strict=True), start=1)
        ]

    def _check_names(self, names: tuple[str, ...], is_named: bool = False) -> None:
        """Remember the number columns of training, and raise DataError for others afterwards."""
        if not hasattr(self, "_names"):
            task = getattr(self, "task_", None)
            self._names = task.encoding.names if isinstance(task, RegressTask) else names
        if len(names) != len(self._names):
            need = f"{len(self._names)} columns of numbers" if self._names else "texts"
            raise DataError(f"X must have {need}, as in training, got {len(names)} columns of numbers. Match them.")
        if is_named and names != self._names and self._names != _numbered(len(names)):
            raise DataError(
                f"X must have the columns {', '.join(self._names)} in this order, as in training, got "
                f"{', '.join(names)}. Reorder or rename them."
            )

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(string=True, two_d_array=True),
        )


def _is_table(x: Any) -> bool:
    """Whether inputs are rows of numbers: a table of two axes, or a list of lists."""
    shape = getattr(x, "shape", None)
    if isinstance(shape, tuple):
        if len(shape) != 2 or 0 in shape:
            return len(shape) == 2 and shape[1] > 1
        return not all(isinstance(value, str) for value in np.asarray(x)[:1].ravel())
    return len(x) > 0 and not isinstance(x[0], str) and hasattr(x[0], "__len__")


def _as_table(x: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """The numbers of a table, and the names of its columns: those of a data frame, or numbers from 1."""
    columns = getattr(x, "columns", None)
    try:
        table = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise DataError("X must be texts or rows of numbers of equal length, got other values. Convert X.") from None
    if not np.isfinite(table).all():
        i, j = np.argwhere(~np.isfinite(table))[0].tolist()
        raise DataError(f"X must be finite, got {table[i, j]} in row {i}, column {j}. Fill or drop such rows.")
    return table, tuple(map(str, columns)) if columns is not None else _numbered(table.shape[1])


def _numbered(n: int) -> tuple[str, ...]:
    """The names of columns without names."""
    return tuple(map(str, range(1, n + 1)))


def _as_values(y: Any) -> list[float]:
    if y is None:
        raise DataError("y must be a list of numbers, got None. Pass one value for each input.")
    try:
        values = np.asarray(y if hasattr(y, "__array__") else list(y), np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise DataError(f"y must be numbers, got {y!r:.60}. Use TextClassifier for labels.") from None
    if not np.isfinite(values).all():
        i = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"y must be finite, got {values[i]} at {i}. Drop such examples.")
    return values.tolist()
