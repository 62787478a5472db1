"""Heads of a sentence as integers: tests for trees, and lifting of crossing arcs.

``heads[i]`` is the head of word ``i + 1``; 0 is the root, and -1 means that the head is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from catena.data.examples import ConlluSentence
from catena.errors import FormatError
from catena.metrics.attachment import nonprojective_words

UNKNOWN = -1


def get_heads(sentence: ConlluSentence) -> list[int]:
    """The heads of the words; -1 for ``_`` in the file."""
    return [UNKNOWN if word.head == "_" else int(word.head) for word in sentence.words]


def find_cycle(heads: Sequence[int]) -> list[int] | None:
    """The words of a cycle of heads, from its first word back to it; None if there is none.

    >>> find_cycle([2, 3, 1, 0])
    [1, 2, 3, 1]
    """
    clear: set[int] = set()
    for word in range(1, len(heads) + 1):
        way: list[int] = []
        here, seen = word, set[int]()
        while here > 0 and here not in clear:
            if here in seen:
                return [*way[way.index(here) :], here]
            way.append(here)
            seen.add(here)
            here = heads[here - 1]
        clear |= seen
    return None


def projectivize(heads: Sequence[int]) -> list[int]:
    """A projective tree close to this one.

    The shortest crossing arc is moved to the head of its head until no arcs cross (Nivre & Nilsson 2005, section 2).
    """
    found = list(heads)
    while crossing := nonprojective_words(found):
        word = min(crossing, key=lambda word: (abs(word - found[word - 1]), word))
        found[word - 1] = found[found[word - 1] - 1]
    return found


def word_location(sentence: ConlluSentence, word: int) -> str:
    """The location of a word, such as ``train.conllu:17``."""
    row = next(i for i, row in enumerate(sentence.rows) if row.id == str(word))
    return f"{sentence.place.file}:{sentence.place.line + row}"


def check_tree(sentence: ConlluSentence, single_root: bool, whole: bool = False) -> list[int]:
    """The heads of a sentence. Raise FormatError if they are not (a part of) a tree.

    Args:
        sentence: the sentence of a file.
        single_root: whether only one word may be attached to the root.
        whole: whether every word must have a head.
    """
    heads = get_heads(sentence)
    if whole and UNKNOWN in heads:
        word = heads.index(UNKNOWN) + 1
        raise FormatError(
            f"{word_location(sentence, word)}: word {word} ({sentence.words[word - 1].form!r}) has no head, but gold "
            f"trees need one for every word. Fill the column HEAD."
        )
    if (cycle := find_cycle(heads)) is not None:
        way = " → ".join(str(word) for word in cycle)
        raise FormatError(
            f"{word_location(sentence, cycle[0])}: the heads form a cycle (words {way}), so the sentence is not a "
            f"tree. Correct the column HEAD, or write _ for unknown heads."
        )
    roots = [word for word, head in enumerate(heads, start=1) if head == 0]
    if single_root and len(roots) > 1:
        listed = ", ".join(str(word) for word in roots)
        raise FormatError(
            f"{word_location(sentence, roots[1])}: the sentence has {len(roots)} roots (words {listed}), but only one "
            f"is allowed. Correct the column HEAD, or use --model.single-root false."
        )
    return heads
