"""A tagger with the scikit-learn interface.

tagger = Tagger(structure="crf").fit([["Anna", "sleeps"]], [["B-PER", "O"]])
tagger.predict([["Bob", "sleeps"]])
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.errors import CatenaError, ConfigError, DataError
from catena.tasks.application import PredictOptions
from catena.tasks.estimators import (
    BaseTaskEstimator,
    Classes,
    Targets,
    is_missing,
    nest_keys,
    other_settings,
    read_estimator,
    write_estimator,
)
from catena.tasks.tag.application import TagApplication
from catena.tasks.tag.config import TagConfig
from catena.tasks.tag.predictor import TagPredictor
from catena.tasks.tag.scoring import build_metric, default_metric
from catena.training.report import SilentReporter

_Sentences = Iterable[Iterable[str]]
Tags = Iterable[Iterable[Any]]


class Tagger(BaseTaskEstimator):
    """Tagger with the scikit-learn interface: lists of words in, lists of tags out.

    Args:
        model: the kind of model: neural, features or hmm.
        structure: how tags depend on each other: crf, softmax, memm, perceptron, margin or semimarkov; the model's
            default if None.
        max_epochs: maximum number of passes over the sentences; the config's default if None.
        dev_fraction: fraction of the sentences used as dev set for early stopping.
        seed: the random seed.
        device: auto, cpu, cuda or mps.
        settings: other config options by their dotted names: ``{"model.encoder.d": 50}``.

    Tags are strings or integers; predictions have the same type.

    After ``fit``, ``classes_`` has the tags, ``model_`` is the trained model as ``catena.load`` returns it, and
    ``scores_`` has the scores on the dev set.
    """

    def __init__(
        self,
        model: str = "neural",
        structure: str | None = None,
        *,
        max_epochs: int | None = None,
        dev_fraction: float = 0.1,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.structure, self.max_epochs = model, structure, max_epochs
        self.dev_fraction, self.seed, self.device, self.settings = dev_fraction, seed, device, settings
        self.model_: TagPredictor | None = None
        self.scores_: dict[str, float] = {}

    def fit(self, X: _Sentences, y: Tags) -> Tagger:
        """Train on sentences and tags.

        Args:
            X: sentences, each a list of words.
            y: for each sentence, the tags of its words.
        """
        words, targets = _paired(X, y)
        classes = Classes.of(targets)
        self._home = tempfile.TemporaryDirectory(prefix="catena-tagger-")
        file, run = Path(self._home.name) / "train.conll", Path(self._home.name) / "run"
        file.write_text(_columns(words, classes.named(targets)), encoding="utf-8")
        trained = TagApplication().train(self._config(file), run, SilentReporter())
        self.scores_ = trained.scores
        return self._with(run, classes)

    def predict(self, X: _Sentences) -> list[list[Any]]:
        """The tags of each sentence."""
        return [self._values_of(found.tags) for found in self._fitted().predict([list(words) for words in X])]

    def predict_marginals(self, X: _Sentences) -> list[list[float]]:
        """The probability of each tag that :meth:`predict` returns."""
        options = PredictOptions(confidence=True)
        return [list(found.probabilities or ()) for found in self._fitted().predict([list(w) for w in X], options)]

    def score(self, X: _Sentences, y: Tags) -> float:
        """Span F1 if the tags encode spans, otherwise the accuracy over words."""
        words, targets = _paired(X, y)
        tagging = self._fitted().tagging
        found = [list(one.tags) for one in self._fitted().predict(words)]
        names = dict(zip(self._classes.values, self._classes.names, strict=True))
        right = [[names.get(tag, str(tag)) for tag in row] for row in targets.rows]
        return float(build_metric(default_metric(tagging), tagging)(right, found))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the trained model into a new folder, for ``catena predict`` and ``catena.load``."""
        self._fitted()
        if Path(folder).exists():
            raise ConfigError(f"{folder} exists. Choose another folder.")
        shutil.copytree(self._source, folder)
        write_estimator(Path(folder), self.get_params(), self._classes)

    @classmethod
    def load(cls, folder: str | PathLike[str], device: str = "auto") -> Tagger:
        """Load a model that ``save`` or ``catena train`` wrote."""
        path = open_checkpoint(Path(folder)).folder
        saved = read_estimator(path)
        if saved is not None:
            params = {name: value for name, value in saved[0].items() if name in cls._names()}
            return cls(**{**params, "device": device})._with(path, saved[1])
        config = configs.load(TagConfig, path / CONFIG)
        return cls(**{**_params_of(config), "device": device})._with(path, None)

    def _with(self, run: Path, classes: Classes | None) -> Tagger:
        self._source = open_checkpoint(run).folder
        predictor = TagApplication().load(run, self.device)
        assert isinstance(predictor, TagPredictor)
        self.model_ = predictor
        self._classes = classes or Classes.of_names(predictor.tagging.names.names, several=False)
        self.classes_ = self._classes.array()
        return self

    def _values_of(self, tags: Sequence[str]) -> list[Any]:
        """The model's tags in the user's type; a tag that is not in ``fit``'s data, such as a lemma, is unchanged."""
        values = dict(zip(self._classes.names, self._classes.values, strict=True))
        return [values.get(tag, tag) for tag in tags]

    def _fitted(self) -> TagPredictor:
        if self.model_ is None:
            raise CatenaError("This Tagger is not fitted yet. Call fit(sentences, tags) first.")
        return self.model_

    def _config(self, file: Path) -> TagConfig:
        named = {
            "data.train": [str(file)],
            "data.format": "columns",
            "data.dev_fraction": self.dev_fraction,
            "model.kind": self.model,
            "model.structure": self.structure,
            "training.max_epochs": self.max_epochs,
            "machine.device": self.device,
            "seed": self.seed,
        }
        given = {dotted: value for dotted, value in named.items() if value is not None}
        return configs.parse(TagConfig, nest_keys({**given, **(self.settings or {})}), source="Tagger")


def _params_of(config: TagConfig) -> dict[str, Any]:
    """The arguments of a Tagger with the config of a run of ``catena train``."""
    named: dict[str, Any] = {
        "model": config.model.kind,
        "structure": getattr(config.model, "structure", None),
        "max_epochs": config.training.max_epochs,
        "dev_fraction": config.data.dev_fraction,
        "seed": config.seed,
    }
    usual = Tagger(**named)._config(Path("train.conll"))
    return {**named, "settings": other_settings(config, usual)}


def _paired(X: _Sentences, y: Tags) -> tuple[list[list[str]], Targets]:
    """Sentences and the tags of their words. Raise DataError if the numbers differ."""
    sentences, rows = [list(words) for words in X], [list(tags) for tags in y]
    if len(sentences) != len(rows):
        raise DataError(
            f"y must have one list of tags per sentence ({len(sentences)}), got {len(rows)}. Pass as many lists as "
            f"sentences."
        )
    for i, (words, tags) in enumerate(zip(sentences, rows, strict=True)):
        if len(words) != len(tags):
            raise DataError(
                f"sentence {i} must have one tag per word ({len(words)}), got {len(tags)}. Pass as many tags as words."
            )
        for value in (*words, *(str(tag) if _is_integer(tag) else tag for tag in tags)):
            if is_missing(value) or not isinstance(value, str) or any(sign in value for sign in "\t\n\r"):
                raise DataError(
                    f"words and tags of sentence {i} must be strings without tabs and line ends (tags may be "
                    f"integers), got {value!r}. Replace it."
                )
    return sentences, Targets(rows, "sets")


def _is_integer(tag: object) -> bool:
    return isinstance(tag, int | np.integer) and not isinstance(tag, bool)


def _columns(X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> str:
    """Sentences as the text of a column file, since training reads files."""
    pairs = zip(X, y, strict=True)
    blocks = ["".join(f"{word}\t{tag}\n" for word, tag in zip(*pair, strict=True)) for pair in pairs if pair[0]]
    return "\n".join(blocks) + "\n"
