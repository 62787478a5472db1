"""Automata for phrases that must, or must not, occur.

Both have one arc for each label in their first state, and failure arcs elsewhere: the size is the vocabulary plus the
phrases. Aho & Corasick (1975).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from catena.errors import ConfigError
from catena.structure.automaton.build import from_arcs
from catena.structure.automaton.wfsa import FAILURE, Automaton

_Phrase = Sequence[int]


def without_phrases(phrases: Sequence[_Phrase], v: int) -> Automaton:
    """The strings of ``v`` ids (labels: ids + 1) that contain none of the phrases."""
    children, failures, complete = _trie(phrases, v)
    dead = len(children)
    arcs = [
        (q, dead if complete[r] else r, id + 1, id + 1, 0.0)
        for q, below in enumerate(children)
        for id, r in below.items()
    ]
    arcs += [(0, 0, id + 1, id + 1, 0.0) for id in range(v) if id not in children[0]]
    arcs += [(q, failures[q], FAILURE, FAILURE, 0.0) for q in range(1, len(children))]
    return from_arcs(arcs, [0], [q for q in range(len(children)) if not complete[q]], n_states=dead + 1)


def with_phrase(phrase: _Phrase, v: int) -> Automaton:
    """The strings of ``v`` ids (labels: ids + 1) that contain the phrase."""
    children, failures, complete = _trie([phrase], v)
    last = complete.index(True)
    arcs = [(q, r, id + 1, id + 1, 0.0) for q, below in enumerate(children) for id, r in below.items()]
    arcs += [(q, q, id + 1, id + 1, 0.0) for q in {0, last} for id in range(v) if id not in children[q]]
    arcs += [(q, failures[q], FAILURE, FAILURE, 0.0) for q in range(1, last)]
    return from_arcs(arcs, [0], [last])


def _trie(phrases: Sequence[_Phrase], v: int) -> tuple[list[dict[int, int]], list[int], list[bool]]:
    """Children by id, the longest proper suffix of each state, and whether a phrase ends there."""
    children: list[dict[int, int]] = [{}]
    complete = [False]
    for phrase in phrases:
        if not phrase or not all(0 <= id < v for id in phrase):
            raise ConfigError(f"phrases must be one or more ids from 0 to {v - 1}, got {list(phrase)}. Fix its ids.")
        at = 0
        for id in phrase:
            if id not in children[at]:
                children[at][id] = len(children)
                children.append({})
                complete.append(False)
            at = children[at][id]
        complete[at] = True
    failures, todo = [0] * len(children), deque(children[0].values())
    while todo:
        q = todo.popleft()
        complete[q] = complete[q] or complete[failures[q]]
        for id, r in children[q].items():
            at = failures[q]
            while at and id not in children[at]:
                at = failures[at]
            failures[r] = children[at].get(id, 0)
            todo.append(r)
    return children, failures, complete
