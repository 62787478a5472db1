"""Embedding tables that source, target and output may have in common (Vaswani et al. 2017, section 3.4)."""

from __future__ import annotations

import math
from typing import Literal

from torch import nn

from catena.embeddings.table import EmbeddingTable
from catena.errors import ConfigError
from catena.outputs.base import OutputLayer
from catena.outputs.build import build_output
from catena.outputs.config import OutputConfig
from catena.seq2seq.sides import VocabularyInfo

_Share = Literal["auto", "all", "output", "embeddings", "none"]


def build_tables(
    share: _Share, output: OutputConfig, d: int, sides: VocabularyInfo
) -> tuple[EmbeddingTable, EmbeddingTable, OutputLayer]:
    """The tables of source and target and the output layer, tied according to ``share``.

    Rows have variance 1 / d, which a factor of √d makes 1.
    """
    if share == "auto":
        share = "all" if sides.shared else "output"
    if share in ("all", "embeddings") and not sides.shared:
        raise ConfigError(
            f"share must be 'output' or 'none' if source and target have different vocabularies, got {share!r}. Change "
            "it, or train one tokenizer for both sides."
        )
    scale = math.sqrt(3 / d)
    target = EmbeddingTable(sides.v, d, scale=scale)
    source = target if share in ("all", "embeddings") else EmbeddingTable(sides.n_source, d, scale=scale)
    tied: nn.Parameter | None = target.weight if share in ("all", "output") else None
    return source, target, build_output(output, d, sides.counts, tied=tied, forbidden=sides.forbidden)
