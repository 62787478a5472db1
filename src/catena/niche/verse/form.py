"""Verse forms, their notation, and the acceptor of symbol sequences that fill a form."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from catena.data.files import open_text
from catena.data.tokenize import Tokenizer
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import ConfigError, DataError, FormatError
from catena.niche.verse.acceptor import ANY, Line, Verse
from catena.registry import did_you_mean

FORMS = {
    "quatrain-5": "?????，?????a。/?????，?????a。",
    "quatrain-7": "???????，???????a。/???????，???????a。",
    "regulated-5": "?????，?????a。/?????，?????a。/?????，?????a。/?????，?????a。",
    "regulated-7": "???????，???????a。/???????，???????a。/???????，???????a。/???????，???????a。",
}
"""Named forms: the Chinese quatrain and eight-line regulated verse, with five or seven characters per line."""

PART = re.compile(r"([?0-9]+)([a-z]?)([^?0-9a-z]*)")


@dataclass(frozen=True)
class VerseForm:
    """A verse form over symbols.

    Args:
        written: a name in :data:`FORMS`, or your own form: a sign per syllable (``?`` for any, or a digit of the
            lexicon), a lowercase letter at the end of a rhyming line, then punctuation marks; ``/`` is a line break.
        rhymes: the rhyme class of each symbol that has one.
        lexicon: the meters of each symbol; if None, every single letter is a syllable of any kind, which suits Chinese
            characters.
    """

    written: str
    rhymes: Mapping[str, Hashable] = field(default_factory=dict)
    lexicon: Mapping[str, tuple[str, ...]] | None = None


def verse_acceptor(form: VerseForm, tokenizer: Tokenizer, vocabulary: Vocabulary) -> Verse:
    """The acceptor of the sequences that fill a form.

    Args:
        form: meters, rhymes and lexicon.
        tokenizer: tokenizes the text between lines.
        vocabulary: the symbols of the language model.
    """
    lines = parse_lines(form.written, tokenizer, vocabulary)
    ordinary = range(len(vocabulary.specials), len(vocabulary))
    names = vocabulary.symbols
    if form.lexicon is None:
        meters: dict[int, tuple[str, ...]] = {
            id: (ANY,) for id in ordinary if len(names[id]) == 1 and names[id].isalpha()
        }
    else:
        meters = {id: form.lexicon[names[id]] for id in ordinary if names[id] in form.lexicon}
    rhymes = {id: form.rhymes[names[id]] for id in meters if names[id] in form.rhymes}
    if not meters:
        raise DataError(
            "No symbol of the model can fill a verse form. "
            + (
                "Pass --lexicon, because no symbol is a single letter."
                if form.lexicon is None
                else "Pass a --lexicon that has symbols of the model."
            )
        )
    if any(line.rhyme for line in lines) and not rhymes:
        raise ConfigError(
            f"The form {form.written!r} has rhymes, but no symbol of the model has a rhyme. Pass --rhymes FILE or "
            f"--rhymes-from FILE."
        )
    return Verse(lines, meters, len(vocabulary), rhymes)


def parse_lines(written: str, tokenizer: Tokenizer, vocabulary: Vocabulary) -> list[Line]:
    """The lines of a form."""
    form = FORMS.get(written, written)
    parts = PART.findall(form)
    if not parts or "".join("".join(part) for part in parts) != form:
        raise ConfigError(
            f"Unknown verse form {written!r}: {did_you_mean(written, FORMS)}. Or write a form of syllable signs (? or "
            f"digits), a letter where the line rhymes, and punctuation marks, such as {FORMS['quatrain-5']!r}."
        )
    lines = []
    for signs, letter, marks in parts:
        after = tuple(vocabulary.ids(tokenizer.tokens(marks.replace("/", "\n"))))
        if UNK in after:
            raise DataError(
                f"The form {form!r} has the punctuation {marks!r}, which is not in the vocabulary. Use other marks."
            )
        lines.append(Line(signs, letter, after))
    return lines


def read_lexicon(path: Path) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Read the meters and rhymes of symbols.

    Each line has a symbol, a tab, its meters separated by spaces and, optionally, a tab and its rhyme.

    Args:
        path: the file, in UTF-8.
    """
    meters: dict[str, tuple[str, ...]] = {}
    rhymes: dict[str, str] = {}
    with open_text(path) as lines:
        for number, line in lines:
            symbol, *rest = line.split("\t")
            if not line.strip():
                continue
            if not 1 <= len(rest) <= 2 or not symbol or not re.fullmatch(r"[?0-9 ]+", rest[0]) or not rest[0].strip():
                raise FormatError(
                    f"{path}:{number} must be a symbol, a tab and its meters, got {line[:60]!r}. Write meters as signs "
                    f"such as 01, separated by spaces; a tab and a rhyme may follow."
                )
            meters[symbol] = (*meters.get(symbol, ()), *rest[0].split())
            if rest[1:] and rest[1].strip():
                rhymes[symbol] = rest[1].strip()
    return meters, rhymes
