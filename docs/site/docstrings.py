"""Docstrings as Markdown: formulas, references and literal blocks of reStructuredText are converted.

mkdocstrings loads :class:`Docstrings` while it reads the sources, and imports none of them.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert

SOURCES = Path(__file__).parents[2] / "src"


class Docstrings(griffe.Extension):
    """Converts each docstring that the reference shows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = to_markdown(obj.docstring.value)
            named_tuple = isinstance(obj, griffe.Class) and "NamedTuple" in map(str, obj.bases)
            obj.docstring.value = text.replace("\nArgs:\n", "\nAttributes:\n") if named_tuple else text


def to_markdown(text: str) -> str:
    """A docstring with formulas as MathML and roles as links."""
    text = re.sub(r"^( *)\.\. math:: *(.*(?:\n(?:\1 +.*)?)*)", to_block, text, flags=re.M)
    text = re.sub(r":(?:func|class|meth|mod|attr|data):`([^`]+)`", lambda found: to_link(found[1]), text)
    text = re.sub(r"^( *)>>> .*(?:\n\1\S.*)*", to_session, text, flags=re.M)
    return re.sub(r"::$", ":", text, flags=re.M)


def to_session(found: re.Match[str]) -> str:
    return f"{found[1]}```pycon\n{found[0]}\n{found[1]}```"


def to_block(found: re.Match[str]) -> str:
    return f"{found[1]}{to_mathml(found[2], block=True)}\n\n"


def to_mathml(formula: str, block: bool = False) -> str:
    """A LaTeX formula as MathML, which browsers show without scripts."""
    math = convert(" ".join(formula.split()), display="block" if block else "inline")
    return f"<p>{math}</p>" if block else math


def to_link(target: str) -> str:
    """A link to an exported name, or code if the reference has no such name."""
    path = target.lstrip("~.").rstrip("()")
    name = path.rpartition(".")[2]
    package = exported().get(name)
    return f"[`{name}`][{package}.{name}]" if package else f"`{name if target.startswith('~') else path}`"


@cache
def exported() -> dict[str, str]:
    """The package of each exported name, read from ``__all__``, without exported modules."""
    found: dict[str, str] = {}
    for file in sorted(SOURCES.rglob("__init__.py"), reverse=True):
        package = ".".join(file.parent.relative_to(SOURCES).parts)
        source = file.read_text(encoding="utf-8")
        modules = re.findall(r'"(\w+)": "\.\w+:"', source)
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                found |= {name: package for name in ast.literal_eval(node.value) if name not in modules}
    return found
