"""Shape and type checks that the tests add to Catena, with a cache of calls that passed.

jaxtyping and beartype check the arguments and the result of each call, which took half of the time of some tests. The
verdict depends on classes, dtypes and shapes, so a call like one that passed is not checked again. Values without such
a summary, such as dictionaries and iterators, are checked each time. A nested function, which jaxtyping prepares again
each time that it is defined, is prepared once.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from enum import Enum
from types import CodeType, FunctionType
from typing import Any, get_type_hints

import jaxtyping
import numpy as np
from torch import Tensor

LONG = 32
"""Longer lists are checked each time, as a summary would cost as much. Longer texts are not one of a few choices."""

DEEP = 3
"""Maximum nesting of lists. Deeper values are trees, whose top is all that beartype checks."""

KEPT = 4096
"""Number of different calls of a function that are cached."""

prepared_by_jaxtyping = jaxtyping.jaxtyped
_inside: dict[int, tuple[CodeType, Reader]] = {}  # the code is held, so that its id stays its own


def jaxtyped(fn: Any = None, *, typechecker: Any) -> Any:
    """Replacement of ``jaxtyping.jaxtyped``, to be installed before Catena is imported."""
    if fn is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if not inspect.isclass(fn):
        if any("Self" in str(hint) for hint in getattr(fn, "__annotations__", {}).values()):
            return fn  # beartype knows Self only inside of classes that it decorates
        return _remembering(fn, _reader_of(fn, typechecker))
    if dataclasses.is_dataclass(fn) and getattr(fn.__init__, "__globals__", {}).get("__name__") != __name__:
        fn.__init__ = jaxtyped(fn.__init__, typechecker=typechecker)  # type: ignore[misc]
    return fn


class Reader:
    """Checks the calls of a function as jaxtyping does, and caches those that passed."""

    def __init__(self, fn: FunctionType, typechecker: Any) -> None:
        self.seen: dict[Hashable, set[Hashable]] = {}
        self._fn: FunctionType | None = fn
        self._typechecker = typechecker
        self._returned = threading.local()
        self._lock = threading.Lock()

    @functools.cached_property
    def by_value(self) -> bool:
        """Whether the check depends on the value of a number or text: literals, and sizes that name an argument."""
        assert self._fn is not None
        try:
            hints = str(get_type_hints(self._fn, include_extras=True))
        except Exception:  # a name that only type checkers know
            return True
        return "Literal" in hints or "{" in hints[1:]

    def read_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for _ in range(_readings(*args, *kwargs.values())):
            self._get_twins()[0](*args, **kwargs)

    def read_result(self, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._returned.value = out
        try:
            for _ in range(_readings(out)):
                self._get_twins()[1](*args, **kwargs)
        finally:
            del self._returned.value

    def remember(self, given: Hashable, found: Hashable) -> None:
        if len(self.seen) >= KEPT:
            self.seen.clear()
        self.seen.setdefault(given, set()).add(found)

    def _get_twins(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        with self._lock:  # cached_property has no lock of its own since Python 3.12
            return self._twins

    @functools.cached_property
    def _twins(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Two functions of the same signature: one returns a dummy, the other the result of the first."""
        fn, returned = self._fn, self._returned
        assert fn is not None
        signature = inspect.signature(fn)
        unsaid = signature.replace(return_annotation=inspect.Signature.empty)

        def nothing(*args: Any, **kwargs: Any) -> None: ...

        def the_same(*args: Any, **kwargs: Any) -> Any:
            return returned.value

        twins = []
        for body, said in ((nothing, unsaid), (the_same, signature)):
            twin: Any = FunctionType(body.__code__, fn.__globals__, fn.__name__, None, body.__closure__)
            twin.__qualname__, twin.__module__, twin.__signature__ = fn.__qualname__, fn.__module__, said
            twins.append(prepared_by_jaxtyping(twin, typechecker=self._typechecker))
        self._fn = None  # what the function holds is not ours to keep
        return twins[0], twins[1]


def _readings(*values: Any) -> int:
    """How often a call is checked: beartype checks one random item of a list, and no similar call may follow."""
    sizes = [len(x) for x in values if isinstance(x, (list, tuple))]
    return 1 if not sizes or max(sizes) > LONG else 1 + 2 * max(sizes)


def _reader_of(fn: FunctionType, typechecker: Any) -> Reader:
    """A new reader, or the one of an earlier, identical definition of a nested function."""
    inside = "<locals>" in fn.__qualname__ and fn.__defaults__ is None and fn.__kwdefaults__ is None
    if not inside or not all(isinstance(hint, str) for hint in fn.__annotations__.values()):
        return Reader(fn, typechecker)
    code = fn.__code__
    if id(code) not in _inside:
        _inside[id(code)] = code, Reader(fn, typechecker)
    return _inside[id(code)][1]


def _remembering(fn: FunctionType, reader: Reader) -> Callable[..., Any]:
    seen = reader.seen
    config = jaxtyping.config

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if config.jaxtyping_disable:
            return fn(*args, **kwargs)
        by_value = reader.by_value
        if kwargs:
            given = _summaries((*args, *kwargs.values()), tuple(kwargs), by_value)
        else:
            given = _summaries(args, None, by_value)
        passed = seen.get(given) if given is not None else None
        if passed is None:
            reader.read_arguments(args, kwargs)
        out = fn(*args, **kwargs)
        found = summary(out, by_value)
        if passed is None or found is None or found not in passed:
            reader.read_result(out, args, kwargs)
            if given is not None and found is not None:
                reader.remember(given, found)
        return out

    return call


# --- summaries ----------------------------------------------------------------------------------------------


def summary(x: Any, by_value: bool = True, within: int = 0) -> Hashable | None:
    """Everything a check can depend on in a value nested in ``within`` lists; None if that is not known."""
    kind = type(x)
    if kind in _plain:
        return kind
    rule = _rules.get(kind)
    if rule is None:
        rule = _rule(kind)
        if rule is None:
            _plain.add(kind)
            return kind
        _rules[kind] = rule
    return rule(x, by_value, within)


Rule = Callable[[Any, bool, int], Hashable | None]
_rules: dict[type, Rule] = {}
_plain: set[type] = set()
"""Classes whose values all pass or fail the same checks."""


def _rule(kind: type) -> Rule | None:
    if issubclass(kind, (Tensor, np.ndarray)):
        return lambda x, *_: (kind, x.dtype, x.shape)
    if issubclass(kind, type):
        return lambda x, *_: (kind, x)
    if issubclass(kind, Enum) or kind in (bool, int):
        return lambda x, by_value, _: (kind, x) if by_value else kind
    if kind is str:  # no choice is longer
        return lambda x, by_value, _: x if by_value and len(x) <= LONG else kind
    if kind is list or issubclass(kind, tuple):
        return lambda x, by_value, within: (
            _summaries(x, kind, by_value, within + 1) if len(x) <= LONG and within < DEEP else None
        )
    if kind is dict:
        return lambda x, by_value, within: (
            _summaries([*x, *x.values()], kind, by_value, within + 1) if len(x) <= LONG and within < DEEP else None
        )
    if issubclass(kind, (Collection, Iterator)):
        return lambda *_: None
    return None


def _summaries(values: Iterable[Any], kind: Hashable, by_value: bool, within: int = 0) -> Hashable | None:
    found = [kind]
    for x in values:
        cls = type(x)
        if cls in _plain:  # the two most frequent cases, of every call of every test
            found.append(cls)
        elif cls is Tensor:
            found.append((x.dtype, x.shape))
        else:
            one = summary(x, by_value, within)
            if one is None:
                return None
            found.append(one)
    return tuple(found)
