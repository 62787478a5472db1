"""Constraints on parses, given as partly filled CoNLL-U.

A HEAD or DEPREL other than ``_`` is fixed. In MISC, ``NotHead=3,4`` forbids heads (0 is the root) and
``NotDeprel=obj,iobj`` forbids relations.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from catena.data.examples import ConlluRow, ConlluSentence
from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.tasks.parse.data import DependencyExample
from catena.tasks.parse.dependency.decode import AllowedArcs
from catena.tasks.parse.dependency.trees import word_location

NOT_HEAD, NOT_DEPREL = "NotHead", "NotDeprel"


def allowed_arcs(examples: Sequence[DependencyExample], names: Labels) -> AllowedArcs:
    """The arcs and relations that the constraints of a batch of sentences allow."""
    n = 1 + max(len(example.words) for example in examples)
    arcs = torch.ones(len(examples), n, n, dtype=torch.bool)
    relations = torch.ones(len(examples), n, len(names), dtype=torch.bool)
    for row, example in enumerate(examples):
        constraint: ConlluSentence = example.constraint
        _check_words(example.words, constraint)
        for number, word in enumerate(constraint.words, start=1):
            _apply_heads(arcs[row], constraint, number, word)
            _apply_relations(relations[row], constraint, number, word, names)
    return AllowedArcs(arcs, relations)


def _check_words(own: tuple[str, ...], constraint: ConlluSentence) -> None:
    theirs = tuple(word.form for word in constraint.words)
    if own != theirs:
        i = next((i for i, (a, b) in enumerate(zip(own, theirs, strict=False)) if a != b), min(len(own), len(theirs)))
        a, b = (words[i] if i < len(words) else "no word" for words in (own, theirs))
        raise DataError(
            f"{constraint.location} must have the words of its sentence, with word {i + 1} {a!r}, got {b!r}. Give the "
            f"same sentences in the same order."
        )


def _apply_heads(arcs: Tensor, constraint: ConlluSentence, number: int, word: ConlluRow) -> None:
    if word.head != "_":
        kept = arcs[int(word.head), number].clone()
        arcs[:, number] = False
        arcs[int(word.head), number] = kept
    for head in _listed(word, NOT_HEAD):
        if not head.isdecimal() or int(head) > len(constraint.words):
            raise DataError(
                f"{word_location(constraint, number)}: {NOT_HEAD} must list words from 0 (the root) to "
                f"{len(constraint.words)}, got {head!r}. Separate the numbers by commas."
            )
        arcs[int(head), number] = False


def _apply_relations(
    relations: Tensor, constraint: ConlluSentence, number: int, word: ConlluRow, names: Labels
) -> None:
    fixed = [] if word.deprel == "_" else [word.deprel]
    forbidden = _listed(word, NOT_DEPREL)
    try:
        fixed_ids, forbidden_ids = names.ids(fixed), names.ids(forbidden)
    except DataError as error:
        raise DataError(f"{word_location(constraint, number)}: {error}") from None
    if fixed_ids:
        relations[number] = False
        relations[number, fixed_ids] = True
    relations[number, forbidden_ids] = False


def _listed(word: ConlluRow, key: str) -> list[str]:
    """The values of a key in MISC, such as NotHead=3,4."""
    for part in word.misc.split("|"):
        name, equals, value = part.partition("=")
        if equals and name == key:
            return value.split(",")
    return []
