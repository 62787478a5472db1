"""Choice of a translator that trains within a given time."""

from __future__ import annotations

from typing import Any

from catena.data.reading import ReadCounter
from catena.seq2seq.recurrent_config import RecurrentSeq2SeqConfig
from catena.seq2seq.transformer_config import TransformerSeq2SeqConfig
from catena.tasks.classify.auto import EFFICIENCY, products_per_second
from catena.tasks.translate.config import TranslateConfig
from catena.tasks.translate.data import read_examples
from catena.training.config import parse_duration
from catena.training.device import choose_device, set_threads

_EPOCHS = 15
"""Number of epochs that must fit into the time."""
_FEW = 5000
"""Below this number of pairs a small recurrent network with attention learns more than a Transformer."""
_VERY_FEW = 1000
"""Below this number of pairs batches are small, and the dev set is too small for BLEU."""
_SIZES = ((512, 6, 2048), (256, 4, 1024), (256, 3, 512), (128, 2, 256))
"""Model size, layers per side and feed-forward size of Transformers to try, largest first."""
_RECURRENT = (512, 256, 128)
"""Hidden sizes of a one-layer GRU encoder-decoder to try, largest first."""
_PIECES = 1.3
"""Approximate number of tokens per word."""


def fit_to_time(config: TranslateConfig) -> tuple[TranslateConfig, list[str]]:
    """The config with a model that fits the time, and report lines about the choice."""
    set_threads(config.machine.threads)
    seconds = parse_duration(config.training.max_time or "5m")
    pairs = words = 0
    for name, path in config.data.example_files().items():
        if name.startswith("train"):
            for example in read_examples(config.data, path, ReadCounter()):
                pairs += 1
                words += len(example.source.split()) + len(example.target.split())
    speed = EFFICIENCY * products_per_second(choose_device(config.machine.device))
    v = getattr(config.tokenizer, "size", 10_000)
    model, why = choose(pairs, round(_PIECES * words), v, seconds, speed)
    values: dict[str, Any] = {**config.model_dump(exclude={"model", "training"}), "model": model}
    values["training"] = {"max_time": config.training.max_time}
    if pairs < _VERY_FEW:
        values["training"] |= {"learning_rate": 0.005, "metric": "nats_per_token"}
        values["batches"] = {"batch_size": min(4000, max(100, round(_PIECES * words) // 20)), "batch_by": "tokens"}
        why += "; small batches, a high learning rate, and perplexity instead of BLEU because dev is small"
    return TranslateConfig.model_validate(values), [f"chosen for {pairs:,} pairs in {seconds:.0f} s: {why}"]


def choose(
    pairs: int, tokens: int, v: int, seconds: float, speed: float
) -> tuple[TransformerSeq2SeqConfig | RecurrentSeq2SeqConfig, str]:
    """The model for an amount of data and time, with the reason in words.

    Args:
        pairs: number of training pairs.
        tokens: number of tokens in them.
        v: vocabulary size.
        seconds: time limit for training.
        speed: multiply-adds per second of this machine.
    """
    if pairs >= _FEW:
        for d, layers, feed in _SIZES:
            cost = 3 * tokens * (layers * (6 * d * d + 2 * d * feed) + v * d / 2) / speed
            if _EPOCHS * cost <= seconds:
                model = TransformerSeq2SeqConfig(
                    d=d, n_heads=d // 64, n_encoder_layers=layers, n_decoder_layers=layers, d_ff=feed
                )
                return model, f"a Transformer with {layers} + {layers} layers of {d}, about {cost:.0f} s for a pass"
    for d in _RECURRENT[:-1] if pairs >= _FEW else _RECURRENT[1:]:
        cost = 3 * tokens * (8 * d * d + v * d / 2) / speed
        if _EPOCHS * cost <= seconds:
            break
    else:
        d = _RECURRENT[-1]
    why = f"a GRU with attention and {d} units, which suits " + ("few pairs" if pairs < _FEW else "little time")
    return RecurrentSeq2SeqConfig(cell="gru", d=d, d_embedding=min(d, 256)), why
