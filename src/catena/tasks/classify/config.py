"""The config of a text classifier. Imports no torch.

Tested in tests/tasks/classify/media/test_task.py and tests/tasks/classify/test_data.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import (
    BatchConfig,
    FeatureConfig,
    TokenizerConfig,
    VocabularyConfig,
    WordTokenizerConfig,
)
from catena.data.media_config import SoundAugmentationConfig
from catena.encoders.config import (
    ActivationName,
    ConvolutionConfig,
    CustomEncoderConfig,
    PoolingConfig,
    Probability,
    RecurrentConfig,
    SelfAttentiveRecurrentConfig,
    TextConvolutionConfig,
    TransformerConfig,
)
from catena.tasks.baselines.config import BaselinesConfig
from catena.tasks.classify.media_config import MediaClassifierConfig, PictureClassifierConfig, SoundClassifierConfig
from catena.tasks.classify.tree_config import (
    MatrixVectorClassifierConfig,
    RecursiveClassifierConfig,
    TensorClassifierConfig,
    TreeClassifierConfig,
    TreeLSTMClassifierConfig,
    WordVectorConfig,
)
from catena.tasks.config import FilesConfig, FoldsConfig, LengthConfig, MachineConfig, TaskConfig
from catena.tasks.options import PredictOptions
from catena.training.config import TrainingConfig

if TYPE_CHECKING:
    from catena.data.splits import SplitMethod


class ClassifyDataConfig(FilesConfig, FoldsConfig, LengthConfig):
    """The data files, how they are read, and how they are split."""

    text_column: str | None = None
    """Column or key of the text, in files with named columns; found by its name if not set."""
    label_column: str | None = None
    """Column or key of the label; found by its name if not set."""
    file_column: str | None = None
    """For pictures and sounds: column or key of the file names, relative to the table; found by its name if not set."""
    cache: str | None = None
    """For pictures: a folder for the decoded pixels, so that the next run with the same files starts faster."""
    multilabel: bool = False
    """Allow several labels, or none, per text: each label becomes its own binary decision."""
    label_separator: str | None = None
    """Separator of the labels of one text, such as | in sport|politics; needs multilabel."""

    relabel: tuple[str, ...] = ()
    """Labels to rename, as old=new; old= drops the examples with this label."""
    phrases: bool = False
    """For labeled trees (Penn brackets, a class at every node): train on every distinct phrase, not only sentences."""

    def split_method(self) -> SplitMethod:
        return "stratified"

    @model_validator(mode="after")
    def _renames_are_pairs(self) -> ClassifyDataConfig:
        wrong = [pair for pair in self.relabel if "=" not in pair]
        if wrong:
            raise ValueError(f"data.relabel must be pairs old=new, got {wrong[0]!r}. Add the '='.")
        return self

    @model_validator(mode="after")
    def _separator_fits(self) -> ClassifyDataConfig:
        if self.label_separator is not None and not self.multilabel:
            raise ValueError(
                f"data.label_separator = {self.label_separator!r} needs texts with several labels. Set "
                f"data.multilabel = true, or remove it."
            )
        return self


# --- models -----------------------------------------------------------------------------------------------------------


class LogLinearConfig(Config):
    """A log-linear model (maximum entropy, logistic regression) on n-gram features: fast and interpretable."""

    kind: Literal["loglinear"] = "loglinear"
    """The model."""
    features: FeatureConfig = FeatureConfig()
    """The features of a text."""


class TFIDFConfig(Config):
    """Logistic regression on TF-IDF features with an L2 penalty, fitted to convergence: strong on little data."""

    kind: Literal["tfidf"] = "tfidf"
    """The model."""
    features: FeatureConfig = FeatureConfig(ngrams=2, characters=5, characters_from=2, values="log")
    """The features of a text. Those of tokens and those of characters have length 1 each."""
    penalty: float | None = Field(None, gt=0)
    """Weight of half the sum of squared weights. None: chosen by cross-validation on the training texts."""
    folds: int = Field(5, ge=2)
    """Number of parts of the training texts that choose the penalty."""
    class_ratio: float = Field(0.0, ge=0)
    """Values of features are multiplied by the mean ratio of their frequencies in a class and in the others, as a log,
    to this power (Wang & Manning 2012). 0: not at all."""


class PerceptronConfig(Config):
    """A perceptron on n-gram features: a linear model that is updated only on mistakes."""

    kind: Literal["perceptron"] = "perceptron"
    """The model."""
    features: FeatureConfig = FeatureConfig()
    """The features of a text."""


class MLPConfig(Config):
    """A multilayer perceptron on n-gram features."""

    kind: Literal["mlp"] = "mlp"
    """The model."""
    features: FeatureConfig = FeatureConfig(ngrams=1)
    """The features of a text."""
    hidden: Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)] = (100,)
    """Number of units of each hidden layer."""
    activation: ActivationName = "relu"
    """Activation of the hidden layers."""
    dropout_input: Probability = 0.0
    """Dropout probability of the input features."""
    dropout_hidden: Probability = 0.5
    """Dropout probability of the hidden units."""


class NeuralClassifierConfig(WordVectorConfig):
    """Common options of the models on sequences of word vectors."""

    n_highway: int = Field(0, ge=0)
    """Number of highway layers between the text vector and the output layer."""
    highway_carry: Literal["coupled", "own"] = "coupled"
    """Carry gate of highway layers: coupled is 1 - transform gate; own is a separate gate."""


class CNNConfig(NeuralClassifierConfig):
    """The convolutional network of Kim (2014): windows of several sizes, max over time, softmax."""

    kind: Literal["cnn"] = "cnn"
    """The model."""
    convolution: TextConvolutionConfig = TextConvolutionConfig()
    """The windows and their filters."""


class RecurrentClassifierConfig(NeuralClassifierConfig):
    """A recurrent network over the tokens with pooled states."""

    kind: Literal["recurrent"] = "recurrent"
    """The model."""
    encoder: Annotated[
        RecurrentConfig | SelfAttentiveRecurrentConfig | CustomEncoderConfig, Field(discriminator="kind")
    ] = RecurrentConfig()
    """The recurrent encoder, or one of your own."""
    pooling: PoolingConfig = PoolingConfig()
    """How the states are pooled into one vector."""
    pool_outputs: bool = False
    """Pool the scores of all positions instead of their states: the output layer reads each position."""


class ConvolutionalClassifierConfig(NeuralClassifierConfig):
    """Stacked convolutions with pooled vectors."""

    kind: Literal["convolution"] = "convolution"
    """The model."""
    encoder: ConvolutionConfig = ConvolutionConfig()
    """The convolutional encoder."""
    pooling: PoolingConfig = PoolingConfig()
    """How the vectors of the positions are pooled into one."""
    pool_outputs: bool = False
    """Pool the scores of all positions instead of their vectors: the output layer reads each position."""


class TransformerClassifierConfig(NeuralClassifierConfig):
    """A Transformer encoder with pooled vectors."""

    kind: Literal["transformer"] = "transformer"
    """The model."""
    encoder: TransformerConfig = TransformerConfig()
    """The Transformer encoder."""
    pooling: PoolingConfig = PoolingConfig(kind="mean")
    """How the vectors of the positions are pooled into one."""
    pool_outputs: bool = False
    """Pool the scores of all positions instead of their vectors: the output layer reads each position."""


ClassifierConfig = Annotated[
    LogLinearConfig
    | TFIDFConfig
    | PerceptronConfig
    | MLPConfig
    | CNNConfig
    | RecurrentClassifierConfig
    | ConvolutionalClassifierConfig
    | TransformerClassifierConfig
    | TreeLSTMClassifierConfig
    | RecursiveClassifierConfig
    | MatrixVectorClassifierConfig
    | TensorClassifierConfig
    | PictureClassifierConfig
    | SoundClassifierConfig,
    Field(discriminator="kind"),
]
BAG_KINDS = ("loglinear", "tfidf", "perceptron", "mlp")
"""Models on bags of features, without token vectors."""
LINEAR_KINDS = ("loglinear", "tfidf", "perceptron")
"""Linear models, which are trained without a network."""
_NETWORK_OPTIONS = (
    "momentum", "betas", "rho", "schedule", "warmup_steps", "clip_norm", "clip_value", "accumulate", "precision",
    "no_decay", "max_norm", "stop_at", "keep_best", "keep_last", "ema", "average_last", "triggered_average",
)  # fmt: skip
"""Training options that linear models do not have."""


_POOLS_SCORES = ("last", "max", "min", "mean", "attention")
"""Poolings whose output has the size of their input."""


# --- the loss and the whole -------------------------------------------------------------------------------------------


class LossConfig(Config):
    """The training loss."""

    kind: Literal["auto", "cross_entropy", "hinge", "squared_error", "perceptron"] = "auto"
    """The loss; auto is cross_entropy, or perceptron for a perceptron."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: fraction of the target probability that is spread over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """Class weights of the loss; balanced gives every class the same total weight."""
    adversarial: float = Field(0.0, ge=0)
    """Size of the adversarial perturbation of the token vectors (fast gradient sign); 0 disables it."""
    adversarial_weight: float = Field(0.5, gt=0, lt=1)
    """Weight of the loss on the perturbed vectors."""
    sparsity: float = Field(0.0, ge=0)
    """Weight of an L1 penalty on the units of the text vector, which makes most of them zero."""


class BaggingConfig(Config):
    """Bagging: several models, each trained on its own bootstrap sample, with averaged probabilities."""

    members: int = Field(1, ge=1)
    """Number of models; 1 disables bagging."""


class ClassifyEvaluationConfig(Config):
    """How the model is evaluated."""

    calibrate: bool = True
    """Fit a temperature on dev at each evaluation, which calibrates the probabilities."""
    temperature: float = Field(1.0, gt=0)
    """With data.train_on_dev: the temperature, such as that of a run without it. Training data cannot fit one."""
    texts_at_once: int = Field(256, gt=0)
    """Number of texts that are scored together."""
    binary: tuple[str, ...] = ()
    """For trees: map the classes to two sides, as class=side; classes without a side are neutral and not counted. If
    not set and the classes are 0 to 4, as in the Stanford Sentiment Treebank: 0 and 1 against 3 and 4."""

    @model_validator(mode="after")
    def _binary_has_two_sides(self) -> ClassifyEvaluationConfig:
        wrong = [pair for pair in self.binary if "=" not in pair]
        if wrong:
            raise ValueError(f"evaluation.binary must be pairs class=side, got {wrong[0]!r}. Add the '='.")
        sides = sorted({pair.split("=", 1)[1] for pair in self.binary})
        if self.binary and len(sides) != 2:
            raise ValueError(f"evaluation.binary must have two sides, got {', '.join(sides)}. Name exactly two.")
        return self


class ClassifyOptions(PredictOptions):
    """Options of prediction with a classifier."""

    n_best: int = Field(1, ge=1)
    """Return the N most probable labels with their probabilities."""
    threshold: float | None = Field(None, ge=0, le=1)
    """Predict only labels of at least this probability. Default: 0.5 for each label if a text may have several;
    otherwise the most probable label is always predicted."""
    scores: bool = False
    """Add the log-probability of the label."""


METRICS = ("accuracy", "macro_f1", "log_loss", "micro_f1")
"""The scores of a classifier; the first selects checkpoints. With several labels, accuracy counts exact sets."""
_TREE_METRICS = ("accuracy", "node_accuracy", "binary_accuracy", "binary_node_accuracy", "macro_f1", "log_loss")
"""The scores of a classifier of trees: at the root, or at all nodes if the name says so."""

TRAINING_DEFAULTS: dict[str, dict[str, Any]] = {
    "loglinear": {
        "optimizer": "adagrad",
        "learning_rate": 0.1,
        "eps": 1e-6,
        "clip_norm": 0.0,
        "max_epochs": 6,
        "patience": 2,
    },
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
    "picture": {"optimizer": "adamw", "learning_rate": 0.003, "weight_decay": 0.01},
    "sound": {"optimizer": "adamw", "learning_rate": 0.003, "weight_decay": 0.01},
}
"""Default training options of each model."""


class ClassifyConfig(TaskConfig):
    """The config of classification."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = TRAINING_DEFAULTS

    task: Literal["classify"] = "classify"
    pretrained: str | None = None
    """A run of task lm to start from: its tokenizer and vocabulary are used, and its embedding and encoder, with their
    weights, replace model.embedding and model.encoder."""
    unfreeze: int = Field(1, ge=0)
    """With pretrained: unfreeze one more layer, from the top, every N epochs; the first N train only the new layers. 0
    trains all layers from the start."""
    machine: MachineConfig = MachineConfig()
    data: ClassifyDataConfig = ClassifyDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig(lowercase=True)
    vocabulary: VocabularyConfig = VocabularyConfig()
    """Which tokens get their own id, or for models on features, which features are kept."""
    model: ClassifierConfig = CNNConfig()
    bagging: BaggingConfig = BaggingConfig()
    loss: LossConfig = LossConfig()
    batches: BatchConfig = BatchConfig()
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: ClassifyEvaluationConfig = ClassifyEvaluationConfig()
    baselines: BaselinesConfig = BaselinesConfig()

    def known_metrics(self) -> tuple[str, ...]:
        return _TREE_METRICS if isinstance(self.model, TreeClassifierConfig) else METRICS

    def problems(self) -> Iterator[str]:
        if self.training.metric == "micro_f1" and not self.data.multilabel:
            yield "training.metric = 'micro_f1' equals the accuracy if each text has one label. Use 'accuracy'."
        yield from self._loss_problems()
        yield from self._model_problems()
        yield from self._linear_problems()
        yield from self._tree_problems()
        yield from self._media_problems()

    def _loss_problems(self) -> Iterator[str]:
        loss, kind = self.loss, self.model.kind
        if kind in BAG_KINDS and loss.adversarial:
            yield (
                f"loss.adversarial = {loss.adversarial} perturbs token vectors, which model.kind = {kind!r} does not "
                f"have. Use a neural model, such as 'cnn', or remove it."
            )
        if loss.adversarial and self.bagging.members > 1:
            yield "loss.adversarial and bagging.members > 1 cannot be combined. Remove one of them."  # style: option
        if kind in LINEAR_KINDS and loss.sparsity:
            yield (
                f"loss.sparsity = {loss.sparsity} needs hidden units, which model.kind = {kind!r} does not have. "
                f"Remove it, or use training.l1 for sparse weights."
            )
        if kind == "perceptron" and loss.kind not in ("auto", "perceptron"):
            yield (
                f"model.kind = 'perceptron' has its own loss, so loss.kind cannot be {loss.kind!r}. Remove it, or use "
                f"model.kind = 'loglinear'."
            )
        if self.loss_kind in ("hinge", "perceptron") and loss.label_smoothing:
            yield (
                f"loss.label_smoothing = {loss.label_smoothing} needs a loss on probabilities, which "
                f"{self.loss_kind!r} is not. Remove one of them."
            )
        if self.data.multilabel and loss.label_smoothing:
            yield "loss.label_smoothing cannot be combined with data.multilabel = true. Remove one of them."
        if self.data.multilabel and loss.class_weights != "none":
            yield "loss.class_weights cannot be combined with data.multilabel = true. Remove one of them."

    def _model_problems(self) -> Iterator[str]:
        model = self.model
        if self.model.kind in BAG_KINDS and self.model.features.buckets:  # type: ignore[union-attr]
            for name, default in (("min_count", 1), ("max_size", None)):
                if (value := getattr(self.vocabulary, name)) != default:
                    yield (
                        f"vocabulary.{name} must not be set if features are hashed (model.features.buckets), got "
                        f"{value}. Remove one of them."
                    )
        if isinstance(model, TransformerClassifierConfig) and model.encoder.positions == "learned":
            most = model.encoder.max_length
            if self.data.max_length > most:
                yield (
                    f"data.max_length must be at most model.encoder.max_length = {most}, the number of learned "
                    f"positions, got {self.data.max_length}. Make them equal."
                )
        if (
            isinstance(model, RecurrentClassifierConfig | ConvolutionalClassifierConfig | TransformerClassifierConfig)
            and model.pool_outputs
        ):
            if model.pooling.kind not in _POOLS_SCORES:
                yield (
                    f"model.pool_outputs needs a pooling to one score, which model.pooling.kind = "
                    f"{model.pooling.kind!r} is not. Use one of {', '.join(_POOLS_SCORES)}."
                )
            if model.n_highway:
                yield "model.n_highway needs a text vector, which model.pool_outputs does not have. Remove one of them."

    def _linear_problems(self) -> Iterator[str]:
        kind, training = self.model.kind, self.training
        if kind not in LINEAR_KINDS:
            return
        if kind == "tfidf":
            yield from self._tfidf_problems()
        elif training.optimizer not in ("adagrad", "sgd"):
            yield (
                f"training.optimizer must be adagrad or sgd for model.kind = {kind!r}, got {training.optimizer!r}. Use "
                f"adagrad."
            )
        for name in _NETWORK_OPTIONS if kind != "tfidf" else ():
            value = getattr(training, name)
            if value and value != type(training).model_fields[name].get_default():
                yield f"training.{name} is only for networks, not for model.kind = {kind!r}. Remove it."
        if self.pretrained is not None:
            yield f"pretrained needs a network, which model.kind = {kind!r} is not. Remove one of them."

    def _tfidf_problems(self) -> Iterator[str]:
        if self.loss_kind != "cross_entropy":
            yield f"loss.kind must be cross_entropy for model.kind = 'tfidf', got {self.loss_kind!r}. Remove it."
        if self.bagging.members > 1:  # style: option name
            yield "bagging.members is not for model.kind = 'tfidf'. Remove it, or use 'loglinear'."  # style: option

    def _tree_problems(self) -> Iterator[str]:
        kind = self.model.kind
        if not isinstance(self.model, TreeClassifierConfig):
            if self.evaluation.binary:
                yield f"evaluation.binary is only for models on trees, not for model.kind = {kind!r}. Remove it."
            return
        if self.tokenizer.kind not in ("words", "whitespace"):
            yield (
                f"model.kind = {kind!r} reads the words at the leaves of trees, which tokenizer.kind = "
                f"{self.tokenizer.kind!r} would split. Use 'whitespace' or 'words'."
            )
        if self.data.phrases:
            yield f"data.phrases is only for models on texts; model.kind = {kind!r} reads whole trees. Remove it."
        for key, is_set in {"data.multilabel": self.data.multilabel, **self._text_options()}.items():
            if is_set:
                yield f"{key} is only for models on texts; model.kind = {kind!r} reads trees. Remove it."

    def _text_options(self) -> dict[str, bool]:
        """The options that only models on texts have, and whether they are set."""
        return {
            "bagging.members": self.bagging.members > 1,  # style: option name
            "loss.adversarial": self.loss.adversarial > 0,
            "loss.sparsity": self.loss.sparsity > 0,
            "pretrained": self.pretrained is not None,
        }

    def _media_problems(self) -> Iterator[str]:
        kind, data = self.model.kind, self.data
        if not isinstance(self.model, MediaClassifierConfig):
            for name in ("file_column", "cache"):
                if getattr(data, name) is not None:
                    yield f"data.{name} is only for pictures and sounds, not for model.kind = {kind!r}. Remove it."
            return
        text_options = {"data.text_column": data.text_column is not None, "data.phrases": data.phrases}
        for key, is_set in {**text_options, **self._text_options()}.items():
            if is_set:
                yield f"{key} is only for models on texts; model.kind = {kind!r} reads files. Remove it."
        if isinstance(self.model, SoundClassifierConfig):
            if data.cache is not None:
                yield "data.cache is only for pictures; sounds are decoded quickly. Remove it."
            if self.model.input.features == "waveform" and self.model.augmentation != SoundAugmentationConfig():
                yield (
                    "model.augmentation changes log-mel energies, and model.input.features is 'waveform'. Remove one "
                    "of them."
                )

    @property
    def loss_kind(self) -> str:
        """The loss, with auto resolved."""
        if self.loss.kind != "auto":
            return self.loss.kind
        return "perceptron" if self.model.kind == "perceptron" else "cross_entropy"
