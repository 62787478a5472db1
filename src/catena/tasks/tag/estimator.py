"""A tagger in the manner of scikit-learn: lists of words in, lists of tags out.

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
    """A tag for each word.

    Args:
        model: the kind of model: neural, features or hmm.
        structure: how tags are tied together: crf, softmax, memm, perceptron, margin or semimarkov; the model's own
            choice if None.
        max_epochs: passes over the sentences, at most; the config's default if None.
        dev_fraction: share of the sentences that is held out to decide when to stop.
        seed: of everything that is drawn at random.
        device: auto, cpu, cuda, mps.
        settings: any other keys of the config, by their dotted names: ``{"model.encoder.d": 50}``.

    Tags are strings or integers, and come back as they were given.

    After ``fit``: ``classes_`` are the tags, ``model_`` is what ``catena.load`` would give, ``scores_`` are those on
    the sentences held out.
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
        """Train on sentences, each a list of words, and the tags of their words."""
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
        """The probability of each tag that :meth:`predict` gives."""
        asking = PredictOptions(confidence=True)
        return [list(found.probabilities or ()) for found in self._fitted().predict([list(w) for w in X], asking)]

    def score(self, X: _Sentences, y: Tags) -> float:
        """F1 of spans where tags mark spans, otherwise the share of right words."""
        words, targets = _paired(X, y)
        tagging = self._fitted().tagging
        found = [list(one.tags) for one in self._fitted().predict(words)]
        names = dict(zip(self._classes.values, self._classes.names, strict=True))
        right = [[names.get(tag, str(tag)) for tag in row] for row in targets.rows]
        return float(build_metric(default_metric(tagging), tagging)(right, found))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the trained model into a new folder, which ``catena predict`` and ``catena.load`` take."""
        self._fitted()
        if Path(folder).exists():
            raise ConfigError(f"{folder} exists: choose another folder")
        shutil.copytree(self._source, folder)
        write_estimator(Path(folder), self.get_params(), self._classes)

    @classmethod
    def load(cls, folder: str | PathLike[str], device: str = "auto") -> Tagger:
        """Read a model that ``save`` or ``catena train`` wrote."""
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
        """Tags of the model as they were given; one that was never given, such as a lemma, as it is."""
        values = dict(zip(self._classes.names, self._classes.values, strict=True))
        return [values.get(tag, tag) for tag in tags]

    def _fitted(self) -> TagPredictor:
        if self.model_ is None:
            raise CatenaError("this Tagger is not fitted yet: call fit(sentences, tags) first")
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
    """The arguments with which a Tagger would have the config of a run of ``catena train``."""
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
    """Sentences and the tags of their words, which must be as many."""
    sentences, rows = [list(words) for words in X], [list(tags) for tags in y]
    if len(sentences) != len(rows):
        raise DataError(
            f"there must be tags for each sentence, and there are {len(sentences)} sentences and {len(rows)} of tags"
        )
    for i, (words, tags) in enumerate(zip(sentences, rows, strict=True)):
        if len(words) != len(tags):
            raise DataError(f"sentence {i} has {len(words)} words and {len(tags)} tags: each word needs one")
        for value in (*words, *(str(tag) if _is_integer(tag) else tag for tag in tags)):
            if is_missing(value) or not isinstance(value, str) or any(sign in value for sign in "\t\n\r"):
                raise DataError(
                    f"sentence {i} has {value!r}: words are strings without tabs and line ends, tags are such strings "
                    f"or integers"
                )
    return sentences, Targets(rows, "sets")


def _is_integer(tag: object) -> bool:
    return isinstance(tag, int | np.integer) and not isinstance(tag, bool)


def _columns(X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> str:
    """Sentences as a column file, for training reads files."""
    pairs = zip(X, y, strict=True)
    blocks = ["".join(f"{word}\t{tag}\n" for word, tag in zip(*pair, strict=True)) for pair in pairs if pair[0]]
    return "\n".join(blocks) + "\n"
