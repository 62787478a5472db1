"""The flag of verbs that may ask a trained model with weights of 8 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from catena.cli.flags import arg


@dataclass(frozen=True, kw_only=True)
class WeightFlags:
    """How the weights of a trained model are held."""

    quantization: Annotated[Literal["int8"] | None, arg("int8")] = None
    """Weights of 8 bits, for networks on a CPU: a quarter of the memory, and faster; single precision if not set."""
