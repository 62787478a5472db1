"""The encoding of examples of regression: texts as ids or features, standardized numbers and values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from catena.checkpoint import read_stored
from catena.data.corpus import CorpusBuilder
from catena.data.tokenize import Tokenizer, build_tokenizer
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError, DataError
from catena.tasks.classify.encoding import ClassifyEncoding, EncodedTexts, Encoding, learn_encoding
from catena.tasks.regress.config import RegressConfig
from catena.tasks.regress.data import RegressExample

_FILE = "numbers.json"


@dataclass(frozen=True, eq=False)
class RegressEncoding:
    """How examples become model inputs.

    Args:
        texts: the encoding of texts; None if there are none.
        names: the number columns.
        means: the mean of each number column.
        deviations: its standard deviation; 1 for a constant column.
        middle: the mean of the values.
        scale: their standard deviation.
    """

    texts: Encoding | None
    names: tuple[str, ...]
    means: Float[np.ndarray, " m"]
    deviations: Float[np.ndarray, " m"]
    middle: float
    scale: float

    @classmethod
    def fit(cls, config: RegressConfig, train: Sequence[RegressExample]) -> RegressEncoding:
        """The encoding that training examples determine."""
        values, weights = np.array([example.value for example in train]), get_weights(train)
        if not values.std() > 0:
            raise DataError(
                f"The values of the training examples must differ, got {values[0]:g} for all {len(values)}. Check "
                f"--value-column."
            )
        names = config.data.number_columns
        table = np.array([example.numbers for example in train]).reshape(len(train), len(names))
        means, deviations = _moments(table, weights)
        middle, scale = _moments(values, weights)
        has_texts = not config.reads_files and any(example.text for example in train)
        texts = _fit_texts(config, train) if has_texts else None
        return cls(texts, names, means, np.where(deviations > 0, deviations, 1.0), float(middle), float(scale))

    def numbers(self, examples: Sequence[RegressExample]) -> Float[np.ndarray, "n m"]:
        """The standardized numbers; 0, the mean, where one is missing."""
        table = np.array([example.numbers for example in examples], np.float64).reshape(len(examples), len(self.names))
        return np.nan_to_num((table - self.means) / self.deviations, nan=0.0)

    def encode_texts(self, examples: Sequence[RegressExample]) -> EncodedTexts | None:
        """The texts as ids or features; None if the model reads none."""
        texts = self.texts
        return None if texts is None else texts.encode(texts.tokens(example.text) for example in examples)

    def save(self, folder: Path) -> None:
        if self.texts is not None:
            ClassifyEncoding(self.texts, Labels(())).save(folder)
        fields = {"names": self.names, "means": self.means.tolist(), "deviations": self.deviations.tolist()}
        stored = {**fields, "middle": self.middle, "scale": self.scale, "has_texts": self.texts is not None}
        (folder / _FILE).write_text(json.dumps(stored, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, config: RegressConfig, folder: Path) -> RegressEncoding:
        """The encoding of a model folder."""
        kinds = {"names": list[str], "means": list[float], "deviations": list[float], "middle": float, "scale": float}
        stored = read_stored(folder / _FILE, {**kinds, "has_texts": bool})
        means, deviations = (np.array(stored[name], np.float64) for name in ("means", "deviations"))
        if not (
            len(stored["names"]) == len(means) == len(deviations) and (deviations > 0).all() and stored["scale"] > 0
        ):
            raise CheckpointError(
                f"{folder / _FILE} must have a mean and a positive deviation of each number, got {len(means)} and "
                f"{len(deviations)} for {len(stored['names'])}. Copy the model again."
            )
        texts = ClassifyEncoding.load(config.encoder_config(), folder).texts if stored["has_texts"] else None
        return cls(texts, tuple(stored["names"]), means, deviations, stored["middle"], stored["scale"])


def get_weights(examples: Sequence[RegressExample]) -> Float[np.ndarray, " n"]:
    """The weight of each example."""
    return np.array([example.weight for example in examples], np.float64)


def _moments(values: np.ndarray, weights: np.ndarray) -> tuple[Any, Any]:
    """The mean and the standard deviation over weighted rows."""
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))


def _fit_texts(config: RegressConfig, train: Sequence[RegressExample]) -> Encoding:
    """The vocabulary or the features of the training texts."""
    tokenizer = fit_tokenizer(config, train)
    builder = CorpusBuilder()
    for example in train:
        builder.add(tokenizer.tokens(example.text)[: config.data.max_length])
    return learn_encoding(config.encoder_config(), tokenizer, builder.finish(), builder.tokens, np.arange(len(train)))


def fit_tokenizer(config: RegressConfig, train: Iterable[RegressExample]) -> Tokenizer:
    """The tokenizer, trained on the texts if it is of a kind that is."""
    trained = config.tokenizer.kind in ("bpe", "unigram")
    return build_tokenizer(config.tokenizer, (example.text for example in train) if trained else ())
