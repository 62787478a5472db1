"""Attention weights as heat maps and as text, for all tokens or for one word in each layer and head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.text_table import width
from catena.registry import did_you_mean
from catena.tasks.options import AttentionOptions

if TYPE_CHECKING:
    from catena.draw.picture import Picture

_SHADES = " ░▒▓█"
_BLANK = "▁"
"""The mark for the blank before a word if words are split into pieces."""


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Attention weights and the tokens of their rows and columns.

    Args:
        layers: the weights of each layer, ``[head, row, column]``.
        rows: the tokens that attend (queries).
        columns: the tokens that are attended to (keys).
        row_title: the title of the rows.
        column_title: the title of the columns.
    """

    layers: tuple[np.ndarray, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_title: str = "written"
    column_title: str = "read"


def draw(maps: AttentionMaps, options: AttentionOptions) -> Picture:
    """A heat map of the attention weights."""
    from catena.draw.heat import draw_heat

    table, rows = attention_table(maps, options)
    title = f"{options.word!r} in each layer and head" if options.word is not None else ""
    row_title = "" if options.word is not None else maps.row_title
    return draw_heat(table, rows, maps.columns, row_title=row_title, column_title=maps.column_title, title=title)


def sketch(maps: AttentionMaps, options: AttentionOptions) -> str:
    """The heat map as text: one shaded character for each weight, keys from left to right."""
    table, rows = attention_table(maps, options)
    names = max(map(width, rows))
    lines = [" " * (names + 2) + " ".join(maps.columns)]
    for name, weights in zip(rows, table.tolist(), strict=True):
        cells = [_shade(w) * max(1, width(column)) for w, column in zip(weights, maps.columns, strict=True)]
        lines.append((" " * (names - width(name)) + f"{name}  " + " ".join(cells)).rstrip())
    return "\n".join(lines)


def _shade(weight: float) -> str:
    return _SHADES[min(len(_SHADES) - 1, round(weight * (len(_SHADES) - 1)))]


def attention_table(maps: AttentionMaps, options: AttentionOptions) -> tuple[Float[np.ndarray, "t s"], list[str]]:
    """The weights to show and the names of their rows.

    This is the mean over the selected layers and heads, or one word in each layer and head.
    """
    layers = list(maps.layers)
    if options.layer is not None:
        layers = [layers[_number("layer", options.layer, len(layers))]]
    if options.head is not None:
        layers = [layer[[_number("head", options.head, len(layer))]] for layer in layers]
    if options.word is None:
        return np.mean([layer.mean(axis=0) for layer in layers], axis=0), list(maps.rows)
    positions = token_indices(options.word, maps.rows)
    rows = [
        f"layer {i}, head {options.head or h}"
        for i, layer in enumerate(layers, start=options.layer or 1)
        for h in range(1, len(layer) + 1)
    ]
    return np.concatenate([layer[:, positions].mean(axis=1) for layer in layers]), rows


def token_indices(word: str, tokens: tuple[str, ...]) -> list[int]:
    """The indices of the first occurrence of a word, as one token or as adjacent pieces that spell it."""
    if word in tokens:
        return [tokens.index(word)]
    for first in range(len(tokens)):
        spelled = tokens[first].removeprefix(_BLANK)
        for end in range(first + 1, len(tokens) + 1):
            if spelled == word:
                return list(range(first, end))
            if end == len(tokens) or not word.startswith(spelled):
                break
            spelled += tokens[end]
    known = dict.fromkeys(token.removeprefix(_BLANK) for token in tokens)
    raise DataError(f"{word!r} is not one of the words that attend: {did_you_mean(word, known)}")


def _number(what: str, number: int, n: int) -> int:
    if not 1 <= number <= n:
        raise DataError(f"--{what} must be from 1 to {n}, got {number}. The model has {n} of them.")
    return number - 1
