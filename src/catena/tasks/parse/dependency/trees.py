"""Heads of a sentence as integers: tests for trees, lifting of crossing arcs, and which trees can be trained on.

``heads[i]`` is the head of word ``i + 1``; 0 is the root, and -1 means that the head is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from catena.data.examples import ConlluSentence
from catena.errors import FormatError
from catena.metrics.attachment import DependencyArc, nonprojective_words
from catena.structure.dependency import ArcConstraint
from catena.structure.projective import ProjectiveTree
from catena.tasks.parse.dependency.config import BiaffineParserConfig

UNKNOWN = -1


def get_heads(sentence: ConlluSentence) -> list[int]:
    """The heads of the words; -1 for ``_`` in the file."""
    return [UNKNOWN if word.head == "_" else int(word.head) for word in sentence.words]


def projectivize(heads: Sequence[int]) -> list[int]:
    """A projective tree close to this one.

    The shortest crossing arc is moved to the head of its head until no arcs cross (Nivre & Nilsson 2005, section 2).
    """
    found = list(heads)
    while crossing := nonprojective_words(found):
        word = min(crossing, key=lambda word: (abs(word - found[word - 1]), word))
        found[word - 1] = found[found[word - 1] - 1]
    return found


def crossing_fraction(trees: Iterable[list[int]]) -> float:
    """The fraction of the arcs of trees that cross others. Trees with unknown heads do not count."""
    known = [heads for heads in trees if UNKNOWN not in heads]
    return sum(len(nonprojective_words(heads)) for heads in known) / max(1, sum(map(len, known)))


def word_location(sentence: ConlluSentence, word: int) -> str:
    """The location of a word, such as ``train.conllu:17``."""
    row = next(i for i, row in enumerate(sentence.rows) if row.id == str(word))
    return f"{sentence.location.file}:{sentence.location.line + row}"


def require_heads(sentence: ConlluSentence) -> list[int]:
    """The heads of a gold tree. Raise FormatError if a word has none."""
    heads = get_heads(sentence)
    if UNKNOWN in heads:
        word = heads.index(UNKNOWN) + 1
        raise FormatError(
            f"{word_location(sentence, word)}: word {word} ({sentence.words[word - 1].form!r}) has no head, but gold "
            f"trees need one for every word. Fill the column HEAD."
        )
    return heads


def to_arcs(sentence: ConlluSentence, heads: Sequence[int], relations: Sequence[str]) -> list[DependencyArc]:
    """A tree in the representation of the metrics, with the tags and features of the sentence."""
    rows = zip(sentence.words, heads, relations, strict=True)
    return [DependencyArc(head, relation, word.upos, word.feats) for word, head, relation in rows]


def known_relations(sentence: ConlluSentence) -> list[str]:
    """The relations of the words with a known head."""
    return [word.deprel for word in sentence.words if word.deprel != "_" and word.head != "_"]


def reason_to_drop(heads: list[int], max_length: int, model: BiaffineParserConfig) -> str | None:
    """Why a sentence with these heads cannot be trained on; None if it can."""
    if len(heads) > max_length:
        return f"longer than max_length={max_length}"
    if all(head == UNKNOWN for head in heads):
        return "without any head"
    if UNKNOWN not in heads:
        return None
    if model.loss == "margin":
        return "without all heads, which loss = margin needs"
    if model.loss == "eisner" and not _may_be_projective(heads, model.single_root):
        return "partly annotated with crossing arcs, which loss = eisner cannot use"
    return None


def _may_be_projective(heads: list[int], single_root: bool) -> bool:
    n = len(heads) + 1
    given = ArcConstraint.partial(torch.tensor([heads]))
    tree = ProjectiveTree(torch.zeros(1, n, n), single_root=single_root, constraint=given, on_infeasible="-inf")
    return bool(tree.log_partition().isfinite())
