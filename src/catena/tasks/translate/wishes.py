"""What translations must hold, must not hold, and begin with: lines of a file, made acceptors for a search.

A line belongs to a text; its fields stand between tabs::

    Haus <TAB> -Hund <TAB> ^Das

A field is a phrase that must be written; with - before it, one that must not; with ^ before it, what the translation
begins with (+ before a phrase that itself begins so). Phrases are whole words: Haus is not in Haustier. Where tokens
are words, phrases are sequences of ids. Where they are pieces, a machine reads the characters of the pieces, so that a
phrase counts however it is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from catena.data.files import open_text
from catena.data.tokenisers.plain import BYTE_SYMBOLS
from catena.data.vocabulary import UNK
from catena.decoding.acceptor import Acceptor, All
from catena.decoding.machine import MachineAcceptor
from catena.decoding.phrases import with_phrase, without_phrases
from catena.decoding.pieces import PieceAcceptor
from catena.errors import DataError
from catena.structure.automaton.build import from_arcs
from catena.structure.automaton.value import Automaton
from catena.tasks.translate.encoding import Side
from catena.tasks.translate.letters import BROKEN, LETTER, OTHER, Reader, read_character, reader_of_bytes

HIDDEN_BYTES = (*range(33), *range(127, 161), 173)
"""Those that no character of one's own stands for."""


@dataclass(frozen=True)
class Wishes:
    """What the translation of one text must be like."""

    must: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    prefix: str = ""

    def __bool__(self) -> bool:
        return bool(self.must or self.without or self.prefix)

    @classmethod
    def of(cls, line: str) -> Wishes:
        """The wishes of a line."""
        must, without, prefix = [], [], ""
        for field in (field.strip() for field in line.split("\t")):
            if field[:1] == "-":
                without.append(field[1:].strip())
            elif field[:1] == "^":
                prefix = field[1:].strip()
            elif field:
                must.append(field.removeprefix("+").strip())
        return cls(tuple(filter(None, must)), tuple(filter(None, without)), prefix)


def read_wishes(path: Path) -> list[Wishes]:
    """The wishes of a file, line by line."""
    with open_text(path) as lines:
        found = []
        for number, line in lines:
            found.append(Wishes.of(line))
            _check_together(found[-1], f"{path}:{number}")
    if not found:
        raise DataError(f"{path} has no line: write one for each text, or one for all of them")
    return found


def acceptor_of(wishes: Wishes, side: Side) -> Acceptor:
    """The sequences of target ids whose text is as wished."""
    sets = (
        _of_words(wishes, side) if side.tokeniser.settings.kind in ("words", "whitespace") else _of_pieces(wishes, side)
    )
    return sets[0] if len(sets) == 1 else All(sets)


def _check_together(wishes: Wishes, where: str) -> None:
    """Refuse what must not be written within what must: no translation could be found."""
    for bad in wishes.without:
        for good in filter(None, (*wishes.must, wishes.prefix)):
            if f" {' '.join(bad.split())} " in f" {' '.join(good.split())} ":
                raise DataError(f"{where} asks for {good!r} and forbids {bad!r}, and no text can be both: drop one")


# --- where tokens are words -------------------------------------------------------------------------------------------


def _of_words(wishes: Wishes, side: Side) -> list[Acceptor]:
    v = len(side.vocabulary)
    sets: list[Acceptor] = []
    if wishes.must:
        sets.append(All([MachineAcceptor(with_phrase(_ids(text, side), v), v) for text in wishes.must], in_turn=True))
    if wishes.without:
        known = [ids for text in wishes.without if UNK not in (ids := _ids(text, side, strict=False))]
        if known:
            sets.append(MachineAcceptor(without_phrases(known, v), v))
    if wishes.prefix:
        first = _ids(wishes.prefix, side)
        arcs = [(i, i + 1, id + 1, id + 1, 0.0) for i, id in enumerate(first)]
        arcs += [(len(first), len(first), id + 1, id + 1, 0.0) for id in range(v)]
        sets.append(MachineAcceptor(from_arcs(arcs, [0], [len(first)]), v))
    return sets or [_anything(v)]


def _anything(v: int) -> Acceptor:
    return MachineAcceptor(from_arcs([(0, 0, id + 1, id + 1, 0.0) for id in range(v)], [0], [0]), v)


def _ids(text: str, side: Side, strict: bool = True) -> list[int]:
    tokens = side.tokeniser.tokens(text)
    ids = side.vocabulary.ids(tokens)
    if strict and (not ids or UNK in ids):
        unknown = [repr(token) for token, id in zip(tokens, ids, strict=True) if id == UNK]
        raise DataError(
            f"a constraint must be of words that the model knows, and {text!r} "
            + (f"has {', '.join(unknown)}, which it does not" if unknown else "has none")
        )
    return ids


# --- where tokens are pieces ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spelling:
    """How texts are written in the characters of pieces.

    Args:
        pieces: the characters of each id; none for specials.
        spell: from a text to those characters.
        read: how the characters tell what is a letter.
    """

    pieces: list[str]
    spell: Callable[[str], str]
    read: Reader


def spelling_of(side: Side) -> Spelling:
    """The spelling of a side whose tokens are pieces."""
    kind, names = side.tokeniser.settings.kind, side.vocabulary.symbols
    specials = len(side.vocabulary.specials)
    plain = [""] * specials + names[specials:]
    if kind == "bytes":
        numbers = {symbol: chr(0x100 + b) for b, symbol in enumerate(BYTE_SYMBOLS)}
        pieces = [numbers.get(name, "") for name in plain]
        read = reader_of_bytes(lambda character: ord(character) - 0x100)
        return Spelling(pieces, lambda text: "".join(numbers[t] for t in side.tokeniser.tokens(text)), read)
    read = read_character if kind == "characters" else reader_of_bytes(_number_of_written)
    return Spelling(plain, lambda text: "".join(side.tokeniser.tokens(text)), read)


def _number_of_written(character: str) -> int:
    """The byte that subwords write so: printable ones as themselves, the others (0 to 32, 127 to 160, 173) from 256 on,
    in their order."""
    number = ord(character) - 0x100
    return ord(character) if number < 0 else HIDDEN_BYTES[number] if number < len(HIDDEN_BYTES) else 0


def _of_pieces(wishes: Wishes, side: Side) -> list[Acceptor]:
    spelling = spelling_of(side)
    alphabet = sorted(set().union(*spelling.pieces))
    sets: list[Acceptor] = []
    if wishes.must:
        machines = [phrase_machine(_spelt(text, spelling, alphabet), alphabet, spelling.read) for text in wishes.must]
        sets.append(All([PieceAcceptor(machine, spelling.pieces) for machine in machines], in_turn=True))
    for text in wishes.without:
        machine = phrase_machine(spelling.spell(text), alphabet, spelling.read, wanted=False)
        sets.append(PieceAcceptor(machine, spelling.pieces))
    if wishes.prefix:
        sets.append(PieceAcceptor(prefix_machine(_spelt(wishes.prefix, spelling, alphabet), alphabet), spelling.pieces))
    return sets


def _spelt(text: str, spelling: Spelling, alphabet: Sequence[str]) -> str:
    spelt = spelling.spell(text)
    unknown = sorted(set(spelt) - set(alphabet))
    if unknown or not spelt:
        raise DataError(
            f"a constraint must be of characters that the model knows, and {text!r} "
            + (f"has {', '.join(map(repr, unknown))}, which it does not" if unknown else "has none")
        )
    return spelt


def phrase_machine(phrase: str, alphabet: Iterable[str], read: Reader, wanted: bool = True) -> Automaton:
    """The texts in which a phrase stands as whole words, or those in which it does not; labels are code points.

    A state is how far the phrase is read by each match that has begun where a word may begin, whether one is at its end
    unless a letter follows, and what was read last; the machine is deterministic. Where the phrase begins or ends with
    no letter, nothing is asked of what stands beside it. Bytes that are no characters are in neither.
    """
    alphabet = list(alphabet)
    n = len(phrase)
    free_begin, free_end = (last == OTHER for last in _ends(phrase, read))
    found = (frozenset[int](), True, OTHER)
    first = (frozenset[int](), False, OTHER)
    states = {first: 0, found: 1}
    arcs, todo = [(1, 1, ord(c), ord(c), 0.0) for c in alphabet], [first]
    while todo:
        state = todo.pop()
        matches, at_end, last = state
        may_begin = last == OTHER or (free_begin and last == LETTER)
        begun = matches | {0} if may_begin else matches
        for c in alphabet:
            if (now := read(last, c)) == BROKEN:
                continue
            moved = frozenset(k + 1 for k in begun if k < n and phrase[k] == c)
            if (at_end and now == OTHER) or (free_end and n in moved):
                reached = found
            else:
                reached = moved - {n}, n in moved or (at_end and now != LETTER), now
            if reached not in states:
                states[reached] = len(states)
                todo.append(reached)
            arcs.append((states[state], states[reached], ord(c), ord(c), 0.0))
    holds = {number for (_, at_end, _), number in states.items() if at_end}
    return from_arcs(arcs, [0], holds if wanted else set(states.values()) - holds, n_states=len(states))


def _ends(phrase: str, read: Reader) -> tuple[int, int]:
    """Whether a phrase begins and ends with letters."""
    whole = [state for state in accumulate(phrase, read, initial=OTHER) if state in (OTHER, LETTER)][1:]
    return whole[0], whole[-1]


def prefix_machine(prefix: str, alphabet: Iterable[str]) -> Automaton:
    """The texts that begin so; labels are code points."""
    n = len(prefix)
    arcs = [(i, i + 1, ord(c), ord(c), 0.0) for i, c in enumerate(prefix)]
    return from_arcs([*arcs, *((n, n, ord(c), ord(c), 0.0) for c in alphabet)], [0], [n])
