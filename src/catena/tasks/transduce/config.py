"""The config of a transducer. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig
from catena.registry import did_you_mean
from catena.tasks.config import DataConfig, MachineConfig, check_shares, with_suggestions
from catena.training.config import TrainingConfig
from catena.transduction.config import JointConfig, TransducerConfig

METRICS = ("word_error", "symbol_error")
"""The scores of a transducer, which are better when they are smaller."""

WHAT_NEXT = ("predict RUN FILE --n-best 3 --scores", "evaluate RUN FILE")
"""What one does with a transducer that is trained."""

_RATES = {"features": 0.03, "encoder": 0.002}
"""The learning rates that the two kinds of scores like, where the config does not say."""


def training_defaults(scores: str) -> dict[str, Any]:
    """How a model whose edits are scored so likes to be trained."""
    return {"optimizer": "adam", "learning_rate": _RATES.get(scores), "clip_norm": 5.0, "max_epochs": 20, "patience": 4}


def _sequences(model: Any) -> dict[str, Any]:
    """How an encoder-decoder likes to be trained."""
    network = model.get("network", {}) if isinstance(model, dict) else getattr(model, "network", {})
    kind = network.get("kind", "recurrent") if isinstance(network, dict) else network.kind
    own = {"optimizer": "adam", "clip_norm": 5.0, "max_epochs": 40, "patience": 10}
    if kind == "transformer":
        return {**own, "learning_rate": 0.001, "betas": (0.9, 0.98), "warmup_steps": 1000, "schedule": "inverse_sqrt"}
    return {**own, "learning_rate": 0.001, "schedule": "plateau"}


_Cut = Literal["auto", "characters", "symbols"]


class TransduceDataConfig(DataConfig):
    """Pairs of strings: two columns with a tab between, or a pronouncing dictionary; several targets for one source are
    several lines."""

    source_tokens: _Cut = "auto"
    """What the symbols of a source are: its characters, or symbols that stand between blanks. auto: characters."""
    target_tokens: _Cut = "auto"
    """The same for targets. auto: symbols of a pronouncing dictionary, else characters."""
    swap: bool = False
    """Read sources from the second column and targets from the first."""
    lowercase: bool = False
    """Make sources and targets lower case."""
    strip: str = ""
    """Characters to leave out of every symbol of a target, such as 012 for the stress marks of CMUdict."""
    dev_fraction: float = Field(0.05, gt=0, lt=1)
    """Share of the sources of train that is held out when there is no dev file. A hash of the source decides, so that
    all targets of a source are on one side, and the split is the same everywhere, whatever the seed."""
    test_fraction: float = Field(0.0, ge=0, lt=1)
    """Share of the sources of train that is held out as test, by the same hash, when there is no test file."""
    max_length: int = Field(200, gt=0)
    """The longest source or target in symbols that is trained on; pairs with a longer one are left out."""
    too_long: Literal["drop", "cut"] = "drop"
    """Pairs that are too long cannot be cut."""

    @model_validator(mode="after")
    def _shares_fit(self) -> TransduceDataConfig:
        check_shares(self, self.test_fraction, "is not known for pairs of strings")
        if self.too_long == "cut":
            raise ValueError("data.too_long = 'cut' would part a target from its source: leave it out")
        return self


class TransduceConfig(Config):
    """Strings to strings."""

    task: Literal["transduce"] = "transduce"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    machine: MachineConfig = MachineConfig()
    data: TransduceDataConfig = TransduceDataConfig()
    model: TransducerConfig = JointConfig()
    batches: BatchConfig = BatchConfig(batch_size=64)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Train each model as it likes to be trained, unless the config says how."""
        model = data.get("model", {}) if isinstance(data, dict) else {}
        scores = model.get("scores", "features") if isinstance(model, dict) else getattr(model, "scores", "features")
        return with_suggestions(data, {"edit": training_defaults(str(scores)), "seq2seq": _sequences(model)}, "joint")

    @model_validator(mode="after")
    def _fits_together(self) -> TransduceConfig:
        metric = self.training.metric
        if metric not in (None, *METRICS):
            raise ValueError(
                f"training.metric = {metric!r} is no score of a transducer: {did_you_mean(str(metric), METRICS)}"
            )
        return self
