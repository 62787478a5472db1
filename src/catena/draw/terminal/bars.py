"""Bar charts in text: one line per value, in eighths of a character."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catena.draw.scale import short
from catena.draw.terminal.grid import cells
from catena.draw.text import clean
from catena.draw.values import NumberSequence, array, check_shape, check_some
from catena.errors import DataError

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bars_text(labels: Sequence[str], values: NumberSequence, width: int = 40) -> str:
    """Return non-negative values as bars; the largest is ``width`` columns long.

    >>> print(bars_text(["a", "bb"], [4, 1], width=8), end="")
     a ████████ 4
    bb ██ 1
    """
    check_some("labels", labels)
    lengths = array("values", values, "n")
    check_shape("values", lengths, [len(labels)], "one for each label")
    if not (np.isfinite(lengths) & (lengths >= 0)).all():
        raise DataError("values has an entry that is negative or not finite. Remove it, or use draw_bars.")
    most = float(lengths.max()) or 1.0
    pad = max(map(cells, labels))
    lines = []
    for label, value in zip(labels, lengths.tolist(), strict=True):
        eighths = round(value / most * width * 8)
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        lines.append(" ".join(part for part in (" " * (pad - cells(label)) + clean(label), bar, short(value)) if part))
    return "\n".join(lines) + "\n"
