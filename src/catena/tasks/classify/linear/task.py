r"""The linear classifier of texts as a task.

A linear model scores :math:`s_j = b_j + \sum_i v_i w_{ij}` over the features i of a text; the log-linear model is
:math:`p(j \mid x) = \exp s_j / \sum_{j'} \exp s_{j'}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from catena.checkpoint import Checkpoint, read_checkpoint
from catena.data.examples import LabeledText
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.data.vocabulary import Labels
from catena.kernels.bags import reference
from catena.tasks.base import BaseTask, Origin, Training, TrainResult, blocks
from catena.tasks.classify.config import ClassifyConfig, ClassifyOptions
from catena.tasks.classify.data import count_labels, describe_labels, describe_sizes, describe_unseen, fit_tokenizer
from catena.tasks.classify.labels import TextInputs, describe_temperature
from catena.tasks.classify.linear.data import (
    PARTS,
    StoredTexts,
    encode_parts,
    learn_features,
    longest_text,
    match_symbols,
    store_symbols,
)
from catena.tasks.classify.linear.features import VALUES, BagFeatures, FeatureRows, load_features, needs_kernels
from catena.tasks.classify.linear.learner import LinearLearner
from catena.tasks.classify.predict import ClassifyEvaluation, ClassPrediction, class_log_probs, predicted_ids
from catena.tasks.config import LABELS, TOKENIZER
from catena.tasks.fitted import train_in_steps
from catena.tasks.sources import Sources
from catena.training.report import Reporter
from catena.training.run import RunFolder
from catena.training.state import TrainingState
from catena.training.stepwise import StepwiseModel

_FEATURES = "features"
_MOST_SCORES = 4_000_000
"""Maximum number of scores of dev texts that are kept in memory when dev is evaluated during training."""


class BagTexts:
    """The encoding of texts as bags of features."""

    def __init__(self, tokenizer: Tokenizer, features: BagFeatures, max_length: int) -> None:
        self.tokenizer, self.features, self.max_length = tokenizer, features, max_length
        self.reader = features.reader(tokenizer, max_length)

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, truncated to the maximum length."""
        return self.tokenizer.tokens(text)[: self.max_length]

    @property
    def size(self) -> int:
        """The number of features."""
        return len(self.features)

    def name(self, id: int) -> str:
        """The readable name of a feature."""
        return self.features.name(id)

    def encode(self, texts: Sequence[str]) -> FeatureRows:
        """The features of texts."""
        return self.features.encode(self.reader.read(texts))


@dataclass(frozen=True, eq=False)
class LinearEncoding:
    """The features of texts and the names of the classes."""

    texts: BagTexts
    names: Labels


class LinearTask(TextInputs, BaseTask[ClassifyConfig, LabeledText, ClassPrediction, ClassifyOptions]):
    """A log-linear classifier or a perceptron on n-gram features, or a bag of them.

    Args:
        config: the config.
        encoding: the features and the classes.
        weights: ``weights[m, f, j]`` is the weight of feature f for class j in model m of a bag.
        bias: ``bias[m, j]`` is the bias of class j.
        temperature: divides the scores in prediction.
    """

    stream_block: ClassVar[int] = 4096
    uses_torch: ClassVar[bool] = False

    def __init__(
        self,
        config: ClassifyConfig,
        encoding: LinearEncoding,
        weights: np.ndarray,
        bias: np.ndarray,
        temperature: float = 1.0,
    ) -> None:
        self.config, self.encoding, self.names = config, encoding, encoding.names
        self.weights, self.bias, self.temperature = weights, bias, temperature

    # --- training -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: ClassifyConfig, sources: Sources[LabeledText], origin: Origin) -> Training:
        return LinearTraining(config, sources, origin)

    @classmethod
    def load(cls, config: ClassifyConfig, checkpoint: Checkpoint, device: str) -> Self:
        arrays = checkpoint.arrays()
        encoding = load_encoding(config, checkpoint.folder, arrays)
        return cls(config, encoding, arrays["weights"], arrays["bias"], float(arrays["temperature"]))

    def save(self, folder: Path) -> None:
        self.names.save(folder / LABELS)
        self.encoding.texts.tokenizer.save(folder / TOKENIZER)
        self.encoding.texts.features.save(folder / _FEATURES)

    def tensors(self) -> dict[str, np.ndarray]:
        arrays = {"weights": self.weights, "bias": self.bias, **self.encoding.texts.features.arrays()}
        return {**arrays, "temperature": np.array(self.temperature)}

    @property
    def n_parameters(self) -> int:
        """The number of weights and biases."""
        return self.weights.size + self.bias.size

    # --- scores -------------------------------------------------------------------------------------------------------

    def score_rows(self, rows: FeatureRows) -> np.ndarray:
        """The scores of the classes of each text, with the models of a bag on the first of three axes."""
        models, _, k = self.weights.shape
        scores = np.empty((models, len(rows), k), np.float32)
        values = VALUES[self.encoding.texts.features.settings.values]
        score_texts = reference.score_texts
        if needs_kernels(len(rows.ids)):
            from catena.kernels.bags.cpu_learn import score_texts
        for m in range(models):
            score_texts(rows.ids, rows.first, values, self.weights[m], self.bias[m], scores[m])
        return scores.astype(np.float64) if models > 1 else scores[0].astype(np.float64)

    def log_probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """The log-probability of every class for each text, in nats."""
        found = [self._log_probs(self.encoding.texts.encode(block)) for block in blocks(texts, self.stream_block)]
        return np.concatenate(found) if found else np.zeros((0, len(self.names)))

    def _log_probs(self, rows: FeatureRows) -> np.ndarray:
        return class_log_probs(self.score_rows(rows), self.multilabel, self.temperature)

    def evaluate_examples(self, examples: Sequence[LabeledText]) -> ClassifyEvaluation:
        log_probs = self.log_probabilities([example.text for example in examples])
        return ClassifyEvaluation(self.labels, log_probs, [example.labels for example in examples], self.multilabel)

    def predict_examples(self, examples: Sequence[LabeledText], options: ClassifyOptions) -> list[ClassPrediction]:
        texts = [example.text for example in examples]
        return self._predictions(texts, self.log_probabilities(texts), options)

    def predict_labels(self, texts: Sequence[str], threshold: float | None = None) -> Iterator[tuple[str, ...]]:
        names = self.labels
        for block in blocks(texts, self.stream_block):
            for ids in predicted_ids(self.log_probabilities(block), self.multilabel, threshold):
                yield tuple(names[j] for j in ids)

    def evaluate_stored(
        self, texts: StoredTexts, *, calibrate: bool = False, sample: bool = False
    ) -> ClassifyEvaluation:
        """Evaluate encoded texts.

        Args:
            texts: the texts.
            calibrate: fit the temperature on them first.
            sample: evaluate chunks that are spread over all texts, if all of them have too many scores.
        """
        stride = -(-len(texts) * len(self.names) // _MOST_SCORES) if sample else 1
        chunks = [texts.read(chunk) for chunk in range(0, texts.n_chunks, max(1, stride))]
        gold = [texts.sets[i] for _, own in chunks for i in own.tolist()]
        scores = np.concatenate([self.score_rows(rows) for rows, _ in chunks], axis=-2)
        if calibrate and scores.ndim == 2:
            self.temperature = self._fitted_temperature(scores, gold)
        log_probs = class_log_probs(scores, self.multilabel, self.temperature)
        return ClassifyEvaluation(self.labels, log_probs, gold, self.multilabel)

    # --- reports ------------------------------------------------------------------------------------------------------

    def top_features(self, most: int = 20) -> dict[str, list[tuple[str, float]]]:
        """The features with the largest weights for each class; of a bag, by the mean of its models.

        Weights are relative to the mean over the classes, since only differences between classes matter.
        """
        weights = self.weights.mean(0, dtype=np.float64)
        if not self.multilabel:
            weights = weights - weights.mean(1, keepdims=True)
        table = {}
        for j, name in enumerate(self.labels):
            best = np.argsort(-weights[:, j], kind="stable")[: min(most, self.encoding.texts.size)].tolist()
            table[name] = [(self.encoding.texts.name(i), float(weights[i, j])) for i in best]
        return table

    def describe(self, top: int) -> list[str]:
        lines = [
            f"a classifier of kind {self.config.model.kind}: {len(self.names)} classes, {self.encoding.texts.size:,} "
            f"ids, {self.n_parameters:,} parameters",
            f"classes: {', '.join(self.labels)}",
            describe_temperature(self.config, self.temperature, is_bag=len(self.weights) > 1),
        ]
        if len(self.weights) > 1:
            lines.append(f"a bag of {len(self.weights)} models")
        lines.append(f"the {top} features with the largest weights for each class:")
        for name, features in self.top_features(top).items():
            lines.append(f"  {name}: " + ", ".join(f"{feature} {weight:+.2f}" for feature, weight in features))
        return lines


def load_encoding(config: ClassifyConfig, folder: Path, arrays: Mapping[str, np.ndarray]) -> LinearEncoding:
    """The encoding that :meth:`LinearTask.save` wrote."""
    features = load_features(folder / _FEATURES, dict(arrays))
    texts = BagTexts(load_tokenizer(folder / TOKENIZER), features, longest_text(config))
    return LinearEncoding(texts, Labels.load(folder / LABELS))


class LinearTraining(Training):
    """A linear classifier and its training texts, stored as features."""

    family: type[LinearTask] = LinearTask

    def __init__(self, config: ClassifyConfig, sources: Sources[LabeledText], origin: Origin) -> None:
        self.config, self.randomness = config, origin.randomness
        lines = sources.describe()
        old = None
        if origin.folder is not None:
            old = load_encoding(config, origin.folder, read_checkpoint(origin.folder).arrays())
        store = store_symbols(config, sources, old.texts.tokenizer if old else fit_tokenizer(config, sources))
        own = store.sets_of("train") if "dev" in sources else store.sets_of("train", "dev")
        names = count_labels(own, config, len(store.part))
        if old is None:
            features, mapping = learn_features(config, store, self._most_features(names))
            self.encoding = LinearEncoding(BagTexts(store.tokenizer, features, longest_text(config)), names)
        else:
            old.names.ids(names.names)  # raises if the older model does not have a label
            mapping = match_symbols(old.texts.features, store, config.data.max_length)
            self.encoding = old
        self.parts = encode_parts(self.encoding.texts.features, store, mapping)
        self.lines = [*lines, sources.counter.counts(len(store.part)).sentence(), *self._describe()]
        self.learner = self._build_learner()

    def _most_features(self, names: Labels) -> int | None:
        """The largest number of features."""
        return self.config.vocabulary.max_size

    def _build_learner(self) -> Any:
        return LinearLearner(
            self.config, self.parts["train"], self.encoding.names, self.encoding.texts.size, self.randomness
        )  # fmt: skip

    def task(self) -> LinearTask:
        """The current model."""
        return LinearTask(self.config, self.encoding, self.learner.weights, self.learner.bias)

    def load_weights(self, checkpoint: Checkpoint) -> None:
        arrays = checkpoint.arrays()
        self.learner.weights, self.learner.bias = np.array(arrays["weights"]), np.array(arrays["bias"])

    def train(self, run: RunFolder, reporter: Reporter, *, saves_start: bool = False) -> TrainResult:
        model = _LinearSteps(self)
        if saves_start:
            self._save_start(model, run)

        def evaluate(best: Checkpoint) -> ClassifyEvaluation:
            return self.family.load(self.config, best, "cpu").evaluate_stored(self.parts["test"])

        return train_in_steps(model, self.config.training, run, reporter, evaluate if len(self.parts["test"]) else None)

    def resume(self, run: RunFolder, reporter: Reporter) -> TrainResult:
        return self.train(run, reporter)

    def _save_start(self, model: _LinearSteps, run: RunFolder) -> None:
        """Store the initial weights, from which the run can be resumed before its first pass is complete."""
        state = {"training": TrainingState().as_json(), "scored": -1}
        run.write(0, model.tensors(), model.save, self.learner.arrays(), state)

    def _describe(self) -> Iterator[str]:
        """Lines about the texts of each part and their labels."""
        names, several = self.encoding.names, self.config.data.multilabel
        for part in PARTS:
            if n := len(self.parts[part]):
                rows = self.parts[part].features
                yield describe_sizes(part, n, rows.n_values / n, rows.longest, "known features")
        counts = {part: self.parts[part].count_sets() for part in PARTS}
        yield describe_labels(names.names, _count_labels(counts["train"]))
        what = "labels of texts are ones" if several else "texts have a label"
        held = _count_labels(counts["dev"]) + _count_labels(counts["test"])
        yield from describe_unseen([[label] * n for label, n in held.items()], names.names, "dev and test", what)
        if several and max(len(labels) for own in counts.values() for labels in own) < 2:
            yield "no text has several labels: if they are joined, name their separator with --label-separator"


class _LinearSteps(StepwiseModel):
    """A linear classifier as the stepwise loop sees it."""

    def __init__(self, training: LinearTraining) -> None:
        config, self.dev = training.config, training.parts["dev"]
        self.learner = self._learner = training.learner
        self.task = training.task()
        self.tokens, self.n_parameters = training.parts["train"].features.n_values, self.task.n_parameters
        self.metric, self.next_commands = self.task.metric, self.task.next_commands
        self.higher_is_better = self.task.find_metric(config.training.metric or self.metric).higher_is_better
        self.summary = tuple(training.lines)

    def _current(self) -> LinearTask:
        learner = self._learner
        self.task.weights, self.task.bias, self.task.temperature = learner.weights, learner.bias, learner.temperature
        return self.task

    def tensors(self) -> dict[str, np.ndarray]:
        return self._current().tensors()

    def save(self, folder: Path) -> None:
        self._current().save_all(folder)

    def dev_scores(self) -> dict[str, float]:
        calibrate = self.task.config.evaluation.calibrate
        result = self._current().evaluate_stored(self.dev, calibrate=calibrate, sample=True)
        self._learner.temperature = self.task.temperature
        return result.scores()


def _count_labels(sets: Mapping[tuple[str, ...], int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for labels, n in sets.items():
        counts.update(dict.fromkeys(labels, n))
    return counts
