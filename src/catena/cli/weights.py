"""The option of commands that can load a model with 8-bit weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from catena.cli.flags import arg


@dataclass(frozen=True, kw_only=True)
class WeightFlags:
    """How the weights of a trained model are stored."""

    quantization: Annotated[Literal["int8"] | None, arg("int8")] = None
    """8-bit weights, for networks on a CPU: a quarter of the memory and faster. Default: float32."""
