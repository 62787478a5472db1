"""The config of a language model. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

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
from catena.registry import did_you_mean
from catena.tasks.config import DataConfig, MachineConfig, check_shares, with_suggestions
from catena.training.config import TrainingConfig


class LmDataConfig(DataConfig):
    """The files, how they are read, and which part of them is held out."""

    unit: Literal["line", "file"] = "line"
    """line: every line is a text that ends with </s>, which is counted and predicted like a word. file: a file is one
    text, its line ends are tokens (characters, bytes or subwords), and one </s> stands at its end."""
    blank_lines: Literal["keep", "drop"] = "keep"
    """keep counts a blank line as a text of its own, </s> alone (the custom of WikiText); drop leaves it out."""
    dev_fraction: float = Field(0.1, gt=0, lt=1)
    """Share of the lines of train that is held out when there is no dev file."""
    test_fraction: float = Field(0.0, ge=0, lt=1)
    """Share of the lines of train, at its very end, that is held out as test when there is no test file."""
    split: Literal["end", "random"] = "end"
    """Hold out the last lines, or lines that the seed draws; the latter suits lines that do not follow one another."""
    max_length: int = Field(1000, gt=0)
    """With batches.order = sentences: the longest line in tokens that is trained on (see too_long)."""

    @model_validator(mode="after")
    def _shares_fit(self) -> LmDataConfig:
        check_shares(self, self.test_fraction, "cuts labeled examples, and a text is no such")
        return self


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
"""Options of some estimators, and which ones."""


class NgramConfig(Config):
    """An n-gram model with back-off."""

    kind: Literal["ngram"] = "ngram"
    """The model."""
    order: int = Field(5, ge=1, le=250)
    """The longest n-grams, in tokens."""
    estimator: EstimatorName = "modified-kneser-ney"
    """How probability is taken from what was seen and given to what was not."""
    k: float | None = Field(None, gt=0)
    """With add-k: what is added to every count; 1 if not set."""
    discount: float | None = Field(None, ge=0, le=1)
    """With kneser-ney and absolute-discounting: what is taken from every count; found from the counts if not set."""
    backoff: float | None = Field(None, gt=0, le=1)
    """With stupid-backoff: what the score of a shorter history is multiplied by; 0.4 if not set."""
    prune: tuple[int, ...] = ()
    """Leave out n-grams of length k that occur this often or less; the last number holds for all longer ones."""
    prune_entropy: float = Field(0.0, ge=0)
    """Leave out n-grams whose loss raises perplexity by a share below this, such as 1e-8; 0 keeps all."""
    memory: int | None = Field(None, ge=16)
    """MiB that counting may take, about: beyond that n-grams are sorted in pieces on disk. If not set, all is done in
    memory, which is faster."""

    @model_validator(mode="after")
    def _fits_together(self) -> NgramConfig:
        prune = self.prune
        if prune and (len(prune) > self.order or prune[0] != 0 or list(prune) != sorted(prune)):
            raise ValueError(
                f"model.prune = {list(prune)} must be at most model.order = {self.order} counts that never fall, the "
                "first of them 0, such as 0,0,1"
            )
        for name in self.options():
            if self.estimator not in _OF_ESTIMATORS[name]:
                raise ValueError(
                    f"model.{name} is for model.estimator = {' or '.join(map(repr, _OF_ESTIMATORS[name]))}, and it is "
                    f"{self.estimator!r}: leave {name} out, or take another estimator"
                )
        return self

    def options(self) -> dict[str, float]:
        """The options of the estimator that are set."""
        return {name: value for name in _OF_ESTIMATORS if (value := getattr(self, name)) is not None}


class LmMixtureConfig(Config):
    """Language models mixed word by word, with the weights that suit the text best."""

    kind: Literal["mixture"] = "mixture"
    """The model."""
    runs: tuple[str, ...] = ()
    """Run folders of language models over the same tokens and vocabulary. The mixture keeps copies of them."""
    cache: int = Field(0, ge=0)
    """Mix in a model of so many recent tokens of a text; 0 for none."""
    cache_decay: float = Field(1.0, gt=0, le=1)
    """A token in that cache counts so many times as much as the one after it."""
    weights: tuple[float, ...] = ()
    """The weights, the cache last. If not set, those under which the text is most probable, by
    expectation-maximization: give text that none of the models was trained on."""

    @model_validator(mode="after")
    def _enough(self) -> LmMixtureConfig:
        n = len(self.runs) + (self.cache > 0)
        if n < 2:
            raise ValueError(
                f"a mixture is of two models or more, and model.runs = {list(self.runs)} with model.cache = "
                f"{self.cache} make {n}: name more run folders, or give model.cache a size such as 200"
            )
        if not self.runs:
            raise ValueError("a cache alone finds new words impossible: name a run folder in model.runs beside it")
        sums = not self.weights or abs(sum(self.weights) - 1) < 1e-6
        if self.weights and (len(self.weights) != n or min(self.weights) < 0 or not sums):
            raise ValueError(
                f"model.weights = {list(self.weights)} must be {n} numbers from 0 that sum to 1, or left out"
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
    | TransformerLMConfig,
    Field(discriminator="kind"),
]


class LmBatchConfig(Config):
    """How the text is cut for one step."""

    order: Literal["auto", "contiguous", "windows", "sentences"] = "auto"
    """contiguous: the text is read in batch_size places at once, and each step goes on where the one before ended.
    windows: pieces of the text in random order, cut anew in each epoch. sentences: each line by itself, padded.
    auto is windows for a Transformer, contiguous for the others."""
    batch_size: int = Field(32, gt=0)
    """Sequences in a batch."""
    length: int = Field(64, gt=0)
    """Tokens of each sequence that are read in a step, and that gradients go back through."""
    carry: bool = True
    """With contiguous: carry the state of the encoder from one step to the next, without its gradient. A Transformer
    begins anew in any case."""
    vary: bool = False
    """With contiguous: steps of different lengths around length, so that no place is always the first of a step."""
    bucket: int = Field(50, ge=0)
    """With sentences: sort lines by length inside windows of so many batches; 0 for no sorting."""


class ObjectiveConfig(Config):
    """What is learned."""

    kind: Literal["next", "masked"] = "next"
    """next predicts each token from those before it. masked guesses hidden tokens from both sides: it makes an encoder
    to start other models with, and no text."""
    mask_prob: float = Field(0.15, gt=0, lt=1)
    """With masked: the share of tokens to guess."""
    activation: float = Field(0.0, ge=0)
    """Weight of the mean square of the encoder's vectors, dropped out (Merity et al. 2018: 2)."""
    slowness: float = Field(0.0, ge=0)
    """Weight of the mean square of the change of the encoder's vectors from step to step (there: 1)."""


class LmEvaluationConfig(Config):
    """How the model is judged."""

    streams: int = Field(16, gt=0)
    """Places at which a text is read at once where the state is carried; all but the first begin `context` earlier."""
    context: int = Field(256, ge=0)
    """Tokens that are read before the first that is scored, where reading begins in the middle of a text."""
    stride: int | None = Field(None, gt=0)
    """Tokens that each window of a Transformer scores; the others of the window are context. If not set, half of it."""
    sample: int = Field(40, ge=0)
    """Tokens of text that are written at each evaluation, to look at; 0 for none."""


METRICS = ("perplexity", "nats_per_token", "bits_per_character", "bits_per_byte")
"""The scores of a language model that are better when they are smaller."""

WHAT_NEXT = ("generate RUN", "score RUN FILE")
"""What one does with a language model that is trained."""

SUGGESTED: dict[str, dict[str, Any]] = {
    "rnn": {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0},
    "lstm": {"optimizer": "adam", "learning_rate": 0.002, "clip_norm": 1.0},
    "gru": {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0},
    "feed-forward": {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0},
    "convolution": {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0},
    "transformer": {
        "optimizer": "adamw", "learning_rate": 0.001, "weight_decay": 0.1, "clip_norm": 1.0, "warmup_steps": 100,
        "betas": (0.9, 0.98),
    },
}  # fmt: skip
"""How each model likes to be trained, where the config does not say."""

_BOTH_WAYS: dict[str, dict[str, bool]] = {
    "transformer": {"causal": False},
    **{kind: {"bidirectional": True} for kind in ("rnn", "lstm", "gru")},
}
"""How the encoder of each model is made to see both sides of a token."""


class LmConfig(Config):
    """A language model: p(next token | those before it)."""

    task: Literal["lm"] = "lm"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    machine: MachineConfig = MachineConfig()
    data: LmDataConfig = LmDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig()
    vocabulary: VocabularyConfig = VocabularyConfig(min_count=2)
    model: _LmModel = LSTMLMConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    batches: LmBatchConfig = LmBatchConfig()
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: LmEvaluationConfig = LmEvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Train each model as it likes to be trained, unless the config says how."""
        return with_suggestions(data, SUGGESTED, "lstm")

    @classmethod
    def implied(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """An encoder sees both sides of hidden tokens, unless the config says what it sees."""
        objective, model = data.get("objective"), data.get("model", {})
        if not isinstance(objective, Mapping) or objective.get("kind") != "masked" or not isinstance(model, Mapping):
            return data
        encoder, both = model.get("encoder", {}), _BOTH_WAYS.get(str(model.get("kind", "lstm")))
        if both is None or not isinstance(encoder, Mapping):
            return data
        return {**data, "model": {**model, "encoder": {**both, **encoder}}}

    @model_validator(mode="after")
    def _fits_together(self) -> LmConfig:
        problems = [*self._metric_problems(), *self._text_problems(), *self._model_problems()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _metric_problems(self) -> Iterator[str]:
        metric = self.training.metric
        if metric not in (None, *METRICS):
            yield f"training.metric = {metric!r} is no score of a language model: {did_you_mean(str(metric), METRICS)}"

    def _text_problems(self) -> Iterator[str]:
        if self.data.unit == "file":
            if self.tokenizer.kind in ("whitespace", "words"):
                yield (
                    f"data.unit = 'file' makes line ends tokens, and tokenizer.kind = {self.tokenizer.kind!r} drops "
                    f"them: choose characters, bytes, bpe or unigram, or data.unit = 'line'"
                )
            if self.order == "sentences":
                yield "batches.order = 'sentences' reads lines by themselves, and data.unit is 'file': set it to 'line'"

    def _model_problems(self) -> Iterator[str]:
        masked, kind = self.objective.kind == "masked", self.model.kind
        if masked and kind in ("ngram", "mixture", "feed-forward", "convolution"):
            yield (
                f"objective.kind = 'masked' needs an encoder that can look both ways, and model.kind is {kind!r}: "
                f"choose lstm, gru, rnn or transformer"
            )
        elif masked and self.order == "contiguous":
            yield "objective.kind = 'masked' reads pieces whole: set batches.order to 'windows' or 'sentences'"
        for name in ("activation", "slowness"):
            if masked and getattr(self.objective, name):
                yield f"objective.{name} is for objective.kind = 'next', and it is 'masked': leave {name} out"
        if isinstance(self.model, TransformerLMConfig):
            encoder = self.model.encoder
            if encoder.causal == masked:
                yield (
                    f"model.encoder.causal = {str(encoder.causal).lower()} does not go with objective.kind = "
                    f"{self.objective.kind!r}: set it to {str(not masked).lower()}"
                )
            needed = 1 + (self.data.max_length if self.order == "sentences" else self.batches.length)
            if encoder.positions == "learned" and encoder.max_length < needed:
                yield (
                    f"model.encoder.max_length = {encoder.max_length} learned positions are fewer than the {needed} "
                    f"that a sequence has: raise it"
                )
        elif (
            isinstance(self.model, RNNLMConfig | LSTMLMConfig | GRULMConfig)
            and self.model.encoder.bidirectional
            and not masked
        ):
            yield (
                "model.encoder.bidirectional = true sees the tokens that are to be predicted: set it to false, or "
                "objective.kind to 'masked'"
            )
        elif (
            isinstance(self.model, ConvolutionLMConfig) and getattr(self.model.encoder, "padding", "causal") != "causal"
        ):
            yield "model.encoder.padding = 'same' sees the tokens that are to be predicted: set it to 'causal'"

    @property
    def order(self) -> str:
        """What batches.order = auto stands for."""
        if self.batches.order != "auto":
            return self.batches.order
        return "windows" if self.model.kind == "transformer" or self.objective.kind == "masked" else "contiguous"

    @property
    def carries(self) -> bool:
        """Whether the state goes from one step to the next."""
        return self.order == "contiguous" and self.batches.carry and self.model.kind != "transformer"

    @property
    def is_neural(self) -> bool:
        return self.model.kind in NEURAL_KINDS
