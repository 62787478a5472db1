"""A classifier in the manner of scikit-learn: lists of strings in, labels out.

model = TextClassifier(model="loglinear").fit(texts, labels)
model.predict(["wake me at six"])
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from catena import config as configs
from catena.checkpoint import write_checkpoint
from catena.errors import CatenaError, ConfigError, DataError
from catena.randomness import Randomness
from catena.tasks.classify.application import new_model
from catena.tasks.classify.dataset import from_lists, prepare
from catena.tasks.classify.model import Classifier
from catena.tasks.classify.predictor import ClassifyPredictor, load_predictor
from catena.tasks.classify.settings import ClassifyConfig
from catena.tasks.classify.task import ClassifyTask
from catena.tasks.classify.tree_settings import TreeModel
from catena.tasks.machine import choose_device
from catena.training.loop import train
from catena.training.report import SilentReporter


class TextClassifier:
    """Texts into classes.

    Args:
        model: the kind of model: loglinear, perceptron, mlp, cnn, recurrent, convolution or transformer.
        max_epochs: passes over the texts, at most; the config's default if None.
        batch_size: texts in one step; the config's default if None.
        learning_rate: size of the steps; what suits the model if None.
        dev_share: share of the texts that is held out to decide when to stop.
        several_labels: each text has a list of labels.
        seed: of everything that is drawn at random.
        device: auto, cpu, cuda, mps.
        settings: any other keys of the config, by their dotted names: ``{"model.embedding.d": 100}``.

    After ``fit``: ``classes_`` are the labels in the order of ``predict_proba``'s columns, ``model_`` is the trained
    model that ``catena.load`` would give, ``config_`` the filled config, ``scores_`` those on the texts held out.
    """

    _estimator_type = "classifier"

    def __init__(
        self,
        model: str = "cnn",
        *,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        dev_share: float = 0.1,
        several_labels: bool = False,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        # Kept as they were given, for scikit-learn's clone compares them by identity.
        self.model = model
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dev_share = dev_share
        self.several_labels = several_labels
        self.seed = seed
        self.device = device
        self.settings = settings

    # --- learning -----------------------------------------------------------------------------------------------------

    def fit(self, X: Sequence[str], y: Sequence[Any]) -> TextClassifier:
        """Train on texts and their labels, which may be any values that are told apart when written as text."""
        texts = _texts(X)
        if len(texts) != len(y):
            raise DataError(f"fit needs one label for each text, and got {len(texts)} texts and {len(y)} labels")
        config = self._config()
        if isinstance(config.model, TreeModel):
            raise ConfigError(
                f"TextClassifier reads texts, and a model of kind {self.model!r} reads trees: train it by "
                f"'catena train classify FILE --model {self.model}'"
            )
        rows = _rows(y, self.several_labels)
        self._values = {str(label): label for row in rows for label in row}
        named = [[str(label) for label in row] for row in rows]
        randomness = Randomness(config.seed)
        device = choose_device(self.device)
        data = prepare(config, randomness, {"train": from_lists(texts, named, "X")})
        task = ClassifyTask(config, data, new_model(config, data, randomness), device, randomness)
        outcome = train(task, config.training, None, randomness, SilentReporter())
        self._task = task
        self.config_, self.scores_ = config, outcome.scores
        model = task.model
        assert isinstance(model, Classifier)
        self._set_model(ClassifyPredictor(config, data.encoding, data.names, model, device))
        return self

    def _config(self) -> ClassifyConfig:
        values: dict[str, Any] = {}
        named = {
            "model.kind": self.model,
            "training.max_epochs": self.max_epochs,
            "batches.batch_size": self.batch_size,
            "training.learning_rate": self.learning_rate,
            "data.dev_share": self.dev_share,
            "data.several_labels": self.several_labels,
            "seed": self.seed,
        }
        for dotted, value in {**named, **(self.settings or {})}.items():
            if value is None and dotted in named:
                continue
            here = values
            *sections, key = dotted.split(".")
            for section in sections:
                here = here.setdefault(section, {})
            here[key] = value
        return configs.parse(ClassifyConfig, values, source="TextClassifier")

    def _set_model(self, model: ClassifyPredictor) -> None:
        self.model_ = model
        self.classes_ = np.array([self._values[name] for name in model.labels])

    # --- asking -------------------------------------------------------------------------------------------------------

    def predict(self, X: Sequence[str]) -> np.ndarray | list[list[Any]]:
        """The label of each text, as the labels were given; a list of them where a text may have several."""
        found = self._fitted().predict(_texts(X))
        if self.several_labels:
            return [[self._values[name] for name in one.labels] for one in found]
        return np.array([self._values[one.label] for one in found])

    def predict_proba(self, X: Sequence[str]) -> np.ndarray:
        """The probability of every class for each text."""
        return self._fitted().predict_proba(_texts(X))

    def score(self, X: Sequence[str], y: Sequence[Any]) -> float:
        """The share of texts whose label is right (whose set of labels is right as a whole)."""
        found = self.predict(X)
        if len(found) != len(y):
            raise DataError(f"score needs one label for each text, and got {len(found)} texts and {len(y)} labels")
        if self.several_labels:
            return float(np.mean([set(a) == set(b) for a, b in zip(found, _rows(y, True), strict=True)]))
        return float(np.mean([a == b for a, b in zip(found, y, strict=True)]))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the trained model into a new folder, which ``catena predict`` and ``catena.load`` take."""
        self._fitted()
        path = Path(folder)
        if path.exists():
            raise ConfigError(f"{path} exists: choose another folder")
        write_checkpoint(path, self.model_.model.state_dict(), self._task.save)

    @classmethod
    def load(cls, folder: str | PathLike[str], device: str = "auto") -> TextClassifier:
        """Read a model that ``save`` or ``catena train`` wrote. Its labels are strings."""
        predictor = load_predictor(Path(folder), choose_device(device))
        config = predictor.config
        estimator = cls(config.model.kind, several_labels=config.data.several_labels, seed=config.seed, device=device)
        estimator._values = {name: name for name in predictor.labels}
        estimator.config_ = config
        estimator._set_model(predictor)
        return estimator

    def _fitted(self) -> ClassifyPredictor:
        if not hasattr(self, "model_"):
            raise CatenaError("this TextClassifier is not fitted yet: call fit(texts, labels) first")
        return self.model_

    # --- scikit-learn -------------------------------------------------------------------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments it was made with."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> TextClassifier:
        """Change arguments; ``fit`` uses them."""
        for name, value in params.items():
            if name not in self._names():
                raise ConfigError(f"TextClassifier has no argument {name!r}: it has {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(string=True, two_d_array=False),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __repr__(self) -> str:
        defaults = {n: p.default for n, p in inspect.signature(type(self).__init__).parameters.items()}
        given = {n: v for n, v in self.get_params().items() if v != defaults[n]}
        return f"TextClassifier({', '.join(f'{n}={v!r}' for n, v in given.items())})"


def _rows(y: Sequence[Any], several: bool) -> list[list[Any]]:
    """The labels of each text as a list."""
    for i, labels in enumerate(y):
        if several and isinstance(labels, str):
            raise DataError(
                f"label {i} is {labels!r}, and with several_labels each text has a list of labels: [{labels!r}]"
            )
        if not several and isinstance(labels, list | set):
            raise DataError(
                f"label {i} is a {type(labels).__name__}, {labels!r}: say several_labels=True, or give one label"
            )
    return [list(labels) for labels in y] if several else [[label] for label in y]


def _texts(X: Any) -> list[str]:
    if isinstance(X, str):
        raise DataError("a list of texts is needed, and one text was given: put it in a list")
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {i} is not a string but {type(text).__name__}: give a list of strings")
    return texts
