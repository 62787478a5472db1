"""The text classifier as an estimator of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from catena import config as configs
from catena.errors import ConfigError, DataError
from catena.tasks.classify.config import ClassifyOptions
from catena.tasks.classify.data import from_lists
from catena.tasks.classify.predict import ClassPrediction
from catena.tasks.estimator import Estimator, is_path
from catena.tasks.targets import Classes, Targets, as_targets, as_texts, check_same_length

if TYPE_CHECKING:
    from catena.training.report import Reporter

_TREE_KINDS = ("tree_lstm", "recursive", "mv_rnn", "rntn")


class TextClassifier(Estimator, task="classify"):
    """Text classifier: texts in, labels and probabilities out.

    model = TextClassifier("loglinear").fit(texts, labels)
    model.predict(["wake me at six"])

    Texts are a list, a generator, an array, a series or a table of one column. So are labels, which may have any type;
    predictions have the same type. None, nan and "" are not valid labels. An indicator matrix of 0 and 1, or lists of
    labels with ``multilabel=True``, give several labels to a text.

    After ``fit``, ``classes_`` has the labels in the order of the columns of ``predict_proba``.
    """

    _classes: Classes

    def fit(self, x: Any, y: Any = None, sample_weight: Any = None, *, reporter: Reporter | None = None) -> Self:
        """Train on examples.

        Args:
            x: the texts, or the ``Path`` of a file with texts and labels.
            y: the labels, one for each text; None if ``x`` is a path.
            sample_weight: a factor of the loss of each text. An integer counts as that number of equal texts, but the
                vocabulary and the dev set count each text once. Texts of weight 0 are left out.
            reporter: receives the progress; None for silence.
        """
        x = self._start(x)
        return self._fit(x, self._weighted_examples(x, y, sample_weight), reporter)

    def _prepare(self, x: Any) -> Any:
        if getattr(self, "model", None) in _TREE_KINDS:
            raise ConfigError(
                f"model must be a kind that reads texts, got {self.model!r}, which reads trees. Train it with "  # type: ignore[attr-defined]
                f"'catena train classify FILE --model {self.model}'."  # type: ignore[attr-defined]
            )
        return x

    def config_values(self) -> dict[str, Any]:
        values = super().config_values()
        if hasattr(self, "_classes") and self._classes.form != "single":
            values.setdefault("data", {})["multilabel"] = True
        return values

    def _examples(self, x: Any, y: Any) -> list[Any]:
        several = self._classes.form == "sets" if hasattr(self, "_classes") else bool(self.multilabel)  # type: ignore[attr-defined]
        texts, targets = self._as_inputs(x), as_targets(y, several)
        check_same_length(texts, targets.rows, "text", "label")
        if not hasattr(self, "_classes"):
            self._classes = Classes.of(targets)
        else:
            self._check_types(targets)
        return self._labeled(texts, self._classes.named(targets))

    def _as_inputs(self, x: Any) -> list[Any]:
        return as_texts(x)

    def _labeled(self, inputs: Sequence[Any], labels: Iterable[Sequence[str]]) -> list[Any]:
        """The examples of inputs and the names of their classes."""
        return list(from_lists(inputs, labels, "fit"))

    def _set_state(self, state: Mapping[str, Any] | None) -> None:
        task: Any = self.task_
        if state is not None:
            self._classes = Classes.from_json(state["classes"])
        elif not hasattr(self, "_classes"):
            self._classes = Classes.of_names(task.labels, task.multilabel)
        self.classes_ = self._classes.array()
        # A class without a usable text, such as an empty column of an indicator matrix, has no column in the model.
        names = task.names
        self._columns = np.array([names.id(n) if n in names else -1 for n in self._classes.names], np.int64)

    def _state(self) -> Mapping[str, Any]:
        return {"classes": self._classes.to_json()}

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict(  # type: ignore[override]
        self, x: Any, *, threshold: float | None = None
    ) -> np.ndarray | list[list[Any]]:
        """The label of each text, in the type of the training labels; :meth:`predict_stream` has the probabilities.

        Args:
            x: the texts, or the ``Path`` of a file.
            threshold: predict only labels of at least this probability; 0.5 for each label if a text may have several.

        Returns:
            An array of labels; with several labels per text, a list of lists or an indicator matrix, as in ``fit``.
        """
        values = dict(zip(self._fitted_classes().names, self._classes.values, strict=True))
        names = self._predict_names(x, threshold)
        if self._classes.form == "single":
            return self._as_array([values[row[0]] if row else None for row in names])
        labels = [[values[name] for name in row] for row in names]
        if self._classes.form == "sets":
            return labels
        table = np.zeros((len(labels), len(self.classes_)), np.int64)
        for i, row in enumerate(labels):
            table[i, row] = 1
        return table

    def _as_array(self, single: list[Any]) -> np.ndarray:
        """Labels in the type of the training labels; None for a text without one."""
        found = np.empty(len(single), object)
        found[:] = single
        return found if None in single else found.astype(self.classes_.dtype)

    def _predict_names(self, x: Any, threshold: float | None) -> Iterable[Sequence[str]]:
        """The names of the predicted classes of each text, without their probabilities if the model has a way."""
        predict_labels = getattr(self._fitted(), "predict_labels", None)
        if predict_labels is None or is_path(x) or isinstance(x, str):
            return (one.labels for one in self.predict_stream(x, threshold=threshold))
        items = list(self._inputs(x))
        if not all(isinstance(item, str) for item in items):
            return (one.labels for one in self.predict_stream(items, threshold=threshold))
        options = configs.parse(ClassifyOptions, {"threshold": threshold}, source="predict")
        return predict_labels(items, options.threshold)

    def predict_stream(  # type: ignore[override]
        self, x: Any, *, n_best: int = 1, threshold: float | None = None, scores: bool = False
    ) -> Iterator[ClassPrediction]:
        """Predictions with probabilities for any number of texts, in order, with constant memory.

        Args:
            x: the texts, or the ``Path`` of a file.
            n_best: number of most probable labels in ``n_best``.
            threshold: predict only labels of at least this probability.
            scores: add the log-probability of the label.
        """
        return super().predict_stream(x, n_best=n_best, threshold=threshold, scores=scores)

    def predict_proba(self, x: Any) -> np.ndarray:
        """The probability of every class for each text, with columns as in ``classes_``."""
        return np.exp(self.predict_log_proba(x))

    def predict_log_proba(self, x: Any) -> np.ndarray:
        """The log-probability of every class for each text, with columns as in ``classes_``."""
        self._fitted()
        task: Any = self.task_
        table = task.log_probabilities(self._as_inputs(x))
        return np.where(self._columns >= 0, table[:, self._columns], -np.inf)

    def decision_function(self, x: Any) -> np.ndarray:
        """Log-probabilities; for two classes, the log odds of the second."""
        table = self.predict_log_proba(x)
        return table[:, 1] - table[:, 0] if table.shape[1] == 2 and self._classes.form == "single" else table

    def score(self, x: Any, y: Any = None) -> float:
        """The accuracy: the fraction of texts whose label, or whose exact set of labels, is correct."""
        return self.evaluate(x, y).scores()["accuracy"]

    def _inputs(self, x: Any) -> Iterable[Any]:
        found = super()._inputs(x)
        return self._as_inputs(found) if hasattr(found, "shape") else found

    def _fitted_classes(self) -> Classes:
        self._fitted()
        return self._classes

    def _check_types(self, targets: Targets) -> None:
        """Raise DataError if no label is a class, as when integers are compared with strings."""
        known, given = set(self._classes.values), {label for row in targets.rows for label in row}
        if given and not given & known:
            one, other = next(iter(given)), self._classes.values[0]
            raise DataError(
                f"y must have labels that the model knows, such as {other!r} ({type(other).__name__}), got {one!r} "
                f"({type(one).__name__}). Convert y to the type of classes_."
            )

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, multi_output=True),
            classifier_tags=ClassifierTags(multi_label=True),
            input_tags=InputTags(string=True, two_d_array=False),
        )
