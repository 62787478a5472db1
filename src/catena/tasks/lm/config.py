"""The config of a language model. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import TokenizerConfig, VocabularyConfig, WordTokenizerConfig
from catena.lm.neural_config import (
    NEURAL_KINDS,
    ConvolutionLMConfig,
    FeedForwardLMConfig,
    GRULMConfig,
    LSTMLMConfig,
    RNNLMConfig,
    TransformerLMConfig,
)
from catena.tasks.config import FilesConfig, FractionsConfig, LengthConfig, MachineConfig, TaskConfig
from catena.tasks.lm.sound import config as sound
from catena.tasks.lm.sound.config import WaveNetLMConfig
from catena.tasks.options import PredictOptions
from catena.training.config import TrainingConfig

if TYPE_CHECKING:
    from catena.data.splits import SplitMethod


class LmDataConfig(FilesConfig, FractionsConfig, LengthConfig):
    """Data files of a language model, their format and how they are split."""

    text_column: str | None = None
    """Column or key of the text, in files with named columns; found by its name if not set."""
    unit: Literal["line", "paragraph", "file"] = "line"
    """line: each line is one text; it ends with </s>, which is counted and predicted like a word. paragraph: the lines
    between blank lines are one text, for wrapped prose. file: each file is one text; its line breaks are tokens
    (characters, bytes or subwords), and </s> comes only at its end."""
    blank_lines: Literal["keep", "drop"] = "keep"
    """keep: a blank line is a text that consists of </s> only (the WikiText convention). drop: skip blank lines."""
    split: Literal["end", "random"] = "end"
    """end: the dev and test sets are the last lines of train. random: they are sampled lines, for independent lines.
    With recordings, end: the end of each recording; random: whole recordings by their names, the default unless there
    is only one."""
    max_length: int = Field(1000, gt=0)
    """With batches.order = sentences: the longest training line in tokens (see too_long)."""
    file_column: str | None = None
    """Column of the names of sound files, relative to the table; found by its name if not set."""
    speaker_column: str | None = None
    """Column of the speaker of a recording; found by its name if not set."""
    series_column: str | None = None
    """With model.local = series: the column of the .npy files, relative to the table. If not set, the series of a.wav
    is in a.npy."""
    speaker: str | None = None
    """Speaker of the recordings for which a file or folder names none."""

    def split_method(self) -> SplitMethod:
        return self.split


EstimatorName = Literal[
    "modified-kneser-ney",
    "kneser-ney",
    "absolute-discounting",
    "witten-bell",
    "katz",
    "good-turing",
    "add-k",
    "maximum-likelihood",
    "stupid-backoff",
]
_OF_ESTIMATORS = {
    "k": ("add-k",),
    "discount": ("kneser-ney", "absolute-discounting"),
    "backoff": ("stupid-backoff",),
}
"""The estimators that each option belongs to."""


class NgramConfig(Config):
    """An n-gram model with back-off."""

    kind: Literal["ngram"] = "ngram"
    """The model."""
    order: int = Field(5, ge=1, le=250)
    """Length of the longest n-grams, in tokens."""
    estimator: EstimatorName = "modified-kneser-ney"
    """Smoothing method, which moves probability from seen to unseen n-grams."""
    k: float | None = Field(None, gt=0)
    """With add-k: the value added to every count. 1 if not set."""
    discount: float | None = Field(None, ge=0, le=1)
    """With kneser-ney and absolute-discounting: the value subtracted from every count. Estimated from the counts if
    not set."""
    backoff: float | None = Field(None, gt=0, le=1)
    """With stupid-backoff: the factor for the score of a shorter history. 0.4 if not set."""
    prune: tuple[int, ...] = ()
    """Count thresholds by n-gram length: remove n-grams that occur at most this often. The last threshold also applies
    to all longer n-grams."""
    prune_entropy: float = Field(0.0, ge=0)
    """Remove n-grams whose removal raises perplexity by less than this fraction, such as 1e-8. 0 keeps all."""
    memory: int | None = Field(None, ge=16)
    """Approximate memory limit for counting, in MiB: larger counts are sorted in blocks on disk. If not set, everything
    stays in memory, which is faster."""

    @model_validator(mode="after")
    def _fits_together(self) -> NgramConfig:
        prune = self.prune
        if prune and (len(prune) > self.order or prune[0] != 0 or list(prune) != sorted(prune)):
            raise ValueError(
                f"model.prune must be at most model.order = {self.order} non-decreasing counts that start with 0, got "
                f"{list(prune)}. Use a value such as 0,0,1."
            )
        for name in self.options():
            if self.estimator not in _OF_ESTIMATORS[name]:
                raise ValueError(
                    f"model.estimator must be {' or '.join(map(repr, _OF_ESTIMATORS[name]))} if model.{name} is set, "
                    f"got {self.estimator!r}. Remove {name}, or choose another estimator."
                )
        return self

    def options(self) -> dict[str, float]:
        """The options of the estimator that are set."""
        return {name: value for name in _OF_ESTIMATORS if (value := getattr(self, name)) is not None}


class LmMixtureConfig(Config):
    """Linear interpolation of language models, with weights fitted on the text."""

    kind: Literal["mixture"] = "mixture"
    """The model."""
    runs: tuple[str, ...] = ()
    """Run folders of language models with the same tokenizer and vocabulary. The mixture keeps copies of them."""
    cache: int = Field(0, ge=0)
    """Add a cache model over the last N tokens of the text. 0 adds none."""
    cache_decay: float = Field(1.0, gt=0, le=1)
    """Factor by which the count of a token in the cache falls with each later token."""
    weights: tuple[float, ...] = ()
    """The mixture weights; the weight of the cache is last. If not set, expectation-maximization finds the weights that
    maximize the likelihood of the training text: use text that none of the models was trained on."""

    @model_validator(mode="after")
    def _enough(self) -> LmMixtureConfig:
        n = len(self.runs) + (self.cache > 0)
        if n < 2:
            raise ValueError(
                f"model.runs and model.cache must make at least 2 models, got model.runs = {list(self.runs)} with "
                f"model.cache = {self.cache}. Add run folders, or set model.cache to a size such as 200."
            )
        if not self.runs:
            raise ValueError(
                "model.runs is empty, and a cache model gives new words probability 0. Add a run folder to model.runs."
            )
        sums = not self.weights or abs(sum(self.weights) - 1) < 1e-6
        if self.weights and (len(self.weights) != n or min(self.weights) < 0 or not sums):
            raise ValueError(
                f"model.weights must be {n} nonnegative values that sum to 1, got {list(self.weights)}. Correct them, "
                "or remove model.weights to fit them."
            )
        return self


_LmModel = Annotated[
    NgramConfig
    | LmMixtureConfig
    | RNNLMConfig
    | LSTMLMConfig
    | GRULMConfig
    | FeedForwardLMConfig
    | ConvolutionLMConfig
    | TransformerLMConfig
    | WaveNetLMConfig,
    Field(discriminator="kind"),
]


class LmBatchConfig(Config):
    """How the text is split into training batches."""

    order: Literal["auto", "contiguous", "windows", "sentences"] = "auto"
    """contiguous: batch_size parallel streams of the text; each step continues where the previous one ended.
    windows: windows of the text in random order, with new boundaries in each epoch. sentences: single lines, padded.
    auto: windows for a Transformer or masked objective, contiguous otherwise."""
    batch_size: int = Field(32, gt=0)
    """Number of sequences in a batch."""
    length: int = Field(64, gt=0)
    """Tokens of each sequence in a step; gradients are truncated to this length."""
    carry: bool = True
    """With contiguous: carry the encoder state from one step to the next, without its gradient. A Transformer has no
    state to carry."""
    vary: bool = False
    """With contiguous: vary the step length around `length`, so that step boundaries move between epochs."""
    bucket: int = Field(50, ge=0)
    """With sentences: sort lines by length inside windows of N batches. 0 disables sorting."""


class ObjectiveConfig(Config):
    """The training objective."""

    kind: Literal["next", "masked"] = "next"
    """next: predict each token from the previous ones. masked: predict masked tokens from both sides, which pretrains
    an encoder for other tasks and cannot generate text."""
    mask_prob: float = Field(0.15, gt=0, lt=1)
    """With masked: the fraction of tokens to predict."""
    activation: float = Field(0.0, ge=0)
    """Activation regularization: weight of the mean square of the encoder output after dropout (Merity et al. 2018 use
    2)."""
    slowness: float = Field(0.0, ge=0)
    """Temporal activation regularization: weight of the mean square of the change of the encoder output between steps
    (Merity et al. 2018 use 1)."""


class LmEvaluationConfig(Config):
    """How the model is evaluated."""

    streams: int = Field(16, gt=0)
    """Number of parallel streams a text is split into if the state is carried. All but the first start `context` tokens
    early."""
    context: int = Field(256, ge=0)
    """Context tokens read before the first scored token of a stream that starts inside a text."""
    stride: int | None = Field(None, gt=0)
    """Tokens scored in each window of a Transformer; the rest of the window is context. Half the window if not set."""
    sample: int = Field(40, ge=0)
    """Tokens of sample text generated at each evaluation. 0 generates none."""


class LmOptions(PredictOptions):
    """A language model scores texts; it has no options of prediction."""


METRICS = ("perplexity", "nats_per_token", "bits_per_character", "bits_per_byte")
"""Metrics of a language model for which lower is better."""

NEXT_COMMANDS = ("generate RUN", "score RUN FILE")
"""Commands suggested after training a language model."""

_BOTH_WAYS: dict[str, dict[str, bool]] = {
    "transformer": {"causal": False},
    **{kind: {"bidirectional": True} for kind in ("rnn", "lstm", "gru")},
}
"""Options that make the encoder of each model bidirectional."""


class LmConfig(TaskConfig):
    """Config of a language model, p(next token | previous tokens)."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "rnn": {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0},
        "lstm": {"optimizer": "adam", "learning_rate": 0.002, "clip_norm": 1.0},
        "gru": {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0},
        "feed-forward": {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0},
        "convolution": {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0},
        "transformer": {
            "optimizer": "adamw", "learning_rate": 0.001, "weight_decay": 0.1, "clip_norm": 1.0, "warmup_steps": 100,
            "betas": (0.9, 0.98),
        },
        "wavenet": sound.TRAINING,
    }  # fmt: skip

    task: Literal["lm"] = "lm"
    machine: MachineConfig = MachineConfig()
    data: LmDataConfig = LmDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig()
    vocabulary: VocabularyConfig = VocabularyConfig(min_count=2)
    model: _LmModel = LSTMLMConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    batches: LmBatchConfig = LmBatchConfig()
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: LmEvaluationConfig = LmEvaluationConfig()

    @classmethod
    def implied(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The config with a bidirectional encoder if the objective is masked and the config does not set it.

        A model of recordings has batches of its own.
        """
        objective, model = data.get("objective"), data.get("model", {})
        if isinstance(model, Mapping) and model.get("kind") == "wavenet":
            return sound.with_sound_defaults(data)
        if not isinstance(objective, Mapping) or objective.get("kind") != "masked" or not isinstance(model, Mapping):
            return data
        encoder, both = model.get("encoder", {}), _BOTH_WAYS.get(str(model.get("kind", "lstm")))
        if both is None or not isinstance(encoder, Mapping):
            return data
        return {**data, "model": {**model, "encoder": {**both, **encoder}}}

    def known_metrics(self) -> tuple[str, ...]:
        return (sound.METRIC,) if self.model.kind == "wavenet" else METRICS

    def problems(self) -> Iterator[str]:
        yield from self._text_problems()
        yield from self._model_problems()

    def _text_problems(self) -> Iterator[str]:
        if self.data.unit == "file":
            if self.tokenizer.kind in ("whitespace", "words"):
                yield (
                    f"tokenizer.kind must keep line breaks if data.unit = 'file', got {self.tokenizer.kind!r}. Choose "
                    f"characters, bytes, bpe or unigram, or set data.unit to 'line'."
                )
            if self.order == "sentences":
                yield (
                    "data.unit must be 'line' if batches.order = 'sentences', got 'file'. Set data.unit to 'line', or "
                    "choose another batches.order."
                )

    def _model_problems(self) -> Iterator[str]:
        masked, kind = self.objective.kind == "masked", self.model.kind
        if masked and kind in ("ngram", "mixture", "feed-forward", "convolution", "wavenet"):
            yield (
                f"model.kind must be lstm, gru, rnn or transformer if objective.kind = 'masked', got {kind!r}. Choose "
                f"one of them, or set objective.kind to 'next'."
            )
        elif masked and self.order == "contiguous":
            yield (
                "batches.order must be 'windows' or 'sentences' if objective.kind = 'masked', got 'contiguous'. Choose "
                "one of the two."
            )
        for name in ("activation", "slowness"):
            if masked and getattr(self.objective, name):
                yield f"objective.kind must be 'next' if objective.{name} is set, got 'masked'. Remove {name}."
        if isinstance(self.model, TransformerLMConfig):
            encoder = self.model.encoder
            if encoder.causal == masked:
                yield (
                    f"model.encoder.causal must be {str(not masked).lower()} if objective.kind = "
                    f"{self.objective.kind!r}, got {str(encoder.causal).lower()}. Remove it, or change objective.kind."
                )
            needed = 1 + (self.data.max_length if self.order == "sentences" else self.batches.length)
            if encoder.positions == "learned" and encoder.max_length < needed:
                yield (
                    f"model.encoder.max_length must be at least {needed}, the length of a sequence, if positions are "
                    f"learned, got {encoder.max_length}. Set it to {needed}, or choose other positions."
                )
        elif (
            isinstance(self.model, RNNLMConfig | LSTMLMConfig | GRULMConfig)
            and self.model.encoder.bidirectional
            and not masked
        ):
            yield (
                "model.encoder.bidirectional must be false if objective.kind = 'next', got true. Set it to false, or "
                "objective.kind to 'masked'."
            )
        elif (
            isinstance(self.model, ConvolutionLMConfig) and getattr(self.model.encoder, "padding", "causal") != "causal"
        ):
            yield (
                "model.encoder.padding must be 'causal' because 'same' sees the tokens to predict, got 'same'. Set it "
                "to 'causal'."
            )

    @property
    def order(self) -> str:
        """The batch order, with ``auto`` resolved."""
        if self.batches.order != "auto":
            return self.batches.order
        return "windows" if self.model.kind == "transformer" or self.objective.kind == "masked" else "contiguous"

    @property
    def carries(self) -> bool:
        """Whether the encoder state is carried from one step to the next."""
        return self.order == "contiguous" and self.batches.carry and self.model.kind != "transformer"

    @property
    def is_neural(self) -> bool:
        return self.model.kind in NEURAL_KINDS
