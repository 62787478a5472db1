"""Lemmas as tags: edit scripts that turn a word into its lemma and generalize to other words.

``went`` to ``go`` is a rule for one word; ``walked`` to ``walk`` and ``Talked`` to ``talk`` are the same rule: use
lowercase and remove two characters at the end. A script has the case of the lemma, the characters removed and added at
the front, and those at the end (Straka 2018, section 3.2): ``low|-0+|-2+``. If word and lemma have nothing in common,
it is the lemma itself. Tested in tests/tasks/tag/test_lemmas.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from catena.errors import CheckpointError

_CASES = ("low", "title", "up", "same")
_WHOLE = "="
_FILE = "lemmas.json"
_REMEMBERED = 100_000
"""Maximum number of distinct words whose scripts are cached while a text is read."""

_Edit = tuple[str, int, str, int, str]
"""The case, the number of characters that are removed at the front, those that are added there, and both at the end."""


def edit_script(word: str, lemma: str) -> str:
    """The script that turns a word into its lemma.

    Its case is the one of the lemma and does not depend on the case of the word: a word at the beginning of a sentence
    or in a heading has the same script as elsewhere.
    """
    case = next(case for case in _CASES if _in_case(lemma, case) == lemma)
    changed = _in_case(word, case)
    if changed == lemma:
        return _script(case, 0, "", 0, "")
    size, start, place = _common(changed, lemma)
    if size == 0:
        return _WHOLE + lemma
    cut_behind = len(changed) - start - size
    return _script(case, start, lemma[:place], cut_behind, lemma[place + size :])


def apply_script(script: str, word: str) -> str:
    """The result of a script on a word; the word itself if it has too few characters."""
    if script.startswith(_WHOLE):
        return script[len(_WHOLE) :]
    edit = _parse(script)
    return word if edit is None else _edited(edit, _in_case(word, edit[0]), word)


def _edited(edit: _Edit, changed: str, word: str) -> str:
    """The result of an edit on a word, given the word in the case of the edit."""
    _, cut_front, put_front, cut_behind, put_behind = edit
    if cut_front + cut_behind > len(changed):
        return word
    return put_front + changed[cut_front : len(changed) - cut_behind] + put_behind


@cache
def _parse(script: str) -> _Edit | None:
    """The parts of a script; None if it has another form."""
    try:
        case, front, behind = script.split("|", 2)
        return case, *_part(front), *_part(behind)
    except ValueError:
        return None


def _script(case: str, cut_front: int, put_front: str, cut_behind: int, put_behind: str) -> str:
    return f"{case}|-{cut_front}+{_hidden(put_front)}|-{cut_behind}+{_hidden(put_behind)}"


def _part(text: str) -> tuple[int, str]:
    number, _, put = text.partition("+")
    return int(number.removeprefix("-")), put.replace("\\p", "|").replace("\\b", "\\")


def _hidden(text: str) -> str:
    """A text with the separator of scripts escaped."""
    return text.replace("\\", "\\b").replace("|", "\\p")


def _in_case(word: str, case: str) -> str:
    match case:
        case "low":
            return word.lower()
        case "up":
            return word.upper()
        case "title":
            return word[:1].upper() + word[1:].lower()
    return word


def _common(a: str, b: str) -> tuple[int, int, int]:
    """The longest common substring: its size and its positions in both; the first one if several have this size."""
    best = (0, 0, 0)
    ends = [0] * (len(b) + 1)  # ends[j]: size of the common substring that ends at i and j
    for i, x in enumerate(a, 1):
        last = 0
        for j, y in enumerate(b, 1):
            last, ends[j] = ends[j], last + 1 if x == y else 0
            if ends[j] > best[0]:
                best = (ends[j], i - ends[j], j - ends[j])
    return best


# --- the lemmas of train ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LemmaLexicon:
    """The words and lemmas of train. A script whose result is one of the lemmas is probably right for an unseen word.

    Args:
        words: the words, in lowercase.
        lemmas: the lemmas.
    """

    words: frozenset[str]
    lemmas: frozenset[str]
    _cache: dict[str, list[int]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def count(cls, pairs: Iterable[tuple[str, str]]) -> LemmaLexicon:
        """The lexicon of pairs of a word and its lemma."""
        words, lemmas = zip(*((word.lower(), lemma) for word, lemma in pairs), strict=True)
        return cls(frozenset(words), frozenset(lemmas))

    def confirmed(self, words: Sequence[str], scripts: Sequence[str]) -> Bool[np.ndarray, "n k"]:
        """``[i, q]`` is True if word ``i`` is not in train and script ``q`` turns it into a lemma of train.

        Args:
            words: the words of a sentence.
            scripts: the scripts of the model, the same in every call.
        """
        found = np.zeros((len(words), len(scripts)), bool)
        for i, word in enumerate(words):
            if word.lower() not in self.words:
                found[i, self._scripts_of(word, scripts)] = True
        return found

    def _scripts_of(self, word: str, scripts: Sequence[str]) -> list[int]:
        """The indices of the scripts that turn a word into a lemma of train."""
        if word not in self._cache:
            if len(self._cache) >= _REMEMBERED:
                self._cache.clear()
            in_case = {case: _in_case(word, case) for case in _CASES}
            edits = ((q, edit) for q, script in enumerate(scripts) if (edit := _parse(script)) is not None)
            self._cache[word] = [q for q, edit in edits if _edited(edit, in_case[edit[0]], word) in self.lemmas]
        return self._cache[word]

    def save(self, folder: Path) -> None:
        kept = {"words": sorted(self.words), "lemmas": sorted(self.lemmas)}
        (folder / _FILE).write_text(json.dumps(kept, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> LemmaLexicon | None:
        """The lexicon of a model folder, or None if it has none."""
        path = folder / _FILE
        if not path.is_file():
            return None
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            return cls(frozenset(kept["words"]), frozenset(kept["lemmas"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{path} cannot be read ({error}). Copy the model again.") from None
