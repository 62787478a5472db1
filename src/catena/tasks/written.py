"""How scores are written, and what stands for a blank item: for all tasks alike.

A blank item, be it a line of blanks or an empty set, has no answers; written, it has one like any other item, so that
answers match lines: an empty one without a score. A score that is not known is left empty in a table and is null in
JSON, since 0 would look like certainty.
"""

from __future__ import annotations

import math

NOT_KNOWN = math.nan
"""The score of an answer that the model did not give."""


def score_cell(score: float | None) -> str:
    """A score in a table, in nats."""
    return "" if score is None or math.isnan(score) else f"{score:.4f}"


def score_value(score: float | None) -> float | None:
    """A score in JSON, in nats."""
    return None if score is None or math.isnan(score) else round(score, 6)


def guess_remark(item: str, part: str) -> str:
    """The remark on items of which nothing is known, so that their answers are a guess: "text" and "word", say."""
    return f"{{n}} {item}{{s}} had no {part} that the model knows: what is answered there is a guess"
