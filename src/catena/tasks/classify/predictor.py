"""Prediction with a trained classifier. Needs only its own folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.data.examples import LabeledText
from catena.data.reading import ReadCounter
from catena.data.vocabulary import Labels
from catena.errors import CatenaError, DataError
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.classify.config import METRICS, ClassifyConfig, NeuralClassifierConfig
from catena.tasks.classify.dataset import read_labeled_texts
from catena.tasks.classify.encoding import BagEncoding, Encoding, load_encoding
from catena.tasks.classify.gold import SETS, TEXTS, describe_unseen, encode_labels, find_unseen
from catena.tasks.classify.model import BaggingEnsemble, Classifier, LinearClassifier, build_model, log_probabilities
from catena.tasks.classify.reading import apply_read_options, read_texts
from catena.tasks.classify.scoring import (
    LabeledPredictions,
    build_metric,
    compute_scores,
    gold_ids,
    metric_signatures,
    predicted_ids,
    predicted_labels,
    report_lines,
)
from catena.tasks.classify.task import score_all
from catena.tasks.classify.vectors import blank_vectors
from catena.tasks.kept import LABELS

BLOCK = 2048
"""Number of texts that are read, encoded and scored together in a stream."""


@dataclass(frozen=True)
class ClassPrediction:
    """The labels of a text, best first, with the probability of every class. Prints as its labels."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]

    @property
    def label(self) -> str:
        """The first label, or the most probable class if there are no labels."""
        return max(self.probabilities, key=self.probabilities.__getitem__) if not self.labels else self.labels[0]

    @property
    def probability(self) -> float:
        """The probability of the label."""
        return self.probabilities[self.label]

    def __str__(self) -> str:
        return ", ".join(self.labels)


class ClassifyPredictor(Predictor):
    """A classifier with its encoding and the names of its classes."""

    def __init__(
        self,
        config: ClassifyConfig,
        encoding: Encoding,
        names: Labels,
        model: Classifier,
        device: torch.device,
    ) -> None:
        self.config, self.encoding, self.names, self.device = config, encoding, names, device
        self.model = model.to(device).eval()

    def find_network(self) -> Classifier:
        return self.model

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes in the order of :meth:`predict_proba`'s columns."""
        return self.names.names

    @property
    def multilabel(self) -> bool:
        """Whether a text may have several labels."""
        return self.config.data.multilabel

    def predict(self, items: Sequence[str], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[ClassPrediction]:
        self.check(options)
        return self._predictions(self.log_probabilities(_checked(items)))

    def predict_stream(
        self, items: Iterable[str], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[ClassPrediction]:
        waiting = iter(items)
        while block := list(islice(waiting, BLOCK)):
            yield from self.predict(block, options)

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """The probability of every class for each text: one row per text, columns as in :attr:`labels`."""
        return np.exp(self.log_probabilities(_checked(texts)))

    def log_probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """The log-probability of every class for each text, in nats."""
        if not texts:
            return np.zeros((0, len(self.names)))
        encoded = self.encoding.encode(self.encoding.tokens(text) for text in texts)
        size = self.config.evaluation.texts_at_once
        logits = score_all(self.model, encoded, np.arange(len(texts)), size, self.device)
        several = self.config.data.multilabel
        return log_probabilities(logits.double(), several, self.model.temperature.double().cpu()).numpy()

    def _predictions(self, log_probs: np.ndarray) -> list[ClassPrediction]:
        chosen = predicted_labels(log_probs, self.names, self.config.data.multilabel)
        probabilities = np.exp(log_probs).tolist()
        return [
            ClassPrediction(tuple(labels), dict(zip(self.names.names, row, strict=True)))
            for labels, row in zip(chosen, probabilities, strict=True)
        ]

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[str]:
        return read_texts(path, reading, self.config.data, self.labels)

    # --- on labeled data ---------------------------------------------------------------------------------------------

    def judge(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> LabeledPredictions:
        """Predict a labeled file, block by block."""
        tally = ReadCounter()
        examples = read_labeled_texts(apply_read_options(self.config.data, reading), path, tally)
        blocks: list[np.ndarray] = []
        right: list[tuple[str, ...]] = []
        while block := list(islice(examples, BLOCK)):
            blocks.append(self.log_probabilities([example.text for example in block]))
            right += [self._right(example) for example in block]
        if not blocks:
            raise DataError(f"{path} has no labeled text to score: {tally.counts(0).sentence('')}. Add labels.")
        several = self.config.data.multilabel
        names = (*self.names.names, *find_unseen(right, self.names))
        notes = describe_unseen(right, self.names, "this file", SETS if several else TEXTS)
        labels = encode_labels(right, names, several)
        return LabeledPredictions(
            np.concatenate(blocks), labels, names, tally.counts(len(right)).sentence(""), tuple(notes)
        )

    def _right(self, example: LabeledText) -> tuple[str, ...]:
        labels = example.labels
        if len(labels) != 1 and not self.config.data.multilabel:
            raise DataError(
                f"{example.place} must have one label for this model, got {len(labels)} ({', '.join(labels)}). Keep "
                f"one label, or train with --multilabel."
            )
        return labels

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        judged = self.judge(path, reading)
        several = self.config.data.multilabel
        scores = compute_scores(judged.log_probs, judged.labels, several)
        signatures = metric_signatures(judged.log_probs, judged.labels, several)
        return EvaluationReport(scores, signatures, tuple(report_lines(judged, scores, several)))

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        judged = self.judge(path, reading)
        names, several = judged.names, self.config.data.multilabel
        return PairedPredictions(
            build_metric(metric or METRICS[0], several),
            [tuple(names[j] for j in ids) for ids in gold_ids(judged.labels)],
            [tuple(names[j] for j in ids) for ids in predicted_ids(judged.log_probs, several)],
        )

    # --- reports ------------------------------------------------------------------------------------------------------

    def top_features(self, most: int = 20) -> dict[str, list[tuple[str, float]]]:
        """The features with the largest weights for each class, for a linear model.

        Weights are relative to the mean over the classes, since only differences between classes matter.
        """
        if not isinstance(self.model, LinearClassifier):
            raise CatenaError(
                f"top features need a linear model, but this model is of kind {self.config.model.kind!r}. Train with "
                f"--model loglinear."
            )
        assert isinstance(self.encoding, BagEncoding)
        weights = self.model.features.weight.detach().cpu().double()
        if not self.config.data.multilabel:
            weights = weights - weights.mean(1, keepdim=True)  # only differences between classes matter
        table = {}
        for j, name in enumerate(self.names.names):
            best = torch.topk(weights[:, j], min(most, self.encoding.size))
            table[name] = [
                (self.encoding.name(int(i)), float(w)) for w, i in zip(best.values, best.indices, strict=True)
            ]
        return table

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.model.parameters())
        lines = [
            f"a classifier of kind {self.config.model.kind}: {len(self.names)} classes, {self.encoding.size:,} ids, "
            f"{n:,} parameters",
            f"classes: {', '.join(self.names.names)}",
            f"temperature fitted on dev: {float(self.model.temperature):.3f}",
        ]
        if isinstance(self.model, BaggingEnsemble):
            lines.append(f"a bag of {len(self.model.members)} models")
        if isinstance(self.model, LinearClassifier):
            lines.append(f"the {top} features with the largest weights for each class:")
            for name, features in self.top_features(top).items():
                lines.append(f"  {name}: " + ", ".join(f"{feature} {weight:+.2f}" for feature, weight in features))
        return lines

    def write(self, prediction: Any, item: str, format: str) -> str:
        best = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
        if format == "jsonl":
            row = {
                "text": item,
                "labels": list(prediction.labels),
                "probabilities": {k: round(v, 6) for k, v in best},
            }
            if not self.config.data.multilabel:
                row = {
                    "text": item,
                    "label": prediction.label,
                    "probability": round(prediction.probability, 6),
                    **row,
                }
                del row["labels"]
            return json.dumps(row, ensure_ascii=False)
        one_line, separator = " ".join(item.split()), self.config.data.label_separator
        if format == "tsv":
            return f"{(separator or ',').join(prediction.labels)}\t{prediction.probability:.4f}\t{one_line}"
        return (separator or ", ").join(prediction.labels)


def load_predictor(folder: Path, device: torch.device) -> ClassifyPredictor:
    """Read a trained classifier from a run folder or a checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(ClassifyConfig, checkpoint.folder / CONFIG)
    encoding = load_encoding(config, checkpoint.folder)
    names = Labels.load(checkpoint.folder / LABELS)
    vectors = (
        blank_vectors(config.model.embedding, encoding.size)
        if isinstance(config.model, NeuralClassifierConfig)
        else None
    )
    model = build_model(config, encoding.size, len(names), vectors)
    checkpoint.load_into(model)
    return ClassifyPredictor(config, encoding, names, model, device)


def _checked(texts: Any) -> Sequence[str]:
    if isinstance(texts, str):
        raise DataError(
            f"predict must get a list of texts, got one text: {texts!r:.60}. Put it in a list: predict([text])."
        )
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {i} must be a string, got {type(text).__name__}: {text!r:.60}. Pass strings.")
    return texts
