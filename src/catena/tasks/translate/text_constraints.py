"""Constraints on translations, read from a file, and their acceptors for a search.

Each line has the constraints of one text, separated by tabs::

    Haus <TAB> -Hund <TAB> ^Das

A field is a phrase that must occur. A field that starts with - must not occur, and a field that starts with ^ is the
prefix of the translation (write + before a phrase that itself starts with one of these signs). Phrases match whole
words: Haus does not match Haustier. If tokens are words, phrases are sequences of ids. If tokens are subwords, an
automaton reads their characters, so that a phrase matches in any segmentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from catena.data.files import open_text
from catena.data.vocabulary import UNK
from catena.errors import DataError
from catena.search.acceptor import Acceptor, Intersection
from catena.search.automaton_acceptor import AutomatonAcceptor
from catena.search.phrases import with_phrase, without_phrases
from catena.structure.automaton.build import from_arcs
from catena.tasks.spelling import build_phrase_acceptors
from catena.tasks.translate.encoding import TextEncoding


@dataclass(frozen=True)
class TranslationConstraints:
    """Constraints on the translation of one text."""

    must: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    prefix: str = ""

    def __bool__(self) -> bool:
        return bool(self.must or self.without or self.prefix)

    @classmethod
    def of(cls, line: str) -> TranslationConstraints:
        """The constraints of a line."""
        must, without, prefix = [], [], ""
        for field in (field.strip() for field in line.split("\t")):
            if field[:1] == "-":
                without.append(field[1:].strip())
            elif field[:1] == "^":
                prefix = field[1:].strip()
            elif field:
                must.append(field.removeprefix("+").strip())
        return cls(tuple(filter(None, must)), tuple(filter(None, without)), prefix)


def read_constraints(path: Path) -> list[TranslationConstraints]:
    """The constraints of each line of a file."""
    with open_text(path) as lines:
        found = []
        for number, line in lines:
            found.append(TranslationConstraints.of(line))
            _check_together(found[-1], f"{path}:{number}")
    if not found:
        raise DataError(f"{path} is empty. Write one line for each text, or one line for all texts.")
    return found


def build_acceptor(constraints: TranslationConstraints, side: TextEncoding) -> Acceptor:
    """The acceptor of target id sequences whose text satisfies the constraints."""
    if side.tokenizer.settings.kind in ("words", "whitespace"):
        sets = _of_words(constraints, side)
    else:
        sets = build_phrase_acceptors(
            constraints.must, constraints.without, constraints.prefix, side.tokenizer, side.vocabulary
        )
    return sets[0] if len(sets) == 1 else Intersection(sets)


def _check_together(constraints: TranslationConstraints, where: str) -> None:
    """Raise DataError if a forbidden phrase occurs in a required one."""
    for bad in constraints.without:
        for good in filter(None, (*constraints.must, constraints.prefix)):
            if f" {' '.join(bad.split())} " in f" {' '.join(good.split())} ":
                raise DataError(
                    f"{where}: a forbidden phrase must not occur in a required one, got {bad!r} and {good!r}. Remove "
                    f"one of the two."
                )


# --- word tokens ------------------------------------------------------------------------------------------------------


def _of_words(constraints: TranslationConstraints, side: TextEncoding) -> list[Acceptor]:
    v = len(side.vocabulary)
    sets: list[Acceptor] = []
    if constraints.must:
        sets.append(
            Intersection(
                [AutomatonAcceptor(with_phrase(_ids(text, side), v), v) for text in constraints.must], in_turn=True
            )
        )
    if constraints.without:
        known = [ids for text in constraints.without if UNK not in (ids := _ids(text, side, strict=False))]
        if known:
            sets.append(AutomatonAcceptor(without_phrases(known, v), v))
    if constraints.prefix:
        first = _ids(constraints.prefix, side)
        arcs = [(i, i + 1, id + 1, id + 1, 0.0) for i, id in enumerate(first)]
        arcs += [(len(first), len(first), id + 1, id + 1, 0.0) for id in range(v)]
        sets.append(AutomatonAcceptor(from_arcs(arcs, [0], [len(first)]), v))
    return sets or [_anything(v)]


def _anything(v: int) -> Acceptor:
    return AutomatonAcceptor(from_arcs([(0, 0, id + 1, id + 1, 0.0) for id in range(v)], [0], [0]), v)


def _ids(text: str, side: TextEncoding, strict: bool = True) -> list[int]:
    tokens = side.tokenizer.tokens(text)
    ids = side.vocabulary.ids(tokens)
    if strict and (not ids or UNK in ids):
        unknown = [repr(token) for token, id in zip(tokens, ids, strict=True) if id == UNK]
        raise DataError(
            (
                f"The constraint {text!r} has words outside the vocabulary: {', '.join(unknown)}. "
                if unknown
                else f"A constraint must have at least one word, got {text!r}. "
            )
            + "Remove or rephrase it."
        )
    return ids
