"""No test passes on nothing: a test that asserts only in a loop must know that the loop has a turn.

A loop over something computed, such as the matches of a pattern or the rows of a result, may be empty, and then the
test passes without a check. Such a test needs one assertion outside of the loop, for example ``assert rows``.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FROM_ITEMS = {"enumerate", "sorted", "reversed", "list", "tuple", "set", "dict", "iter", "tensor", "array"}
METHODS = {"items", "keys", "values", "split", "splitlines", "tolist", "numpy", "double", "unbind"}
OF_ALL = {"zip", "product", "chain", "map"}
EXPECTING = {"raises", "warns", "fail", "deprecated_call"}
Names = dict[str, ast.expr]
Functions = dict[str, ast.FunctionDef]


def called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


class Module:
    """The functions and constants of a test module, and those that it imports from other modules of the tests."""

    def __init__(self, source: str) -> None:
        tree = ast.parse(source)
        self.constants = assigned(tree.body)
        self.functions: Functions = {}
        self.tests: list[ast.FunctionDef] = []
        self.imported: set[str] = set()
        inner = [one for node in tree.body if isinstance(node, ast.ClassDef) for one in node.body]
        for node in [*tree.body, *inner]:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
                self.tests += [node] if node.name.startswith("test_") else []
            elif isinstance(node, ast.ImportFrom):
                self._import(node)

    def _import(self, node: ast.ImportFrom) -> None:
        path = TESTS.parent / f"{(node.module or '').replace('.', '/')}.py"
        other = parsed(path) if path.exists() else None
        for alias in node.names:
            name = alias.asname or alias.name
            self.imported.add(name)
            if other is not None and alias.name in other.functions:
                self.functions.setdefault(name, other.functions[alias.name])

    def vacuous(self) -> Iterator[ast.FunctionDef]:
        """The tests whose assertions are all in loops that may have no turn."""
        for test in self.tests:
            found = list(Reading(self, test).assertions())
            if found and not any(found):
                yield test


class Reading:
    """The assertions of one function."""

    def __init__(self, module: Module, function: ast.FunctionDef, within: tuple[str, ...] = ()) -> None:
        self.module = module
        self.function = function
        self.within = (*within, function.name)

    @cached_property
    def parameters(self) -> dict[str, list[ast.expr]]:
        """The values of each parameter that a ``parametrize`` lists."""
        found: dict[str, list[ast.expr]] = {}
        for mark in self.function.decorator_list:
            if not (isinstance(mark, ast.Call) and called(mark) == "parametrize" and len(mark.args) == 2):
                continue
            names, rows = mark.args
            names = [names] if isinstance(names, ast.Constant) else getattr(names, "elts", [])
            for row in getattr(rows, "elts", []):
                values = [row] if len(names) == 1 else getattr(row, "elts", [])
                for name, value in zip(names, values, strict=False):
                    found.setdefault(name.value, []).append(value)
        return found

    @cached_property
    def drawn(self) -> set[str]:
        """The arguments of a property test: hypothesis draws them, short and long."""
        given = any(isinstance(mark, ast.Call) and called(mark) == "given" for mark in self.function.decorator_list)
        return {argument.arg for argument in self.function.args.args} if given else set()

    @cached_property
    def names(self) -> Names:
        found = {**self.module.constants, **assigned(list(ast.walk(self.function)))}
        given = {argument.arg for argument in self.function.args.args}
        return {name: value for name, value in found.items() if name not in given}

    def assertions(self) -> Iterator[bool]:
        """For each assertion, whether it is certainly reached."""
        for statement in self.function.body:
            yield from self._read(statement, True)

    def _read(self, node: ast.AST, certain: bool) -> Iterator[bool]:
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.For):
            yield from self._read(node.iter, certain)
            certain = certain and self.has_items(node.iter)
        elif isinstance(node, ast.While):
            certain = certain and isinstance(node.test, ast.Constant)
        elif isinstance(node, ast.Assert):
            yield certain
        elif isinstance(node, ast.Call):
            yield from (certain and one for one in self._by_calling(called(node)))
        for child in ast.iter_child_nodes(node):
            yield from self._read(child, certain)

    def _by_calling(self, name: str) -> Iterator[bool]:
        if name.startswith("assert") or name in EXPECTING:
            yield True
        elif name in self.module.functions and name not in self.within:
            yield from Reading(self.module, self.module.functions[name], self.within).assertions()

    def returns_items(self) -> bool:
        """Whether the function is a single ``return`` of an iterable that certainly has an item."""
        last = self.function.body[-1]
        returns = [node for node in ast.walk(self.function) if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom)]
        return len(returns) == 1 and isinstance(last, ast.Return) and self.has_items(last.value)

    def has_items(self, node: ast.expr | None) -> bool:
        """Whether an iterable certainly has an item, by its source."""
        match node:
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                return any(not isinstance(item, ast.Starred) or self.has_items(item.value) for item in items)
            case ast.Dict(keys=keys, values=values):
                return any(key is not None or self.has_items(value) for key, value in zip(keys, values, strict=True))
            case ast.Constant(value=str() | bytes() as text):
                return len(text) > 0
            case ast.Name(id=name) if name in self.parameters:
                return all(self.has_items(value) for value in self.parameters[name])
            case ast.Name(id=name) if name in self.drawn:
                return True
            case ast.Name(id=name) if name in self.module.imported:
                return name.isupper()  # a constant of another module
            case ast.Name(id=name) if name in self.names:
                value = self.names.pop(name)  # which may be computed from the same name
                found = self.has_items(value)
                self.names[name] = value
                return found
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return all(self.has_items(one.iter) and not one.ifs for one in node.generators)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.has_items(left) or self.has_items(right)
            case ast.BinOp(left=left, op=ast.Mult()):
                return self.has_items(left)
            case ast.Subscript(value=value, slice=ast.Slice(lower=None)):
                return self.has_items(value)
            case ast.IfExp(body=body, orelse=other):
                return self.has_items(body) and self.has_items(other)
            case ast.Call():
                return self._call_has_items(node)
        return False

    def _call_has_items(self, call: ast.Call) -> bool:
        name = called(call)
        if name == "range":
            return self._range_has_items(call.args)
        if name in self.module.functions and name not in self.within:
            return Reading(self.module, self.module.functions[name], self.within).returns_items()
        if name in FROM_ITEMS:
            return bool(call.args) and self.has_items(call.args[0])
        if name in METHODS and isinstance(call.func, ast.Attribute):
            return self.has_items(call.func.value)
        if name in OF_ALL:
            some = any if any(word.arg == "strict" for word in call.keywords) else all
            arguments = call.args[1:] if name == "map" else call.args
            return bool(arguments) and some(self.has_items(one) for one in arguments)
        return False

    def _range_has_items(self, arguments: list[ast.expr]) -> bool:
        if len(arguments) == 1 and isinstance(arguments[0], ast.Call) and called(arguments[0]) == "len":
            return self.has_items(arguments[0].args[0])
        choices = [self.integers(one) for one in arguments]
        return all(len(range(*values)) > 0 for values in itertools.product(*choices)) and all(choices)

    def integers(self, node: ast.expr) -> list[int]:
        """The values that an integer may have; none if they are not known."""
        if isinstance(node, ast.Name) and node.id in self.parameters:
            return [value for one in self.parameters[node.id] for value in self.integers(one)]
        if isinstance(node, ast.Name) and node.id in self.names:
            node = self.names[node.id]
        try:
            value = ast.literal_eval(node)
        except ValueError:
            return []
        return [value] if isinstance(value, int) else []


def assigned(nodes: list[ast.stmt] | list[ast.AST]) -> Names:
    """The names that are assigned once, with their values."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name, value in unpacked(target, node.value):
                    found.setdefault(name, []).append(value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, its in zip(target.elts, value.elts, strict=True):
            yield from unpacked(one, its)


@cache
def parsed(path: Path) -> Module:
    return Module(path.read_text(encoding="utf-8"))


def test_no_test_asserts_only_in_a_loop_that_may_be_empty() -> None:
    paths = sorted(TESTS.rglob("*.py"))
    assert len(paths) > 100
    found = [
        f"{path.relative_to(TESTS.parent)}:{test.lineno}: {test.name}"
        for path in paths
        for test in parsed(path).vacuous()
    ]
    assert not found, "these tests pass on nothing; assert before the loop that it has a turn:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "body",
    [
        "for row in run():\n    assert row",
        "for row in sorted(run()):\n    assert row",
        "for i in range(len(rows)):\n    assert rows[i]",
        "for row in [x for x in (1, 2) if x > run()]:\n    assert row",
        "for a in (1, 2):\n    for b in run(a):\n        assert b",
        "for a, b in zip((1, 2), run()):\n    assert a == b",
        "while rows:\n    assert rows.pop()",
        "check(rows)",
    ],
)
def test_loop_that_may_be_empty_is_found(body: str) -> None:
    source = "def check(found):\n    for one in found:\n        assert one\n\ndef test_x(rows):\n"
    assert [test.name for test in Module(source + textwrap.indent(body, "    ")).vacuous()] == ["test_x"]


@pytest.mark.parametrize(
    "body",
    [
        "assert rows\nfor row in rows:\n    assert row",
        "for row in (1, 2):\n    assert row",
        "for a, b in zip(run(), [1, 2], strict=True):\n    assert a == b",
        "for i, row in enumerate(TABLE.items()):\n    assert i",
        "for i in range(n):\n    assert i",
        "for row in rows:\n    print(row)",
        "for row in run():\n    print(row)\nwith pytest.raises(ValueError):\n    run()",
        "for row in listed():\n    assert row",
        "if n:\n    assert n",
    ],
)
def test_loop_that_has_a_turn_is_accepted(body: str) -> None:
    source = "TABLE = {1: 2}\n\ndef listed():\n    return [x for x in (1, 2)]\n\n"
    source += '@pytest.mark.parametrize("n", [1, 2])\ndef test_x(rows, n):\n'
    assert not list(Module(source + textwrap.indent(body, "    ")).vacuous())
