"""Feature templates: the features of a token and its neighbors, in a readable notation.

    w[0]                     the word itself
    w[-1]|w[0]               the previous word and this one, as one feature
    suffix3[0]               its last three letters; nothing for a shorter word
    lower_suffix3[0]         the same in lowercase
    column1[-2..2]           column 1 of the file (say, part of speech; 0 is the word) at five positions: five features
    upos[0]                  a column of CoNLL-U by its name
    tag[-1]|w[0]             with the previous tag: a weight for each pair of tags
    bias                     always present

A template of CRF++, such as ``U05:%x[-1,0]/%x[0,0]`` or ``B``, works too. Positions outside a sentence have special
values, one for each distance. Imports neither torch nor Numba.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catena.data.examples import ConlluRow
from catena.errors import ConfigError, DataError
from catena.registry import did_you_mean

if TYPE_CHECKING:
    from catena.tasks.word_inputs.sentences import Sentence

_LONGEST_RUN = 4
"""Maximum length of a run of the same sign in a shape."""


def shape(word: str) -> str:
    """Letters as X and x, digits as d, the rest unchanged; runs are shortened to four.

    >>> shape("McDonald's-1997")
    "XxXxxxx'x-dddd"
    """
    return _shape(word, _LONGEST_RUN)


def collapsed_word_shape(word: str) -> str:
    """A shape in which each run of the same sign is one sign.

    >>> collapsed_word_shape("McDonald's-1997")
    "XxXx'x-d"
    """
    return _shape(word, 1)


def _shape(word: str, longest: int) -> str:
    signs: list[str] = []
    run = 0
    for letter in word:
        if letter.isdigit():
            sign = "d"
        elif letter.isalpha():
            sign = "X" if letter.isupper() or letter.istitle() else "x"
        else:
            sign = letter
        run = run + 1 if signs and signs[-1] == sign else 1
        if run <= longest:
            signs.append(sign)
    return "".join(signs)


def prefix(n: int) -> Callable[[str], str | None]:
    """The first ``n`` letters; None for a shorter word."""
    return lambda word: word[:n] if len(word) >= n else None


def suffix(n: int) -> Callable[[str], str | None]:
    """The last ``n`` letters; None for a shorter word."""
    return lambda word: word[-n:] if len(word) >= n else None


def lower_prefix(n: int) -> Callable[[str], str | None]:
    """The first ``n`` letters in lowercase; None for a shorter word."""
    return lambda word: word[:n].lower() if len(word) >= n else None


def lower_suffix(n: int) -> Callable[[str], str | None]:
    """The last ``n`` letters in lowercase; None for a shorter word."""
    return lambda word: word[-n:].lower() if len(word) >= n else None


@dataclass(frozen=True)
class FeatureFunction:
    """A feature of one token: its name, a function of a field (None: no feature), and the column of the field.

    The column is None for the words, or another column by its name or number.
    """

    name: str
    make: Callable[[str], str | None]
    column: str | None = None


_PLAIN: dict[str, Callable[[str], str | None]] = {
    "w": lambda word: word,
    "lower": str.lower,
    "shape": shape,
    "outline": collapsed_word_shape,
}
"""Feature functions of the word without a number."""

_NUMBERED: dict[str, Callable[[int], Callable[[str], str | None]]] = {
    "prefix": prefix,
    "suffix": suffix,
    "lower_prefix": lower_prefix,
    "lower_suffix": lower_suffix,
}
"""Feature functions of the word with a number, such as suffix3."""

_CONLLU = tuple(name for name in ConlluRow._fields if name not in ("id", "form"))
_OF_WORDS = (*_PLAIN, "prefix3", "suffix3", "lower_prefix3", "lower_suffix3")
_KNOWN = (*_OF_WORDS, "column1", *_CONLLU, "tag", "bias")

_BIAS = "bias"
_TAG = "tag[-1]"


@dataclass(frozen=True)
class Atom:
    """A feature function of the token at ``offset`` from the current one."""

    look: FeatureFunction
    offset: int

    def __str__(self) -> str:
        return f"{self.look.name}[{self.offset}]"


@dataclass(frozen=True)
class Template:
    """Atoms whose values together are one feature. Without atoms it is the bias.

    Args:
        atoms: the atoms in the order of the template.
        pairs: whether the feature has a weight for each pair of tags instead of each tag.
    """

    atoms: tuple[Atom, ...]
    pairs: bool = False

    def __str__(self) -> str:
        parts = [_TAG] * self.pairs + [str(atom) for atom in self.atoms]
        return "|".join(parts) or _BIAS

    def filled(self, sentence: Sentence, i: int, columns: Sequence[str]) -> str | None:
        """The readable feature at a token, such as ``w[-1]|w[0]=the|cat``; None if there is none.

        ``columns`` are the names of the sentence's other columns.
        """
        values = [atom_value(atom, sentence, i, columns) for atom in self.atoms]
        if any(value is None for value in values):
            return None
        return f"{self}={'|'.join(map(str, values))}" if self.atoms else str(self)


def atom_value(atom: Atom, sentence: Sentence, i: int, columns: Sequence[str]) -> str | None:
    """The value of an atom at token ``i``."""
    at = i + atom.offset
    if at < 0:
        return f"<{at}>"
    if at >= len(sentence):
        return f"<+{at - len(sentence) + 1}>"
    return atom.look.make(get_column(sentence, atom.look.column, columns)[at])


def get_column(sentence: Sentence, column: str | None, columns: Sequence[str]) -> Sequence[str]:
    """The column of a sentence that a feature function reads."""
    if column is None:
        return sentence.words
    if len(sentence.columns) < len(columns):
        raise DataError(
            f"the sentence {' '.join(sentence.words[:8])!r} has no column {column!r}, which the model's templates "
            f"read. Give it in a file with the columns of the training file."
        )
    return sentence.columns[columns.index(column)]


def template_columns(templates: Sequence[Template]) -> tuple[str, ...]:
    """The columns, other than the words, that templates read, by name or number, in order of first use."""
    read = (atom.look.column for template in templates for atom in template.atoms)
    return tuple(dict.fromkeys(column for column in read if column is not None))


# --- reading templates ------------------------------------------------------------------------------------------------

_ATOM = re.compile(r"(?P<name>[a-z_]+?)(?P<number>\d*)\[(?P<low>[+-]?\d+)(?:\.\.(?P<high>[+-]?\d+))?\]")
_CRF_PLUS_PLUS = re.compile(r"(?P<kind>[UB])[^:%]*(?::(?P<body>.*))?")
_WORD_FEATURE = re.compile(r"(?P<name>[a-z_]+?)(?P<number>\d*)")
_CELL = re.compile(r"%x\[\s*([+-]?\d+)\s*,\s*(\d+)\s*\]")


def parse_templates(texts: Sequence[str]) -> list[Template]:
    """Parse templates without duplicates; one with a range of positions becomes several."""
    found: dict[str, Template] = {}
    for text in texts:
        for template in parse_template(text):
            found.setdefault(str(template), template)
    return list(found.values())


def parse_template(text: str) -> list[Template]:
    """Parse one template; a range of positions, such as ``w[-2..2]``, gives several."""
    plain = text.strip()
    if "%x" in plain or plain in ("U", "B"):
        return _crf_plus_plus(plain)
    if plain == _BIAS:
        return [Template(())]
    parts = plain.split("|")
    pairs = parts.count(_TAG)
    if pairs > 1:
        raise ConfigError(f"the template {text!r} has {_TAG} more than once. Remove one of them.")
    choices = [_atoms(part, text) for part in parts if part not in (_TAG, _BIAS)]
    if sum(len(choice) > 1 for choice in choices) > 1:
        raise ConfigError(f"the template {text!r} has more than one range of positions. Write several templates.")
    most = max(map(len, choices), default=1)
    return [Template(tuple(c[min(n, len(c) - 1)] for c in choices), pairs > 0) for n in range(most)]


def _atoms(part: str, template: str) -> list[Atom]:
    match = _ATOM.fullmatch(part.strip())
    if match is None:
        raise ConfigError(
            f"{part!r} in the template {template!r} must be a name with a position, got none. Write it like w[0], "
            f"suffix3[-1] or column1[-2..2], and join parts by |."
        )
    look = feature_function(match["name"], match["number"], part)
    low = int(match["low"])
    high = low if match["high"] is None else int(match["high"])
    if high < low:
        raise ConfigError(
            f"{part!r} in the template {template!r} has a range that ends before it begins. Swap the ends."
        )
    return [Atom(look, offset) for offset in range(low, high + 1)]


def feature_function(name: str, number: str, part: str) -> FeatureFunction:
    """The feature function with a name and number, such as ``suffix`` and ``3``."""
    if name == "word":
        name = "w"
    if name in _PLAIN and not number:
        return FeatureFunction(name, _PLAIN[name])
    if name in _NUMBERED and number and int(number) > 0:
        return FeatureFunction(f"{name}{int(number)}", _NUMBERED[name](int(number)))
    if name == "column" and number:
        return (
            FeatureFunction(f"column{int(number)}", _PLAIN["w"], str(int(number)))
            if int(number)
            else FeatureFunction("w", _PLAIN["w"])
        )
    if name in _CONLLU and not number:
        return FeatureFunction(name, _PLAIN["w"], name)
    if name == "tag":
        raise ConfigError(f"{part!r} must be the tag before, {_TAG}, got another position. Write {_TAG}.")
    if name in (*_NUMBERED, "column"):
        raise ConfigError(f"{part!r} needs a number. Write it like {name}3[0].")
    raise ConfigError(f"{part!r} is not a feature: {did_you_mean(name + number, _KNOWN)}")


def word_feature(name: str) -> Callable[[str], str | None]:
    """The function of a feature of the word itself, such as ``lower_suffix3``."""
    match = _WORD_FEATURE.fullmatch(name)
    if match is None or match["name"] not in (*_PLAIN, *_NUMBERED):
        raise ConfigError(f"{name!r} is not a feature of a word: {did_you_mean(name, _OF_WORDS)}")
    return feature_function(match["name"], match["number"], name).make


def check_word_feature(name: str) -> None:
    """Raise ValueError if a name is not a feature of the word itself."""
    try:
        word_feature(name)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def _crf_plus_plus(text: str) -> list[Template]:
    match = _CRF_PLUS_PLUS.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} is not a template of CRF++. Write it like U05:%x[-1,0]/%x[0,0], or B for pairs of tags."
        )
    body = match["body"] or ""
    if _CELL.sub("", body).strip("/ "):
        raise ConfigError(f"{text!r} has more than cells %x[row,column] separated by slashes. Remove the rest.")
    atoms = tuple(Atom(feature_function("column", column, text), int(row)) for row, column in _CELL.findall(body))
    return [Template(atoms, match["kind"] == "B")]


def feature_functions(templates: Sequence[Template]) -> list[FeatureFunction]:
    """The distinct feature functions of templates, in order of first use."""
    found: dict[str, FeatureFunction] = {}
    for template in templates:
        for atom in template.atoms:
            found.setdefault(atom.look.name, atom.look)
    return list(found.values())
