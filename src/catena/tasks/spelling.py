"""Phrases of whole words where tokens are pieces: a machine reads the characters of the pieces, so that a phrase counts
however it is cut."""

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
"""Those that no character of one's own stands for."""


@dataclass(frozen=True)
class PieceAlphabet:
    """How texts are written in the characters of pieces.

    Args:
        pieces: the characters of each id; none for specials.
        spell: from a text to those characters.
        read: how the characters tell what is a letter.
    """

    pieces: list[str]
    spell: Callable[[str], str]
    read: CharacterReader


def build_piece_alphabet(tokenizer: Tokenizer, vocabulary: Vocabulary) -> PieceAlphabet:
    """The spelling where tokens are pieces."""
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
    """The byte that subwords write so: printable ones as themselves, the others (0 to 32, 127 to 160, 173) from 256 on,
    in their order."""
    number = ord(character) - 0x100
    return ord(character) if number < 0 else _HIDDEN_BYTES[number] if number < len(_HIDDEN_BYTES) else 0


def build_phrase_acceptors(
    must: Sequence[str], without: Sequence[str], prefix: str, tokenizer: Tokenizer, vocabulary: Vocabulary
) -> list[Acceptor]:
    """The sequences of ids whose text holds some phrases, does not hold others, and begins as is said."""
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
            f"a constraint must be of characters that the model knows, and {text!r} "
            + (f"has {', '.join(map(repr, unknown))}, which it does not" if unknown else "has none")
        )
    return spelled


def phrase_machine(phrase: str, alphabet: Iterable[str], read: CharacterReader, wanted: bool = True) -> Automaton:
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


def _ends(phrase: str, read: CharacterReader) -> tuple[int, int]:
    """Whether a phrase begins and ends with letters."""
    whole = [state for state in accumulate(phrase, read, initial=OTHER) if state in (OTHER, LETTER)][1:]
    return whole[0], whole[-1]


def prefix_machine(prefix: str, alphabet: Iterable[str]) -> Automaton:
    """The texts that begin so; labels are code points."""
    n = len(prefix)
    arcs = [(i, i + 1, ord(c), ord(c), 0.0) for i, c in enumerate(prefix)]
    return from_arcs([*arcs, *((n, n, ord(c), ord(c), 0.0) for c in alphabet)], [0], [n])
