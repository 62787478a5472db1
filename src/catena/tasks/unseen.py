"""Gold labels that do not occur in training: they count as errors, and every task reports them in the same form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def unseen_line(counts: Mapping[str, int], where: str, what: str) -> str | None:
    """Return a line about gold labels that no training example has, or None if ``counts`` is empty.

    Args:
        counts: how often each such label occurs.
        where: the data it occurs in, such as ``"this file"``.
        what: what is counted, such as ``"words have a tag"``.
    """
    if not counts:
        return None
    shown = ", ".join(f"{label!r} {count:,}" for label, count in Counter(counts).most_common(5))
    return (
        f"{where}: {sum(counts.values()):,} {what} that training never showed ({shown}"
        f"{', …' if len(counts) > 5 else ''}); they count as errors"
    )
