"""What a model is asked for from Python: a list of texts, and nothing that merely looks like one."""

from __future__ import annotations

from collections.abc import Iterable

from catena.errors import DataError


def listed_texts(items: Iterable[object], before: int = 0) -> list[str]:
    """The texts of a list or of anything that gives them one by one; ``before`` of a stream came earlier."""
    if isinstance(items, str):
        raise DataError(
            "predict takes a list of texts, and one text was given: put it in a list, as in predict([text])"
        )
    texts: list[str] = []
    for number, item in enumerate(items, start=before):
        if not isinstance(item, str):
            raise DataError(f"item {number} must be a text, and is {type(item).__name__}: {item!r:.80}")
        texts.append(item)
    return texts
