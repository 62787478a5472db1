"""``catena.load(run)``: load the trained model of a run or checkpoint folder, for every task."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from catena.checkpoint import CONFIG, open_checkpoint
from catena.errors import ConfigError, DataError
from catena.tasks.table import task_of_config


def load(folder: str | PathLike[str], device: str = "auto", quantization: str | None = None) -> Any:
    """Load a trained model.

    Args:
        folder: a run folder, its ``best`` or ``last``, a checkpoint folder, or a file of an n-gram model (ARPA, or
            written by ``NgramModel.save``). Names on a model hub are not supported.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``; ``auto`` uses a GPU if there is one.
        quantization: ``int8`` stores the matrices of the networks in 8 bits, on a CPU. It needs a quarter of the memory
            and multiplies integers (:mod:`catena.kernels.int8_products`).
    """
    if quantization not in (None, "int8"):
        raise ConfigError(f"quantization must be 'int8' or None, got {quantization!r}. Use None for single precision.")
    if holds_ngrams(Path(folder)):
        if quantization is not None:
            raise DataError(f"{folder} holds n-grams, which cannot be quantized. Remove quantization.")
        from catena.tasks.lm.files import open_file

        return open_file(Path(folder))
    checkpoint = open_checkpoint(Path(folder))
    entry = task_of_config(checkpoint.folder / CONFIG)
    if quantization is None:
        return entry.open().load(checkpoint.folder, device)
    model = entry.open().load(checkpoint.folder, "cpu" if device == "auto" else device)
    networks = getattr(model, "networks", ())  # a table of word vectors is not a Predictor
    if not networks:
        raise DataError(
            f"{folder} is a model of the task {entry.name}, which cannot be quantized; networks of translate, "
            f"transduce, converse and lm can. Remove quantization."
        )
    from catena.encoders.int8 import quantize_int8_

    for network in networks:
        quantize_int8_(network)
    return model


def task_of_model(path: Path) -> str:
    """The task of the model that :func:`load` would load from this path."""
    return "lm" if holds_ngrams(path) else task_of_config(open_checkpoint(path).folder / CONFIG).name


def holds_ngrams(path: Path) -> bool:
    """Whether this is a file of an n-gram model."""
    if not path.is_file():
        return False
    from catena.lm.ngram.arpa import is_arpa
    from catena.lm.ngram.binary import is_binary

    return is_binary(path) or is_arpa(path)
