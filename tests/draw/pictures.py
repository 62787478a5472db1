"""One picture of every kind, for any words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st

from catena.draw.alignment import draw_alignment_path, draw_links
from catena.draw.arcs import draw_arcs
from catena.draw.automaton import draw_automaton
from catena.draw.bars import draw_bars, draw_histogram
from catena.draw.chart import draw_chart
from catena.draw.curves import draw_curves
from catena.draw.heat import draw_heat
from catena.draw.map import draw_map
from catena.draw.overlay import draw_overlay
from catena.draw.picture import Picture
from catena.draw.spans import draw_spans
from catena.draw.tree import draw_tree
from catena.draw.trellis import draw_trellis

ODD_WORDS = [
    "",
    " ",
    "<b>&\"'</b>",
    "]]>",
    "a\tb\nc\0\x1f\x7f\x85",
    "\ud800\uffff\ufffe",
    "👩‍👩‍👧 é",
    "東京タワー",
    "שלום!",
    "ي" * 3,
]
ODD_WORDS += ["Donaudampfschifffahrtsgesellschaftskapitän" * 4, "\u202eabc", "--", "&amp;", "\u2028", "a  b "]

words = st.lists(
    st.one_of(
        st.sampled_from(ODD_WORDS),
        st.text(max_size=12),
        st.text(st.characters(), min_size=1, max_size=4),
        st.text("abcdefgh", min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=6,
)


def _shares(n: int, m: int) -> np.ndarray:
    table = 1.0 + (np.arange(n * m).reshape(n, m) * 7 % 5)
    return table / table.sum(1, keepdims=True)


def _trellis(words: Sequence[str]) -> Picture:
    tags = [f"{word}-{i}" for i, word in enumerate(words[:3])]
    return draw_trellis(words, tags, _shares(len(words), len(tags)), path=[0] * len(words), title=words[0])


def _chart(words: Sequence[str]) -> Picture:
    n = len(words)
    scores = np.arange(n * n * 2, dtype=float).reshape(n, n, 2) - n
    scores[0, -1, :] = -np.inf
    return draw_chart(words, scores, [words[-1], "NP"], tree=[(0, 0, 1), (0, n - 1, 0)], title=words[0])


def _tree(words: Sequence[str]) -> Picture:
    tree = (words[-1], *((word, word, ("X", word)) for word in words))
    return draw_tree(tree, reference=("S", *(word for word in words for _ in "ab")), title=words[0])


def _arcs(words: Sequence[str]) -> Picture:
    heads = [0, *(1 + (i * 5) % len(words) for i in range(1, len(words)))]
    heads = [0 if head == i + 1 else head for i, head in enumerate(heads)]
    chances = [1 / (i + 1) for i in range(len(words))]
    first = [0] * len(words)
    return draw_arcs(
        words, heads, words, tags=words, probabilities=chances, other_heads=first, other_labels=words, title=words[0]
    )


def _spans(words: Sequence[str]) -> Picture:
    n = len(words)
    return draw_spans(words, [(0, n, words[0]), (0, 1, words[-1]), (n - 1, n, "x")], width=200, title=words[0])


def _automaton(words: Sequence[str]) -> Picture:
    n = len(words)
    arcs = [(i, (i * 3 + 1) % n, word, i / 3) for i, word in enumerate(words)]
    arcs += [(0, n - 1, (word, "x"), None) for word in words] + [(n - 1, 0, "", 0.5)]
    return draw_automaton(arcs, {0: 0.5}, {n - 1: 1.25}, best=[0], title=words[0])


def _links(words: Sequence[str]) -> Picture:
    n = len(words)
    return draw_links(words, [*words[::-1], "x"], [(i, n - i, 1 / (i + 1)) for i in range(n)], title=words[0])


def _path(words: Sequence[str]) -> Picture:
    n = len(words)
    path = [*((i, i) for i in range(n + 1)), (n, n + 1)]
    return draw_alignment_path(words, [*words, "x"], path, probabilities=_shares(n, n + 1), title=words[0])


def _curves(words: Sequence[str]) -> Picture:
    series = {f"{word}{i}": [(0.0, float(i)), (5.0, np.nan), (7.0, i / 3 + 1)] for i, word in enumerate(words)}
    return draw_curves(series, x_title=words[0], y_title=words[-1], mark="largest", title=words[0])


def _map(words: Sequence[str]) -> Picture:
    points = [(i * 3 % 5, i * 2 % 3 / 2) for i in range(len(words))]
    return draw_map(points, words, groups=words[::-1], title=words[0])


PICTURES: dict[str, Callable[[Sequence[str]], Picture]] = {
    "trellis": _trellis,
    "chart": _chart,
    "tree": _tree,
    "arcs": _arcs,
    "spans": _spans,
    "automaton": _automaton,
    "heat": lambda words: draw_heat(
        _shares(len(words), len(words) + 1), words, ["x", *words], row_title=words[0], column_title=words[-1]
    ),
    "links": _links,
    "path": _path,
    "curves": _curves,
    "bars": lambda words: draw_bars(
        words, np.arange(len(words)) - 1.5, intervals=[(-2, i) for i in range(len(words))], x_title=words[0]
    ),
    "histogram": lambda words: draw_histogram([len(word) for word in words], x_title=words[0], y_title=words[-1]),
    "map": _map,
    "overlay": lambda words: draw_overlay(
        np.arange(180, dtype=np.uint8).reshape(6, 10, 3), _shares(len(words), 6).reshape(-1, 2, 3), words, columns=3
    ),
}
