"""Lemmas as tags: edit scripts that turn a word into its lemma and generalize to other words.

``went`` to ``go`` is a rule for one word; ``walked`` to ``walk`` and ``talked`` to ``talk`` are the same rule: remove
two characters at the end. A script has the change of case, the characters removed and added at the front, and those at
the end (Straka 2018, section 3.2): ``low|-0+|-2+``. If word and lemma have nothing in common, it is the lemma itself.
"""

from __future__ import annotations

_CASES = ("same", "low", "up", "title")
_WHOLE = "="


def edit_script(word: str, lemma: str) -> str:
    """The script that turns a word into its lemma."""
    for case in _CASES:
        changed = _in_case(word, case)
        if changed == lemma:
            return _script(case, 0, "", 0, "")
    if not word or not lemma:
        return _WHOLE + lemma
    found = [(_common(_in_case(word, case), lemma), case) for case in _CASES]
    (size, start, place), case = max(found, key=lambda one: one[0][0])  # the first if several are equal
    if size == 0:
        return _WHOLE + lemma
    cut_behind = len(_in_case(word, case)) - start - size
    return _script(case, start, lemma[:place], cut_behind, lemma[place + size :])


def apply_script(script: str, word: str) -> str:
    """The result of a script on a word; the word itself if it has too few characters."""
    if script.startswith(_WHOLE):
        return script[len(_WHOLE) :]
    try:
        case, front, behind = script.split("|", 2)
        cut_front, put_front = _part(front)
        cut_behind, put_behind = _part(behind)
    except ValueError:
        return word
    changed = _in_case(word, case)
    if cut_front + cut_behind > len(changed):
        return word
    return put_front + changed[cut_front : len(changed) - cut_behind] + put_behind


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
