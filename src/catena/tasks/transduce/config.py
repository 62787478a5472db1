"""The config of a transducer. Imports no torch.

Tested in tests/tasks/transduce/test_task.py and tests/tasks/transduce/test_data.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from catena.data.config import BatchConfig
from catena.tasks.config import FractionsConfig, MachineConfig, PairFilesConfig, TaskConfig
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


class TransduceConfig(TaskConfig):
    """Config of a string transducer."""

    task: Literal["transduce"] = "transduce"
    machine: MachineConfig = MachineConfig()
    data: TransduceDataConfig = TransduceDataConfig()
    model: TransducerConfig = JointConfig()
    batches: BatchConfig = BatchConfig(batch_size=64)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    @classmethod
    def suggested(cls, model: Any) -> Mapping[str, Mapping[str, Any]]:
        scores = model.get("scores", "features") if isinstance(model, dict) else getattr(model, "scores", "features")
        return {"edit": training_defaults(str(scores)), "seq2seq": _sequences(model)}

    def known_metrics(self) -> tuple[str, ...]:
        return METRICS
