"""The config of regression. Imports no torch.

Tested in tests/tasks/regress/test_media.py and tests/tasks/regress/test_neural.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, FeatureConfig, TokenizerConfig, VocabularyConfig, WordTokenizerConfig
from catena.tasks.baselines.config import RegressBaselinesConfig
from catena.tasks.classify.config import (
    TRAINING_DEFAULTS,
    ClassifyConfig,
    ClassifyDataConfig,
    CNNConfig,
    ConvolutionalClassifierConfig,
    LogLinearConfig,
    MLPConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from catena.tasks.classify.media_config import (
    MediaClassifierConfig,
    PictureClassifierConfig,
    SoundClassifierConfig,
)
from catena.tasks.config import FilesConfig, FoldsConfig, LengthConfig, MachineConfig, TaskConfig
from catena.tasks.options import PredictOptions
from catena.training.config import TrainingConfig

_Positive = Annotated[float, Field(gt=0)]
_Candidates = Annotated[tuple[_Positive, ...], Field(min_length=1)]
METRICS = ("rmse", "mae", "r2", "pearson", "spearman", "log_likelihood")
"""The scores of regression; the first selects checkpoints and penalties."""


class RegressDataConfig(FilesConfig, FoldsConfig, LengthConfig):
    """The data files, how they are read, and how they are split."""

    text_column: str | None = None
    """Column or key of the text, or of the file names for models of pictures and sounds; found by its name if not set.
    A table of numbers needs none."""
    value_column: str | None = None
    """Column or key of the number to predict; found by its name, such as score, rating or price, if not set."""
    number_columns: tuple[str, ...] = ()
    """Columns of numbers to predict from, separated by commas. If not set, all of a table without a text column."""


class WeightedFeaturesConfig(Config):
    """Common options of linear models and kernels: the features of a text, and their weights."""

    features: FeatureConfig = FeatureConfig(values="log")
    """The features of a text."""
    tfidf: bool = True
    """Weigh features by their inverse document frequency, and scale those of each text to length 1."""


class LinearRegressionConfig(WeightedFeaturesConfig):
    """Linear regression by maximum likelihood: least squares. Of several solutions, the one of minimum length."""

    kind: Literal["linear"] = "linear"
    """The model."""


class RidgeRegressionConfig(WeightedFeaturesConfig):
    """Linear regression with a penalty on the squared weights. The bias has no penalty."""

    kind: Literal["ridge"] = "ridge"
    """The model."""
    alpha: _Candidates = (0.01, 0.1, 1.0, 10.0, 100.0)
    """Strengths of the penalty, separated by commas. The best on dev is used."""


class KernelRidgeConfig(WeightedFeaturesConfig):
    """Kernel ridge regression with a Gaussian kernel: a weighted sum of similarities to the training examples."""

    kind: Literal["kernel_ridge"] = "kernel_ridge"
    """The model."""
    alpha: _Candidates = (0.01, 0.1, 1.0)
    """Strengths of the penalty, separated by commas. The best on dev is used."""
    gamma: _Candidates = (0.1, 1.0, 10.0)
    """Values of γ in exp(-γ |x - x'|²), times the inverse of the summed variances of the features. The best on dev is
    used."""
    max_examples: int = Field(5000, ge=2)
    """Maximum number of training examples, which are sampled if there are more: time grows with the cube of their
    number, memory with its square."""


RegressorConfig = Annotated[
    LinearRegressionConfig
    | RidgeRegressionConfig
    | KernelRidgeConfig
    | MLPConfig
    | CNNConfig
    | RecurrentClassifierConfig
    | ConvolutionalClassifierConfig
    | TransformerClassifierConfig
    | PictureClassifierConfig
    | SoundClassifierConfig,
    Field(discriminator="kind"),
]


class GaussianOutputConfig(Config):
    """The Gaussian output of neural models: a mean for each example, and a variance."""

    variance: Literal["constant", "learned"] = "constant"
    """constant: the same variance for all examples, which is least squares; learned: the network predicts it."""
    hidden: tuple[Annotated[int, Field(gt=0)], ...] = (64,)
    """Number of units of each hidden layer between the columns of numbers and the output."""


class RegressEvaluationConfig(Config):
    """How the model is evaluated."""

    calibrate: bool = True
    """Scale the standard deviation to the errors on dev. false: maximum likelihood on train, which is too small for
    models with many parameters."""
    deviation: float | None = Field(None, gt=0)
    """With data.train_on_dev: the root mean squared error on dev of a run without it, which scales the standard
    deviation. Training data cannot."""


class RegressOptions(PredictOptions):
    """Options of prediction with a regression model."""

    level: float = Field(0.95, gt=0, lt=1)
    """Probability of the interval from low to high."""


class RegressConfig(TaskConfig):
    """The config of regression."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = TRAINING_DEFAULTS

    task: Literal["regress"] = "regress"
    machine: MachineConfig = MachineConfig()
    data: RegressDataConfig = RegressDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig(lowercase=True)
    vocabulary: VocabularyConfig = VocabularyConfig()
    """Which tokens get their own id, or for models on features, which features are kept."""
    model: RegressorConfig = RidgeRegressionConfig()
    output: GaussianOutputConfig = GaussianOutputConfig()
    batches: BatchConfig = BatchConfig()
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: RegressEvaluationConfig = RegressEvaluationConfig()
    baselines: RegressBaselinesConfig = RegressBaselinesConfig()

    @property
    def is_fitted(self) -> bool:
        """Whether the model is solved for directly instead of being trained in steps."""
        return isinstance(self.model, WeightedFeaturesConfig)

    @property
    def reads_files(self) -> bool:
        """Whether the model reads pictures or sounds."""
        return isinstance(self.model, MediaClassifierConfig)

    def encoder_config(self) -> ClassifyConfig:
        """The config of the classifier whose encoding and encoder the model uses."""
        model = self.model
        if isinstance(model, WeightedFeaturesConfig):
            model = LogLinearConfig(features=model.features)  # type: ignore[assignment]
        data = ClassifyDataConfig(max_length=self.data.max_length)
        return ClassifyConfig(model=model, tokenizer=self.tokenizer, vocabulary=self.vocabulary, data=data)

    @model_validator(mode="after")
    def _encoder_fits(self) -> RegressConfig:
        self.encoder_config()  # raises for options of the encoder that do not fit
        return self

    def known_metrics(self) -> tuple[str, ...]:
        return METRICS

    def problems(self) -> Iterator[str]:
        if self.is_fitted and self.output != GaussianOutputConfig():
            yield (
                f"output is only for neural models, not for model.kind = {self.model.kind!r}. Remove it, or use a "
                f"model such as 'cnn'."
            )
