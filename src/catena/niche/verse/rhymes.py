r"""Rhyme classes of symbols, read from a file or learned from verse.

Symbols at the ends of rhyming lines co-occur. They form a graph whose communities are the rhyme classes, so no
pronunciation dictionary is needed, and historical rhymes are found too. A partition c of the symbols has the modularity

.. math::  Q(c) = \sum_{ij} \left( w_{ij} - \gamma \frac{k_i k_j}{\sum k} \right) [c_i = c_j]

where :math:`w_{ij}` counts how often i and j end neighboring lines in rhyme and :math:`k_i = \sum_j w_{ij}`. It is
maximized greedily by moving symbols, then whole groups, until no move helps (Blondel et al. 2008). A larger
:math:`\gamma` makes more and smaller groups. Rhyme networks: List et al. 2017.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from catena.data.files import open_text
from catena.errors import DataError, FormatError

_Graph = Mapping[int, Mapping[int, float]]
"""``graph[i][j] == graph[j][i]`` is the weight between i and j; ``graph[i][i]`` is twice the weight within i."""

_RESOLUTIONS = (1.0, 1.5, 2.0, 3.0, 4.0)
_HELD = 10
_STRAY = 0.1
"""Approximate fraction of neighboring lines that do not rhyme."""


def rhyming_ends(poem: str, every: int = 2) -> list[str]:
    """The last symbols of the rhyming lines of a poem.

    Args:
        poem: the text; punctuation marks and line breaks separate lines.
        every: each ``every``-th line rhymes.
    """
    return [line[-1] for line in re.findall(r"\w+", poem)[every - 1 :: every]]


def learn_rhymes(poems: Iterable[str], min_count: int = 2, resolution: float | None = None) -> dict[str, int]:
    """The rhyme class of each symbol, as an integer; rare line ends have none.

    Args:
        poems: the texts to learn from.
        min_count: smallest number of times that a symbol ends a rhyming line together with another symbol.
        resolution: the gamma of the modularity; if omitted, the value of :data:`_RESOLUTIONS` that best predicts the
            line ends of every tenth poem from the other poems.
    """
    ends = [rhyming_ends(poem) for poem in poems]
    if resolution is None:
        held, rest = ends[::_HELD], [each for i, each in enumerate(ends) if i % _HELD]
        resolution = max(_RESOLUTIONS, key=lambda gamma: _foretold(_grouped(rest, min_count, gamma), rest, held))
    found = _grouped(ends, min_count, resolution)
    if not found:
        raise DataError(
            f"No two symbols end rhyming lines together min_count = {min_count} times. Use verse whose lines end with "
            f"punctuation or line breaks and whose every second line rhymes, or lower min_count."
        )
    return found


def _grouped(ends: Sequence[Sequence[str]], min_count: int, resolution: float) -> dict[str, int]:
    pairs = Counter((min(a, b), max(a, b)) for each in ends for a, b in pairwise(each) if a != b)
    met: Counter[str] = Counter()
    for pair, n in pairs.items():
        met.update(dict.fromkeys(pair, n))
    symbols = sorted((s for s, n in met.items() if n >= min_count), key=lambda s: (-met[s], s))
    number = {symbol: i for i, symbol in enumerate(symbols)}
    graph: dict[int, dict[int, float]] = {i: {} for i in range(len(symbols))}
    for (a, b), n in pairs.items():
        if a in number and b in number:
            graph[number[a]][number[b]] = graph[number[b]][number[a]] = float(n)
    return dict(zip(symbols, groups(graph, resolution), strict=True))


def _foretold(rhymes: Mapping[str, int], seen: Sequence[Sequence[str]], held: Sequence[Sequence[str]]) -> float:
    """Log-likelihood of line ends given the previous ones, from frequencies within the rhyme class and overall."""
    frequency = Counter(end for each in seen for end in each if end in rhymes)
    mass: Counter[int] = Counter()
    for end, n in frequency.items():
        mass[rhymes[end]] += n
    total, sum_of_logs = sum(frequency.values()), 0.0
    for each in held:
        for a, b in pairwise(each):
            if a in rhymes and b in rhymes:
                within = frequency[b] / mass[rhymes[a]] if rhymes[a] == rhymes[b] else 0.0
                sum_of_logs += math.log((1 - _STRAY) * within + _STRAY * frequency[b] / total)
    return sum_of_logs


def groups(graph: _Graph, resolution: float = 1.0) -> list[int]:
    """The community of each node, numbered in the order of their first nodes."""
    group = _moved(graph, resolution)
    while True:
        joined = _joined(graph, group)
        upper = _moved(joined, resolution)
        if len(set(upper)) == len(joined):
            return group
        group = _numbered([upper[g] for g in group])


def _moved(graph: _Graph, resolution: float) -> list[int]:
    """One level of greedy modularity maximization, starting with one group per node."""
    degree = {i: sum(near.values()) for i, near in graph.items()}
    total = sum(degree.values()) or 1.0
    group, mass = {i: i for i in graph}, dict(degree)
    moves = True
    while moves:
        moves = False
        for i in graph:
            links: defaultdict[int, float] = defaultdict(float)
            for j, weight in graph[i].items():
                if j != i:
                    links[group[j]] += weight
            old = group[i]
            mass[old] -= degree[i]
            gain = {g: links[g] - resolution * degree[i] * mass[g] / total for g in (old, *sorted(links))}
            best = max(gain, key=lambda g: (gain[g], g == old, -g))
            mass[best] += degree[i]
            group[i], moves = best, moves or best != old
    return _numbered([group[i] for i in sorted(graph)])


def _joined(graph: _Graph, group: Sequence[int]) -> dict[int, dict[int, float]]:
    """The graph whose nodes are the groups."""
    joined: dict[int, dict[int, float]] = {g: {} for g in sorted(set(group))}
    for i, near in graph.items():
        for j, weight in near.items():
            joined[group[i]][group[j]] = joined[group[i]].get(group[j], 0.0) + weight
    return joined


def _numbered(group: Sequence[int]) -> list[int]:
    names = {name: i for i, name in enumerate(dict.fromkeys(group))}
    return [names[g] for g in group]


def read_rhymes(path: Path) -> dict[str, int]:
    """Read a file of rhyme classes: each line has the symbols of one class, separated by spaces.

    Args:
        path: the file, in UTF-8.

    Returns:
        The number of the class of each symbol.
    """
    found: dict[str, int] = {}
    with open_text(path) as lines:
        for number, line in lines:
            for symbol in line.split():
                if found.setdefault(symbol, number) != number:
                    raise FormatError(
                        f"{path}:{number} repeats {symbol!r} of line {found[symbol]}. Keep each symbol in one rhyme."
                    )
    if not found:
        raise FormatError(f"{path} has no rhymes. Write the symbols of each rhyme on one line, separated by spaces.")
    return found
