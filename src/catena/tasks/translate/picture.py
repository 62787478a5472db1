"""Alignments as heat maps: all that is written, or one word in every layer and head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.text import width
from catena.registry import did_you_mean
from catena.tasks.application import Asking
from catena.tasks.translate.encoding import END
from catena.tasks.translate.translated import Translated

if TYPE_CHECKING:
    from catena.draw.picture import Picture

SHADES = " ░▒▓█"


def draw(found: Translated, asking: Asking) -> Picture:
    """The heat map of the first translation."""
    from catena.draw.heat import draw_heat

    table, rows, columns = heat_of(found, asking)
    title = f"{asking.word!r} in each layer and head" if asking.word is not None else ""
    return draw_heat(table, rows, columns, row_title="written", column_title="read", title=title)


def sketch(found: Translated, asking: Asking) -> str:
    """The same in characters, a shade for each weight, the source from left to right."""
    table, rows, columns = heat_of(found, asking)
    names = max(map(width, rows))
    lines = [" " * (names + 2) + " ".join(columns)]
    for name, weights in zip(rows, table.tolist(), strict=True):
        cells = [_shade(w) * max(1, width(column)) for w, column in zip(weights, columns, strict=True)]
        lines.append((" " * (names - width(name)) + f"{name}  " + " ".join(cells)).rstrip())
    return "\n".join(lines)


def _shade(weight: float) -> str:
    return SHADES[min(len(SHADES) - 1, round(weight * (len(SHADES) - 1)))]


def heat_of(found: Translated, asking: Asking) -> tuple[Float[np.ndarray, "t s"], list[str], list[str]]:
    """The weights that are drawn, and the names of rows and columns."""
    one = found.translations[0]
    layers = list(one.attention or ())
    written = [_shown(t) for t in (*one.tokens, *([END] if one.finished else []))]
    read = [_shown(t) for t in (*found.tokens, END)]
    if asking.layer is not None:
        layers = [layers[_number("layer", asking.layer, len(layers))]]
    if asking.head is not None:
        layers = [layer[[_number("head", asking.head, len(layer))]] for layer in layers]
    if asking.word is None:
        return np.mean([layer.mean(axis=0) for layer in layers], axis=0), written, read
    if asking.word not in written:
        raise DataError(
            f"{asking.word!r} is not among what is written: {did_you_mean(asking.word, dict.fromkeys(written))}"
        )
    place = written.index(asking.word)
    first = asking.layer or 1
    rows = [
        f"layer {i}, head {asking.head or h}"
        for i, layer in enumerate(layers, start=first)
        for h in range(1, len(layer) + 1)
    ]
    return np.concatenate([layer[:, place] for layer in layers]), rows, read


def _shown(token: str) -> str:
    """A token for people: the blank that subwords begin with as one that is seen."""
    return token.replace("Ġ", "▁") if len(token) > 1 or token == "Ġ" else token


def _number(what: str, number: int, n: int) -> int:
    if not 1 <= number <= n:
        raise DataError(f"--{what} must be from 1 to {n}, as many as this model has, and is {number}")
    return number - 1
