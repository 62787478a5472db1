"""A text classifier with the scikit-learn interface.

model = TextClassifier(model="loglinear").fit(texts, labels)
model.predict(["wake me at six"])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from catena import config as configs
from catena.checkpoint import open_checkpoint, write_checkpoint
from catena.errors import CatenaError, ConfigError, DataError
from catena.randomness import Randomness
from catena.tasks.classify.application import new_model
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.dataset import from_lists, prepare
from catena.tasks.classify.encoding import write_model_files
from catena.tasks.classify.model import Classifier
from catena.tasks.classify.predictor import ClassifyPredictor, load_predictor
from catena.tasks.classify.task import ClassifyTask
from catena.tasks.classify.tree_config import TreeClassifierConfig
from catena.tasks.estimators import (
    BaseTaskEstimator,
    Classes,
    Targets,
    as_targets,
    as_texts,
    nest_keys,
    other_settings,
    read_estimator,
    write_estimator,
)
from catena.tasks.machine import choose_device
from catena.training.loop import train
from catena.training.report import SilentReporter


class TextClassifier(BaseTaskEstimator):
    """Text classifier with the scikit-learn interface.

    Args:
        model: the kind of model: loglinear, perceptron, mlp, cnn, recurrent, convolution or transformer.
        max_epochs: maximum number of passes over the texts; the config's default if None.
        batch_size: texts per step; the config's default if None.
        learning_rate: the model's default if None.
        dev_fraction: fraction of the texts used as dev set for early stopping.
        multilabel: whether each text has a list of labels. Not needed for an indicator matrix of 0 and 1.
        seed: the random seed.
        device: auto, cpu, cuda or mps.
        settings: other config options by their dotted names: ``{"model.embedding.d": 100}``.

    Texts are a list, a generator, an array, a series or a table of one column. So are labels, which may have any type;
    predictions have the same type. None, nan and "" are not valid labels.

    After ``fit``, ``classes_`` has the labels in the order of ``predict_proba``'s columns, ``model_`` is the trained
    model as ``catena.load`` returns it, ``config_`` the complete config, and ``scores_`` has the scores on the dev set.
    """

    _estimator_type = "classifier"

    def __init__(
        self,
        model: str = "cnn",
        *,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        dev_fraction: float = 0.1,
        multilabel: bool = False,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        # Stored unchanged, since scikit-learn's clone compares them by identity.
        self.model = model
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dev_fraction = dev_fraction
        self.multilabel = multilabel
        self.seed = seed
        self.device = device
        self.settings = settings

    # --- training -----------------------------------------------------------------------------------------------------

    def fit(self, X: Iterable[Any], y: Iterable[Any]) -> TextClassifier:
        """Train on texts and labels.

        Args:
            X: the texts.
            y: one label per text, a list of labels per text, or an indicator matrix of 0 and 1.
        """
        texts, targets = as_texts(X), as_targets(y, self.multilabel)
        if len(texts) != len(targets.rows):
            raise DataError(
                f"y must have one label per text ({len(texts)}), got {len(targets.rows)}. Pass as many labels as texts."
            )
        config = self._config(targets.form != "single")
        if isinstance(config.model, TreeClassifierConfig):
            raise ConfigError(
                f"model must be a kind that reads texts, got {self.model!r}, which reads trees. Train it with "
                f"'catena train classify FILE --model {self.model}'."
            )
        classes = Classes.of(targets)
        randomness = Randomness(config.seed)
        device = choose_device(self.device)
        data = prepare(config, randomness, {"train": from_lists(texts, classes.named(targets), "X")})
        task = ClassifyTask(config, data, new_model(config, data, randomness), device, randomness)
        outcome = train(task, config.training, None, randomness, SilentReporter())
        self.scores_ = outcome.scores
        model = task.model
        assert isinstance(model, Classifier)
        self._set_model(ClassifyPredictor(config, data.encoding, data.names, model, device), classes)
        return self

    def _config(self, several: bool) -> ClassifyConfig:
        named = {
            "model.kind": self.model,
            "training.max_epochs": self.max_epochs,
            "batches.batch_size": self.batch_size,
            "training.learning_rate": self.learning_rate,
            "data.dev_fraction": self.dev_fraction,
            "data.multilabel": several,
            "seed": self.seed,
        }
        given = {dotted: value for dotted, value in named.items() if value is not None}
        return configs.parse(ClassifyConfig, nest_keys({**given, **(self.settings or {})}), source="TextClassifier")

    def _set_model(self, model: ClassifyPredictor, classes: Classes) -> None:
        self.model_, self.config_ = model, model.config
        self._classes, self.classes_ = classes, classes.array()
        # A class without a usable text, such as an empty column of an indicator matrix, has no column in the model.
        self._columns = np.array([model.names.id(n) if n in model.names else -1 for n in classes.names], np.int64)

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict(self, X: Iterable[Any]) -> np.ndarray | list[list[Any]]:
        """The label of each text, in the type of the training labels.

        Returns:
            An array of labels; with several labels per text, a list of lists or an indicator matrix, as in ``fit``.
        """
        found = self._predicted(X)
        if self._classes.form == "single":
            return self.classes_[[row[0] for row in found]] if found else self.classes_[:0]
        if self._classes.form == "sets":
            return [[self._classes.values[j] for j in row] for row in found]
        table = np.zeros((len(found), len(self.classes_)), np.int64)
        for i, row in enumerate(found):
            table[i, row] = 1
        return table

    def _predicted(self, X: Iterable[Any]) -> list[list[int]]:
        """The class indices of each text."""
        number = {name: j for j, name in enumerate(self._fitted()._classes.names)}
        found = self.model_.predict(as_texts(X))
        single = self._classes.form == "single"
        return [[number[name] for name in ((one.label,) if single else one.labels)] for one in found]

    def predict_proba(self, X: Iterable[Any]) -> np.ndarray:
        """The probability of every class for each text, with columns as in ``classes_``."""
        table = self._fitted().model_.predict_proba(as_texts(X))
        return np.where(self._columns >= 0, table[:, self._columns], 0.0)

    def score(self, X: Iterable[Any], y: Iterable[Any]) -> float:
        """The accuracy: the fraction of texts whose label, or whose exact set of labels, is correct."""
        found, values = self._predicted(X), self._classes.values
        targets = as_targets(y, self._classes.form == "sets")
        if len(found) != len(targets.rows):
            raise DataError(
                f"y must have one label per text ({len(found)}), got {len(targets.rows)}. Pass as many labels as texts."
            )
        self._check_types(targets)
        pairs = zip(found, targets.rows, strict=True)
        return float(np.mean([{values[j] for j in row} == set(right) for row, right in pairs]))

    def _check_types(self, targets: Targets) -> None:
        """Raise DataError if no label is a class, as when integers are compared with strings."""
        known, given = set(self._classes.values), {label for row in targets.rows for label in row}
        if given and not given & known:
            one, other = next(iter(given)), self._classes.values[0]
            raise DataError(
                f"y must have labels that the model knows, such as {other!r} ({type(other).__name__}), got {one!r} "
                f"({type(one).__name__}). Convert y to the type of classes_."
            )

    # --- saving -------------------------------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the trained model into a new folder, for ``catena predict`` and ``catena.load``."""
        predictor, path = self._fitted().model_, Path(folder)
        if path.exists():
            raise ConfigError(f"{path} exists. Choose another folder.")

        def write(unfinished: Path) -> None:
            write_model_files(unfinished, predictor.config, predictor.names, predictor.encoding)
            write_estimator(unfinished, self.get_params(), self._classes)

        write_checkpoint(path, predictor.model.state_dict(), write)

    @classmethod
    def load(cls, folder: str | PathLike[str], device: str = "auto") -> TextClassifier:
        """Load a model that ``save`` or ``catena train`` wrote.

        Labels have their types from ``fit``; those of ``catena train`` are strings.
        """
        path = open_checkpoint(Path(folder)).folder
        predictor = load_predictor(path, choose_device(device))
        saved = read_estimator(path)
        if saved is None:
            saved = _params_of(predictor.config), Classes.of_names(predictor.labels, predictor.multilabel)
        params = {name: value for name, value in saved[0].items() if name in cls._names()}
        estimator = cls(**{**params, "device": device})
        estimator._set_model(predictor, saved[1])
        return estimator

    def _fitted(self) -> TextClassifier:
        if not hasattr(self, "model_"):
            raise CatenaError("This TextClassifier is not fitted yet. Call fit(texts, labels) first.")
        return self

    # --- scikit-learn -------------------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, multi_output=True),
            classifier_tags=ClassifierTags(multi_label=True),
            input_tags=InputTags(string=True, two_d_array=False),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")


def _params_of(config: ClassifyConfig) -> dict[str, Any]:
    """The arguments of an estimator with the config of a run of ``catena train``."""
    named: dict[str, Any] = {
        "model": config.model.kind,
        "max_epochs": config.training.max_epochs,
        "batch_size": config.batches.batch_size,
        "learning_rate": config.training.learning_rate,
        "dev_fraction": config.data.dev_fraction,
        "multilabel": config.data.multilabel,
        "seed": config.seed,
    }
    usual = TextClassifier(**named)._config(config.data.multilabel)
    return {**named, "settings": other_settings(config, usual)}
