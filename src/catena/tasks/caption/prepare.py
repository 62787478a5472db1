"""Preparation of a training: sizes of features, the initial encoder, and lines about the data.

Tested in tests/tasks/caption/test_task.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena.checkpoint import CONFIG, open_checkpoint
from catena.data.media import DecodedImages
from catena.data.vocabulary import UNK
from catena.errors import ConfigError, DataError
from catena.seq2seq.caption import CaptionModel, GridReader
from catena.seq2seq.caption_config import FeatureEncoderConfig, SoftCaptionConfig
from catena.tasks.caption.config import CaptionConfig
from catena.tasks.caption.data import CaptionRows, open_feature_file
from catena.tasks.caption.predict import missing_metrics


def complete_config(config: CaptionConfig, note: Callable[[str], None]) -> CaptionConfig:
    """The config with the sizes of features, or the encoder of a run, and without metrics that are missing."""
    updates: dict[str, Any] = {}
    features = open_feature_file(config)
    if features is not None and isinstance(config.model.encoder, FeatureEncoderConfig):
        n_positions, d = features.largest_shape()
        encoder = config.model.encoder.model_copy(update={"d_features": d, "n_positions": n_positions})
        updates["model"] = config.model.model_copy(update={"encoder": encoder})
    if config.model.encoder_run is not None:
        theirs: Any = _picture_config(config.model.encoder_run)
        sections = {"encoder": theirs.model.encoder, "input": theirs.model.input}
        updates["model"] = config.model.model_copy(update=sections)
    if config.evaluation.pictures and (line := missing_metrics()):
        note(f"{line}; perplexity chooses the best checkpoint")
        updates["evaluation"] = config.evaluation.model_copy(update={"pictures": 0})
    return config.model_copy(update=updates)


def _picture_config(run: str) -> Any:
    """The config of a run that classifies pictures."""
    from catena.tasks.spec import read_spec

    path = open_checkpoint(Path(run)).folder / CONFIG
    spec = read_spec(path)
    config: Any = spec.load_config(path)
    if spec.name != "classify" or config.model.kind != "picture":
        raise ConfigError(
            f"model.encoder_run must be a run of 'catena train classify' on pictures, got {run}, which is of the task "
            f"{spec.name}. Train one on a folder of pictures."
        )
    return config


def start_encoder(model: CaptionModel, config: SoftCaptionConfig, contents: Any, train: np.ndarray) -> None:
    """Set the statistics of the pixels of train, or copy the network of a classifier of pictures."""
    reader = model.pictures
    if not isinstance(reader, GridReader):
        return
    if config.encoder_run is None:
        images = DecodedImages(np.asarray(contents), train.astype(np.int64))
        reader.pixels.set(*map(torch.tensor, images.statistics()))
        return
    from catena.tasks.runs import load_task

    theirs: Any = load_task(Path(config.encoder_run), "cpu").network
    reader.pixels.load_state_dict(theirs.network.norm.state_dict())
    weights, own = theirs.network.encoder.state_dict(), reader.network.state_dict()
    reader.network.load_state_dict({name: weights[name] for name in own})


def without_long(rows: CaptionRows, longest: int) -> tuple[CaptionRows, int]:
    """The rows without captions of more than ``longest`` tokens, and their number."""
    kept = np.flatnonzero(rows.lengths <= longest + 1)
    if not len(kept):
        raise DataError(f"Every caption of train is longer than max_length={longest}. Raise data.max_length.")
    targets = [rows.targets[i] for i in kept.tolist()]
    return replace(rows, rows=rows.rows[kept], targets=targets, lengths=rows.lengths[kept]), len(rows) - len(kept)


def describe_rows(parts: Mapping[str, CaptionRows], n_long: int, longest: int) -> list[str]:
    """Lines about the data."""
    lines = []
    for part, rows in parts.items():
        if len(rows):
            unknown = 100 * float(np.mean(np.concatenate(rows.targets) == UNK))
            lines.append(
                f"{part}: {len(rows.pictures):,} pictures, {len(rows):,} captions, {rows.lengths.mean() - 1:.1f} words "
                f"each, {unknown:.1f} % unknown"
            )
    if n_long:
        lines.append(f"{n_long:,} captions of train are longer than max_length={longest} and left out")
    return lines
