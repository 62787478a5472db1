"""Choice of a tagger that fits the data, the machine and a time limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena.data.reading import ReadCounter
from catena.tasks.classify.auto import EFFICIENCY, products_per_second
from catena.tasks.tag.config import NeuralTaggerConfig, TagConfig
from catena.tasks.tag.data import read_tagged_sentences
from catena.tasks.tag.features.config import FeatureTaggerConfig
from catena.training.config import parse_duration
from catena.training.device import choose_device, set_threads

_EPOCHS = 12
"""Number of passes over the data that must fit into the time."""
_FEW = 1000
"""Below this number of sentences, a model on features is as accurate as a network and faster to train."""
SIZES = (256, 128, 64)
"""Numbers of BiLSTM units in each direction, largest first."""


def fit_to_time(config: TagConfig) -> tuple[TagConfig, list[str]]:
    """The config with a model that fits, and lines that explain the choice."""
    set_threads(config.machine.threads)
    seconds = parse_duration(config.training.max_time or "5m")
    counter = ReadCounter()
    sentences = (one for path in config.data.train for one in read_tagged_sentences(config, Path(path), counter))
    lengths = [len(one.sentence) for one in sentences]
    speed = EFFICIENCY * products_per_second(choose_device(config.machine.device))
    model, why = choose(len(lengths), sum(lengths), seconds, speed)
    values: dict[str, Any] = {**config.model_dump(exclude={"model", "training"}), "model": model}
    values["training"] = {"max_time": config.training.max_time}
    plan = f"{len(lengths):,} sentences, {sum(lengths):,} words, {seconds:.0f} s"
    return TagConfig.model_validate(values), [f"chosen for {plan}: {why}"]


def choose(
    sentences: int, words: int, seconds: float, speed: float
) -> tuple[NeuralTaggerConfig | FeatureTaggerConfig, str]:
    """A model for this amount of data and time, on a machine with ``speed`` multiplications per second."""
    if sentences < _FEW:
        return (
            FeatureTaggerConfig(),
            f"a conditional random field on features, the better choice below {_FEW:,} sentences",
        )
    for d in SIZES:
        cost = (
            3 * words * 8 * d * (150 + d) / speed
        )  # backward takes twice as long as forward, four gates, two directions
        if _EPOCHS * cost <= seconds:
            encoder = NeuralTaggerConfig().encoder.model_copy(update={"d": d})
            chosen = (
                f"a BiLSTM of {d} units in each direction and a conditional random field, about {cost:.0f} s a pass"
            )
            return NeuralTaggerConfig(encoder=encoder), chosen
    return FeatureTaggerConfig(), "a conditional random field on features, since even a small network needs more time"
