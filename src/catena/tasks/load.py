"""``catena.load(run)``: the trained model of a run folder or a checkpoint folder, whatever its task."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from catena.checkpoint import CONFIG, open_checkpoint
from catena.errors import ConfigError, DataError
from catena.tasks.table import task_of_config


def load(folder: str | PathLike[str], device: str = "auto", quantization: str | None = None) -> Any:
    """Open a trained model. ``folder`` is a run, its ``best`` or ``last``, a checkpoint, or a file of an n-gram model
    (ARPA, or one that ``NgramModel.save`` wrote); never a name on a hub.

    With the quantization ``int8`` the matrices of its networks are held in 8 bits, on a CPU: a quarter of the memory,
    and products in whole numbers (:mod:`catena.kernels.int8_products`).
    """
    if quantization not in (None, "int8"):
        raise ConfigError(f"quantization must be 'int8', or None for single precision, and is {quantization!r}")
    if holds_ngrams(Path(folder)):
        if quantization is not None:
            raise DataError(f"{folder} holds n-grams, and no network to be held in 8 bits: leave the quantization out")
        from catena.tasks.lm.files import open_file

        return open_file(Path(folder))
    checkpoint = open_checkpoint(Path(folder))
    entry = task_of_config(checkpoint.folder / CONFIG)
    if quantization is None:
        return entry.open().load(checkpoint.folder, device)
    model = entry.open().load(checkpoint.folder, "cpu" if device == "auto" else device)
    networks = getattr(model, "networks", ())  # a table of word vectors is no predictor
    if not networks:
        raise DataError(
            f"{folder}, a model of the task {entry.name}, is not held in 8 bits: networks of translate, transduce, "
            f"converse and lm are; leave the quantization out"
        )
    from catena.encoders.int8 import quantize_int8_

    for network in networks:
        quantize_int8_(network)
    return model


def task_of_model(path: Path) -> str:
    """The task of what :func:`load` opens by this path."""
    return "lm" if holds_ngrams(path) else task_of_config(open_checkpoint(path).folder / CONFIG).name


def holds_ngrams(path: Path) -> bool:
    """Whether this is a file of an n-gram model."""
    if not path.is_file():
        return False
    from catena.lm.ngram.arpa import is_arpa
    from catena.lm.ngram.binary import is_binary

    return is_binary(path) or is_arpa(path)
