"""How scores are written, and what stands for a blank item: for all tasks alike.

A blank item, be it a line of blanks or an empty set, has no answers; written, it has one like any other item, so that
answers match lines: an empty one without a score. A score that is not known is left empty in a table and is null in
JSON, since 0 would look like certainty. So is an infinite one there, for which JSON has no word.
"""

from __future__ import annotations

import json
import math
from typing import Any

NO_SCORE = math.nan
"""The score of an answer that the model did not give."""


def score_cell(score: float | None) -> str:
    """A score in a table, in nats."""
    return "" if score is None or math.isnan(score) else f"{score:.4f}"


def score_value(score: float | None) -> float | None:
    """A score in JSON, in nats."""
    return None if score is None or not math.isfinite(score) else round(score, 6)


def valid_json(value: Any, indent: int | None = None) -> str:
    """JSON that every reader takes: numbers that are not finite are null."""
    return json.dumps(_finite(value), allow_nan=False, ensure_ascii=False, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def unknown_input_warning(item: str, part: str) -> str:
    """The remark on items of which nothing is known, so that their answers are a guess: "text" and "word", say."""
    return f"{{n}} {item}{{s}} had no {part} that the model knows: what is answered there is a guess"
