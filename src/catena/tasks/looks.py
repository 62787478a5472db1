"""Where an attention looks, for people: heat maps and sketches, of all tokens or of a word in each layer and head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.text import width
from catena.registry import did_you_mean
from catena.tasks.application import PredictOptions

if TYPE_CHECKING:
    from catena.draw.picture import Picture

_SHADES = " ░▒▓█"
_BLANK = "▁"
"""What stands for the blank before a word where words are cut into pieces."""


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Weights of attention, and what they are of.

    Args:
        layers: of each layer ``[head, row, column]``.
        rows: the tokens that look.
        columns: the tokens that are looked at.
        row_title: what the rows are.
        column_title: what the columns are.
    """

    layers: tuple[np.ndarray, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_title: str = "written"
    column_title: str = "read"


def draw(looks: AttentionMaps, asking: PredictOptions) -> Picture:
    """A heat map."""
    from catena.draw.heat import draw_heat

    table, rows = attention_table(looks, asking)
    title = f"{asking.word!r} in each layer and head" if asking.word is not None else ""
    row_title = "" if asking.word is not None else looks.row_title
    return draw_heat(table, rows, looks.columns, row_title=row_title, column_title=looks.column_title, title=title)


def sketch(looks: AttentionMaps, asking: PredictOptions) -> str:
    """The same in characters, a shade for each weight, what is looked at from left to right."""
    table, rows = attention_table(looks, asking)
    names = max(map(width, rows))
    lines = [" " * (names + 2) + " ".join(looks.columns)]
    for name, weights in zip(rows, table.tolist(), strict=True):
        cells = [_shade(w) * max(1, width(column)) for w, column in zip(weights, looks.columns, strict=True)]
        lines.append((" " * (names - width(name)) + f"{name}  " + " ".join(cells)).rstrip())
    return "\n".join(lines)


def _shade(weight: float) -> str:
    return _SHADES[min(len(_SHADES) - 1, round(weight * (len(_SHADES) - 1)))]


def attention_table(looks: AttentionMaps, asking: PredictOptions) -> tuple[Float[np.ndarray, "t s"], list[str]]:
    """The weights that are drawn, and the names of their rows: the mean of the layers and heads that are asked for, or
    one word in each of them."""
    layers = list(looks.layers)
    if asking.layer is not None:
        layers = [layers[_number("layer", asking.layer, len(layers))]]
    if asking.head is not None:
        layers = [layer[[_number("head", asking.head, len(layer))]] for layer in layers]
    if asking.word is None:
        return np.mean([layer.mean(axis=0) for layer in layers], axis=0), list(looks.rows)
    places = token_indices(asking.word, looks.rows)
    rows = [
        f"layer {i}, head {asking.head or h}"
        for i, layer in enumerate(layers, start=asking.layer or 1)
        for h in range(1, len(layer) + 1)
    ]
    return np.concatenate([layer[:, places].mean(axis=1) for layer in layers]), rows


def token_indices(word: str, tokens: tuple[str, ...]) -> list[int]:
    """Where a word stands first: as a token, or as neighboring pieces that spell it."""
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
    raise DataError(f"{word!r} is not among the words that look: {did_you_mean(word, known)}")


def _number(what: str, number: int, n: int) -> int:
    if not 1 <= number <= n:
        raise DataError(f"--{what} must be from 1 to {n}, as many as this model has, and is {number}")
    return number - 1
