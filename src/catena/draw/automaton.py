"""Finite-state machines: states in layers from left to right, arcs labeled by input, output and weight.

Arcs between the same two states are one line with a row of text for each. The layout needs no external program.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from catena.draw.graph_layout import DrawingSize, Layered, Route, layout_graph
from catena.draw.picture import Picture
from catena.draw.scale import short
from catena.draw.svg import SMALL, TINY, Box, Canvas, Path, Point
from catena.draw.text import clean, shorten, text_width
from catena.draw.values import RealNumber, check_some
from catena.errors import DataError

_State: TypeAlias = Hashable
Label: TypeAlias = "str | tuple[str, str]"
_ArcLike: TypeAlias = "tuple[_State, _State, Label] | tuple[_State, _State, Label, RealNumber | None]"
_Ends: TypeAlias = "Mapping[_State, RealNumber | None] | Sequence[_State]"

_EPSILON = "ε"
_EPSILON_NAMES = ("", "<eps>")
RADIUS, ROW, MOST_ROWS, LONGEST_LABEL, LOOP, STUB = 17.0, 15.0, 8, 180.0, 30.0, 26.0
_GAP = (18.0, 16.0)


def draw_automaton(
    arcs: Sequence[_ArcLike],
    initial: _Ends,
    final: _Ends,
    *,
    best: Sequence[int] = (),
    title: str = "",
) -> Picture:
    """Draw an acceptor or a transducer.

    Args:
        arcs: ``(source, target, label)`` or ``(source, target, label, weight)``. States are integers or names. A
            label is a text, or a pair of input and output label. An empty label or ``<eps>`` is epsilon.
        initial: the initial states, or a dictionary from them to their weights (None shows no weight).
        final: the final states, in the same form.
        best: indices of arcs to highlight, such as those of the best path.
        title: a heading.
    """
    machine = _read(arcs, initial, final, best)
    sizes = [_state_size(machine, state) for state in range(len(machine.names))]
    pairs = [pair for pair in machine.rows if pair[0] != pair[1]]
    labels = [_label_size(machine.rows[pair]) for pair in pairs]
    layout = layout_graph(sizes, pairs, labels, _GAP, list(machine.initial))
    centers = [(layout.xs[c], y) for c, y in zip(layout.columns, layout.heights, strict=True)]
    canvas = Canvas()
    ports = _ports(machine, pairs, layout)
    for number, (pair, route) in enumerate(zip(pairs, layout.routes, strict=True)):
        _draw_route(canvas, layout, route, pair in machine.marked, (ports[number, 0], ports[number, 1]), machine)
    for state, center in enumerate(centers):
        _draw_state(canvas, machine, state, center, ports.get((-1, state), 0.0))
    for pair, route in zip(pairs, layout.routes, strict=True):
        column, y = route.stops[route.label]
        _draw_rows(canvas, (layout.xs[column], y), machine.rows[pair])
    return canvas.picture("Automaton", _described(machine), title)


# --- reading the arguments ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateRow:
    """The text of one arc, and whether it is highlighted."""

    text: str
    marked: bool


@dataclass(frozen=True)
class AutomatonDrawing:
    """States by index, the text rows between each pair of states, and the size of a drawn state."""

    names: tuple[str, ...]
    rows: dict[tuple[int, int], list[StateRow]]
    initial: dict[int, str]
    final: dict[int, str]
    marked: set[tuple[int, int]]
    radius: float
    half: float


def _read(arcs: Sequence[_ArcLike], initial: _Ends, final: _Ends, best: Sequence[int]) -> AutomatonDrawing:
    check_some("initial", list(initial))
    numbers: dict[_State, int] = {}
    for state in [*initial, *(state for arc in arcs for state in arc[:2]), *final]:
        numbers.setdefault(state, len(numbers))
    rows: dict[tuple[int, int], list[StateRow]] = {}
    chosen = {int(i) for i in best}
    if wrong := [i for i in sorted(chosen) if not 0 <= i < len(arcs)]:
        raise DataError(f"best must hold indices of arcs from 0 to {len(arcs) - 1}, got {wrong[0]}. Remove that index.")
    for i, arc in enumerate(arcs):
        if not 3 <= len(arc) <= 4:
            raise DataError(f"arcs[{i}] must have 3 or 4 entries, got {arc!r}. Pass (source, target, label[, weight]).")
        pair = numbers[arc[0]], numbers[arc[1]]
        rows.setdefault(pair, []).append(StateRow(_label(arc), i in chosen))
    names = tuple(str(state) for state in numbers)
    radius = max(RADIUS, 3.5 * _most_ports(rows))
    widest = max(text_width(shorten(clean(name), SMALL, LONGEST_LABEL), SMALL) for name in names)
    return AutomatonDrawing(
        names,
        rows,
        {numbers[state]: text for state, text in _ends(initial).items()},
        {numbers[state]: text for state, text in _ends(final).items()},
        {pair for pair, lines in rows.items() if any(row.marked for row in lines)},
        radius,
        max(radius, widest / 2 + 8.0),
    )


def _most_ports(rows: Mapping[tuple[int, int], list[StateRow]]) -> int:
    counts: dict[int, int] = {}
    for a, b in rows:
        counts[a] = counts.get(a, 0) + 1
        counts[b] = counts.get(b, 0) + 1
    return max(counts.values(), default=0)


def _label(arc: _ArcLike) -> str:
    label = arc[2]
    parts = [label] if isinstance(label, str) else label
    text = ":".join(_EPSILON if part in _EPSILON_NAMES else part for part in parts)
    weight = arc[3] if len(arc) == 4 else None
    return text if weight is None else f"{text} / {short(float(weight))}"


def _ends(ends: _Ends) -> dict[_State, str]:
    if isinstance(ends, Mapping):
        return {state: "" if weight is None else short(float(weight)) for state, weight in ends.items()}
    return dict.fromkeys(ends, "")


def _shown_rows(rows: Sequence[StateRow]) -> list[StateRow]:
    if len(rows) <= MOST_ROWS:
        return list(rows)
    return [*rows[: MOST_ROWS - 1], StateRow(f"… {len(rows) - MOST_ROWS + 1} more", False)]


# --- sizes --------------------------------------------------------------------------------------------------


def _width(text: str, size: float) -> float:
    return text_width(shorten(clean(text), size, LONGEST_LABEL), size)


def _label_size(rows: Sequence[StateRow]) -> DrawingSize:
    shown = _shown_rows(rows)
    half = max(_width(row.text, SMALL) for row in shown) / 2 + 5.0
    return DrawingSize(half, half, len(shown) * ROW / 2, len(shown) * ROW / 2)


def _state_size(machine: AutomatonDrawing, state: int) -> DrawingSize:
    half, above, below = machine.half + 4.0, machine.radius + 4.0, machine.radius + 4.0
    loop = machine.rows.get((state, state))
    if loop:
        size = _label_size(loop)
        half, above = max(half, size.left), machine.radius + LOOP + 2 * size.above
    if machine.final.get(state):
        half, below = max(half, _width(machine.final[state], TINY) / 2), below + 14.0
    left = half
    if state in machine.initial:
        left = max(half, machine.half + STUB + _width(machine.initial[state], TINY))
    return DrawingSize(left, half, above, below)


def _ports(
    machine: AutomatonDrawing, pairs: Sequence[tuple[int, int]], layout: Layered
) -> dict[tuple[int, int], float]:
    """Return the height at which each edge touches a state, relative to the center of the state.

    Keys are (edge, 0 or 1) for the left and right end of its route, and (-1, state) for the arrow into an initial
    state.
    """
    sides: dict[tuple[int, int], list[tuple[float, tuple[int, int]]]] = {}
    for number, ((a, b), route) in enumerate(zip(pairs, layout.routes, strict=True)):
        left, right = (b, a) if route.turned else (a, b)
        sides.setdefault((left, 1), []).append((route.stops[1][1], (number, 0)))
        sides.setdefault((right, 0), []).append((route.stops[-2][1], (number, 1)))
    for state in machine.initial:
        sides.setdefault((state, 0), []).append((layout.heights[state], (-1, state)))
    ports = {}
    for ends in sides.values():
        step = min(9.0, 1.5 * machine.radius / len(ends))
        for index, (_, end) in enumerate(sorted(ends)):
            ports[end] = (index - (len(ends) - 1) / 2) * step
    return ports


# --- drawing ------------------------------------------------------------------------------------------------


def _reach(machine: AutomatonDrawing, port: float) -> float:
    """Return the horizontal distance from the center of a state to its outline at the height of a port."""
    return machine.half - machine.radius + (machine.radius**2 - port**2) ** 0.5


def _draw_route(
    canvas: Canvas, layout: Layered, route: Route, marked: bool, ports: tuple[float, float], machine: AutomatonDrawing
) -> None:
    color, width = ("best", 2.2) if marked else ("edge", 1.3)
    x0 = layout.xs[route.stops[0][0]] + _reach(machine, ports[0])
    x1 = layout.xs[route.stops[-1][0]] - _reach(machine, ports[1])
    heights = [y for _, y in route.stops]
    heights[0] += ports[0]
    heights[-1] += ports[1]
    start, end = (x0 + 6.0, x1) if route.turned else (x0, x1 - 6.0)
    path = Path().move(start, heights[0])
    for (before, _), (after, _), y0, y1 in zip(route.stops, route.stops[1:], heights, heights[1:], strict=False):
        left = layout.xs[before] + layout.rights[before]
        right = layout.xs[after] - layout.lefts[after]
        middle = (left + right) / 2
        path.line(left, y0).curve((middle, y0), (middle, y1), (right, y1))
    path.line(end, heights[-1])
    canvas.path(path, stroke=color, width=width)
    if route.turned:
        canvas.arrow_head((x0, heights[0]), (-1.0, 0.0), color)
    else:
        canvas.arrow_head((x1, heights[-1]), (1.0, 0.0), color)


def _draw_state(canvas: Canvas, machine: AutomatonDrawing, state: int, center: Point, port: float) -> None:
    x, y = center
    r, half = machine.radius, machine.half
    loop = machine.rows.get((state, state))
    if loop:
        color = "best" if (state, state) in machine.marked else "edge"
        path = Path().move(x - r * 0.6, y - r * 0.8)
        path.curve((x - r * 1.3, y - r - LOOP), (x + r * 1.3, y - r - LOOP), (x + r * 0.6 + 1.5, y - r * 0.8 - 5))
        canvas.path(path, stroke=color, width=1.3)
        canvas.arrow_head((x + r * 0.6, y - r * 0.8), (-0.3, 1.0), color)
        _draw_rows(canvas, (x, y - r - LOOP + 2.0 - _label_size(loop).above), loop)
    if state in machine.initial:
        x0 = x - _reach(machine, port)
        stub = STUB + _width(machine.initial[state], TINY) - 4.0
        canvas.line((x - half - stub, y + port), (x0 - 6.0, y + port), "ink", width=1.6)
        canvas.arrow_head((x0, y + port), (1.0, 0.0), "ink")
        canvas.text(x - half - stub, y + port - 8.0, machine.initial[state], size=TINY, color="soft", anchor="start")
    box = Box(x - half, y - r, x + half, y + r)
    canvas.rect(box, "faint", "ink", width=1.4, radius=r)
    if state in machine.final:
        canvas.rect(box.grown(-3.5), None, "ink", width=1.2, radius=r - 3.5)
        canvas.text(x, y + r + 10.0, machine.final[state], size=TINY, color="soft")
    canvas.text(x, y, machine.names[state], size=SMALL, most=LONGEST_LABEL)


def _draw_rows(canvas: Canvas, center: Point, rows: Sequence[StateRow]) -> None:
    shown = _shown_rows(rows)
    note = ", ".join(row.text for row in rows) if len(shown) < len(rows) else ""
    size = _label_size(rows)
    box = Box(center[0] - size.left + 2.0, center[1] - size.above, center[0] + size.right - 2.0, center[1] + size.below)
    canvas.rect(box, "paper")
    for i, row in enumerate(shown):
        y = center[1] + (i - (len(shown) - 1) / 2) * ROW
        color = "best" if row.marked else "ink"
        canvas.text(center[0], y, row.text, size=SMALL, color=color, most=LONGEST_LABEL, tooltip=note)


def _described(machine: AutomatonDrawing) -> str:
    arcs = [
        f"{machine.names[a]} to {machine.names[b]}: {', '.join(row.text for row in rows)}"
        for (a, b), rows in machine.rows.items()
    ]
    begins = ", ".join(machine.names[state] for state in machine.initial)
    ends = ", ".join(machine.names[state] for state in machine.final) or "none"
    return f"begins in {begins}; ends in {ends}; arcs " + ("; ".join(arcs) or "none")
