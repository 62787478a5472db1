r"""Windows over long texts, such that each short span belongs to exactly one of them.

A text of n tokens is read in windows of ``size`` tokens that begin ``stride`` tokens apart; the last one ends with the
text. A span in the overlap of two windows belongs to the one in which it has more context on its shorter side: with
the next window beginning at b and this one ending before e, a span from i to j belongs to this window if
i + j < b + e - 1. Every span of at most ``size - stride + 1`` tokens is inside the window that it belongs to.
"""

from __future__ import annotations

from typing import NamedTuple

from catena.errors import ConfigError

_ANY = 1 << 60


class TokenWindow(NamedTuple):
    """Tokens ``first`` up to ``end`` of a text, and the spans (i, j) that belong to it: ``low <= i + j < high``."""

    first: int
    end: int
    low: int
    high: int


def split_windows(n: int, size: int, stride: int, max_answer: int = 1) -> list[TokenWindow]:
    """The windows of a text of ``n`` tokens; none if it is empty.

    Args:
        n: the number of tokens.
        size: the number of tokens of a window.
        stride: the distance between the beginnings of two windows.
        max_answer: the length of spans that must be inside of the window that they belong to.
    """
    if not 1 <= stride <= size - max_answer + 1:
        raise ConfigError(
            f"stride must be from 1 to size - max_answer + 1 = {size - max_answer + 1}, got {stride}. Use a smaller "
            f"stride, or windows of more than {size} tokens."
        )
    starts = [0] if n else []
    while starts and starts[-1] + size < n:
        starts.append(min(starts[-1] + stride, n - size))
    ends = [min(start + size, n) for start in starts]
    limits = [-_ANY, *(b + e - 1 for b, e in zip(starts[1:], ends, strict=False)), _ANY]
    return [TokenWindow(*parts) for parts in zip(starts, ends, limits, limits[1:], strict=False)]
