"""Forms of verse as they are written, and what they ask of a model's symbols."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from catena.data.files import open_text
from catena.data.vocabulary import UNK
from catena.errors import ConfigError, DataError, FormatError
from catena.registry import did_you_mean
from catena.search.verse import ANY, Line, Verse
from catena.tasks.lm.encoding import LmEncoding

FORMS = {
    "quatrain-5": "?????，?????a。/?????，?????a。",
    "quatrain-7": "???????，???????a。/???????，???????a。",
    "regulated-5": "?????，?????a。/?????，?????a。/?????，?????a。/?????，?????a。",
    "regulated-7": "???????，???????a。/???????，???????a。/???????，???????a。/???????，???????a。",
}
"""Names for common forms: the Chinese quatrain and the poem of eight lines, of five or seven characters a line."""

PART = re.compile(r"([?0-9]+)([a-z]?)([^?0-9a-z]*)")


@dataclass(frozen=True)
class VerseForm:
    """A form of verse over symbols.

    Args:
        written: one of :data:`FORMS`, or a form of one's own: a sign for each syllable (``?`` for any, digits as the
            lexicon has them), a small letter where a line rhymes, and the marks after it, ``/`` for a line end.
        rhymes: the rhyme of each symbol that has one.
        lexicon: the meters of each symbol; where it is None, every letter by itself is a syllable of any kind, as
            Chinese characters are.
    """

    written: str
    rhymes: Mapping[str, Hashable] = field(default_factory=dict)
    lexicon: Mapping[str, tuple[str, ...]] | None = None


def verse_acceptor(form: VerseForm, encoding: LmEncoding) -> Verse:
    """The set of sequences that fill a form."""
    lines = parse_lines(form.written, encoding)
    vocabulary = encoding.vocabulary
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
            "no symbol of the model fills a form: "
            + (
                "none is a letter by itself, so give --lexicon"
                if form.lexicon is None
                else "the lexicon has none of them"
            )
        )
    if any(line.rhyme for line in lines) and not rhymes:
        raise ConfigError(
            f"the form {form.written!r} has rhymes, and no symbol of the model has one: give --rhymes FILE or "
            f"--rhymes-from FILE"
        )
    return Verse(lines, meters, len(vocabulary), rhymes)


def parse_lines(written: str, encoding: LmEncoding) -> list[Line]:
    """The lines of a form."""
    form = FORMS.get(written, written)
    parts = PART.findall(form)
    if not parts or "".join("".join(part) for part in parts) != form:
        raise ConfigError(
            f"a form of verse is signs of syllables (? or digits), a letter where the line rhymes, and marks, such as "
            f"{FORMS['quatrain-5']!r}, or a name, and {written!r} is neither: {did_you_mean(written, FORMS)}"
        )
    lines = []
    for signs, letter, marks in parts:
        after = tuple(encoding.ids(marks.replace("/", "\n")))
        if UNK in after:
            raise DataError(f"the form {form!r} has the marks {marks!r}, which the model does not know: write others")
        lines.append(Line(signs, letter, after))
    return lines


def read_lexicon(path: Path) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Read meters and rhymes: lines of a symbol, a tab, its meters with spaces between, and a tab and its rhyme, if it
    has one."""
    meters: dict[str, tuple[str, ...]] = {}
    rhymes: dict[str, str] = {}
    with open_text(path) as lines:
        for number, line in lines:
            symbol, *rest = line.split("\t")
            if not line.strip():
                continue
            if not 1 <= len(rest) <= 2 or not symbol or not re.fullmatch(r"[?0-9 ]+", rest[0]) or not rest[0].strip():
                raise FormatError(
                    f"{path}:{number} must be a symbol, a tab, its meters (signs such as 01, with spaces between) and "
                    f"perhaps a tab and its rhyme, and is {line[:60]!r}"
                )
            meters[symbol] = (*meters.get(symbol, ()), *rest[0].split())
            if rest[1:] and rest[1].strip():
                rhymes[symbol] = rest[1].strip()
    return meters, rhymes
