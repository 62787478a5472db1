"""Heads of a sentence as plain numbers: whether they are a tree, and how crossing arcs are lifted.

``heads[i]`` is the head of word ``i + 1``; 0 is the root, -1 a head that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from catena.data.examples import ConlluSentence
from catena.errors import FormatError
from catena.metrics.attachment import nonprojective_words

UNKNOWN = -1


def get_heads(sentence: ConlluSentence) -> list[int]:
    """The heads of the words; -1 where the file has ``_``."""
    return [UNKNOWN if word.head == "_" else int(word.head) for word in sentence.words]


def find_cycle(heads: Sequence[int]) -> list[int] | None:
    """The words of a circle of heads, from its first word back to it; None if there is none.

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
    """A projective tree near to this one: the shortest crossing arc is moved to the head of its head until none is
    left (Nivre & Nilsson 2005, section 2)."""
    found = list(heads)
    while crossing := nonprojective_words(found):
        word = min(crossing, key=lambda word: (abs(word - found[word - 1]), word))
        found[word - 1] = found[found[word - 1] - 1]
    return found


def word_location(sentence: ConlluSentence, word: int) -> str:
    """Where a word stands, such as ``train.conllu:17``."""
    row = next(i for i, row in enumerate(sentence.rows) if row.id == str(word))
    return f"{sentence.place.file}:{sentence.place.line + row}"


def check_tree(sentence: ConlluSentence, single_root: bool, whole: bool = False) -> list[int]:
    """The heads of a sentence, once they are found to be (a part of) a tree.

    Args:
        sentence: as the file has it.
        single_root: whether one word alone may hang from the root.
        whole: whether every word must have a head.
    """
    heads = get_heads(sentence)
    if whole and UNKNOWN in heads:
        word = heads.index(UNKNOWN) + 1
        raise FormatError(
            f"{word_location(sentence, word)}: word {word} ({sentence.words[word - 1].form!r}) has no head, and a "
            f"file that "
            f"parses are compared with needs one for every word"
        )
    if (cycle := find_cycle(heads)) is not None:
        way = " → ".join(str(word) for word in cycle)
        raise FormatError(
            f"{word_location(sentence, cycle[0])}: the heads go round in a circle (words {way}), so the sentence is "
            f"no tree: "
            f"mend the column HEAD, or write _ for heads that are not known"
        )
    roots = [word for word, head in enumerate(heads, start=1) if head == 0]
    if single_root and len(roots) > 1:
        listed = ", ".join(str(word) for word in roots)
        raise FormatError(
            f"{word_location(sentence, roots[1])}: the sentence has {len(roots)} roots (words {listed}), and one is "
            f"allowed: "
            f"mend the column HEAD, or say --model.single-root false"
        )
    return heads
