"""The config of a text classifier. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import (
    BatchConfig,
    FeatureConfig,
    TokenizerConfig,
    VocabularyConfig,
    WordTokenizerConfig,
)
from catena.encoders.config import (
    ActivationName,
    ConvolutionConfig,
    PoolingConfig,
    Probability,
    RecurrentConfig,
    SelfAttentiveRecurrentConfig,
    TextConvolutionConfig,
    TransformerConfig,
)
from catena.registry import did_you_mean
from catena.tasks.classify.tree_config import (
    MatrixVectorClassifierConfig,
    RecursiveClassifierConfig,
    TensorClassifierConfig,
    TreeClassifierConfig,
    TreeLSTMClassifierConfig,
    WordVectorConfig,
)
from catena.tasks.config import DataConfig, MachineConfig, with_suggestions
from catena.training.config import TrainingConfig


class ClassifyDataConfig(DataConfig):
    """The files, how they are read, and which part of them is held out."""

    multilabel: bool = False
    """A text may have several labels, or none: each label becomes a yes-or-no question of its own."""
    label_separator: str | None = None
    """What stands between the labels of one text, such as | in sport|politics; needs multilabel."""

    relabel: tuple[str, ...] = ()
    """Labels to rename, as old=new; what is renamed to nothing (old=) is left out and counted as dropped."""
    phrases: bool = False
    """Of labeled trees (Penn brackets, a class at every node): train on every phrase once, not on sentences alone."""

    @model_validator(mode="after")
    def _renames_are_pairs(self) -> ClassifyDataConfig:
        wrong = [pair for pair in self.relabel if "=" not in pair]
        if wrong:
            raise ValueError(f"data.relabel takes pairs as old=new, and {wrong[0]!r} has no =")
        return self

    @model_validator(mode="after")
    def _separator_fits(self) -> ClassifyDataConfig:
        if self.label_separator is not None and not self.multilabel:
            raise ValueError(
                f"data.label_separator = {self.label_separator!r} is for texts with several labels: "
                f"set data.multilabel = true, or leave it out"
            )
        return self


# --- models -----------------------------------------------------------------------------------------------------------


class LogLinearConfig(Config):
    """A log-linear model (maximum entropy, logistic regression) on n-gram features: quick, and open to inspection."""

    kind: Literal["loglinear"] = "loglinear"
    """The model."""
    features: FeatureConfig = FeatureConfig()
    """What the model sees of a text."""


class PerceptronConfig(Config):
    """A perceptron on n-gram features: a linear model that learns from its mistakes alone."""

    kind: Literal["perceptron"] = "perceptron"
    """The model."""
    features: FeatureConfig = FeatureConfig()
    """What the model sees of a text."""


class MLPConfig(Config):
    """A multilayer perceptron on n-gram features."""

    kind: Literal["mlp"] = "mlp"
    """The model."""
    features: FeatureConfig = FeatureConfig(ngrams=1)
    """What the model sees of a text."""
    hidden: Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)] = (100,)
    """Units of each hidden layer."""
    activation: ActivationName = "relu"
    """Activation of the hidden layers."""
    dropout_input: Probability = 0.0
    """Probability of dropping a feature of the text in training."""
    dropout_hidden: Probability = 0.5
    """Probability of dropping a hidden unit in training."""


class NeuralClassifierConfig(WordVectorConfig):
    """What the models on sequences of word vectors share."""

    n_highway: int = Field(0, ge=0)
    """Highway layers between the text's vector and the output layer."""
    highway_carry: Literal["coupled", "own"] = "coupled"
    """What highway layers carry: coupled carries what is not transformed, 1 - transform; own has a gate of its own."""


class CNNConfig(NeuralClassifierConfig):
    """The convolutional network of Kim (2014): windows of several sizes, max over time, softmax."""

    kind: Literal["cnn"] = "cnn"
    """The model."""
    convolution: TextConvolutionConfig = TextConvolutionConfig()
    """The windows and their filters."""


class RecurrentClassifierConfig(NeuralClassifierConfig):
    """A recurrent network over the tokens, whose states are pooled into one vector."""

    kind: Literal["recurrent"] = "recurrent"
    """The model."""
    encoder: Annotated[RecurrentConfig | SelfAttentiveRecurrentConfig, Field(discriminator="kind")] = RecurrentConfig()
    """The recurrent encoder."""
    pooling: PoolingConfig = PoolingConfig()
    """How the states become one vector."""
    pool_outputs: bool = False
    """Pool the scores of every position instead of their states: the output layer then reads each position."""


class ConvolutionalClassifierConfig(NeuralClassifierConfig):
    """Stacked convolutions, one vector for each position, whose vectors are pooled into one."""

    kind: Literal["convolution"] = "convolution"
    """The model."""
    encoder: ConvolutionConfig = ConvolutionConfig()
    """The convolutional encoder."""
    pooling: PoolingConfig = PoolingConfig()
    """How the vectors of the positions become one."""
    pool_outputs: bool = False
    """Pool the scores of every position instead of their vectors: the output layer then reads each position."""


class TransformerClassifierConfig(NeuralClassifierConfig):
    """A Transformer encoder, whose vectors are pooled into one."""

    kind: Literal["transformer"] = "transformer"
    """The model."""
    encoder: TransformerConfig = TransformerConfig()
    """The Transformer encoder."""
    pooling: PoolingConfig = PoolingConfig(kind="mean")
    """How the vectors of the positions become one."""
    pool_outputs: bool = False
    """Pool the scores of every position instead of their vectors: the output layer then reads each position."""


ClassifierConfig = Annotated[
    LogLinearConfig
    | PerceptronConfig
    | MLPConfig
    | CNNConfig
    | RecurrentClassifierConfig
    | ConvolutionalClassifierConfig
    | TransformerClassifierConfig
    | TreeLSTMClassifierConfig
    | RecursiveClassifierConfig
    | MatrixVectorClassifierConfig
    | TensorClassifierConfig,
    Field(discriminator="kind"),
]
BAG_KINDS = ("loglinear", "perceptron", "mlp")
"""Models that see a text as a bag of features, and have no vectors of tokens."""


_POOLS_SCORES = ("last", "max", "min", "mean", "attention")
"""Poolings that give a vector of the size they are given."""


# --- the loss and the whole -------------------------------------------------------------------------------------------


class LossConfig(Config):
    """What training makes small."""

    kind: Literal["auto", "cross_entropy", "hinge", "squared_error", "perceptron"] = "auto"
    """The loss; auto is cross_entropy, and the perceptron's own for a perceptron."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of the target that is spread over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced gives every class the same weight in the loss, however rare it is."""
    adversarial: float = Field(0.0, ge=0)
    """Size of the step against the model that is added to the token vectors (fast gradient sign); 0 for none."""
    adversarial_weight: float = Field(0.5, gt=0, lt=1)
    """Share of the loss on the disturbed vectors."""
    sparsity: float = Field(0.0, ge=0)
    """Weight of an L1 penalty on the units of the text's vector, which makes most of them zero."""


class BaggingConfig(Config):
    """Several models in one, each trained on its own bootstrap sample; their probabilities are averaged."""

    members: int = Field(1, ge=1)
    """How many models; 1 is no bagging."""


class ClassifyEvaluationConfig(Config):
    """How the model is judged."""

    calibrate: bool = True
    """Fit a temperature on dev at each evaluation, so that probabilities mean what they say."""
    texts_at_once: int = Field(256, gt=0)
    """Texts that are scored together."""
    binary: tuple[str, ...] = ()
    """Of trees: the classes of a finer scale as two, as class=side; what is on no side is neutral and not counted. If
    not set and the classes are 0 to 4, as in the Stanford trees: 0 and 1 against 3 and 4."""

    @model_validator(mode="after")
    def _binary_has_two_sides(self) -> ClassifyEvaluationConfig:
        wrong = [pair for pair in self.binary if "=" not in pair]
        if wrong:
            raise ValueError(f"evaluation.binary takes pairs as class=side, and {wrong[0]!r} has no =")
        sides = sorted({pair.split("=", 1)[1] for pair in self.binary})
        if self.binary and len(sides) != 2:
            raise ValueError(f"evaluation.binary must have two sides, and has {', '.join(sides)}: name two")
        return self


METRICS = ("accuracy", "macro_f1", "log_loss", "micro_f1")
"""The scores of a classifier; the first decides which checkpoint is best. With several labels it counts exact sets."""
_TREE_METRICS = ("accuracy", "node_accuracy", "binary_accuracy", "binary_node_accuracy", "macro_f1", "log_loss")
"""The scores of a classifier of trees: at the root, or at all nodes where its name says so."""

TRAINING_DEFAULTS: dict[str, dict[str, Any]] = {
    "loglinear": {"optimizer": "adam", "learning_rate": 0.01, "weight_decay": 1e-5, "clip_norm": 0.0},
    "perceptron": {"optimizer": "sgd", "learning_rate": 1.0, "clip_norm": 0.0},
    "mlp": {"optimizer": "adam", "learning_rate": 0.003},
    "cnn": {"optimizer": "adam", "learning_rate": 0.001},
    "recurrent": {"optimizer": "adam", "learning_rate": 0.002},
    "convolution": {"optimizer": "adam", "learning_rate": 0.001},
    "transformer": {"optimizer": "adamw", "learning_rate": 0.0005, "weight_decay": 0.01, "warmup_steps": 100},
    "tree_lstm": {"optimizer": "adam", "learning_rate": 0.001},
    "recursive": {"optimizer": "adam", "learning_rate": 0.001},
    "mv_rnn": {"optimizer": "adam", "learning_rate": 0.001},
    "rntn": {"optimizer": "adam", "learning_rate": 0.001},
}
"""How each model likes to be trained, where the config does not say."""


class ClassifyConfig(Config):
    """Texts into classes."""

    task: Literal["classify"] = "classify"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    pretrained: str | None = None
    """A run of task lm to start from: its tokenizer and vocabulary are used, and its embedding and encoder, with their
    weights, take the place of model.embedding and model.encoder."""
    unfreeze: int = Field(1, ge=0)
    """With pretrained: epochs after which one more layer, from the top, is trained; only what is new is in the first. 0
    trains everything from the start."""
    machine: MachineConfig = MachineConfig()
    data: ClassifyDataConfig = ClassifyDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig(lowercase=True)
    vocabulary: VocabularyConfig = VocabularyConfig()
    """Which tokens get an id of their own, or for models on features which features are kept."""
    model: ClassifierConfig = CNNConfig()
    bagging: BaggingConfig = BaggingConfig()
    loss: LossConfig = LossConfig()
    batches: BatchConfig = BatchConfig()
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: ClassifyEvaluationConfig = ClassifyEvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Train each model as it likes to be trained, unless the config says how."""
        return with_suggestions(data, TRAINING_DEFAULTS, "cnn")

    @model_validator(mode="after")
    def _fits_together(self) -> ClassifyConfig:
        problems = [*self._metric_problems(), *self._loss_problems(), *self._model_problems(), *self._tree_problems()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _metric_problems(self) -> Iterator[str]:
        metric = self.training.metric
        known = _TREE_METRICS if isinstance(self.model, TreeClassifierConfig) else METRICS
        if metric not in (None, *known):
            yield f"training.metric = {metric!r} is no score of this classifier: {did_you_mean(str(metric), known)}"
        if metric == "micro_f1" and not self.data.multilabel:
            yield "training.metric = 'micro_f1' is the accuracy where a text has one label: say 'accuracy'"

    def _loss_problems(self) -> Iterator[str]:
        loss, kind = self.loss, self.model.kind
        if kind in BAG_KINDS and loss.adversarial:
            yield (
                f"loss.adversarial = {loss.adversarial} disturbs the vectors of tokens, and model.kind = {kind!r} has "
                f"none: choose a model on vectors, such as 'cnn', or leave it out"
            )
        if loss.adversarial and self.bagging.members > 1:
            yield "loss.adversarial and bagging.members > 1 cannot be had together: leave one of them out"
        if kind in ("loglinear", "perceptron") and loss.sparsity:
            yield (
                f"loss.sparsity = {loss.sparsity} is for hidden units, and model.kind = {kind!r} has none: "
                f"leave it out, or use training.l1 for sparse weights"
            )
        if kind == "perceptron" and loss.kind not in ("auto", "perceptron"):
            yield (
                f"model.kind = 'perceptron' has its own loss, and loss.kind is {loss.kind!r}: "
                f"leave it out, or choose model.kind = 'loglinear'"
            )
        if self.loss_kind in ("hinge", "perceptron") and loss.label_smoothing:
            yield (
                f"loss.label_smoothing = {loss.label_smoothing} needs a loss on probabilities, and the loss is "
                f"{self.loss_kind!r}: leave one of them out"
            )
        if self.data.multilabel and loss.label_smoothing:
            yield "loss.label_smoothing is for one label a text, and data.multilabel is true: leave it out"
        if self.data.multilabel and loss.class_weights != "none":
            yield "loss.class_weights is for one label a text, and data.multilabel is true: leave it out"

    def _model_problems(self) -> Iterator[str]:
        model = self.model
        if self.model.kind in BAG_KINDS and self.model.features.buckets:  # type: ignore[union-attr]
            for name, default in (("min_count", 1), ("max_size", None)):
                if (value := getattr(self.vocabulary, name)) != default:
                    yield (
                        f"vocabulary.{name} must be left out where features are hashed (model.features.buckets), got "
                        f"{value}. Leave out one of them."
                    )
        if isinstance(model, TransformerClassifierConfig) and model.encoder.positions == "learned":
            most = model.encoder.max_length
            if self.data.max_length > most:
                yield (
                    f"data.max_length = {self.data.max_length} is more than the learned positions of "
                    f"model.encoder.max_length = {most}: make them equal"
                )
        if (
            isinstance(model, RecurrentClassifierConfig | ConvolutionalClassifierConfig | TransformerClassifierConfig)
            and model.pool_outputs
        ):
            if model.pooling.kind not in _POOLS_SCORES:
                yield (
                    f"model.pool_outputs makes one score of many; model.pooling.kind = {model.pooling.kind!r} keeps "
                    f"several: choose one of {', '.join(_POOLS_SCORES)}"
                )
            if model.n_highway:
                yield "model.n_highway works on the text's vector, and model.pool_outputs makes none: leave one out"

    def _tree_problems(self) -> Iterator[str]:
        kind = self.model.kind
        if not isinstance(self.model, TreeClassifierConfig):
            if self.evaluation.binary:
                yield f"evaluation.binary is for models on trees, and model.kind is {kind!r}: leave it out"
            return
        if self.tokenizer.kind not in ("words", "whitespace"):
            yield (
                f"model.kind = {kind!r} reads the words at the leaves of trees, and tokenizer.kind = "
                f"{self.tokenizer.kind!r} would cut them: say 'whitespace' or 'words'"
            )
        if self.data.phrases:
            yield f"data.phrases makes texts of nodes, and model.kind = {kind!r} sees all in their trees: leave it out"
        refused = {
            "data.multilabel": self.data.multilabel,
            "bagging.members": self.bagging.members > 1,
            "loss.adversarial": self.loss.adversarial > 0,
            "loss.sparsity": self.loss.sparsity > 0,
            "pretrained": self.pretrained is not None,
        }
        for key, is_set in refused.items():
            if is_set:
                yield f"{key} is for models on texts, and model.kind = {kind!r} reads trees: leave it out"

    @property
    def loss_kind(self) -> str:
        """The loss that auto stands for."""
        if self.loss.kind != "auto":
            return self.loss.kind
        return "perceptron" if self.model.kind == "perceptron" else "cross_entropy"
