"""Choice of a model that fits the data, the machine and a time limit.

The result is the largest of a few sizes for which ``_EPOCHS`` passes over the data are expected to fit. The cost of a
pass is the number of multiplications per token over the measured speed of this machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from catena.data.reading import ReadCounter
from catena.tasks.classify.config import ClassifyConfig, CNNConfig, LogLinearConfig
from catena.tasks.classify.data import read_labeled_texts
from catena.training.config import parse_duration
from catena.training.device import choose_device, set_threads

_EPOCHS = 8
"""Number of passes over the data that must fit into the time."""
_FEW = 1500
"""Below this number of texts, a linear model on n-grams is as accurate as a network and much faster to train."""
EFFICIENCY = 0.25
"""Fraction of the measured matrix product speed that training reaches."""
_WINDOWS = 3 + 4 + 5


@dataclass(frozen=True)
class DataSize:
    """A size of the convolutional model."""

    d: int
    filters: int

    def products(self, tokens: float) -> float:
        """Number of multiplications of one pass; backward takes twice as many as forward."""
        return 3 * tokens * _WINDOWS * self.d * self.filters


_SIZES = (DataSize(300, 100), DataSize(200, 64), DataSize(100, 50), DataSize(64, 32))


def fit_to_time(config: ClassifyConfig) -> tuple[ClassifyConfig, list[str]]:
    """The config with a model that fits, and lines that explain the choice."""
    set_threads(config.machine.threads)
    seconds = parse_duration(config.training.max_time or "5m")
    texts, tokens = _sizes(config)
    speed = EFFICIENCY * products_per_second(choose_device(config.machine.device))
    model, why = choose(texts, tokens, seconds, speed)
    plan = f"{texts:,} texts, {tokens:,} words, {seconds:.0f} s"
    training = {"max_time": config.training.max_time}
    values = {**config.model_dump(exclude={"model", "training"}), "model": model, "training": training}
    return ClassifyConfig.model_validate(values), [f"chosen for {plan}: {why}"]


def choose(texts: int, tokens: int, seconds: float, speed: float) -> tuple[CNNConfig | LogLinearConfig, str]:
    """A model for this amount of data and time, on a machine with ``speed`` multiplications per second."""
    if texts < _FEW:
        return LogLinearConfig(), f"a log-linear model, which is the better choice below {_FEW:,} texts"
    for size in _SIZES:
        cost = size.products(tokens) / speed
        if _EPOCHS * cost <= seconds:
            convolution = CNNConfig().convolution.model_copy(update={"filters": size.filters})
            embedding = CNNConfig().embedding.model_copy(update={"d": size.d})
            words = (
                f"a convolutional network with d = {size.d} and {size.filters} filters, about {cost:.0f} s for a pass"
            )
            return CNNConfig(embedding=embedding, convolution=convolution), words
    return LogLinearConfig(), "a log-linear model, since even a small network needs more time"


def products_per_second(device: torch.device) -> float:
    """The number of multiplications per second of a large matrix product on this device."""
    a = torch.rand(512, 512, device=device)
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < 0.2:
        a = (a @ a).clamp(max=1.0)
        if device.type != "cpu":
            torch.cuda.synchronize(device) if device.type == "cuda" else torch.mps.synchronize()
        done += 1
    return done * 512**3 / (time.perf_counter() - start)


def _sizes(config: ClassifyConfig) -> tuple[int, int]:
    """The number of texts and of words in the training files."""
    texts = words = 0
    for path in config.data.train:
        for example in read_labeled_texts(config.data, Path(path), ReadCounter()):
            texts += 1
            words += len(example.text.split())
    return texts, words
