"""The config of a transducer. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig
from catena.registry import did_you_mean
from catena.tasks.config import FractionsConfig, MachineConfig, PairFilesConfig, with_suggestions
from catena.tasks.options import PredictOptions
from catena.training.config import TrainingConfig
from catena.transduction.config import JointConfig, TransducerConfig

METRICS = ("word_error", "symbol_error")
"""Metrics of a transducer; lower is better."""

NEXT_COMMANDS = ("predict RUN FILE --n-best 3 --scores", "evaluate RUN FILE")
"""Commands suggested after training a transducer."""

_RATES = {"features": 0.03, "encoder": 0.002}
"""Default learning rates of the two kinds of scores."""


def training_defaults(scores: str) -> dict[str, Any]:
    """Default training options of a model with this kind of edit scores."""
    return {"optimizer": "adam", "learning_rate": _RATES.get(scores), "clip_norm": 5.0, "max_epochs": 20, "patience": 4}


def _sequences(model: Any) -> dict[str, Any]:
    """Default training options of an encoder-decoder."""
    network = model.get("network", {}) if isinstance(model, dict) else getattr(model, "network", {})
    kind = network.get("kind", "recurrent") if isinstance(network, dict) else network.kind
    own = {"optimizer": "adam", "clip_norm": 5.0, "max_epochs": 40, "patience": 10}
    if kind == "transformer":
        return {**own, "learning_rate": 0.001, "betas": (0.9, 0.98), "warmup_steps": 1000, "schedule": "inverse_sqrt"}
    return {**own, "learning_rate": 0.001, "schedule": "plateau"}


_Tokens = Literal["auto", "characters", "symbols"]


class TransduceDataConfig(PairFilesConfig, FractionsConfig):
    """Pairs of strings, from two columns separated by a tab or a pronouncing dictionary.

    Several targets of one source are several lines.
    """

    source_tokens: _Tokens = "auto"
    """Symbols of a source: its characters, or symbols separated by spaces. auto: characters."""
    target_tokens: _Tokens = "auto"
    """Symbols of a target: its characters, or symbols separated by spaces. auto: symbols in a pronouncing dictionary,
    characters otherwise."""
    lowercase: bool = False
    """Lowercase sources and targets."""
    strip: str = ""
    """Characters to remove from every target symbol, such as 012 for the stress marks of CMUdict."""
    dev_fraction: float = Field(0.05, gt=0, lt=1)
    """Fraction of the training pairs used as dev set if no dev file is given. Chosen by a hash of the source: all
    targets of a source are in the same split, and the split does not depend on the seed."""
    test_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of the training pairs used as test set if no test file is given, chosen in the same way."""
    max_length: int = Field(200, gt=0)
    """Longest source or target in symbols in training. Longer pairs are dropped."""


class TransduceOptions(PredictOptions):
    """Options of prediction with a transducer."""

    n_best: int = Field(1, ge=1)
    """Return the N best targets, best first."""
    beam_size: int | None = Field(None, ge=1)
    """Beam size of the search, for models of kind seq2seq. 1 is greedy search. Default: as in the config."""
    scores: bool = False
    """Add the log-probability of the target."""
    alignment: bool = False
    """Add the pieces of the source and the pieces of the target that they are aligned with."""


class TransduceConfig(Config):
    """Config of a string transducer."""

    task: Literal["transduce"] = "transduce"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """Seed of all random numbers."""
    machine: MachineConfig = MachineConfig()
    data: TransduceDataConfig = TransduceDataConfig()
    model: TransducerConfig = JointConfig()
    batches: BatchConfig = BatchConfig(batch_size=64)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Add the default training options of the model where the config has none."""
        model = data.get("model", {}) if isinstance(data, dict) else {}
        scores = model.get("scores", "features") if isinstance(model, dict) else getattr(model, "scores", "features")
        return with_suggestions(data, {"edit": training_defaults(str(scores)), "seq2seq": _sequences(model)}, "joint")

    @model_validator(mode="after")
    def _fits_together(self) -> TransduceConfig:
        metric = self.training.metric
        if metric not in (None, *METRICS):
            raise ValueError(
                f"Unknown training.metric {metric!r} of a transducer: {did_you_mean(str(metric), METRICS)}"
            )
        return self
