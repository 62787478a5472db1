"""A tagger in the manner of scikit-learn: lists of words in, lists of tags out.

tagger = Tagger(structure="crf").fit([["Anna", "sleeps"]], [["B-PER", "O"]])
tagger.predict([["Bob", "sleeps"]])
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from catena import config as configs
from catena.checkpoint import open_checkpoint
from catena.errors import CatenaError, ConfigError, DataError
from catena.tasks.application import Asking
from catena.tasks.tag.application import TagApplication
from catena.tasks.tag.predictor import TagPredictor
from catena.tasks.tag.scoring import measure_of, metric_of
from catena.tasks.tag.settings import TagConfig
from catena.training.report import SilentReporter

Words = Sequence[Sequence[str]]


class Tagger:
    """A tag for each word.

    Args:
        model: the kind of model: neural, features or hmm.
        structure: how tags are tied together: crf, softmax, memm, perceptron, margin or semimarkov; the model's own
            choice if None.
        max_epochs: passes over the sentences, at most; the config's default if None.
        dev_share: share of the sentences that is held out to decide when to stop.
        seed: of everything that is drawn at random.
        device: auto, cpu, cuda, mps.
        settings: any other keys of the config, by their dotted names: ``{"model.encoder.d": 50}``.

    After ``fit``: ``model_`` is what ``catena.load`` would give, ``scores_`` are those on the sentences held out.
    """

    def __init__(
        self,
        model: str = "neural",
        structure: str | None = None,
        *,
        max_epochs: int | None = None,
        dev_share: float = 0.1,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.structure, self.max_epochs = model, structure, max_epochs
        self.dev_share, self.seed, self.device, self.settings = dev_share, seed, device, settings
        self.model_: TagPredictor | None = None
        self.scores_: dict[str, float] = {}

    def fit(self, X: Words, y: Words) -> Tagger:
        """Train on sentences, each a list of words, and the tags of their words."""
        self._home = tempfile.TemporaryDirectory(prefix="catena-tagger-")
        file, run = Path(self._home.name) / "train.conll", Path(self._home.name) / "run"
        file.write_text(_columns(X, y), encoding="utf-8")
        trained = TagApplication().train(self._config(file), run, SilentReporter())
        self.scores_ = trained.scores
        return self._with(run)

    def predict(self, X: Words) -> list[list[str]]:
        """The tags of each sentence."""
        return [list(found.tags) for found in self._fitted().predict(list(X))]

    def predict_marginals(self, X: Words) -> list[list[float]]:
        """The probability of each tag that :meth:`predict` gives."""
        return [list(found.probabilities or ()) for found in self._fitted().predict(list(X), Asking(confidence=True))]

    def score(self, X: Words, y: Words) -> float:
        """F1 of spans where tags mark spans, otherwise the share of right words."""
        _check(X, y)
        tagging = self._fitted().tagging
        return float(measure_of(metric_of(tagging), tagging)([list(tags) for tags in y], self.predict(X)))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the trained model into a new folder, which ``catena predict`` and ``catena.load`` take."""
        self._fitted()
        if Path(folder).exists():
            raise ConfigError(f"{folder} exists: choose another folder")
        shutil.copytree(self._source, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str], device: str = "auto") -> Tagger:
        """Read a model that ``save`` or ``catena train`` wrote."""
        tagger = cls(device=device)._with(Path(folder))
        assert tagger.model_ is not None
        tagger.model = tagger.model_.config.model.kind
        return tagger

    def _with(self, run: Path) -> Tagger:
        self._source = open_checkpoint(run).folder
        predictor = TagApplication().load(run, self.device)
        assert isinstance(predictor, TagPredictor)
        self.model_ = predictor
        return self

    def _fitted(self) -> TagPredictor:
        if self.model_ is None:
            raise CatenaError("this Tagger is not fitted yet: call fit(sentences, tags) first")
        return self.model_

    def _config(self, file: Path) -> TagConfig:
        named = {
            "data.train": [str(file)],
            "data.format": "columns",
            "data.dev_share": self.dev_share,
            "model.kind": self.model,
            "model.structure": self.structure,
            "training.max_epochs": self.max_epochs,
            "machine.device": self.device,
            "seed": self.seed,
        }
        values: dict[str, Any] = {}
        for dotted, value in {**{k: v for k, v in named.items() if v is not None}, **(self.settings or {})}.items():
            here = values
            *sections, key = dotted.split(".")
            for section in sections:
                here = here.setdefault(section, {})
            here[key] = value
        return configs.parse(TagConfig, values, source="Tagger")


def _check(X: Words, y: Words) -> None:
    if len(X) != len(y):
        raise DataError(f"there must be tags for each sentence, and there are {len(X)} sentences and {len(y)} of tags")
    for i, (words, tags) in enumerate(zip(X, y, strict=True)):
        if len(words) != len(tags):
            raise DataError(f"sentence {i} has {len(words)} words and {len(tags)} tags: each word needs one")


def _columns(X: Words, y: Words) -> str:
    """Sentences as a column file, for training reads files."""
    _check(X, y)
    blocks = []
    for i, (words, tags) in enumerate(zip(X, y, strict=True)):
        for value in (*words, *tags):
            if not isinstance(value, str) or not value.strip() or any(sign in value for sign in "\t\n\r"):
                raise DataError(f"sentence {i} has {value!r}: words and tags are strings without tabs and line ends")
        if words:
            blocks.append("".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)))
    return "\n".join(blocks) + "\n"
