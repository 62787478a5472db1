r"""Probability for what a treebank does not hold: counts of a fine context mixed with those of a coarser one.

.. math::  p_k(e) = \frac{c_k(e) + \kappa\, p_{k-1}(e)}{\sum_{e'} c_k(e') + \kappa}

with context ``k - 1`` that of ``k`` with one thing less remembered: first the levels above the parent, then the far
sisters. Rules that were seen after ``NP`` and a determiner below any phrase thus have some weight below this one.
Words get the tags of words that look alike, with the weight of so many occurrences.

Knows counts and contexts, and no trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

E = TypeVar("E", bound=Hashable)
T = TypeVar("T", bound=Hashable)

CountContext = tuple[tuple[str, ...], ...]
"""Labels, the labels above, and for a step inside a rule the sisters to the left."""


def add_backoff(
    events: Mapping[CountContext, Counter[E]], kappa: float, least: float = 0.0
) -> Iterator[tuple[CountContext, E, float]]:
    """Every context that was seen with all that can come there, and its weight, which sums to the context's count.

    What was not seen in a context itself and has a probability below ``least`` there is left out.
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
    """A context and those that remember less, the finest first. A step keeps its last sister, if it knows any."""
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
    """A lexicon where each word has been seen a further ``weight`` times, with the tags of the words that look alike.

    Args:
        lexicon: how often each tag was seen with each word.
        tags_of_classes: how often each tag was seen with the rare words of a class.
        classes: the classes of a word, the finest first.
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
