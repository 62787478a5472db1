"""Constraints on generated texts: phrases that must or must not occur, a prefix, a regular expression.

If tokens are words, phrases are sequences of ids. If they are pieces, an automaton reads their characters, so that a
phrase matches in every segmentation. Tested in tests/search/test_text_constraints.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from catena.data.tokenize import Tokenizer
from catena.data.tokenizers.plain import BYTE_SYMBOLS
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import ConfigError, DataError
from catena.search.acceptor import Acceptor, Intersection
from catena.search.automaton_acceptor import AutomatonAcceptor
from catena.search.character_acceptor import PieceAcceptor
from catena.search.phrases import with_phrase, without_phrases
from catena.search.word_characters import BROKEN, LETTER, OTHER, CharacterReader, read_character, reader_of_bytes
from catena.structure.automaton.build import from_arcs
from catena.structure.automaton.wfsa import Automaton

_HIDDEN_BYTES = (*range(33), *range(127, 161), 173)
"""Bytes without a printable character of their own."""


@dataclass(frozen=True)
class TextConstraints:
    """Constraints that a generated text satisfies. Phrases match whole words in any segmentation.

    Args:
        include: phrases that must occur.
        exclude: phrases that must not occur.
        regex: a regular expression that must match the whole text.
        prefix: the beginning of the text.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    regex: str | None = None
    prefix: str = ""

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude or self.regex is not None or self.prefix)

    def check(self, where: str = "") -> None:
        """Raise DataError if an excluded phrase occurs in a required one.

        Args:
            where: the location of the constraints, for the message.
        """
        for bad in filter(str.strip, self.exclude):
            for good in (*self.include, self.prefix):
                if f" {' '.join(bad.split())} " in f" {' '.join(good.split())} ":
                    raise DataError(
                        f"{where}{': ' * bool(where)}an excluded phrase must not occur in a required one, got {bad!r} "
                        f"and {good!r}. Remove one of the two."
                    )

    def acceptor(self, tokenizer: Tokenizer, vocabulary: Vocabulary) -> Acceptor:
        """The acceptor of the id sequences whose text satisfies the constraints."""
        self.check()
        are_words = tokenizer.settings.kind in ("words", "whitespace")
        parts = (
            _word_acceptors(self, tokenizer, vocabulary) if are_words else _piece_acceptors(self, tokenizer, vocabulary)
        )
        if self.regex is not None:
            from catena.structure.automaton.regex import from_regex  # takes seconds to import, and is rarely needed

            first, later = token_strings(tokenizer, vocabulary)
            alphabet = sorted(set().union(*first, *later))
            parts.append(PieceAcceptor(from_regex(self.regex, alphabet), later, first))
        return parts[0] if len(parts) == 1 else Intersection(parts)


# --- word tokens ------------------------------------------------------------------------------------------------------


def _word_acceptors(constraints: TextConstraints, tokenizer: Tokenizer, vocabulary: Vocabulary) -> list[Acceptor]:
    """Acceptors of the phrases as sequences of ids."""
    v = len(vocabulary)
    parts: list[Acceptor] = []
    required = [_phrase_ids(text, tokenizer, vocabulary) for text in constraints.include]
    if required:
        parts.append(Intersection([AutomatonAcceptor(with_phrase(ids, v), v) for ids in required], in_turn=True))
    excluded = [_phrase_ids(text, tokenizer, vocabulary, is_excluded=True) for text in constraints.exclude]
    if excluded:
        known = [ids for ids in excluded if UNK not in ids]  # unknown words are never generated
        parts.append(AutomatonAcceptor(without_phrases(known, v) if known else _anything(v), v))
    if constraints.prefix:
        first = _phrase_ids(constraints.prefix, tokenizer, vocabulary)
        arcs = [(i, i + 1, id + 1, id + 1, 0.0) for i, id in enumerate(first)]
        arcs += [(len(first), len(first), id + 1, id + 1, 0.0) for id in range(v)]
        parts.append(AutomatonAcceptor(from_arcs(arcs, [0], [len(first)]), v))
    return parts


def _anything(v: int) -> Automaton:
    return from_arcs([(0, 0, id + 1, id + 1, 0.0) for id in range(v)], [0], [0])


def _phrase_ids(text: str, tokenizer: Tokenizer, vocabulary: Vocabulary, is_excluded: bool = False) -> list[int]:
    tokens = tokenizer.tokens(text)
    ids = vocabulary.ids(tokens)
    if not ids:
        raise DataError(f"A phrase must have at least one word, got {text!r}. Remove or rephrase it.")
    if UNK in ids and not is_excluded:
        unknown = ", ".join(repr(token) for token, id in zip(tokens, ids, strict=True) if id == UNK)
        raise DataError(f"The phrase {text!r} has words outside the vocabulary: {unknown}. Remove or rephrase it.")
    return ids


# --- pieces -----------------------------------------------------------------------------------------------------------


def _piece_acceptors(constraints: TextConstraints, tokenizer: Tokenizer, vocabulary: Vocabulary) -> list[Acceptor]:
    """Acceptors of the phrases over subwords, characters or bytes."""
    spelling = build_piece_alphabet(tokenizer, vocabulary)
    alphabet = sorted(set().union(*spelling.pieces))
    parts: list[Acceptor] = []
    required = [
        phrase_automaton(_spelled(text, spelling, alphabet), alphabet, spelling.read) for text in constraints.include
    ]
    if required:
        parts.append(Intersection([PieceAcceptor(machine, spelling.pieces) for machine in required], in_turn=True))
    for text in constraints.exclude:
        if not (spelled := spelling.spell(text)):
            raise DataError(f"A phrase must have at least one word, got {text!r}. Remove or rephrase it.")
        automaton = phrase_automaton(spelled, alphabet, spelling.read, wanted=False)
        parts.append(PieceAcceptor(automaton, spelling.pieces))
    if constraints.prefix:
        prefix = _spelled(constraints.prefix, spelling, alphabet)
        parts.append(PieceAcceptor(prefix_automaton(prefix, alphabet), spelling.pieces))
    return parts


def _spelled(text: str, spelling: PieceAlphabet, alphabet: Sequence[str]) -> str:
    spelled = spelling.spell(text)
    unknown = sorted(set(spelled) - set(alphabet))
    if not spelled:
        raise DataError(f"A phrase must have at least one word, got {text!r}. Remove or rephrase it.")
    if unknown:
        raise DataError(
            f"a phrase must consist of characters that the model knows, got {text!r} with the unknown "
            f"{', '.join(map(repr, unknown))}. Use only characters that occur in the training data."
        )
    return spelled


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


def phrase_automaton(phrase: str, alphabet: Iterable[str], read: CharacterReader, wanted: bool = True) -> Automaton:
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


def prefix_automaton(prefix: str, alphabet: Iterable[str]) -> Automaton:
    """Automaton of the texts that begin with a prefix; labels are code points."""
    n = len(prefix)
    arcs = [(i, i + 1, ord(c), ord(c), 0.0) for i, c in enumerate(prefix)]
    return from_arcs([*arcs, *((n, n, ord(c), ord(c), 0.0) for c in alphabet)], [0], [n])


# --- regular expressions ----------------------------------------------------------------------------------------------


def token_strings(tokenizer: Tokenizer, vocabulary: Vocabulary) -> tuple[list[str], list[str]]:
    """The string that each id adds to a text, as the first token and after other tokens.

    The string is empty for special tokens and incomplete characters, which a regular expression never accepts.
    """
    names, join = vocabulary.symbols, tokenizer.join
    if tokenizer.settings.kind == "bytes":
        raise ConfigError(
            "A regular expression needs characters, and this model generates bytes. Train a model with --tokenizer "
            "characters."
        )
    ordinary = range(len(vocabulary.specials), len(vocabulary))
    filler = names[max(ordinary, key=lambda id: (names[id].isalnum(), vocabulary.counts[id]))] if ordinary else ""
    before = join([filler])
    first, later = [""] * len(names), [""] * len(names)
    for id in ordinary:
        both = join([filler, names[id]])
        first[id] = _readable(join([names[id]]))
        later[id] = _readable(both[len(before) :]) if both.startswith(before) else ""
    return first, later


def _readable(piece: str) -> str:
    return "" if {"\N{REPLACEMENT CHARACTER}", "\0"} & set(piece) else piece
