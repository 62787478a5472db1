r"""Rhymes: which symbols sound alike at the end of a line, read from a file or learned from verse.

Words that end lines which rhyme occur together, so the ends of verse are a graph, and its groups are the rhymes: no
dictionary is asked, and sounds of another century are found as they were. A partition c of the symbols has the
modularity

.. math::  Q(c) = \sum_{ij} \left( w_{ij} - \gamma \frac{k_i k_j}{\sum k} \right) [c_i = c_j]

where :math:`w_{ij}` counts how often i and j end neighboring lines in rhyme and :math:`k_i = \sum_j w_{ij}`; it is
raised by moving symbols, and then whole groups, as long as that helps (Blondel et al. 2008). A larger :math:`\gamma`
makes more and smaller groups. Networks of rhymes: List et al. 2017.
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
"""``graph[i][j]`` is the weight between i and j, on both sides; ``graph[i][i]`` counts twice what is within i."""

_RESOLUTIONS = (1.0, 1.5, 2.0, 3.0, 4.0)
_HELD = 10
_STRAY = 0.1
"""The share of neighboring lines that do not rhyme, about."""


def rhyming_ends(poem: str, every: int = 2) -> list[str]:
    """The last symbols of the lines that rhyme: every second one. A line is what stands between marks or line ends."""
    return [line[-1] for line in re.findall(r"\w+", poem)[every - 1 :: every]]


def learn_rhymes(poems: Iterable[str], min_count: int = 2, resolution: float | None = None) -> dict[str, int]:
    """The rhyme of each symbol, a number; symbols that seldom end a line have none.

    Args:
        min_count: how often a symbol must end a line in rhyme, together with another.
        resolution: the gamma of the modularity; if omitted, the one of :data:`_RESOLUTIONS` that foretells best which
            ends stand together in every tenth poem, when the others are learned from.
    """
    ends = [rhyming_ends(poem) for poem in poems]
    if resolution is None:
        held, rest = ends[::_HELD], [each for i, each in enumerate(ends) if i % _HELD]
        resolution = max(_RESOLUTIONS, key=lambda gamma: _foretold(_grouped(rest, min_count, gamma), rest, held))
    found = _grouped(ends, min_count, resolution)
    if not found:
        raise DataError(
            f"no rhymes were found: verse has lines parted by marks or line ends, and every second one rhymes; no two "
            f"symbols end such lines together min_count = {min_count} times"
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
    """The log-likelihood of ends given those before them: by their frequency within the rhyme or, seldom, in all."""
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
    """The group of each node, numbered in the order of their first nodes."""
    group = _moved(graph, resolution)
    while True:
        joined = _joined(graph, group)
        upper = _moved(joined, resolution)
        if len(set(upper)) == len(joined):
            return group
        group = _numbered([upper[g] for g in group])


def _moved(graph: _Graph, resolution: float) -> list[int]:
    """Every node by itself at first; then each goes where modularity gains most, until none moves."""
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
    """The graph whose nodes are groups."""
    joined: dict[int, dict[int, float]] = {g: {} for g in sorted(set(group))}
    for i, near in graph.items():
        for j, weight in near.items():
            joined[group[i]][group[j]] = joined[group[i]].get(group[j], 0.0) + weight
    return joined


def _numbered(group: Sequence[int]) -> list[int]:
    names = {name: i for i, name in enumerate(dict.fromkeys(group))}
    return [names[g] for g in group]


def read_rhymes(path: Path) -> dict[str, int]:
    """Read a file of rhymes: on each line the symbols of one, with spaces between."""
    found: dict[str, int] = {}
    with open_text(path) as lines:
        for number, line in lines:
            for symbol in line.split():
                if found.setdefault(symbol, number) != number:
                    raise FormatError(
                        f"{path}:{number} has {symbol!r}, which line {found[symbol]} has too: a symbol is of one rhyme"
                    )
    if not found:
        raise FormatError(f"{path} has no rhymes: write the symbols of a rhyme on a line, with spaces between")
    return found
