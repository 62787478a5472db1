"""Text classification by a network as a task: scores of classes, calibration, the start from a language model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig, VocabularyConfig
from catena.data.examples import LabeledText
from catena.data.vocabulary import Labels
from catena.embeddings.config import EmbeddingConfig
from catena.errors import ConfigError
from catena.lm.neural_config import ConvolutionLMConfig, GRULMConfig, LSTMLMConfig, RNNLMConfig
from catena.lm.neural_config import TransformerLMConfig as TransformerLm
from catena.tasks.base import E, Origin
from catena.tasks.classify.config import (
    ClassifierConfig,
    ClassifyConfig,
    ClassifyOptions,
    ConvolutionalClassifierConfig,
    NeuralClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from catena.tasks.classify.data import (
    ClassifyRows,
    TextStore,
    count_labels,
    describe_rows,
    describe_unseen,
    encode_labels,
    fit_tokenizer,
    store_texts,
)
from catena.tasks.classify.encoding import (
    ClassifyBatch,
    ClassifyEncoding,
    EncodedTexts,
    TokenEncoding,
    learn_encoding,
    unknown_fraction,
)
from catena.tasks.classify.labels import LabeledRows, LabelOutputs, TextInputs, describe_temperature
from catena.tasks.classify.model import (
    LOSSES,
    BaggingEnsemble,
    Classifier,
    ClassifierOutput,
    PooledEncoder,
    VectorClassifier,
    WithHighway,
    balanced_weights,
    build_model,
)
from catena.tasks.classify.predict import ClassifyEvaluation, ClassPrediction, class_log_probs
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask
from catena.tasks.pretrained import Pretrained, initial_vectors, layers_from_the_top
from catena.tasks.sources import Sources
from catena.training.task import BatchLoss


class LabelTask(LabelOutputs, NeuralTask[ClassifyConfig, E, ClassPrediction, ClassifyOptions]):
    """A task that assigns labels to inputs of any kind.

    Args:
        config: the config.
        encoding: a value with the field ``names``, the classes.
        network: scores inputs; its buffer ``temperature`` calibrates the probabilities.
    """

    def __init__(self, config: ClassifyConfig, encoding: Any, network: nn.Module) -> None:
        super().__init__(config, encoding, network)
        self.names = encoding.names
        self._loss = LOSSES[config.loss_kind]
        self._class_weights: Float[Tensor, " k"] | None = None

    @property
    def temperature(self) -> Tensor:
        """The divisor of the scores, fitted on dev."""
        return self._network.temperature  # type: ignore[return-value]

    @abstractmethod
    def _logits(self, rows: Any) -> Float[Tensor, "*m n k"]:
        """The scores of encoded inputs, on the CPU."""

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate_dev(self, rows: Any) -> ClassifyEvaluation:
        logits = self._logits(rows)
        if self.config.evaluation.calibrate and logits.ndim == 2:
            # A buffer, so it is saved with the weights; the loss does not read it, so training is not affected.
            self.temperature.fill_(self._fitted_temperature(logits.double().numpy(), rows.gold))
        return self._evaluation(logits, rows)

    def evaluate_rows(self, rows: Any) -> ClassifyEvaluation:
        return self._evaluation(self._logits(rows), rows)

    def _evaluation(self, logits: Float[Tensor, "*m n k"], rows: LabeledRows) -> ClassifyEvaluation:
        return ClassifyEvaluation(self.labels, self._log_probs(logits), rows.gold, self.multilabel)

    def _log_probs(self, logits: Float[Tensor, "*m n k"]) -> np.ndarray:
        return class_log_probs(logits.double().numpy(), self.multilabel, float(self.temperature))


# --- the start from a language model ----------------------------------------------------------------------------------


_KEPT = ("dropout_input", "dropout_hidden", "n_highway", "highway_carry", "pooling", "pool_outputs")
"""Options that the classifier keeps; its embedding and encoder are the language model's."""


def config_from_pretrained(config: ClassifyConfig, start: Pretrained) -> ClassifyConfig:
    """The config with the model, tokenizer and vocabulary of the pretrained model filled in."""
    values = {
        "model": _model_around(config.model, start),
        "tokenizer": start.config.tokenizer,
        "vocabulary": VocabularyConfig(),
        "pretrained": str(start.folder),
    }
    return config.model_copy(update=values)


def _model_around(own: ClassifierConfig, start: Pretrained) -> NeuralClassifierConfig:
    lm = start.config.model
    if isinstance(lm, RNNLMConfig | LSTMLMConfig | GRULMConfig):
        kind: type[NeuralClassifierConfig] = RecurrentClassifierConfig
    elif isinstance(lm, TransformerLm):
        kind = TransformerClassifierConfig
    elif isinstance(lm, ConvolutionLMConfig) and lm.encoder.kind == "convolution":
        kind = ConvolutionalClassifierConfig
    else:
        raise ConfigError(
            f"pretrained = {str(start.folder)!r} is of kind {lm.kind!r}, whose encoder a classifier cannot use. Use a "
            f"language model of kind lstm, gru, rnn or transformer."
        )
    kept: dict[str, Any] = {}
    if isinstance(own, NeuralClassifierConfig):
        names = _KEPT if isinstance(own, kind) else _KEPT[:4]
        kept = {name: getattr(own, name) for name in names}
    embedding = EmbeddingConfig(d=lm.embedding.d, scale=lm.embedding.scale)
    return kind.model_validate({**kept, "embedding": embedding, "encoder": lm.encoder})


def get_encoding(config: ClassifyConfig, start: Pretrained) -> TokenEncoding:
    """The language model's tokenizer and ids."""
    return TokenEncoding(start.encoding.tokenizer, start.encoding.vocabulary, config.data.max_length)


def load_pretrained_weights(model: Classifier, start: Pretrained) -> None:
    """Copy the weights of the language model's embedding and encoder into a classifier or each model of a bag."""
    for one in model.members if isinstance(model, BaggingEnsemble) else [model]:
        assert isinstance(one, VectorClassifier)
        start.put_into(one.embedding, get_encoder(one))


def get_encoder(model: VectorClassifier) -> nn.Module:
    """The encoder of a classifier."""
    summary: nn.Module = model.summary
    while isinstance(summary, WithHighway | PooledEncoder):
        summary = summary.summary if isinstance(summary, WithHighway) else summary.encoder
    return summary


def layer_groups(model: nn.Module) -> list[list[nn.Parameter]]:
    """The pretrained layers from the top, with the embedding last."""
    found: list[list[nn.Parameter]] = []
    for one in model.members if isinstance(model, BaggingEnsemble) else [model]:
        assert isinstance(one, VectorClassifier)
        own = [*layers_from_the_top(get_encoder(one)), list(one.embedding.parameters())]
        found = [a + b for a, b in zip(found, own, strict=True)] if found else own
    return found


# --- the task ---------------------------------------------------------------------------------------------------------


class ClassifyTask(TextInputs, LabelTask[LabeledText]):
    """A classifier of texts by a network."""

    def __init__(self, config: ClassifyConfig, encoding: ClassifyEncoding, network: Classifier) -> None:
        super().__init__(config, encoding, network)
        self.model = network
        self._bootstrap: Float[Tensor, "m n"] | None = None
        self._weights: Float[Tensor, " n"] | None = None
        self._targets: np.ndarray | None = None

    # --- training data ------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: ClassifyConfig, sources: Sources[LabeledText], origin: Origin) -> NetworkTraining:
        """As in the base class, but texts are stored as ids and never kept in memory."""
        lines = sources.describe()
        encoding = cls._given_encoding(config, origin)
        tokenizer = encoding.texts.tokenizer if encoding else fit_tokenizer(config, sources)
        store = store_texts(config, sources, tokenizer)
        with sources.explaining():
            parts = store.split(config)
        own = parts["train"] if "dev" in sources else np.union1d(parts["train"], parts["dev"])
        names = count_labels([store.labels[i] for i in own], config)
        if encoding is None:
            texts = learn_encoding(config, tokenizer, store.corpus, store.tokens, parts["train"])
            encoding = ClassifyEncoding(texts, names)
        elif origin.pretrained is not None:
            encoding = ClassifyEncoding(encoding.texts, names)
        encoding.names.ids(names.names)  # raises if an older model does not have a label
        origin.randomness.seed_torch("weights")
        task = cls(config, encoding, cls.build_network(config, encoding, lines))
        if origin.pretrained is not None:
            task.load_pretrained(origin.pretrained)
        rows = task._rows(store, parts)
        lines.append(sources.counter.counts(len(store.labels)).sentence())
        lines += task._describe(rows)
        task._start_training(rows["train"], store.weights[parts["train"]], origin)
        return NetworkTraining(task, Dataset(rows["train"], rows["dev"], rows["test"], lines), origin.randomness)

    @classmethod
    def _given_encoding(cls, config: ClassifyConfig, origin: Origin) -> ClassifyEncoding | None:
        if origin.folder is not None:
            return ClassifyEncoding.load(config, origin.folder)
        if origin.pretrained is not None:
            return ClassifyEncoding(get_encoding(config, origin.pretrained), Labels(()))
        return None

    def _rows(self, store: TextStore, parts: dict[str, np.ndarray]) -> dict[str, ClassifyRows]:
        texts = self.encoding.texts.encode_corpus(store.corpus, store.tokens)
        found = {}
        for part, rows in parts.items():
            found[part] = ClassifyRows(texts, rows, [store.labels[i] for i in rows])
        found["dev"].shown.update(store.samples(parts["dev"]))
        return found

    def _describe(self, rows: dict[str, ClassifyRows]) -> list[str]:
        unknown = {part: unknown_fraction(some.texts, some.rows) for part, some in rows.items()}
        lines = [*describe_rows(self.names, rows, unknown), *self.encoding.texts.notes()]
        held = [*rows["dev"].gold, *rows["test"].gold]
        what = "labels of texts are ones" if self.multilabel else "texts have a label"
        lines += describe_unseen(held, self.labels, "dev and test", what)
        if self.multilabel and max(len(labels) for some in rows.values() for labels in some.gold) < 2:
            lines.append("no text has several labels: if they are joined, name their separator with --label-separator")
        return lines

    def _start_training(self, rows: ClassifyRows, weights: np.ndarray, origin: Origin) -> None:
        """Set what the loss needs: targets, weights of texts and classes, and the bootstrap samples of a bag."""
        targets = encode_labels(rows.gold, self.names.names, self.multilabel)
        if self.config.loss.class_weights != "none" and not self.multilabel:
            counts = np.bincount(targets, weights, len(self.names))
            self._class_weights = balanced_weights(torch.from_numpy(counts))
        if (weights != 1).any():
            self._weights = torch.zeros(len(rows.texts))
            self._weights[rows.rows] = torch.from_numpy(weights / weights.mean()).float()  # keeps the size of the steps
        shape = (len(rows.texts), *targets.shape[1:])
        self._targets = np.zeros(shape, targets.dtype)
        self._targets[rows.rows] = targets
        members = self.config.bagging.members
        if members > 1:
            counts = np.zeros((members, len(rows.texts)), np.float32)
            for m in range(members):
                np.add.at(counts[m], origin.randomness.numpy("bootstrap", m).choice(rows.rows, size=len(rows)), 1)
            self._bootstrap = torch.from_numpy(counts)

    # --- the network --------------------------------------------------------------------------------------------------

    @classmethod
    def load_encoding(cls, config: ClassifyConfig, folder: Path) -> ClassifyEncoding:
        return ClassifyEncoding.load(config, folder)

    @classmethod
    def build_network(
        cls, config: ClassifyConfig, encoding: ClassifyEncoding, report: list[str] | None = None
    ) -> Classifier:
        vectors = None
        if isinstance(config.model, NeuralClassifierConfig) and isinstance(encoding.texts, TokenEncoding):
            vectors = initial_vectors(config.model.embedding, encoding.texts.vocabulary, report)
        return build_model(config, encoding.texts.size, len(encoding.names), vectors)

    @classmethod
    def adopt(cls, config: ClassifyConfig, pretrained: Pretrained) -> ClassifyConfig:
        return config_from_pretrained(config, pretrained)

    def load_pretrained(self, pretrained: Pretrained) -> None:
        load_pretrained_weights(self.model, pretrained)

    def frozen_layers(self) -> Sequence[Sequence[nn.Parameter]]:
        return layer_groups(self.model) if self.config.pretrained else []

    # --- the loss -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[LabeledText], *, gold: bool = True) -> ClassifyRows:
        texts = self.encoding.texts.encode(self.encoding.texts.tokens(example.text) for example in examples)
        return ClassifyRows(texts, np.arange(len(examples)), [example.labels for example in examples])

    def collate(self, rows: ClassifyRows, index: np.ndarray) -> ClassifyBatch:
        return rows.texts.batch(rows.rows[index], self._targets, self.device)

    def loss(self, batch: ClassifyBatch) -> BatchLoss:
        if self.config.loss.adversarial and isinstance(self.model, VectorClassifier):
            total = self._adversarial_loss(self.model, batch)
        else:
            total = self._mean_loss(self.model(batch), batch)
        return BatchLoss(total, batch.size, batch.tokens)

    def _mean_loss(self, scores: ClassifierOutput, batch: ClassifyBatch) -> Float[Tensor, ""]:
        """The mean loss of a batch, with weights, bootstrap counts and the penalty on hidden units."""
        logits, labels, settings = scores.logits, batch.labels, self.config.loss
        assert labels is not None
        if self.multilabel:
            losses = self._loss.several(logits, labels.expand_as(logits))
        else:
            losses = self._loss.single(logits, labels.expand(logits.shape[:-1]), settings.label_smoothing)
            if self._class_weights is not None:
                losses = losses * self._class_weights.to(labels.device)[labels]
        if settings.sparsity and scores.hidden is not None:
            losses = losses + settings.sparsity * scores.hidden.abs().sum(-1)
        if self._weights is not None:
            losses = losses * self._weights.to(labels.device)[batch.examples]
        if self._bootstrap is not None:
            losses = losses * self._bootstrap.to(labels.device)[:, batch.examples]
        return losses.mean(-1).sum()  # models of a bag have separate parameters, so their losses are added

    def _adversarial_loss(self, model: VectorClassifier, batch: Any) -> Float[Tensor, ""]:
        """(1 - α) J(x) + α J(x + ε sign ∇ₓJ): Goodfellow et al. 2015, equation 3 and section 6."""
        settings = self.config.loss
        vectors = model.vectors(batch)
        clean = self._mean_loss(model.score(vectors, batch), batch)
        (gradient,) = torch.autograd.grad(clean, vectors, retain_graph=True)
        disturbed = vectors + settings.adversarial * gradient.sign()
        weight = settings.adversarial_weight
        return (1 - weight) * clean + weight * self._mean_loss(model.score(disturbed, batch), batch)

    def describe_batch(self, batch: ClassifyBatch) -> str:
        return f"{batch.size} examples, longest {batch.longest} tokens"

    def _logits(self, rows: ClassifyRows) -> Float[Tensor, "*m n k"]:
        return score_all(self.model, rows.texts, rows.rows, self.config.evaluation.texts_at_once, self.device)

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_examples(self, examples: Sequence[LabeledText], options: ClassifyOptions) -> list[ClassPrediction]:
        texts = [example.text for example in examples]
        return self._predictions(texts, self.log_probabilities(texts), options)

    def log_probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """The log-probability of every class for each text, in nats."""
        if not texts:
            return np.zeros((0, len(self.names)))
        encoded = self.encoding.texts.encode(self.encoding.texts.tokens(text) for text in texts)
        size = self.config.evaluation.texts_at_once
        return self._log_probs(score_all(self.model, encoded, np.arange(len(texts)), size, self.device))

    # --- reports ------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        lines = [
            f"a classifier of kind {self.config.model.kind}: {len(self.names)} classes, {self.encoding.texts.size:,} "
            f"ids, {self.n_parameters:,} parameters",
            f"classes: {', '.join(self.labels)}",
            describe_temperature(self.config, float(self.temperature), is_bag=isinstance(self.model, BaggingEnsemble)),
        ]
        if isinstance(self.model, BaggingEnsemble):
            lines.append(f"a bag of {len(self.model.members)} models")
        return lines


def score_all(
    model: Classifier, texts: EncodedTexts, rows: np.ndarray, batch_size: int, device: torch.device
) -> Float[Tensor, "*m n k"]:
    """The scores of encoded texts in the order of ``rows``; texts of similar length are scored together."""
    plan = BatchPlan.by_length(texts.lengths[rows], BatchConfig(batch_size=batch_size))
    scores: list[Tensor] = []
    with torch.inference_mode():
        for part in plan:
            scores.append(model(texts.batch(rows[part], None, device)).logits.float().cpu())
    order = np.concatenate(list(plan))
    joined = torch.cat(scores, dim=-2)
    return joined[..., torch.from_numpy(np.argsort(order)), :].clone()
