"""Penn brackets: ``(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))``, one or several lines for each tree.

Lines between trees that begin with ``%``, ``#`` or ``;`` are comments. The outer bracket may have no label,
``( (S …))``. Brackets in the text are escaped as ``-LRB-`` and ``-RRB-``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from catena.data.examples import SourceLocation, Tree
from catena.data.files import open_text
from catena.data.readers.delimited import LineSource
from catena.data.reading import DamagedRecords, ReadCounter
from catena.errors import FormatError

MOST_LINES = 10_000
"""Maximum number of lines of a tree. Without it, an unclosed bracket would consume the rest of the file."""

_CURE = "Write every word as (TAG word), a bracket in the text as -LRB- or -RRB-, and close every bracket."
_MANY, _FEW_LINES = 20, 100
"""Number of trees that are not closed after which trees have at most this many lines, so that time stays linear."""
_NO_WORD = "without a word"
_UNCLOSED = "with a bracket that is not closed"
_MIXED = "with a word next to other nodes"
_TRACE = "-NONE-"
"""The tag of empty elements."""
_PART = re.compile(r"[()]|[^() \t]+")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class _Open:
    """An open bracket and its content so far."""

    __slots__ = ("atoms", "children", "location")

    def __init__(self, location: SourceLocation) -> None:
        self.location = location
        self.atoms: list[str] = []
        self.children: list[Tree] = []


def read(path: Path | str, *, encoding: str | None = None, counter: ReadCounter | None = None) -> Iterator[Tree]:
    """Yield the trees. Each node has the line in which it opens.

    Args:
        path: the file.
        encoding: UTF-8 if omitted.
        counter: counts the trees and lists those that are dropped because of their brackets or because they have no
            word. Without one, the first of them raises an error.
    """
    with open_text(path, encoding, keep_nuls=True) as lines:
        yield from read_lines(lines, path, counter)


def parse(text: str, source: str = "the tree") -> Tree:
    """Parse one tree from a string. ``source`` names it in errors."""
    trees = list(read_lines(enumerate(text.splitlines(), start=1), source))
    if len(trees) != 1:
        raise FormatError(f"{source} must be one tree in brackets, got {len(trees)}. Pass the trees one by one.")
    return trees[0]


def read_lines(
    lines: Iterable[tuple[int, str]], path: Path | str, counter: ReadCounter | None = None
) -> Iterator[Tree]:
    """Yield the trees of numbered lines. ``path`` names them in errors."""
    damaged, n_unclosed = DamagedRecords(path, counter, _CURE), 0
    source = LineSource(lines)
    for number, line in source:
        if not line.strip() or is_comment(line):
            continue
        damaged.saw()
        found = _Parser(path, source, MOST_LINES if n_unclosed < _MANY else _FEW_LINES).parse(number, line)
        n_unclosed += not isinstance(found, Tree) and found.reason == _UNCLOSED
        if isinstance(found, Tree):
            yield found
        elif found.reason == _NO_WORD and counter is not None:
            counter.drop(found.reason, found.location, found.line)
        else:
            damaged.add(found.location, found.reason, found.line, found.problem)
    damaged.check()


def is_comment(line: str) -> bool:
    """Whether a line between trees is a comment: after ``%``, ``#`` or ``;``, or in the box of a treebank."""
    return line.startswith(("%", "#", ";", "*x*"))


class _Damage(NamedTuple):
    """Why a tree cannot be used: the reason to drop it, and the problem of the line."""

    location: SourceLocation
    line: str
    reason: str
    problem: str


class _Parser:
    """Reads one tree from lines. What follows the tree in its last line is read again."""

    def __init__(self, path: Path | str, source: LineSource, most_lines: int) -> None:
        self.path, self.source, self.most_lines = str(path), source, most_lines
        self.stack: list[_Open] = []
        self.taken: list[tuple[int, str]] = []
        self.damage: _Damage | None = None
        self.tree: Tree | None = None

    def parse(self, number: int, line: str) -> Tree | _Damage:
        self.taken = [(number, line)]
        if (rest := self._take(number, line)) is None:
            for number, line in self.source:
                if len(self.taken) >= self.most_lines:
                    self.source.read_again([(number, line)])
                    return self._unclosed()
                self.taken.append((number, line))
                if (rest := self._take(number, line)) is not None:
                    break
            else:
                return self._unclosed()
        if rest.strip():
            self.source.read_again([(number, rest)])
        if self.damage is not None:
            return self.damage
        assert self.tree is not None
        return self.tree

    def _take(self, number: int, line: str) -> str | None:
        """Read a line. The rest of it if the tree ends in it, otherwise None."""
        location = SourceLocation(self.path, number)
        if "\0" in line:
            self._note(location, line, "with a NUL byte", "has a NUL byte")
        for match in _PART.finditer(line):
            part = match[0]
            if part == "(":
                self.stack.append(_Open(location))
            elif not self.stack:
                what = "closes a bracket that was never opened" if part == ")" else f"has {part[:20]!r} outside a tree"
                self._note(location, line, "with text or a bracket outside a tree", what)
                return ""
            elif part == ")":
                node = self._close(location, line)
                if not self.stack:
                    self.tree = node
                    self._check_words(node, location, line)
                    return line[match.end() :]
                self.stack[-1].children.append(node)
            elif self.stack[-1].children:
                self._note(location, line, _MIXED, f"has the word {part[:20]!r} next to other nodes")
            else:
                self.stack[-1].atoms.append(part)
        return None

    def _note(self, location: SourceLocation, line: str, reason: str, problem: str) -> None:
        self.damage = self.damage or _Damage(location, line, reason, problem)

    def _close(self, location: SourceLocation, line: str) -> Tree:
        bracket = self.stack.pop()
        atoms, children = bracket.atoms, bracket.children
        if not children and len(atoms) == 2:
            return Tree(atoms[0], (), atoms[1], bracket.location)
        if children and len(atoms) > 1:
            what = f"closes a node that has the word {atoms[1][:20]!r} next to other nodes"
            self._note(location, line, _MIXED, what)
        elif not children:
            held = " ".join(atoms)[:40]
            what = f"closes a node ({held}) that is neither (TAG word) nor a label with nodes"
            reason = _NO_WORD if len(atoms) < 2 else "with a node of several words"
            self._note(location, line, reason, what)
        return Tree(atoms[0] if atoms else "", tuple(children), None, bracket.location)

    def _check_words(self, tree: Tree, location: SourceLocation, line: str) -> None:
        """Distinguish a tree without any word, which is empty, from one with an empty node, which is damaged."""
        if self.damage is not None and self.damage.reason == _NO_WORD and any(tree.leaves()):
            self.damage = self.damage._replace(reason="with a node without a word")

    def _unclosed(self) -> _Damage:
        """The damage of a tree that is not closed. Reading continues at the line that seems to begin the next tree."""
        number, line = self.taken[0]
        following = next((i for i, (_, text) in enumerate(self.taken[1:], start=1) if text.startswith("(")), None)
        guess = ""
        if following is not None:
            self.source.read_again(self.taken[following:])
            guess = f", and line {self.taken[following][0]} seems to begin the next tree"
        missing = "1 bracket is missing" if len(self.stack) == 1 else f"{len(self.stack)} brackets are missing"
        problem = f"opens a tree that is not closed: {missing}{guess}"
        return _Damage(SourceLocation(self.path, number), line, _UNCLOSED, problem)


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
