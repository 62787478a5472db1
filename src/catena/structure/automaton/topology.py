"""The structure of an automaton without its weights: its graph, its sorted arcs, its unrolled cycles.

It is computed once for all automata that only differ in weights. Everything is a numpy array, not a tensor, because a
tensor created inside a transform of torch.func must not leave it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catena._lazy import LazyModule
from catena.structure.automaton.segments import IntArray, Segments

_graph = LazyModule("catena.kernels.automaton.cpu_graph")


class ArcGraph(NamedTuple):
    """The result of :func:`catena.kernels.automaton.cpu_graph.analyze_graph`."""

    component: IntArray
    order: IntArray
    bounds: IntArray
    cyclic: IntArray
    level: IntArray
    in_starts: IntArray
    in_arcs: IntArray
    out_starts: IntArray
    out_arcs: IntArray


class Sorted(NamedTuple):
    """Arcs sorted by source and label. The arcs of state q are at ``starts[q] … starts[q + 1]``."""

    arcs: IntArray
    starts: IntArray
    labels: IntArray
    targets: IntArray


class Facts(NamedTuple):
    """Properties of an automaton that a search needs before it reads a score.

    ``longest`` is the number of ids of the longest path, including the first state; ANY_LENGTH if there are cycles.
    """

    longest: int
    has_failures: bool


ANY_LENGTH = -1


@dataclass(frozen=True)
class Topology:
    """The arcs of an automaton without weights, with cached analyses."""

    source: IntArray
    target: IntArray
    input: IntArray
    output: IntArray
    n_states: int

    @cached_property
    def graph(self) -> ArcGraph:
        """Strongly connected components, their topological order, and the arcs of each state."""
        return ArcGraph(*_graph.analyze_graph(self.source, self.target, self.n_states))

    @property
    def graph_arrays(self) -> list[IntArray]:
        """The graph in the form of the kernels: :data:`catena.kernels.automaton.ops.GRAPH`."""
        return [self.source, self.target, *self.graph[:4], *self.graph[5:]]

    @property
    def graph_tensors(self) -> list[Tensor]:
        """The graph for custom operators of torch."""
        return [torch.from_numpy(x) for x in self.graph_arrays]

    @cached_property
    def is_acyclic(self) -> bool:
        """Whether there is no cycle, including arcs from a state to itself."""
        return not self.graph.cyclic.any()

    @cached_property
    def _facts(self) -> Facts:
        longest = int(self.graph.level.max(initial=0)) + 1 if self.is_acyclic else ANY_LENGTH
        return Facts(longest, bool((self.input < 0).any()))

    # torch.compile cannot trace a cached property. It calls a method with this mark and treats its result as constant.

    def facts(self) -> Facts:
        return self._facts

    facts._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def prepare(self) -> None:
        """Compute what reference programs read, so that torch.compile finds it in the cache."""
        self.unrolled.prepare()

    prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]

    @cached_property
    def by_input(self) -> Sorted:
        """The arcs of each state sorted by input label, for compositions."""
        return self._sorted(self.input)

    @cached_property
    def by_output(self) -> Sorted:
        """The arcs of each state sorted by output label, for compositions."""
        return self._sorted(self.output)

    def _sorted(self, labels: IntArray) -> Sorted:
        arcs = np.lexsort((labels, self.source))
        starts = np.searchsorted(self.source[arcs], np.arange(self.n_states + 1))
        return Sorted(arcs, starts, labels[arcs], self.target[arcs])

    @cached_property
    def unrolled(self) -> Unrolled:
        return Unrolled.of(self)


class Block(NamedTuple):
    """All cyclic components of size m: ``states[c, i]``, and how arcs are summed into the cells of c m × m matrices."""

    states: IntArray
    arcs: IntArray
    cells: Segments


class StateLevel(NamedTuple):
    """Nodes that only depend on nodes of lower levels: ``sums`` of ``tails ⊗ arcs``.

    Tails are positions in the order of levels.
    """

    nodes: IntArray
    arcs: IntArray
    tails: IntArray
    sums: Segments


class Levels(NamedTuple):
    """The levels, lowest first, and the position of each node in their order."""

    steps: tuple[StateLevel, ...]
    position: IntArray


@dataclass(frozen=True)
class Unrolled:
    """An acyclic graph with the same sums, in which every cyclic component is replaced by its closure.

    State q is entered at node q. If it is on a cycle, it is left from a separate node ``exits[q]``, and arcs with the
    entries of the component's closure lead there from the entry nodes of all states of the component. Arcs are ordered:
    first the ``plain`` arcs of the automaton, then the closures of ``blocks``, row by row.
    """

    exits: IntArray
    plain: IntArray
    blocks: tuple[Block, ...]
    source: IntArray
    target: IntArray
    n_nodes: int

    @classmethod
    def of(cls, topology: Topology) -> Unrolled:
        graph, n = topology.graph, topology.n_states
        turning = graph.cyclic[graph.component].astype(bool) if n else np.zeros(0, bool)
        exits = np.arange(n)
        exits[turning] = n + np.arange(turning.sum())
        inside = graph.component[topology.source] == graph.component[topology.target]
        plain = np.flatnonzero(~inside)
        blocks = tuple(_blocks(topology, np.flatnonzero(inside)))
        sources, targets = [exits[topology.source[plain]]], [topology.target[plain]]
        for block in blocks:
            m = block.states.shape[1]
            sources.append(np.repeat(block.states, m, axis=1).ravel())
            targets.append(np.tile(exits[block.states], m).ravel())
        n_nodes = n + int(turning.sum())
        source, target = np.concatenate(sources), np.concatenate(targets)
        return cls(exits, plain, blocks, source, target, n_nodes)

    def prepare(self) -> tuple[Levels, Levels]:
        return self.forwards, self.backwards

    @cached_property
    def forwards(self) -> Levels:
        """The levels of its nodes from the start."""
        return _levels(self.source, self.target, self.n_nodes)

    @cached_property
    def backwards(self) -> Levels:
        """The levels of its nodes from the end."""
        return _levels(self.target, self.source, self.n_nodes)


def _blocks(topology: Topology, inside: IntArray) -> list[Block]:
    graph = topology.graph
    sizes = np.diff(graph.bounds)
    place, which = np.empty(topology.n_states, np.int64), np.empty(topology.n_states, np.int64)
    turning = graph.cyclic.astype(bool)
    blocks = []
    for m in np.unique(sizes[turning]).tolist():
        chosen = np.flatnonzero((sizes == m) & turning)
        states = graph.order[graph.bounds[chosen][:, None] + np.arange(m)]
        place[states], which[states] = np.arange(m), np.arange(len(chosen))[:, None]
        arcs = inside[np.isin(graph.component[topology.source[inside]], chosen)]
        source, target = topology.source[arcs], topology.target[arcs]
        cells = (which[source] * m + place[source]) * m + place[target]
        blocks.append(Block(states, arcs, Segments.of(cells, len(chosen) * m * m)))
    return blocks


def _levels(source: IntArray, target: IntArray, n: int) -> Levels:
    depth = _graph.analyze_graph(source, target, n)[4]
    order = np.argsort(depth, kind="stable")
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    by_level = np.argsort(depth[target], kind="stable")
    heights = np.arange(depth.max(initial=-1) + 2)
    node_starts = np.searchsorted(depth[order], heights)
    arc_starts = np.searchsorted(depth[target][by_level], heights)
    steps = []
    for low, high, first, last in zip(node_starts, node_starts[1:], arc_starts, arc_starts[1:], strict=False):
        arcs = by_level[first:last]
        sums = Segments.of(position[target[arcs]] - low, int(high - low))
        steps.append(StateLevel(order[low:high], arcs, position[source[arcs]], sums))
    return Levels(tuple(steps), position)
