r"""Smoothed probabilities of unseen rules: counts of a fine context interpolated with those of a coarser one.

.. math::  p_k(e) = \frac{c_k(e) + \kappa\, p_{k-1}(e)}{\sum_{e'} c_k(e') + \kappa}

Context ``k - 1`` is context ``k`` with one thing less remembered: first the levels above the parent, then the more
distant siblings. So rules seen after ``NP`` and a determiner below any phrase get some weight below this one. Words
get the tags of similar words as pseudo-counts.

Independent of trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

E = TypeVar("E", bound=Hashable)
T = TypeVar("T", bound=Hashable)

CountContext = tuple[tuple[str, ...], ...]
"""Labels, the labels of the ancestors, and for a step inside a rule the siblings to the left."""


def add_backoff(
    events: Mapping[CountContext, Counter[E]], kappa: float, least: float = 0.0
) -> Iterator[tuple[CountContext, E, float]]:
    """Yield each seen context with its possible events and their weights, which sum to the count of the context.

    Args:
        events: the counts of the events in each context.
        kappa: weight of the coarser context, in occurrences.
        least: unseen events with a lower probability are dropped.
    """
    coarser: dict[CountContext, Counter[E]] = {}
    for context, counter in events.items():
        for other in contexts(context)[1:]:
            coarser.setdefault(other, Counter()).update(counter)
    known: dict[CountContext, dict[E, float]] = {}

    def probabilities(chain: tuple[CountContext, ...]) -> dict[E, float]:
        if not chain:
            return {}
        if chain[0] not in known:
            known[chain[0]] = _mixed(coarser[chain[0]], probabilities(chain[1:]), kappa)
        return known[chain[0]]

    for context, counter in events.items():
        total = counter.total()
        coarse = probabilities(contexts(context)[1:]) if kappa else {}
        for event, share in _mixed(counter, coarse, kappa).items():
            if event in counter or share >= least:
                yield context, event, share * total


def contexts(context: CountContext) -> tuple[CountContext, ...]:
    """Return a context and its coarser ones, finest first. A step keeps its last sibling, if it has any."""
    labels, above, *sisters = context
    found = [context]
    for n in range(len(above) - 1, -1, -1):
        found.append((labels, above[:n], *sisters))
    for n in range(1, len(sisters[0]) if sisters else 0):
        found.append((labels, (), sisters[0][n:]))
    return tuple(found)


def _mixed(counter: Counter[E], coarser: Mapping[E, float], kappa: float) -> dict[E, float]:
    kappa = kappa if coarser else 0.0
    total = counter.total() + kappa
    return {e: (counter[e] + kappa * coarser.get(e, 0.0)) / total for e in {**counter, **coarser}}


def with_likely_tags(
    lexicon: Mapping[tuple[T, str], float | int],
    tags_of_classes: Mapping[str, Counter[T]],
    classes: Callable[[str], Iterable[str]],
    weight: float,
) -> dict[tuple[T, str], float | int]:
    """Return a lexicon with ``weight`` pseudo-counts for each word, distributed as the tags of similar words.

    Args:
        lexicon: the counts of (tag, word) pairs.
        tags_of_classes: the counts of the tags of rare words in each word class.
        classes: returns the classes of a word, finest first.
        weight: the number of occurrences to add to each word.
    """
    result = dict(lexicon)
    for word in dict.fromkeys(word for _, word in lexicon):
        found = next((tags_of_classes[name] for name in classes(word) if tags_of_classes.get(name)), None)
        if found is None or word in tags_of_classes:
            continue
        total = found.total()
        for tag, n in found.items():
            result[tag, word] = result.get((tag, word), 0.0) + weight * n / total
    return result
