r"""Attachment scores of dependency trees as in the CoNLL 2018 shared task, for gold tokenization.

See Zeman et al. (2018), section 5.

======  ======================================================================================================
uas     the fraction of words with the correct head
las     the fraction of words with the correct head and relation
clas    F1 of las over content words (Nivre & Fang 2017); predictions and references may have different numbers of them
mlas    clas where tag, features and all function words that depend on the word must be correct too
======  ======================================================================================================

Relations are compared without their subtypes (``nsubj:pass`` is ``nsubj``). Punctuation counts like any other word in
uas and las, but is neither content nor function word. Only universal features are compared.

A word is *non-projective* if some word between it and its head does not descend from that head;
``nonprojective_recall`` is the fraction of such words of the references that get the correct head.

Every metric is a function of sums over sentences, so that intervals and paired tests resample sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.measure import Metric, as_pairs, safe_ratio

_CONTENT = """
    acl advcl advmod amod appos ccomp compound conj csubj dep discourse dislocated expl fixed flat goeswith iobj list
    nmod nsubj nummod obj obl orphan parataxis reparandum root vocative xcomp
"""
_UNIVERSAL = """
    Abbr Animacy Aspect Case Definite Degree Evident Foreign Gender Mood Number NumType Person Polarity Polite Poss
    PronType Reflex Tense VerbForm Voice
"""
CONTENT = frozenset(_CONTENT.split())
"""Relations of content words."""
_FUNCTION = frozenset({"aux", "case", "cc", "clf", "cop", "det", "mark"})
"""Relations of function words."""
UNIVERSAL = frozenset(_UNIVERSAL.split())
"""Features that the guidelines of Universal Dependencies define for all languages."""


class DependencyArc(NamedTuple):
    """A word of a tree: the number of its head (0 is the root), its relation, and its tag and features for mlas."""

    head: int
    relation: str
    tag: str = "_"
    features: str = "_"


_Trees = Sequence[Sequence[DependencyArc]]
"""Sentences as lists of the words of a tree."""


# --- counting ---------------------------------------------------------------------------------------------------------


class AttachmentCounts(NamedTuple):
    """The statistics of one sentence."""

    words: int
    heads: int
    arcs: int
    content: int
    predicted_content: int
    content_arcs: int
    morphology: int
    nonprojective: int
    nonprojective_heads: int


def count_sentence(reference: Sequence[DependencyArc], predicted: Sequence[DependencyArc]) -> AttachmentCounts:
    """The numbers of correct words of a sentence for each metric."""
    if len(reference) != len(predicted):
        raise DataError(
            f"A predicted tree must have the {len(reference)} words of its reference, got {len(predicted)}. Predict on "
            f"the same words."
        )
    gold, own = [_plain(word) for word in reference], [_plain(word) for word in predicted]
    heads = [a.head == b.head for a, b in zip(gold, own, strict=True)]
    arcs = [right and a.relation == b.relation for right, a, b in zip(heads, gold, own, strict=True)]
    content = [word.relation in CONTENT for word in gold]
    right_forms, own_forms = _with_function_words(gold), _with_function_words(own)
    morphology = [arc and a == b for arc, a, b in zip(arcs, right_forms, own_forms, strict=True)]
    crossing = nonprojective_words([word.head for word in reference])
    return AttachmentCounts(
        words=len(gold),
        heads=sum(heads),
        arcs=sum(arcs),
        content=sum(content),
        predicted_content=sum(word.relation in CONTENT for word in own),
        content_arcs=sum(arc and is_content for arc, is_content in zip(arcs, content, strict=True)),
        morphology=sum(form and is_content for form, is_content in zip(morphology, content, strict=True)),
        nonprojective=len(crossing),
        nonprojective_heads=sum(heads[word - 1] for word in crossing),
    )


def _plain(word: DependencyArc) -> DependencyArc:
    """A word without the subtype of its relation and with only its universal features, sorted."""
    kept = sorted(feature for feature in word.features.split("|") if feature.split("=", 1)[0] in UNIVERSAL)
    return DependencyArc(word.head, word.relation.split(":", 1)[0], word.tag, "|".join(kept))


def _with_function_words(words: Sequence[DependencyArc]) -> list[tuple[object, ...]]:
    """The tag and features of each word, with number, relation, tag and features of its function words."""
    below: list[list[tuple[int, str, str, str]]] = [[] for _ in words]
    for number, word in enumerate(words, start=1):
        if word.relation in _FUNCTION and word.head > 0:
            below[word.head - 1].append((number, word.relation, word.tag, word.features))
    return [(word.tag, word.features, tuple(found)) for word, found in zip(words, below, strict=True)]


def nonprojective_words(heads: Sequence[int]) -> list[int]:
    """The non-projective words, numbered from 1.

    ``heads[i]`` is the head of word ``i + 1``. 0 is the root, from which all words descend. Negative values are unknown
    heads without an arc. Words in a cycle descend from no word outside of it.

    >>> nonprojective_words([0, 4, 1, 1])
    [2]
    """
    enter, leave = _visits(heads)
    found = []
    for word, head in enumerate(heads, start=1):
        between = slice(min(word, head) + 1, max(word, head))
        if head > 0 and not ((enter[head] <= enter[between]) & (enter[between] < leave[head])).all():
            found.append(word)
    return found


def _visits(heads: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The entry and exit times of each node in a depth-first traversal."""
    below: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for word, head in enumerate(heads, start=1):
        if head >= 0:
            below[head].append(word)
    enter, leave = np.full(len(below), -1), np.full(len(below), -1)
    time, waiting = 0, [(0, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            leave[node] = time
            continue
        enter[node], time = time, time + 1
        waiting.append((node, True))
        waiting.extend((child, False) for child in below[node])
    return enter, leave


# --- measures ---------------------------------------------------------------------------------------------------------


def count_trees(references: _Trees, predictions: _Trees) -> Float[np.ndarray, "n s"]:
    """A row of :class:`AttachmentCounts` for each sentence."""
    gold, own = as_pairs("attachment", references, predictions)
    return np.array([count_sentence(a, b) for a, b in zip(gold, own, strict=True)], dtype=np.float64)


def _share(right: str, of: str, sums: np.ndarray) -> np.ndarray:
    return safe_ratio(_column(sums, right), _column(sums, of))


def _f1(right: str, sums: np.ndarray) -> np.ndarray:
    return safe_ratio(2 * _column(sums, right), _column(sums, "content") + _column(sums, "predicted_content"))


def _column(sums: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(sums[..., AttachmentCounts._fields.index(name)])


_SCORES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "uas": partial(_share, "heads", "words"),
    "las": partial(_share, "arcs", "words"),
    "clas": partial(_f1, "content_arcs"),
    "mlas": partial(_f1, "morphology"),
    "nonprojective_recall": partial(_share, "nonprojective_heads", "nonprojective"),
}
_NAMES = {"nonprojective_recall": "nonprojective-recall|heads"}

MEASURES = {name: Metric(_NAMES.get(name, f"{name}|conll2018"), count_trees, score) for name, score in _SCORES.items()}
"""Every metric by name, as a function of sums over sentences."""
