"""Phrases of whole words for models whose tokens are pieces.

An automaton reads the characters of the pieces, so a phrase matches under every split into pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from catena.data.tokenizers.base import Tokenizer
from catena.data.tokenizers.plain import BYTE_SYMBOLS
from catena.data.vocabulary import Vocabulary
from catena.errors import DataError
from catena.search.acceptor import Acceptor, Intersection
from catena.search.pieces import PieceAcceptor
from catena.structure.automaton.build import from_arcs
from catena.structure.automaton.wfsa import Automaton
from catena.tasks.letters import BROKEN, LETTER, OTHER, CharacterReader, read_character, reader_of_bytes

_HIDDEN_BYTES = (*range(33), *range(127, 161), 173)
"""Bytes without a printable character of their own."""


@dataclass(frozen=True)
class PieceAlphabet:
    """How texts are spelled with the characters of pieces.

    Args:
        pieces: the characters of each id; empty for special tokens.
        spell: maps a text to these characters.
        read: decides which characters are letters.
    """

    pieces: list[str]
    spell: Callable[[str], str]
    read: CharacterReader


def build_piece_alphabet(tokenizer: Tokenizer, vocabulary: Vocabulary) -> PieceAlphabet:
    """The alphabet of a tokenizer whose tokens are pieces."""
    kind, names = tokenizer.settings.kind, vocabulary.symbols
    specials = len(vocabulary.specials)
    plain = [""] * specials + names[specials:]
    if kind == "bytes":
        numbers = {symbol: chr(0x100 + b) for b, symbol in enumerate(BYTE_SYMBOLS)}
        pieces = [numbers.get(name, "") for name in plain]
        read = reader_of_bytes(lambda character: ord(character) - 0x100)
        return PieceAlphabet(pieces, lambda text: "".join(numbers[t] for t in tokenizer.tokens(text)), read)
    read = read_character if kind == "characters" else reader_of_bytes(_number_of_written)
    return PieceAlphabet(plain, lambda text: "".join(tokenizer.tokens(text)), read)


def _number_of_written(character: str) -> int:
    """The byte that subwords write as this character.

    Printable bytes are written as themselves, the others (0 to 32, 127 to 160, 173) as 256 and up, in order.
    """
    number = ord(character) - 0x100
    return ord(character) if number < 0 else _HIDDEN_BYTES[number] if number < len(_HIDDEN_BYTES) else 0


def build_phrase_acceptors(
    must: Sequence[str], without: Sequence[str], prefix: str, tokenizer: Tokenizer, vocabulary: Vocabulary
) -> list[Acceptor]:
    """Acceptors of the id sequences whose text has all phrases of ``must``, none of ``without``, and the prefix."""
    spelling = build_piece_alphabet(tokenizer, vocabulary)
    alphabet = sorted(set().union(*spelling.pieces))
    sets: list[Acceptor] = []
    if must:
        machines = [phrase_machine(_spelled(text, spelling, alphabet), alphabet, spelling.read) for text in must]
        sets.append(Intersection([PieceAcceptor(machine, spelling.pieces) for machine in machines], in_turn=True))
    for text in without:
        machine = phrase_machine(spelling.spell(text), alphabet, spelling.read, wanted=False)
        sets.append(PieceAcceptor(machine, spelling.pieces))
    if prefix:
        sets.append(PieceAcceptor(prefix_machine(_spelled(prefix, spelling, alphabet), alphabet), spelling.pieces))
    return sets


def _spelled(text: str, spelling: PieceAlphabet, alphabet: Sequence[str]) -> str:
    spelled = spelling.spell(text)
    unknown = sorted(set(spelled) - set(alphabet))
    if unknown or not spelled:
        raise DataError(
            f"a constraint must consist of characters that the model knows, got {text!r} "
            + (f"with the unknown {', '.join(map(repr, unknown))}" if unknown else "without characters")
            + ". Use only characters that occur in the training data."
        )
    return spelled


def phrase_machine(phrase: str, alphabet: Iterable[str], read: CharacterReader, wanted: bool = True) -> Automaton:
    """Automaton of the texts that contain a phrase as whole words, or that do not; labels are code points.

    A state holds the progress of every match that began at a word boundary, whether a match is complete unless a letter
    follows, and the class of the last character; the automaton is deterministic. If the phrase does not begin or end
    with a letter, any character may be adjacent there. Bytes that are not valid characters are in neither language.
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


def _ends(phrase: str, read: CharacterReader) -> tuple[int, int]:
    """The classes of the first and last character of a phrase: letter or other."""
    whole = [state for state in accumulate(phrase, read, initial=OTHER) if state in (OTHER, LETTER)][1:]
    return whole[0], whole[-1]


def prefix_machine(prefix: str, alphabet: Iterable[str]) -> Automaton:
    """Automaton of the texts that begin with a prefix; labels are code points."""
    n = len(prefix)
    arcs = [(i, i + 1, ord(c), ord(c), 0.0) for i, c in enumerate(prefix)]
    return from_arcs([*arcs, *((n, n, ord(c), ord(c), 0.0) for c in alphabet)], [0], [n])
