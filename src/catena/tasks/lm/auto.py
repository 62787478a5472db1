"""Choice of a language model that trains within a given time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena.config import parse
from catena.data.config import CharacterTokenizerConfig
from catena.lm.neural_config import LSTMLMConfig
from catena.tasks.classify.auto import EFFICIENCY, products_per_second
from catena.tasks.lm.config import LmConfig, NgramConfig
from catena.tasks.lm.data import read_lines
from catena.training.config import parse_duration
from catena.training.device import choose_device, set_threads

_EPOCHS = 6
"""Number of epochs that must fit into the time."""
FEW = 20_000
"""Below this number of tokens an n-gram model predicts text better than a network."""
_SIZES = (650, 400, 256, 128)
"""Hidden sizes of a two-layer LSTM to try, largest first."""
_WORDS = 20_000
"""Assumed vocabulary size of words if it is unknown before the text is read."""


def fit_to_time(config: LmConfig) -> tuple[LmConfig, list[str]]:
    """The config with a model that fits the time, and report lines about the choice."""
    set_threads(config.machine.threads)
    seconds = parse_duration(config.training.max_time or "5m")
    lines = words = characters = 0
    for path in config.data.train:
        for text in read_lines(config.data, Path(path)):
            lines, words, characters = lines + 1, words + len(text.text.split()), characters + len(text.text)
    values: dict[str, Any] = config.model_dump(exclude={"model", "training"})
    small = config.tokenizer.kind in ("characters", "bytes")
    why = ""
    if words <= lines and config.tokenizer == LmConfig().tokenizer:
        values["tokenizer"] = CharacterTokenizerConfig().model_dump()
        small, why = True, "characters, because each line is one word; "
    tokens = lines + (characters if small else words)
    speed = EFFICIENCY * products_per_second(choose_device(config.machine.device))
    model, kind = choose(tokens, 300 if small else _WORDS, seconds, speed, masked=config.objective.kind == "masked")
    # Options that were not chosen stay unset, so that the objective can set them.
    sizes = {part: {"d": getattr(model, part).d} for part in ("encoder", "embedding") if hasattr(model, part)}
    values["model"] = {"kind": model.kind, **sizes}
    values["training"] = {"max_time": config.training.max_time}
    return parse(LmConfig, values), [f"chosen for {tokens:,} tokens in {seconds:.0f} s: {why}{kind}"]


def choose(
    tokens: int, words: int, seconds: float, speed: float, masked: bool = False
) -> tuple[LSTMLMConfig | NgramConfig, str]:
    """The model for an amount of text and time, with the reason in words.

    Args:
        tokens: number of training tokens.
        words: vocabulary size.
        seconds: time limit for training.
        speed: multiply-adds per second of this machine.
        masked: whether the objective is masked, which needs a network for any amount of text and time.
    """
    if tokens < FEW and not masked:
        return NgramConfig(), f"an n-gram model, which is the better choice below {FEW:,} tokens"
    for d in _SIZES:
        cost = 3 * tokens * (16 * d * d + words * d) / speed
        if _EPOCHS * cost <= seconds or (masked and d == _SIZES[-1]):
            encoder = LSTMLMConfig().encoder.model_copy(update={"d": d})
            embedding = LSTMLMConfig().embedding.model_copy(update={"d": d})
            words_chosen = f"an LSTM with two layers of {d} units, about {cost:.0f} s for a pass"
            return LSTMLMConfig(encoder=encoder, embedding=embedding), words_chosen
    return NgramConfig(), "an n-gram model, because even a small network needs more time"
