"""The layers of the package: subpackages import only from lower layers, and there are no import cycles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parent.parent / "src" / "catena"

LAYERS = [
    {
        "_lazy",
        "accelerators",
        "version",
        "shapes",
        "errors",
        "extras",
        "numerics",
        "randomness",
        "registry",
        "config",
        "checkpoint",
        "files",
    },
    {"kernels"},
    {"data", "embeddings", "structure", "metrics"},
    {"attention", "outputs", "grammar", "draw"},
    {"encoders", "search"},
    {"lm", "seq2seq", "vectors"},
    {"transduction", "retrieval", "export", "engine"},
    {"training"},
    {"agents", "niche"},
    {"tasks"},
    {"recipes"},
    {"cli"},
    {"__main__"},
]
LAYER = {subpackage: number for number, subpackages in enumerate(LAYERS) for subpackage in subpackages}


def subpackage(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@cache
def imports(path: Path) -> list[tuple[str, int]]:
    """The modules that a file imports, in functions too, with their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.name == "__init__.py":  # lazy exports: what is imported for type checkers only
        tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    found = []
    for node in statements(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} uses a relative import"
            found.append((node.module or "", node.lineno))
    return found


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements in a node at any depth. Expressions, most of a tree, hold none."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, block, ()):
            if isinstance(child, ast.stmt):
                yield child
            yield from statements(child)


@cache
def modules() -> list[tuple[Path, str]]:
    found = []
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC.parent).with_suffix("").parts
        found.append((path, ".".join(p for p in parts if p != "__init__")))
    return found


def test_every_subpackage_has_a_layer() -> None:
    unknown = {subpackage(name) for _, name in modules()} - set(LAYER) - {""}
    assert not unknown, f"subpackages that tests/test_architecture.py does not list: {sorted(unknown)}"


def test_imports_go_to_lower_layers() -> None:
    wrong = []
    for path, name in modules():
        here = subpackage(name)
        if not here:
            continue
        for target, line in imports(path):
            there = subpackage(target) if target.startswith("catena.") else ""
            if not there or there == here or (LAYER[here] == 0 and LAYER[there] == 0):
                continue
            if LAYER[there] >= LAYER[here]:
                wrong.append(f"{path.relative_to(SRC)}:{line} ({here}) imports {target} ({there})")
    assert not wrong, "\n".join(wrong)


def test_modules_have_no_import_cycle() -> None:
    known = {name for _, name in modules()} - {"catena"}  # catena/__init__.py imports its public names lazily
    graph = {
        name: {t for t, _ in imports(path) if t in known and t != name} for path, name in modules() if name in known
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, (*trail, name))
            done.add(name)

    assert len(graph) > 0
    for name in sorted(graph):
        visit(name, ())


def test_kernels_docstring_lists_every_folder() -> None:
    folder = SRC / "kernels"
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    listed = re.findall(r"^``(\w+)``", text, re.M)
    assert listed
    assert set(listed) == {path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}


def test_compiled_loops_of_kernels_know_no_torch() -> None:
    loops = sorted((SRC / "kernels").glob("*/cpu*.py"))
    assert loops
    wrong = [path for path in loops if any(name.split(".")[0] == "torch" for name, _ in imports(path))]
    assert not wrong, wrong
