"""Output of scores, and of blank inputs, for all tasks.

A blank input, such as an empty line or an empty set, has no predictions. It is written as one empty prediction without
a score, so that output lines match input lines. An unknown score is empty in a table and null in JSON, since 0 would
look like certainty. An infinite score is null in JSON too, which has no notation for it.
"""

from __future__ import annotations

import json
import math
from typing import Any

NO_SCORE = math.nan
"""The score of a prediction that the model did not make."""


def score_cell(score: float | None) -> str:
    """A score in a table, in nats."""
    return "" if score is None or math.isnan(score) else f"{score:.4f}"


def score_value(score: float | None) -> float | None:
    """A score in JSON, in nats."""
    return None if score is None or not math.isfinite(score) else round(score, 6)


def valid_json(value: Any, indent: int | None = None) -> str:
    """JSON that every parser accepts: numbers that are not finite become null."""
    return json.dumps(_finite(value), allow_nan=False, ensure_ascii=False, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def unknown_input_warning(item: str, part: str) -> str:
    """The warning about inputs with nothing known in them; ``item`` and ``part`` are, say, "text" and "word"."""
    return f"{{n}} {item}{{s}} had no {part} that the model knows; the output for it is a guess"
