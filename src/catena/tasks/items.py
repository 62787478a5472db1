"""Check of the inputs of ``predict``: a list of texts."""

from __future__ import annotations

from collections.abc import Iterable

from catena.errors import DataError


def listed_texts(items: Iterable[object], before: int = 0) -> list[str]:
    """The texts of an iterable; ``before`` is the number of earlier items of a stream, for error messages."""
    if isinstance(items, str):
        raise DataError(
            f"predict must get a list of texts, got one text: {items!r:.60}. Put it in a list: predict([text])."
        )
    texts: list[str] = []
    for number, item in enumerate(items, start=before):
        if not isinstance(item, str):
            raise DataError(
                f"item {number} must be a text, got {type(item).__name__}: {item!r:.60}. Pass a list of strings."
            )
        texts.append(item)
    return texts
