"""Penn brackets: ``(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))``, one or several lines for each tree.

The outer bracket may have no label, ``( (S …))``. Brackets in the text are escaped as ``-LRB-`` and
``-RRB-``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from catena.data.examples import SourceLocation, Tree
from catena.data.files import bad_line, open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import brackets_sign, hint
from catena.errors import FormatError

MOST_LINES = 10_000
"""Maximum number of lines of a tree. Without it, an unclosed bracket would consume the rest of the file."""

_TRACE = "-NONE-"
"""The tag of empty elements."""
_PART = re.compile(r"[()]|[^() \t]+")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class _Open:
    """An open bracket and its content so far."""

    __slots__ = ("atoms", "children", "place")

    def __init__(self, place: SourceLocation) -> None:
        self.place = place
        self.atoms: list[str] = []
        self.children: list[Tree] = []


def read(path: Path | str, *, encoding: str | None = None) -> Iterator[Tree]:
    """Yield the trees. Each node has the line in which it opens."""
    with open_text(path, encoding) as lines:
        yield from read_lines(lines, path)


def parse(text: str, source: str = "the tree") -> Tree:
    """Parse one tree from a string. ``source`` names it in errors."""
    trees = list(read_lines(enumerate(text.splitlines(), start=1), source))
    if len(trees) != 1:
        raise FormatError(f"{source} must be one tree in brackets, got {len(trees)}. Pass the trees one by one.")
    return trees[0]


def read_lines(lines: Iterable[tuple[int, str]], path: Path | str) -> Iterator[Tree]:
    """Yield the trees of numbered lines. ``path`` names them in errors."""
    stack: list[_Open] = []
    next_start: int | None = None
    text_of_start = ""
    for number, line in lines:
        place = SourceLocation(str(path), number)
        if not stack:
            next_start, text_of_start = None, line
        elif next_start is None and line.startswith("("):
            next_start = number
        if stack and number - stack[0].place.line >= MOST_LINES:
            raise _unclosed(path, stack, text_of_start, next_start)
        for match in _PART.finditer(line):
            part = match[0]
            if part == "(":
                if not stack:
                    text_of_start = line
                stack.append(_Open(place))
            elif not stack:
                what = "closes a bracket that was never opened" if part == ")" else f"has {part[:20]!r} outside a tree"
                raise _bad(path, number, line, what)
            elif part == ")":
                node = _closed(path, line, number, stack.pop())
                if not stack:
                    yield node
                else:
                    stack[-1].children.append(node)
            elif stack[-1].children:
                raise _bad(path, number, line, f"has the word {part[:20]!r} next to other nodes")
            else:
                stack[-1].atoms.append(part)
    if stack:
        raise _unclosed(path, stack, text_of_start, next_start)


def to_text(tree: Tree) -> str:
    """The tree in one line. Parsing it gives an equal tree except for the locations."""
    parts: list[str] = []
    waiting: list[Tree | str] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            parts.append(item)
        elif item.word is not None:
            parts.append(f" ({item.label} {item.word})")
        else:
            parts.append(f" ({item.label}")
            waiting.append(")")
            waiting.extend(reversed(item.children))
    return "".join(parts)[1:]


def spoken(tree: Tree) -> list[str]:
    """The unescaped words of a tree, without traces."""
    waiting, found = [tree], []
    while waiting:
        node = waiting.pop()
        if node.word is not None and node.label != _TRACE:
            found.append(unescape(node.word))
        waiting.extend(reversed(node.children))
    return found


def unescape(word: str) -> str:
    r"""The unescaped word: ``-LRB-`` is a bracket, ``\/`` a slash and ``\*`` a star."""
    return _ESCAPES.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def _closed(path: Path | str, line: str, number: int, bracket: _Open) -> Tree:
    atoms, children = bracket.atoms, bracket.children
    if children:
        if len(atoms) > 1:
            raise _bad(path, number, line, f"closes a node that has the word {atoms[1][:20]!r} next to other nodes")
        return Tree(atoms[0] if atoms else "", tuple(children), None, bracket.place)
    if len(atoms) != 2:
        held = " ".join(atoms)[:40]
        raise _bad(path, number, line, f"closes a node ({held}) that is neither (TAG word) nor a label with nodes")
    return Tree(atoms[0], (), atoms[1], bracket.place)


def _unclosed(path: Path | str, stack: list[_Open], line: str, next_start: int | None) -> FormatError:
    opened = stack[0].place.line
    guess = f", and line {next_start} seems to begin the next tree" if next_start else ""
    problem = f"opens a tree that is not closed: {len(stack)} brackets are missing{guess}"
    if len(stack) == 1:
        problem = f"opens a tree that is not closed: 1 bracket is missing{guess}"
    return _bad(path, opened, line, problem)


def _bad(path: Path | str, number: int, line: str, problem: str) -> FormatError:
    cure = "Write every word as (TAG word) and close every bracket. " + hint(path, "brackets")
    return bad_line(path, number, line, problem, cure)


FORMAT = Format("brackets", "Penn brackets", Tree, read, brackets_sign)
